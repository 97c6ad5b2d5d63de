"""Tensors among other libraries' functions and arrays: NumPy's and SciPy's functions, DLPack."""
