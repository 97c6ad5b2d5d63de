"""Loading ahead of time what is loaded at a first call otherwise."""

from __future__ import annotations

from tapec.autograph import converter, kept, operators  # noqa: F401  to be loaded
from tapec.compiled import function  # noqa: F401
from tapec.compiler import load


def load_compiler() -> None:
    """Load what the first call of a compiled function loads: the converter, passes, LLVM; some 70 ms.

    ``import tapec`` leaves it out, since a program that is found in the cache needs none of it. For processes that
    fork others, which then have it, and where a first call is to be quick.
    """
    load()
