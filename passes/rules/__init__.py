"""Rewriting rules of `canonicalize`, and how a table of them is applied."""
