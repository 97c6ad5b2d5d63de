"""Whether Python's state is what a program was made for, looked at by native code."""
