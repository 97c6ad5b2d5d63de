"""One documented function per operation, and what is composed of operations."""
