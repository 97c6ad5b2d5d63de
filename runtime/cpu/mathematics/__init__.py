"""The mathematical functions of compiled programs, written out: their expansions as LLVM text."""
