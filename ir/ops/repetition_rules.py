"""The derivative of `loop`, and how often it turns at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.core import Block, Operation, Value
from tapec.ir.op import Cotangents
from tapec.ir.ops import arith, compare, source
from tapec.ir.ops.checkpoints import Checkpoints
from tapec.ir.ops.regions import emitted, flows_back, new_region, pulled_back, recomputed_into
from tapec.ir.reachability import carries_gradient
from tapec.ir.types import I32, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.ops.repetition import Loop

#: Turns of a loop that only its condition ends, in the attribute ``length``.
ENDLESS = -1
#: Bytes of carried values that a loop which may end early keeps at most.
MOST_KEPT = 1 << 28

# ---- derivative


def pulled(defn: Loop, b: Builder, op: Operation, cts: Sequence[Value | None]) -> Cotangents:
    """See `tapec.ir.ops.repetition.Loop.vjp`."""
    counts, carried, stacked, same = defn.parts(op)
    operands: list[Value | None] = [None] * len(op.operands)
    given = [ct is not None for ct in cts]
    flow = _Flow.of(op, given, len(carried), len(stacked))
    if flow is None:
        for i, ct in enumerate(cts[: len(carried)]):
            if ct is not None and defn.may_be_empty(op):
                operands[len(counts) + i] = _if_no_turn(defn, b, op, ct)
        return tuple(operands)
    first = [
        ct if (ct := cts[i]) is not None else b.full_like(0, op.results[i]) for i in flow.around
    ]
    sums = [b.full_like(0, same[i - len(carried) - len(stacked)]) for i in flow.rest]
    turns = _turns(defn, op)
    if _is_kept(op, len(carried)):
        incoming = [*_saved(op, len(carried)), *stacked]
        incoming += [ct for i in flow.weights if (ct := cts[i]) is not None]
        carries = [*first, *sums]
        types = [v.type for v in carries]
        types += [v.tensor.with_shape(v.tensor.shape[1:]) for v in incoming]
        types += [v.type for v in same]
        attrs = {"carried": len(carries), "stacked": len(incoming), "length": op.attrs["length"]}
        attrs |= {} if op.attrs.get("reverse") else {"reverse": True}
        attrs |= {"counted": True} if turns else {}
        # Loops back over the parts of one loop are parts of one loop, too.
        attrs |= {"part": f"{op.attrs['part']}'"} if "part" in op.attrs else {}
        region = new_region(types, _backward(op, flow, len(carried), len(stacked)))
        found = list(emitted(b, defn.name, [*turns, *carries, *incoming, *same], [region], **attrs))
    else:
        found = _with_checkpoints(b, op, flow, turns[0], carried, [*first, *sums], same)
    for i, cotangent in zip(flow.around, found, strict=False):
        if i in flow.reached or defn.may_be_empty(op):
            operands[len(counts) + i] = cotangent
    for i, cotangent in zip([*flow.rest, *flow.rows], found[len(flow.around) :], strict=True):
        made = _only_made(b, cotangent, turns) if turns and i in flow.rows else cotangent
        operands[len(counts) + i] = made
    return tuple(operands)


def passed_back(defn: Loop, op: Operation, given: Sequence[bool]) -> list[bool]:
    """For each operand, whether `pulled` has a cotangent for it when the ``given`` results have one."""
    counts, carried, stacked, same = defn.parts(op)
    empty = defn.may_be_empty(op)
    flow = _Flow.of(op, given, len(carried), len(stacked))
    if flow is None:
        through = [has and empty for has in given[: len(carried)]]
        return [*[False] * len(counts), *through, *[False] * (len(stacked) + len(same))]
    passed = {i for i in flow.around if i in flow.reached or empty} | {*flow.rest, *flow.rows}
    return [i - len(counts) in passed for i in range(len(op.operands))]


def _only_made(b: Builder, rows: Value, turns: Sequence[Value]) -> Value:
    """Rows with zeros for those whose turn never came, which may be anything."""
    length, *rest = rows.tensor.shape
    numbers = b.emit("iota", axis=0, type=TensorType(I32, (length,)))
    came = b.lt(numbers, b.broadcast_to(turns[0], (length,)))
    wide = b.broadcast(came, shape=(length, *rest), axes=(0,)) if rest else came
    result: Value = b.where(wide, rows, b.full_like(0, rows))
    return result


def _if_no_turn(defn: Loop, b: Builder, op: Operation, ct: Value) -> Value:
    """A cotangent, or zeros if there was a turn."""
    if op.attrs["length"] == 0:
        return ct
    (turns,) = _turns(defn, op)
    none = b.le(turns, b.full_like(0, turns))
    if ct.tensor.rank:
        none = b.broadcast(none, shape=ct.tensor.shape, axes=())
    result: Value = b.where(none, ct, b.full_like(0, ct))
    return result


@dataclass
class _Flow:
    """Through which arguments of a body cotangents flow, from turn to turn: numbers of arguments and results."""

    reached: set[int]
    #: What is carried and has a cotangent; rows and the rest that get one; stacked results that have one.
    around: list[int]
    rows: list[int]
    rest: list[int]
    weights: list[int]

    @classmethod
    def of(cls, op: Operation, has: Sequence[bool], carried: int, stacked: int) -> _Flow | None:
        """Where the results for which ``has`` holds have cotangents; None if none flows into the body."""
        given = {i for i, known in enumerate(has) if known}
        reached, ends = _reached(op.regions[0].block, given, carried)
        if not reached:
            return None
        return cls(
            reached,
            sorted(i for i in ends if i < carried),
            [i for i in sorted(reached) if carried <= i < carried + stacked],
            [i for i in sorted(reached) if i >= carried + stacked],
            [i for i in sorted(given) if i >= carried],
        )


def _is_kept(op: Operation, carried: int) -> bool:
    """Whether there is place for the carried values of all turns."""
    length = op.attrs["length"]
    if length == ENDLESS:
        return False
    sizes = [a.tensor.bytes for a in op.regions[0].block.args[:carried]]
    bounded = len(op.regions) < 2 and not op.attrs.get("counted")
    known = isinstance(length, int) and all(isinstance(n, int) for n in sizes)
    simple = op.attrs["stacked"] == 0 and len(op.results) - bool(op.attrs.get("turns")) == carried
    return bounded or not known or not simple or length * sum(sizes) <= MOST_KEPT


def _with_checkpoints(
    b: Builder,
    op: Operation,
    flow: _Flow,
    turns: Value,
    state: Sequence[Value],
    carries: Sequence[Value],
    same: Sequence[Value],
) -> list[Value]:
    """Cotangents and sums, with few of the carried values kept."""
    write = _backward(op, flow, len(state), 0)

    def back(
        inner: Builder, own: Sequence[Value], before: Sequence[Value], rest: Sequence[Value]
    ) -> list[Value]:
        found: list[Value] = write(inner, [*own, *before, *rest])
        return found

    checkpoints = Checkpoints(op.regions[0].block, len(state), same, carries, back)
    return checkpoints.write(b, turns, state, carries, same)


def _reached(body: Block, given: set[int], carried: int) -> tuple[set[int], set[int]]:
    """The arguments and the yields of a body that have cotangents, from turn to turn, if the ``given`` results have."""
    ends = set(given)
    while True:
        reached = flows_back(body, ends)
        more = ends | {i for i in reached if i < carried}
        if more == ends:
            return reached, ends
        ends = more


def _saved(op: Operation, carried: int) -> list[Value]:
    """For each carried value its stack, over the turns, of what it was before; the loop is made to return it."""
    last = op.regions[0].block.terminator
    saved = []
    for arg in op.regions[0].block.args[:carried]:
        known = next((i for i, v in enumerate(last.operands) if v is arg and i >= carried), None)
        if known is None:
            known = len(last.operands)
            last.set_operands([*last.operands, arg])
            row = arg.tensor.with_shape((op.attrs["length"], *arg.tensor.shape))
            op.results = (*op.results[:known], Value(row, op, known), *op.results[known:])
            for i, result in enumerate(op.results):
                result.index = i
        saved.append(op.results[known])
    return saved


def _turns(defn: Loop, op: Operation) -> list[Value]:
    """How many turns there are, as an operand, or nothing if it is the length: a loop with a condition tells."""
    return list(defn.parts(op)[0]) if len(op.regions) < 2 else [turns_of(op)]


def turns_of(op: Operation) -> Value:
    """How many turns a loop made, which it is made to return."""
    if not op.attrs.get("turns"):
        op.attrs["turns"] = True
        op.results = (*op.results, Value(TensorType(I32), op, len(op.results)))
    return op.results[-1]


def _backward(op: Operation, flow: _Flow, carried: int, stacked: int) -> Any:
    """Writes the body of the loop that goes back.

    It takes cotangents, sums, carried values, rows, cotangents of rows, and what is the same in all turns.
    """
    around, rows, rest, weights = flow.around, flow.rows, flow.rest, flow.weights
    body = op.regions[0].block

    def write(b: Builder, args: list[Value]) -> list[Value]:
        cts, args = args[: len(around)], args[len(around) :]
        sums, args = args[: len(rest)], args[len(rest) :]
        inputs, args = args[: carried + stacked], args[carried + stacked :]
        seeds, same = args[: len(weights)], args[len(weights) :]
        own = [*inputs, *same]
        yielded = recomputed_into(b, body, own)
        ends = [
            (yielded[i], ct)
            for i, ct in zip([*around, *weights], [*cts, *seeds], strict=True)
            if carries_gradient(yielded[i])
        ]
        wanted = [*around, *rest, *rows]
        sources = [own[i] for i in wanted]
        found = pulled_back(b, [y for y, _ in ends], [ct for _, ct in ends], sources)
        following, found = found[: len(around)], found[len(around) :]
        added = [b.add(s, g) for s, g in zip(sums, found, strict=False)]
        return [*following, *added, *found[len(rest) :]]

    return write


# ---- how often it turns at most


def most_turns(op: Operation) -> int | None:
    """A bound that the condition gives: it compares a counter, which goes in equal steps, with a constant."""
    bounds = [
        bound
        for comparison in _conjuncts(op.regions[1].block.terminator.operands[0])
        if (bound := _bound(op, comparison)) is not None
    ]
    return min(bounds, default=None)


def _conjuncts(condition: Value) -> list[Operation]:
    op = condition.op
    if op is None:
        return []
    if isinstance(op.defn, compare.And):
        return [c for v in op.operands for c in _conjuncts(v)]
    return [op]


def _bound(op: Operation, comparison: Operation) -> int | None:
    defn = comparison.defn
    ordered = isinstance(defn, compare.Lt | compare.Le | compare.Gt | compare.Ge)
    if not ordered or not comparison.operands[0].type.dtype.is_integer:
        return None
    left, right = comparison.operands
    up = isinstance(defn, compare.Lt | compare.Le)
    if _counter(op, left) is None:
        left, right, up = right, left, not up
    place, limit = _counter(op, left), _number(op, right)
    if place is None or limit is None:
        return None
    start = _constant(op.operands[place + int(op.attrs.get("counted", False))])
    step = _step(op, place)
    if start is None or step is None or (step > 0) is not up or step == 0:
        return None
    inclusive = isinstance(defn, compare.Le | compare.Ge)
    distance = (limit - start) * (1 if up else -1) + inclusive
    return max(0, -(-distance // abs(step)))


def _counter(op: Operation, value: Value) -> int | None:
    """Which carried value an argument of the condition is."""
    block = op.regions[1].block
    index = value.index if value.owner is block else None
    return index if index is not None and index < op.attrs["carried"] else None


def _number(op: Operation, value: Value) -> int | None:
    """The number that a value of the condition is."""
    if value.owner is op.regions[1].block:
        value = op.operands[op.defn.operands_of(op, 1)[value.index]]  # type: ignore[attr-defined]
    return _constant(value)


def _constant(value: Value) -> int | None:
    if value.op is None or not isinstance(value.op.defn, source.Constant):
        return None
    number = np.asarray(value.op.attrs["value"])
    return int(number.reshape(-1)[0]) if number.size == 1 else None


def _step(op: Operation, place: int) -> int | None:
    """What a turn adds to a carried value, if that is always the same."""
    body = op.regions[0].block
    adding = body.terminator.operands[place].op
    if adding is None or not isinstance(adding.defn, arith.Add | arith.Sub):
        return None
    left, right = adding.operands
    if right is body.args[place] and isinstance(adding.defn, arith.Add):
        left, right = right, left
    if left is not body.args[place]:
        return None
    if right.owner is body:
        right = op.operands[op.defn.operands_of(op, 0)[right.index]]  # type: ignore[attr-defined]
    step = _constant(right)
    if step is not None and isinstance(adding.defn, arith.Sub):
        step = -step
    return step if step is None or right.owner is not body else None
