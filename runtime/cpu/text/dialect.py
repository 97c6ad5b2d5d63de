"""What differs between the texts for two targets."""

from __future__ import annotations

from dataclasses import dataclass

from tapec.runtime.cpu.vectors import vector_unit


@dataclass(frozen=True)
class Dialect:
    """What a text has of its target, and what is wanted of its functions.

    Attributes:
        index_bits: the width of an address.
        attributes: of all functions. No exceptions, hence no unwind tables; no calls of memset and memcpy where loops
            look like them.
        alignment: of arrays on the stack, in bytes.
        copies: of a mathematical function, from which on it stays one that is called: so many more would take LLVM
            longer than the calls will.
        scales: whether instructions of AVX-512 may be named: to multiply floats by powers of two, and for the larger
            and the smaller of two. Numbers are the same without them.
        inlining: whether kernels, and what launches them, may become part of their callers.
    """

    index_bits: int = 64
    attributes: str = 'nounwind "no-builtins" "prefer-vector-width"="512" "no-trapping-math"="true"'
    alignment: int = 64
    copies: int = 64
    scales: bool = False
    inlining: str = "noinline"


#: What the JIT writes.
HOST = Dialect(scales=vector_unit().bytes == 64)
