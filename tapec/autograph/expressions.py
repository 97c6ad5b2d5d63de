"""What converted expressions call: Python's own meaning for Python's values, operations of the program for tensors."""

from __future__ import annotations

import dis
import functools
import operator
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from tapec.autograph.reach import Reach
from tapec.control.regions import truth
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.logic import logical_and, logical_not, logical_or
from tapec.instructions import kept_for
from tapec.ir.types import BOOL
from tapec.recording import current_trace
from tapec.tensor import Tensor, as_tensor
from tapec.variable import Variable

Late = Callable[[], Any]


def is_traced(value: Any) -> bool:
    """Whether only the run knows a value: it is a Tensor or Variable, and a function is being compiled."""
    return isinstance(value, Tensor | Variable) and current_trace() is not None


def predicate(value: Any, what: str) -> Tensor:
    """A condition as a bool of rank 0; one element of a higher rank will do.

    Raises:
        ValueError: it is none.
    """
    tensor = as_tensor(value)
    if tensor.dtype != BOOL or tensor.type.size != 1:
        hint = "compare it with something, or convert it with tapec.cast(x, tapec.bool)"
        if tensor.dtype == BOOL:
            hint = "combine its elements with tapec.reduce_all or tapec.reduce_any"
        raise ValueError(
            f"condition of {what} expected to be a bool scalar, got {tensor.type}; "
            "to check for None, use `is not None`",
            location=here(),
            hint=hint,
        )
    return truth(tensor)


def and_(first: Any, *rest: Late) -> Any:
    """``first and …``: for tensors `logical_and`, which computes all.

    Raises:
        TypeError: what stands to the right of a tensor changes something.
    """
    for later in rest:
        if is_traced(first):
            first = logical_and(_truth_value(first), _truth_value(_unchanging(later, "and")))
        elif first:
            first = later()
        else:
            return first
    return first


def or_(first: Any, *rest: Late) -> Any:
    """``first or …``: for tensors `logical_or`, which computes all.

    Raises:
        TypeError: what stands to the right of a tensor changes something.
    """
    for later in rest:
        if is_traced(first):
            first = logical_or(_truth_value(first), _truth_value(_unchanging(later, "or")))
        elif first:
            return first
        else:
            first = later()
    return first


def _unchanging(later: Late, word: str) -> Any:
    """What stands to the right of a tensor: it is computed whatever that is, so it must leave all as it was.

    Raises:
        TypeError: it changes something that is there before.
    """
    trace = current_trace()
    if trace is None or not isinstance(later, FunctionType) or not _calls(later.__code__):
        return later()
    states = dict(trace.states)
    reach = Reach((later,))
    with reach.watching():
        found = later()
    changed = [
        thing.name
        for thing in trace.captures
        if isinstance(thing, Variable) and trace.assigns(thing, states.get(id(thing)))
    ]
    changed += reach.changed()
    if changed:
        raise TypeError(
            f"what stands to the right of {word!r} changes {changed[0]}, and is computed whatever the tensor to its "
            "left is",
            location=here(),
            hint="use an if statement, whose branch runs only if its condition holds",
        )
    return found


@kept_for(1024)
def _calls(code: CodeType) -> bool:
    """Whether an expression calls something that may change what is there; comparisons and arithmetic do not."""
    return any(i.opname.startswith("CALL") for i in dis.get_instructions(code))


def not_(value: Any) -> Any:
    """``not value``."""
    return logical_not(_truth_value(value)) if is_traced(value) else not value


def none_of(*flags: Any) -> Any:
    """Whether no flag is set; the flags of jumps are False or True, or tensors."""
    if any(flag is True for flag in flags):
        return False
    asked = [flag for flag in flags if flag is not False]
    return (
        not_(or_(asked[0], *(functools.partial(_itself, f) for f in asked[1:]))) if asked else True
    )


def goes_on(returned: Any) -> Any:
    """Whether a function has not returned; of one flag always the same tensor, which the trace knows as such."""
    if not is_traced(returned):
        return not returned
    trace = current_trace()
    assert trace is not None
    value = trace.value_of(returned)
    if value not in trace.going_on:
        trace.going_on[value] = not_(returned)
    return trace.going_on[value]


def goes_on_by(condition: Tensor) -> bool:
    """Whether a condition is that the function has not returned."""
    trace = current_trace()
    assert trace is not None
    return any(condition is found for found in trace.going_on.values())


def _itself(value: Any) -> Any:
    return value


def _truth_value(value: Any) -> Any:
    """An operand of ``and``, ``or`` or ``not`` beside a tensor.

    Raises:
        TypeError: it is no bool.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Tensor | Variable) and value.dtype == BOOL:
        return value
    came = value.dtype.name if isinstance(value, Tensor | Variable) else type(value).__name__
    raise TypeError(
        f"and, or, not of tensors take bools, got {came}",
        location=here(),
        hint="compare it with something, or convert it with tapec.cast(x, tapec.bool)",
    )


def compare(kinds: tuple[str, ...], first: Any, second: Any, *rest: Late) -> Any:
    """``first < second < …``, each operand computed once."""
    found = _compared(kinds[0], first, second)
    left = second
    for kind, later in zip(kinds[1:], rest, strict=True):
        if not is_traced(found) and not found:
            return found
        right = _unchanging(later, "<") if is_traced(found) else later()
        next_one = _compared(kind, left, right)
        found = and_(found, functools.partial(_itself, next_one))
        left = right
    return found


def _compared(kind: str, left: Any, right: Any) -> Any:
    if kind in ("in_", "not_in"):
        return left in right if kind == "in_" else left not in right
    return getattr(operator, kind)(left, right)


def rows(iterable: Any) -> Any:
    """What a comprehension goes over: of a tensor its rows, one by one, as each makes an item of its own.

    Raises:
        TypeError: the tensor has no axis, or one whose size only the run knows.
    """
    if not is_traced(iterable):
        return iterable
    tensor = as_tensor(iterable)
    if not tensor.type.shape:
        raise TypeError("Cannot iterate over a scalar tensor.", location=here())
    if not isinstance(tensor.type.shape[0], int):
        raise TypeError(
            f"a comprehension over {tensor.type} would have as many items as only the run knows",
            location=here(),
            hint="use tapec.map_fn or tapec.vectorized_map",
        )
    return [tensor[i] for i in range(tensor.type.shape[0])]
