"""Loops of matrix products and convolutions: how they are cut into tiles, packed, and summed in registers."""
