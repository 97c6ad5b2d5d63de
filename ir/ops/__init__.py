"""One class per operation."""
