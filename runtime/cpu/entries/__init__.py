"""The ways from Python into a compiled program, as LLVM text."""
