"""From LLVM text to bytes that can be mapped, and what debuggers and profilers read of them."""
