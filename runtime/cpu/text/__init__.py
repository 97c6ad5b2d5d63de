"""Kernels and what launches them as LLVM text."""
