"""Files of arrays: the values of Variables, kept and brought back."""
