"""Ahead of time: programs as objects, C headers and C source for machines without an operating system."""
