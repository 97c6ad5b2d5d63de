"""The batch rule of `loop`: all rows turn together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.batching import batch_operations
from tapec.ir.core import Block, Region, Value
from tapec.ir.op import repeated
from tapec.ir.ops.regions import copied_into, emitted, new_region, with_guard
from tapec.ir.ops.repetition_rules import ENDLESS
from tapec.ir.types import I32, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.ops.repetition import Loop


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
        known = dict(zip(block.args, args, strict=False))
        marked = {a for a, flag in zip(block.args, has, strict=False) if flag}
        batch_operations(b, block.ops[:-1], known, marked)
        return [(known.get(v, v), v in marked) for v in block.terminator.operands]

    def holds(b: Builder, args: Sequence[Value]) -> Value:
        ((value, _),) = run(b, regions[1].block, args, [flags[i] for i in outside])
        result: Value = value
        return result

    def body(b: Builder, args: list[Value]) -> list[Value]:
        alive = None
        if own:
            alive = holds(b, [args[i] for i in outside])
            found = run(b, with_guard(regions[0].block), [*args, alive], [*flags, True])
        else:
            found = run(b, regions[0].block, args, flags)
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
    """Rows with different numbers of turns: all turn as often as any does, and have a count that says which count."""
    carried, stacked, length = attrs["carried"], attrs["stacked"], attrs["length"]
    if length == ENDLESS:
        return _with_conditions(defn, b, operands, batched, regions[0].block, attrs)
    counts, *rest = operands
    places = b.emit("iota", axis=0, type=TensorType(I32, (length,)))
    old = regions[0].block

    def body(inner: Builder, args: list[Value]) -> list[Value]:
        own, (place, count) = args[:-2], args[-2:]
        counts_here = inner.lt(place, count)
        block = with_guard(old)
        yielded = copied_into(inner, block, [*own, counts_here][: len(block.args)])
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
    attrs = attrs | {"stacked": stacked + 1}
    most = b.reduce_max(counts, axes=(0,))
    return mapped(defn, b, [most, *inputs], [False, *flags], regions=(region,), **attrs)


def _with_conditions(
    defn: Loop,
    b: Builder,
    operands: Sequence[Value],
    batched: Sequence[bool],
    old: Block,
    attrs: dict[str, Any],
) -> Any:
    """Rows with different numbers of turns, none of which is known to be enough: each has a condition instead."""
    carried, number = attrs["carried"], TensorType(I32)
    count, *rest = operands
    types = [a.type for a in old.args]
    types = [*types[:carried], number, *types[carried:], number]

    def body(inner: Builder, args: list[Value]) -> list[Value]:
        own = [*args[:carried], *args[carried + 1 : -1]]
        return [*copied_into(inner, old, own), inner.add(args[carried], inner.full(1, number))]

    def condition(inner: Builder, args: list[Value]) -> list[Value]:
        return [inner.lt(args[carried], args[-1])]

    inputs = [*rest[:carried], b.full(0, number), *rest[carried:], count]
    flags = [*batched[1 : carried + 1], False, *batched[carried + 1 :], True]
    new = [new_region(types, body), new_region(types, condition)]
    attrs = {n: v for n, v in attrs.items() if n != "counted"} | {"carried": carried + 1}
    found = mapped(defn, b, inputs, flags, regions=new, **attrs)
    return tuple(found[:carried])
