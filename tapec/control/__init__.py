"""Control flow: branches and loops that run eagerly as plain Python, and become part of a compiled program."""
