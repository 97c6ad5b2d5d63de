"""Run a function as a traced program, through the reference evaluator rather than native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapec.ir.dims import symbol
from tapec.ir.evaluator import evaluate_function
from tapec.ir.types import TensorType
from tapec.recording import tracing
from tapec.structure import flatten
from tapec.tensor import Tensor, type_of
from tapec.tracing import Trace
from tapec.variable import Variable


def traced_results(
    f: Callable[..., Any], arrays: Sequence[np.ndarray[Any, Any]], *, symbolic: bool = False
) -> list[np.ndarray[Any, Any]]:
    """The leaves of ``f(*arrays)``; with ``symbolic`` the first axis of the first array is N."""
    trace = Trace("traced")
    types = [type_of(array) for array in arrays]
    if symbolic:
        types[0] = TensorType(types[0].dtype, (symbol("N", 2), *types[0].shape[1:]))
    with tracing(trace):
        leaves, _ = flatten(f(*(trace.input(t, None) for t in types)))
        trace.finish(leaves)
    captured = [c.array if isinstance(c, Tensor | Variable) else c for c in trace.captures]
    return evaluate_function(trace.function, [*arrays, *captured])
