"""The command line: look inside a program, build one ahead of time."""
