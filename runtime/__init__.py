"""Run a loop-level module."""
