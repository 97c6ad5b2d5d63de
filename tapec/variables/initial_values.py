"""What a tensor of a function that is being traced holds at the call: Variables may begin with that.

A Variable that a function makes at its first call outlives it, and the program that reads it gets it from outside. So
its initial value is computed by NumPy while the function is traced, from what the call would read: Variables, arrays,
the call's arguments; in a branch or loop, from what is known in front of that. The function is then traced once more,
and makes none; what it drew from streams of random numbers on the way to that value is not drawn again, so the streams
move on there and then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.errors import TypeError
from tapec.frames import here
from tapec.ir.core import Value
from tapec.ir.errors import TapecError
from tapec.ir.evaluator import evaluate_values
from tapec.recording import tracing
from tapec.tensor import Array, Tensor, as_array
from tapec.traces.scalars import HostNumber

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
        TypeError: it rests on what a loop carries, or on an argument without elements.
    """
    trace: Trace | None = tensor.trace if _is_of_program(tensor) else None  # type: ignore[attr-defined]
    if trace is None or trace.has_ended:
        return tensor.array
    streams = [s for s in trace.call.streams.values() if id(s.state) in trace.states]
    wanted = [tensor.value, *(trace.states[id(stream.state)] for stream in streams)]  # type: ignore[attr-defined]
    try:
        found, *moved = _at_call(trace, wanted)
    except (TapecError, NotImplementedError) as error:
        raise TypeError(
            f"the initial value of a Variable cannot be computed while the function is compiled: {error}",
            location=here(),
            hint="make the Variable before the function is called; a loop carries no values for it",
        ) from None
    with tracing(None):
        for stream, state in zip(streams, moved, strict=True):
            stream.state.assign(state)
    elements: Array = found
    return elements


def _at_call(trace: Trace, wanted: Sequence[Value]) -> list[Array]:
    """What values of a program hold, from what is read from outside.

    Raises:
        TapecError: one rests on an argument that is not known.
    """
    first = len(trace.function.args) - len(trace.captures)
    behind = _arguments_behind(wanted, trace.call.known)
    for arg, thing in zip(trace.function.args[first:], trace.captures, strict=True):
        if arg in behind:
            trace.call.known[arg] = _elements(trace, arg, thing)
    return evaluate_values(trace.function, wanted, trace.call.known)


def _arguments_behind(wanted: Sequence[Value], known: Collection[Value]) -> set[Value]:
    """The arguments that values rest on, but for what is known."""
    seen: set[Value] = set()
    todo = list(wanted)
    while todo:
        value = todo.pop()
        if value not in seen and value not in known:
            seen.add(value)
            todo += [] if value.op is None else value.op.operands
    return {value for value in seen if value.op is None}


def _elements(trace: Trace, arg: Value, thing: Any) -> Array:
    around = trace.parent
    if isinstance(thing, HostNumber):
        thing = np.asarray(thing.value, arg.tensor.dtype.numpy)
    if isinstance(thing, np.ndarray):
        return as_array(thing)
    elements: Array
    if around is not None and id(thing) in around.states:  # a Variable, as it is there by now
        (elements,) = _at_call(around, [around.states[id(thing)]])
    elif _is_of_program(thing):
        (elements,) = _at_call(thing.trace, [thing.value])
    else:
        elements = thing.array
    return elements


def _is_of_program(thing: Any) -> bool:
    """Whether a tensor, or Variable, is a tensor of a trace."""
    return hasattr(type(thing), "trace")
