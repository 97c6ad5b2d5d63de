"""What a function returned to the trace, and what it did to its arguments."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np

from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.structure import flatten
from tapec.tensor import as_tensor
from tapec.tracing import Trace, TracedTensor
from tapec.variable import Variable


def kept_result(leaf: Any, trace: Trace) -> Any:
    """What a function returned, as it is kept: Tensors for Variables, arrays and numbers, too.

    Raises:
        TypeError: an iterator, or a tensor of another function.
    """
    if isinstance(leaf, TracedTensor):
        trace.value_of(leaf)  # which refuses tensors of other functions
    elif isinstance(leaf, Variable | Number | np.ndarray | np.generic):
        return as_tensor(leaf)
    elif isinstance(leaf, Iterator):
        raise TypeError(
            f"a compiled function returned a {type(leaf).__name__}, whose items would be "
            "computed after the call",
            location=here(),
            hint="return a list or a tuple",
        )
    return leaf


def refuse_changed(name: str, structure: Any, spec: Any, given: Sequence[Any]) -> None:
    """Hold a function to leave its arguments as they were.

    Raises:
        ValueError: it put something into a list, took something out of a dict, or the like.
    """
    leaves, now = flatten(structure, parts=True)
    same = len(leaves) == len(given) and all(map(operator.is_, leaves, given))
    if not same or (type(now) is type(spec) and now != spec):
        raise ValueError(
            f"{name}() should not modify its Python input arguments: it is traced with copies of them, so "
            "the caller would see no change",
            location=here(),
            hint="change a copy, and return it",
        )
