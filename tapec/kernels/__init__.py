"""Kernels that users write for Numba, as operations."""
