"""What a trace leaves to its program's calls: sizes that are open, functions of Python, checks and prints in order."""
