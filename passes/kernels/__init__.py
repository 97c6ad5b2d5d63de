"""Kernels: which elements they read and write; how `lower` writes one as loops, and what is vectorised."""
