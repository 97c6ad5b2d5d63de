"""Native code for the CPU, through LLVM."""
