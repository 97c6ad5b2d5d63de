"""How often a loop turns, and between which numbers its counters go, as far as its body and condition tell.

A counter is what each turn changes by the same number. A loop turns a number of times that is known before it runs if
its condition does nothing but compare a counter with what is known then: a number, or a size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tapec.control.tensor_array import TensorArray
from tapec.functions.known import known_elements
from tapec.functions.linear import Linear
from tapec.ir.dims import DimLike, bounds
from tapec.ir.ops import compare
from tapec.recording import current_trace, tracing
from tapec.tensor import Tensor
from tapec.tracing import Trace, TracedTensor

#: Between which numbers counters go, by the number of the leaf: in the first turn, in the last.
Ranges = Mapping[int, tuple[DimLike, DimLike]]


class Counting(NamedTuple):
    """What is known of a loop: the number of its turns, and its counters."""

    turns: DimLike
    ranges: Ranges


def counting(
    leaves: Sequence[Any],
    step: Callable[[Sequence[Any]], Sequence[Any]],
    again: Callable[[Sequence[Any]], Tensor] | None,
    most: Callable[[], DimLike | None],
) -> Counting | None:
    """What is known of a loop over leaves, by tracing it once on its own; None if it may turn in other ways.

    Args:
        leaves: Tensors and TensorArrays that go round.
        step: from the leaves to those of the next turn.
        again: whether there is another turn; None if there are always ``most``.
        most: how many turns there are at most, asked once the step was traced.
    """
    trace = Trace("loop", parent=current_trace())
    trace.scouts = True
    with tracing(trace):
        inputs = [v if isinstance(v, TensorArray) else trace.input(v.type, None) for v in leaves]
        steps = steps_of(inputs, step(inputs))
    starts = {i: start for i in steps if (start := start_of(leaves[i])) is not None}
    turns = most() if again is None else _asked(leaves, again, steps, starts, most())
    if turns is None or not is_positive(turns):
        return None
    ends = {i: (start, start + (turns - 1) * steps[i]) for i, start in starts.items()}
    return Counting(turns, ends)


def steps_of(inputs: Sequence[Any], found: Sequence[Any]) -> dict[int, int]:
    """What a turn adds to leaves, by their numbers, in the trace of a body that goes on."""
    pairs = enumerate(zip(inputs, found, strict=False))
    return {i: n for i, (before, after) in pairs if (n := _step(before, after))}


def _step(before: Any, after: Any) -> int:
    """What a turn adds to a leaf; 0 if that is nothing, or not always the same."""
    if not isinstance(before, TracedTensor) or not isinstance(after, Tensor):
        return 0
    if before.type != after.type or before.type.rank or not before.type.dtype.is_integer:
        return 0
    change = _linear()
    change.add(after)
    change.add(before, -1)
    return change.number if not change.terms and isinstance(change.number, int) else 0


def _linear() -> Linear:
    trace = current_trace()
    assert trace is not None
    return Linear(trace)


def start_of(leaf: Any) -> DimLike | None:
    """What a leaf is before the loop, if it is a number that is known."""
    if not isinstance(leaf, Tensor):
        return None
    found = known_elements(leaf)
    if found is None or found.size != 1:
        return None
    number: DimLike = found.reshape(()).item()
    return number


def _asked(
    leaves: Sequence[Any],
    again: Callable[[Sequence[Any]], Tensor],
    steps: Mapping[int, int],
    starts: Mapping[int, DimLike],
    most: DimLike | None,
) -> DimLike | None:
    """How often a loop turns that goes on while a condition holds."""
    trace = Trace("cond", parent=current_trace())
    trace.scouts = True
    with tracing(trace):
        inputs = [v if isinstance(v, TensorArray) else trace.input(v.type, None) for v in leaves]
        return turns_while(trace, again(inputs), inputs, steps, starts, most)


def turns_while(
    trace: Trace,
    holds: Tensor,
    inputs: Sequence[Any],
    steps: Mapping[int, int],
    starts: Mapping[int, DimLike],
    most: DimLike | None,
) -> DimLike | None:
    """How often a loop turns, from the trace of its condition, which goes on.

    Args:
        trace: in which the condition was computed, and nothing else.
        holds: the condition.
        inputs: the leaves that it takes.
        steps: what a turn adds to leaves, by their numbers.
        starts: what counters are before the loop.
        most: how many turns there are at most.
    """
    if any(not (op.defn.pure or op.defn.terminator) for op in trace.function.walk()):
        return None
    always = known_elements(holds)
    if always is not None:
        return most if always.all() else 0
    op = holds.value.op if isinstance(holds, TracedTensor) else None
    if op is None or not isinstance(op.defn, compare.Lt | compare.Le | compare.Gt | compare.Ge):
        return None
    if not op.operands[0].tensor.dtype.is_integer or op.operands[0].tensor.rank:
        return None
    sides = [TracedTensor(v, trace) for v in op.operands]
    if isinstance(op.defn, compare.Gt | compare.Ge):
        sides.reverse()
    between = _linear()  # of which it is compared whether it is less than 0
    between.add(sides[0])
    between.add(sides[1], -1)
    distance = -between.number + isinstance(op.defn, compare.Le | compare.Ge)
    for i, start in starts.items():
        counter = inputs[i]
        times = between.terms.get(counter.value) if isinstance(counter, TracedTensor) else None
        if len(between.terms) == 1 and isinstance(times, int) and times * steps[i] > 0:
            pace = times * steps[i]
            return _least((distance - times * start + pace - 1) // pace, most)
    return None


def _least(turns: DimLike, most: DimLike | None) -> DimLike | None:
    if most is None or most == turns:
        return turns
    return min(turns, most) if isinstance(turns, int) and isinstance(most, int) else None


def is_positive(turns: DimLike) -> bool:
    """Whether there surely is a turn."""
    least, _ = bounds(turns)
    return least is not None and least > 0
