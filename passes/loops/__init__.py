"""Loops of the program: what their turns have in common, how a gradient goes back over them, which are one kernel."""
