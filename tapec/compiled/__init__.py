"""Functions that run as one native program: how a call finds its own, runs it, and what tapes hear of it."""
