"""Signals: Fourier and cosine transforms, windows, spectrograms."""
