"""The derivative of `loop`, its batch rule, and how often it turns at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.batching import batch_operations
from tapec.ir.core import Block, Operation, Region, Value
from tapec.ir.op import Cotangents, repeated
from tapec.ir.ops import arith, compare, source
from tapec.ir.ops.regions import copied_into, emitted, flows_back, new_region, pulled_back
from tapec.ir.reachability import carries_gradient
from tapec.ir.types import I32, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.ops.repetition import Loop

# ---- derivative


def pulled(defn: Loop, b: Builder, op: Operation, cts: Sequence[Value | None]) -> Cotangents:
    """See `tapec.ir.ops.repetition.Loop.vjp`."""
    counts, carried, stacked, same = defn.parts(op)
    body = op.regions[0].block
    given = {i for i, ct in enumerate(cts) if ct is not None}
    reached, ends = _reached(body, given, len(carried))
    operands: list[Value | None] = [None] * len(op.operands)
    if not reached:
        if defn.may_be_empty(op):
            for i in range(len(carried)):
                operands[len(counts) + i] = cts[i]
        return tuple(operands)
    around = sorted(i for i in ends if i < len(carried))
    #: For the arguments of the body that have a cotangent: carried, rows, the rest.
    rows = [i for i in sorted(reached) if len(carried) <= i < len(carried) + len(stacked)]
    rest = [i for i in sorted(reached) if i >= len(carried) + len(stacked)]
    turns = _turns(defn, op)
    saved = _saved(op, len(carried))
    weights = [i for i in sorted(given) if i >= len(carried)]

    first = [ct if (ct := cts[i]) is not None else b.full_like(0, op.results[i]) for i in around]
    sums = [b.full_like(0, same[i - len(carried) - len(stacked)]) for i in rest]
    row_weights = [ct for i in weights if (ct := cts[i]) is not None]
    write = _backward(op, around, rows, rest, weights, len(carried), len(stacked))
    carries, incoming = [*first, *sums], [*saved, *stacked, *row_weights]
    types = [v.type for v in carries]
    types += [v.tensor.with_shape(v.tensor.shape[1:]) for v in incoming]
    types += [v.type for v in same]
    attrs = {"carried": len(carries), "stacked": len(incoming), "length": op.attrs["length"]}
    if not op.attrs.get("reverse"):
        attrs["reverse"] = True
    if turns:
        attrs["counted"] = True
    found = emitted(
        b,
        defn.name,
        [*turns, *carries, *incoming, *same],
        [new_region(types, write)],
        **attrs,
    )
    for i, cotangent in zip(around, found, strict=False):
        if i in reached or defn.may_be_empty(op):
            operands[len(counts) + i] = cotangent
    places = [*rest, *rows]
    for i, cotangent in zip(places, found[len(around) :], strict=True):
        operands[len(counts) + i] = cotangent
    return tuple(operands)


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
    if len(op.regions) < 2:
        return list(defn.parts(op)[0])
    if not op.attrs.get("turns"):
        op.attrs["turns"] = True
        op.results = (*op.results, Value(TensorType(I32), op, len(op.results)))
    return [op.results[-1]]


def _backward(
    op: Operation,
    around: Sequence[int],
    rows: Sequence[int],
    rest: Sequence[int],
    weights: Sequence[int],
    carried: int,
    stacked: int,
) -> Any:
    """Writes the body of the loop that goes back: see `pulled` for what it takes."""
    body = op.regions[0].block

    def write(b: Builder, args: list[Value]) -> list[Value]:
        cts, args = args[: len(around)], args[len(around) :]
        sums, args = args[: len(rest)], args[len(rest) :]
        inputs, args = args[: carried + stacked], args[carried + stacked :]
        seeds, same = args[: len(weights)], args[len(weights) :]
        own = [*inputs, *same]
        yielded = copied_into(b, body, own)
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


# ---- a batch of loops


def mapped(
    defn: Loop, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
) -> Any:
    """See `tapec.ir.ops.repetition.Loop.batch`; a number of turns is the same for all rows."""
    regions: Sequence[Region] = attrs.pop("regions")
    counted, carried, stacked = (
        int(attrs.get("counted", False)),
        attrs["carried"],
        attrs["stacked"],
    )
    if attrs.get("turns"):
        return _with_counters(defn, b, operands, batched, regions, attrs)
    if counted and batched[0]:
        return _with_own_counts(defn, b, operands, batched, regions, attrs)
    size = next(v.tensor.shape[0] for v, has in zip(operands, batched, strict=True) if has)
    flags = list(batched[counted:])
    body = regions[0].block
    own = False
    while True:  # what is carried is mapped once anything that flows into it is
        yields = _mapped_yields(body, flags)
        if len(regions) > 1:
            seen = [*flags[:carried], *flags[carried + stacked :]]
            own = _mapped_yields(regions[1].block, seen)[0]
        more = [flags[i] or yields[i] or own for i in range(carried)]
        if more == flags[:carried]:
            break
        flags[:carried] = more
    values = list(operands[:counted])
    for i, value in enumerate(operands[counted:]):
        if i < carried and flags[i] and not batched[counted + i]:
            value = repeated(b, value, size)
        elif carried <= i < carried + stacked and flags[i]:
            value = b.transpose(value, permutation=(1, 0, *range(2, value.tensor.rank)))
        values.append(value)
    new = _mapped_regions(regions, values[counted:], flags, carried, stacked, size, own)
    found = emitted(b, defn.name, values, new, **attrs)
    results = []
    for i, result in enumerate(found):
        if i < carried:
            results.append(result if flags[i] else repeated(b, result, size))
        else:
            results.append(b.transpose(result, permutation=(1, 0, *range(2, result.tensor.rank))))
    return tuple(results)


def _mapped_yields(block: Block, flags: Sequence[bool]) -> list[bool]:
    """Which values a block yields are mapped if these arguments are."""
    found = {a for a, has in zip(block.args, flags, strict=True) if has}
    for op in block.ops[:-1]:
        if any(v in found for v in op.operands):
            found.update(op.results)
    return [v in found for v in block.terminator.operands]


def _mapped_regions(
    regions: Sequence[Region],
    values: Sequence[Value],
    flags: Sequence[bool],
    carried: int,
    stacked: int,
    size: Any,
    own: bool,
) -> list[Region]:
    """The regions for all rows at once; ``own``: each row has its own condition."""
    rows = range(carried, carried + stacked)
    types = [
        v.tensor.with_shape(v.tensor.shape[1:]) if i in rows else v.tensor
        for i, v in enumerate(values)
    ]
    outside = [i for i in range(len(values)) if i not in rows]

    def run(b: Builder, block: Block, args: Sequence[Value], has: Sequence[bool]) -> list[Any]:
        known = dict(zip(block.args, args, strict=True))
        marked = {a for a, flag in zip(block.args, has, strict=True) if flag}
        batch_operations(b, block.ops[:-1], known, marked)
        return [(known.get(v, v), v in marked) for v in block.terminator.operands]

    def holds(b: Builder, args: Sequence[Value]) -> Value:
        ((value, _),) = run(b, regions[1].block, args, [flags[i] for i in outside])
        result: Value = value
        return result

    def body(b: Builder, args: list[Value]) -> list[Value]:
        found = run(b, regions[0].block, args, flags)
        alive = holds(b, [args[i] for i in outside]) if own else None
        results = []
        for i, (value, has) in enumerate(found):
            if not has and (i >= carried or flags[i]):
                value = repeated(b, value, size)
            if i < carried and alive is not None:
                wide = alive
                if value.tensor.rank > 1:
                    wide = b.broadcast(alive, shape=value.tensor.shape, axes=(0,))
                value = b.where(wide, value, args[i])
            results.append(value)
        return results

    def condition(b: Builder, args: list[Value]) -> list[Value]:
        value = holds(b, args)
        return [b.reduce_any(value, axes=(0,)) if own else value]

    new = [new_region(types, body)]
    if len(regions) > 1:
        new.append(new_region([types[i] for i in outside], condition))
    return new


def _with_counters(
    defn: Loop,
    b: Builder,
    operands: Sequence[Value],
    batched: Sequence[bool],
    regions: Sequence[Region],
    attrs: dict[str, Any],
) -> Any:
    """The number of turns as a carried value, since it may be another one in each row."""
    place = int(attrs.get("counted", False)) + attrs["carried"]
    carried = attrs["carried"]
    number = TensorType(I32)

    def widened(region: Region, *, counts: bool) -> Region:
        old = region.block
        types = [a.type for a in old.args]

        def write(inner: Builder, args: list[Value]) -> list[Value]:
            yielded = copied_into(inner, old, [*args[:carried], *args[carried + 1 :]])
            if counts:
                yielded.insert(carried, inner.add(args[carried], inner.full(1, number)))
            return yielded

        return new_region([*types[:carried], number, *types[carried:]], write)

    new = [widened(region, counts=k == 0) for k, region in enumerate(regions)]
    inputs, flags = list(operands), list(batched)
    inputs.insert(place, b.full(0, number))
    flags.insert(place, False)
    attrs = {n: v for n, v in attrs.items() if n != "turns"} | {"carried": carried + 1}
    found = list(mapped(defn, b, inputs, flags, regions=new, **attrs))
    return (*found[:carried], *found[carried + 1 :], found[carried])


def _with_own_counts(
    defn: Loop,
    b: Builder,
    operands: Sequence[Value],
    batched: Sequence[bool],
    regions: Sequence[Region],
    attrs: dict[str, Any],
) -> Any:
    """Rows with different numbers of turns: all turn ``length`` times, with a count that says whether one counts."""
    carried, stacked, length = attrs["carried"], attrs["stacked"], attrs["length"]
    attrs = {n: v for n, v in attrs.items() if n != "counted"}
    counts, *rest = operands
    places = b.emit("iota", axis=0, type=TensorType(I32, (length,)))
    old = regions[0].block

    def body(inner: Builder, args: list[Value]) -> list[Value]:
        own, (place, count) = args[:-2], args[-2:]
        yielded = copied_into(inner, old, own)
        counts_here = inner.lt(place, count)
        results = []
        for i, value in enumerate(yielded):
            kept = own[i] if i < carried else inner.full_like(0, value)
            wide = inner.broadcast_to(counts_here, value.tensor.shape)
            results.append(inner.where(wide, value, kept))
        return results

    # Arguments: carried, rows, the rest, the turn's number (a row, so moved in front of the rest), the count.
    inputs = [*rest[: carried + stacked], places, *rest[carried + stacked :], counts]
    flags = [*batched[1 : 1 + carried + stacked], False, *batched[1 + carried + stacked :], True]
    types = [a.type for a in old.args]
    split = carried + stacked

    def reordered(inner: Builder, args: list[Value]) -> list[Value]:
        own = [*args[:split], *args[split + 1 : -1]]
        return body(inner, [*own, args[split], args[-1]])

    row = TensorType(I32)
    region = new_region([*types[:split], row, *types[split:], row], reordered)
    attrs["stacked"] = stacked + 1
    return mapped(defn, b, inputs, flags, regions=(region,), **attrs)
