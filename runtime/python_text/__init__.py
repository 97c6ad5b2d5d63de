"""Loop-level modules as Python source: what a compiler of Python's functions takes, and anybody reads."""
