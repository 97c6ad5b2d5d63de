"""What a program of tensor operations takes when it is planned, and what is in memory when that is most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tapec.ir.core import Function, Module, Operation, Value, clone_function
from tapec.ir.dims import bounds, typical
from tapec.ir.location import Location
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import Lifetime, lifetimes, line_of
from tapec.ir.types import Type
from tapec.passes import fuse, plan
from tapec.passes.memory.peak import Peak, peak


@dataclass(frozen=True, eq=False)
class PlannedKernel:
    """What becomes a kernel, a branch or a loop, told in terms of a program that was planned.

    Attributes:
        ops: what is computed, in program order, and operations that give what is read another type.
        reads, writes: values that are in memory.
        sizes: the bytes of what it writes; 0 if these are not in the arena.
        arguments: those that are read, by number.
        updates: those that are replaced.
    """

    ops: tuple[Operation, ...]
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    sizes: tuple[int, ...]
    arguments: frozenset[int]
    updates: frozenset[int]


class Occupant(NamedTuple):
    """Bytes of the arena, the type of what is in them, and the user's line that makes it."""

    bytes: int
    type: Type
    line: Location | None


@dataclass(frozen=True)
class Footprint:
    """The plan of a function, told in terms of its own values.

    Attributes:
        arena: bytes; of sizes that are open, what they may be at most, or if nothing says so, what they typically are.
        is_open: whether nothing says so.
        before: what is in memory at some time until most of it is in use, made by then.
        alive: what is in the arena when most of it is in use, in branches and loops, too; the largest first.
        turns: for each operation, the first kernel that computes it, by number.
        kernels: what runs, in order.
    """

    arena: int
    is_open: bool
    before: tuple[Value, ...]
    alive: tuple[Occupant, ...]
    turns: tuple[int, ...]
    kernels: tuple[PlannedKernel, ...]

    def of_copy(self, function: Function, copy: Function) -> Footprint:
        """The same but for kernels, in terms of a copy of the function that was planned, whose plan is the same."""
        pairs = zip(function.block.ops, copy.block.ops, strict=True)
        twins = {v: w for op, twin in pairs for v, w in zip(op.results, twin.results, strict=True)}
        return replace(self, before=tuple(twins[v] for v in self.before))


def footprint(function: Function) -> Footprint:
    """Fuse and plan a copy of a function."""
    copy = clone_function(function)
    values: dict[str, Value] = {}
    for i, (op, twin) in enumerate(zip(function.block.ops, copy.block.ops, strict=True)):
        for k, (value, other) in enumerate(zip(op.results, twin.results, strict=True)):
            other.name = f"{i}.{k}"
            values[other.name] = value
    module = Module([copy])
    fuse.run(module, fuse.Options())
    plan.run(module, plan.Options())
    found = [life for life in lifetimes(copy) if life.op is not None]
    most_used = peak(copy)
    arena = copy.attrs.get("arena", 0)
    most = bounds(arena)[1]
    return Footprint(
        typical(arena) if most is None else most,
        most is None,
        tuple(
            values[n] for f in found if f.first <= most_used.at and (n := f.value.name) in values
        ),
        _parts(most_used),
        _turns(function, copy, values),
        _kernels(function, copy, values, found),
    )


def _kernels(
    function: Function, planned: Function, values: Mapping[str, Value], found: Iterable[Lifetime]
) -> tuple[PlannedKernel, ...]:
    """What a planned copy runs; ``values`` are those of the function by their names there, ``found`` its lifetimes."""
    position = {op: i for i, op in enumerate(function.block.ops)}
    places = {life.value: life for life in found}
    kernels = []
    for item in planned.block.ops[:-1]:
        if not isinstance(item.defn, KernelOp | RegionOp):
            continue
        inner = item.regions[0].block.ops if isinstance(item.defn, KernelOp) else ()
        views, reads = _memory_of(item.operands)
        results = (r for op in (*views, *inner, item) for r in op.results)
        ops = {v.op: None for r in results if (v := values.get(r.name or "")) is not None}
        writes = [r for r in item.results if r in places and r.name in values]
        kernels.append(
            PlannedKernel(
                tuple(sorted((op for op in ops if op is not None), key=position.__getitem__)),
                tuple(values[v.name or ""] for v in reads if v in places and v.name in values),
                tuple(values[v.name or ""] for v in writes),
                tuple(_bytes(places[v]) if places[v].place.kind == "arena" else 0 for v in writes),
                frozenset(v.index for v in reads if v.op is None),
                frozenset(_argument(places[v]) for v in writes if places[v].place.kind == "arg"),
            )
        )
    return tuple(kernels)


def _memory_of(operands: Iterable[Value]) -> tuple[list[Operation], list[Value]]:
    """Operations that give what is in memory another type, and what that is."""
    views: list[Operation] = []
    found: dict[Value, None] = {}
    for value in operands:
        while value.op is not None and value.op.operands and "place" not in value.op.attrs:
            views.append(value.op)
            value = value.op.operands[0]
        found[value] = None
    return views, list(found)


def _turns(function: Function, planned: Function, values: Mapping[str, Value]) -> tuple[int, ...]:
    """For each operation, the first item of a planned copy that computes it, but none before what it reads.

    An item may compute what another one, before it, has under no name.
    """
    found: dict[Operation, int] = {}
    for turn, item in enumerate(planned.block.ops):
        ops = [*item.regions[0].block.ops, item] if isinstance(item.defn, KernelOp) else [item]
        for result in (result for op in ops for result in op.results):
            value = values.get(result.name or "")
            if value is not None and value.op is not None:
                found.setdefault(value.op, turn)
    ops = function.block.ops[:-1]
    for op in ops:
        read = [found[v.op] for v in op.operands if v.op is not None]
        found[op] = max(found.get(op, 0), *read, 0)
    return (*(found[op] for op in ops), len(planned.block.ops))


def _parts(most_used: Peak) -> tuple[Occupant, ...]:
    """What is in the arena at the peak, the largest first."""
    parts = [Occupant(_bytes(f), f.value.type, line_of(f.value)) for f in most_used.alive]
    return tuple(sorted(parts, key=lambda part: -part.bytes))


def _bytes(life: Lifetime) -> int:
    return typical(life.bytes)


def _argument(life: Lifetime) -> int:
    number = life.place.number
    assert isinstance(number, int)  # an offset alone may be open
    return number


def producers(values: Sequence[Value]) -> set[Operation]:
    """The operations that values come from, and those that these read."""
    found: set[Operation] = set()
    stack = list(values)
    while stack:
        op = stack.pop().op
        if op is not None and op not in found:
            found.add(op)
            stack += op.operands
    return found
