"""Matrices: factorisations, systems, determinants, spectra, bands and diagonals."""
