"""What a trace leaves to its program's calls: numbers, open sizes, functions of Python, checks and prints in order."""
