"""Loading ahead of time what is loaded at a first call otherwise."""

from __future__ import annotations

import importlib

from tapec.compiler import load
from tapec.structure import flatten

#: What the trace of a train step needs of tapec, besides passes and LLVM.
_MODULES = (
    "autograph.branches",
    "autograph.converter",
    "autograph.expressions",
    "autograph.kept",
    "autograph.loops",
    "autograph.merging",
    "autograph.operators",
    "autograph.ranges",
    "autograph.state",
    "compiled.function",
    "control.counters",
    "control.repetition",
    "control.tensor_array",
    "derivatives.custom",
    "derivatives.traced_gradient",
    "explanations.notes",
    "math",
    "nn",
    "tape",
)


def load_compiler() -> None:
    """Load what the first call of a compiled function loads: converter, tapes, passes, LLVM, threads; some 100 ms.

    ``import tapec`` leaves it out, since a program that is found in the cache needs none of it. For processes that
    fork others, which then have it, and where a first call is to be quick.
    """
    for name in _MODULES:
        importlib.import_module(f"tapec.{name}")
    importlib.import_module("numpy.random")  # whose state a trace watches
    flatten(())  # loads what structures other than lists need
    load()
