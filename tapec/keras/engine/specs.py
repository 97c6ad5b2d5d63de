"""What a function would return, found by tracing it on placeholders: nothing is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src import tree
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope

import tapec
from tapec.ir.types import TensorType
from tapec.recording import tracing
from tapec.tracing import Trace, TracedTensor

#: Stand in for a size that is open. What comes out differently for the two depends on it.
_SIZES = (83, 89)


def compute_output_spec(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The structure that ``fn`` returns, with a KerasTensor for each Tensor."""
    leaves = tree.flatten((args, kwargs))
    is_open = any(isinstance(x, KerasTensor) and None in x.shape for x in leaves)
    first = _result(fn, args, kwargs, _SIZES[0])
    if not is_open:
        return tree.map_structure(_spec, first)
    second = _result(fn, args, kwargs, _SIZES[1])
    return tree.map_structure(_open_spec, first, second)


def _result(fn: Callable[..., Any], args: Any, kwargs: Any, size: int) -> Any:
    trace = Trace(getattr(fn, "__name__", "spec"))

    def placeholder(x: Any) -> Any:
        if isinstance(x, TracedTensor):  # of the trace in whose middle a layer is built
            return trace.input(x.type, None)
        if not isinstance(x, KerasTensor):
            return x
        shape = tuple(size if n is None else n for n in x.shape)
        return trace.input(TensorType(tapec.as_dtype(x.dtype), shape), None)

    with StatelessScope(), SymbolicScope(), tracing(trace):
        args, kwargs = tree.map_structure(placeholder, (args, kwargs))
        with StatelessScope():
            return fn(*args, **kwargs)


def _spec(x: Any) -> Any:
    if not isinstance(x, tapec.Tensor):
        return x
    return KerasTensor(tuple(x.shape), standardize_dtype(x.dtype))


def _open_spec(x: Any, other: Any) -> Any:
    if not isinstance(x, tapec.Tensor):
        return x
    shape = tuple(m if m == n else None for m, n in zip(x.shape, other.shape, strict=True))
    return KerasTensor(shape, standardize_dtype(x.dtype))
