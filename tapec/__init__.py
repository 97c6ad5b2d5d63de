"""tapec: a compiler for taped training programs."""
