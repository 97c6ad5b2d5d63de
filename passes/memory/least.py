"""How much memory a program takes at least, whatever is computed again and in whichever order.

While an operation runs that is no index form (a product, say), what its kernel reads and writes is in memory: its
operands, or what they can be computed from element by element, whichever is smaller, and its results, or what becomes
of them in the same kernel. Both are minimum cuts. Arguments are there already, and what the function returns has memory
of its own, so neither counts. While a loop runs, what it carries is in memory, and what does not change; beside that,
what an operation of its body takes.

The most of this over all operations is a bound for the arena of every program that `tapec.passes.rematerialize` and
`tapec.passes.checkpoint` can make of this one: they run operations again and elsewhere, but each of them has to run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from tapec.ir.core import Body, Function, Operation, Value
from tapec.ir.dims import typical
from tapec.ir.extents import reserved
from tapec.ir.ops.regions import RegionOp
from tapec.passes.memory.ownership import stored

#: Gives the values that come next to one, on the way to its sources or to its readers; None where a kernel ends.
_Following = Callable[[Value], list[Value] | None]


class Least(NamedTuple):
    """Bytes that are taken while an operation runs, which is None if there is none."""

    bytes: int
    op: Operation | None


def least_bytes(body: Function | Body) -> Least:
    """The bytes that the arena of a function has at least, and the operation that needs them."""
    kept = {stored(v) for v in body.block.terminator.operands}
    best = Least(0, None)
    for op in body.block.ops[:-1]:
        if op.defn.form != "index":
            best = max(best, _during(op, kept), key=lambda found: found.bytes)
    return best


def _during(op: Operation, kept: Collection[Value]) -> Least:
    """What is in memory while an operation runs; ``kept`` has memory of its own."""
    if not isinstance(op.defn, RegionOp):
        operands = [v for i, v in enumerate(op.operands) if i != op.defn.starts_as]
        return Least(_cut(operands, kept, _sources) + _cut(op.results, kept, _readers), op)
    inside = max((least_bytes(body) for body in op.defn.bodies(op)), key=lambda found: found.bytes)
    carried = [op.results[i] for i in op.defn.overwritten(op)]
    same = [op.operands[i] for i in op.defn.unchanged(op)] if carried else []
    around = _cut(same, kept, _sources) + sum(_bytes(v, kept) for v in carried)
    return Least(around + inside.bytes, inside.op or op)


def _cut(values: Iterable[Value], kept: Collection[Value], following: _Following) -> int:
    """The fewest bytes that hold what values are made of, or what is made of them, in one kernel."""
    import networkx  # heavy, and only programs that do not fit are looked at

    graph = networkx.DiGraph()
    graph.add_nodes_from(("first", "last"))
    stack = list(dict.fromkeys(values))
    for value in stack:
        graph.add_edge("first", (value, 0))
    seen = set(stack)
    while stack:
        value = stack.pop()
        graph.add_edge((value, 0), (value, 1), capacity=_bytes(value, kept))
        found = following(value)
        if found is None:
            graph.add_edge((value, 1), "last")
            continue
        for other in found:
            graph.add_edge((value, 1), (other, 0))
            if other not in seen:
                seen.add(other)
                stack.append(other)
    size: int = networkx.minimum_cut_value(graph, "first", "last")
    return size


def _bytes(value: Value, kept: Collection[Value]) -> int:
    """What a value takes of the arena."""
    made = stored(value)
    return 0 if made.op is None or made in kept else typical(reserved(value.tensor.bytes))


def _sources(value: Value) -> list[Value] | None:
    """What an element of a value is computed from, if that is an index form."""
    if value.op is None or value.op.defn.form != "index":
        return None
    return list(value.op.operands)


def _readers(value: Value) -> list[Value] | None:
    """What is computed of a value element by element, if nobody else reads it."""
    if any(user.defn.form != "index" or user.defn.terminator for user in value.users):
        return None
    return [result for user in value.users for result in user.results]
