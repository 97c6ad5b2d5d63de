"""How loop-level code is written: what a lowering rule sees, and the builder behind it."""
