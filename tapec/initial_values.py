"""What a tensor of a function that is being traced holds at the call: Variables may begin with that.

A Variable that a function makes at its first call outlives it, and the program that reads it gets it from outside. So
its initial value is computed by NumPy while the function is traced, from what the call would read: Variables, arrays,
the call's arguments. The function is then traced once more, and makes none; what it drew from streams of random numbers
on the way to that value is not drawn again, so the streams move on there and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.compiled.scalars import HostNumber
from tapec.errors import TypeError
from tapec.frames import here
from tapec.ir.core import Value
from tapec.ir.errors import TapecError
from tapec.ir.evaluator import evaluate_values
from tapec.recording import tracing
from tapec.tensor import Array, Tensor, as_array

if TYPE_CHECKING:
    from tapec.generator import Generator
    from tapec.tracing import Trace


class CallValues:
    """What is known of the call that a function is traced for.

    Attributes:
        known: arrays for values of its program.
        streams: the streams of random numbers that it draws from, by ``id``.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self.known: dict[Value, Array] = {}
        self.streams: dict[int, Generator] = {}


def value_at_call(tensor: Tensor) -> Array:
    """The elements of a tensor, which may be one of the function that is being traced.

    Raises:
        TypeError: it is of a branch or loop, or rests on an argument without elements.
    """
    trace: Trace | None = tensor.trace if hasattr(type(tensor), "trace") else None  # type: ignore[attr-defined]
    if trace is None or trace.parent is not None or trace.has_ended:
        return tensor.array
    _take_captures(trace)
    streams = [s for s in trace.call.streams.values() if id(s.state) in trace.states]
    wanted = [tensor.value, *(trace.states[id(stream.state)] for stream in streams)]  # type: ignore[attr-defined]
    try:
        found, *moved = evaluate_values(trace.function, wanted, trace.call.known)
    except (TapecError, NotImplementedError) as error:
        raise TypeError(
            f"the initial value of a Variable cannot be computed while the function is compiled: {error}",
            location=here(),
            hint="make the Variable before the function is called, or give a function that returns its initial value",
        ) from None
    with tracing(None):
        for stream, state in zip(streams, moved, strict=True):
            stream.state.assign(state)
    elements: Array = found
    return elements


def _take_captures(trace: Trace) -> None:
    """Know what is read from outside."""
    first = len(trace.function.args) - len(trace.captures)
    for arg, thing in zip(trace.function.args[first:], trace.captures, strict=True):
        if arg not in trace.call.known:
            trace.call.known[arg] = _elements(arg, thing)


def _elements(arg: Value, thing: Any) -> Array:
    if isinstance(thing, HostNumber):
        thing = np.asarray(thing.value, arg.tensor.dtype.numpy)
    elements: Array = as_array(thing) if isinstance(thing, np.ndarray) else thing.array
    return elements
