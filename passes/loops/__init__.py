"""Loops of the program: what their turns have in common, and how a gradient goes back over them."""
