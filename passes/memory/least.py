"""How much memory a program takes at least, whatever is computed again and in whichever order.

While an operation runs that is no index form (a product, say), what its kernel reads and writes is in memory: its
operands, as `tapec.passes.fuse` computes none of them inside of such a kernel, and its results, or of a contraction
what becomes of them in the same kernel: a minimum cut. Arguments are there already, and what the function returns has
memory of its own, so neither counts. While a loop runs, what it carries is in memory, and what does not change; beside
that, what an operation of its body takes.

What operands come from has to be made, too. Say a product has two: of the products that they are made of element by
element, one was the last to run. While it ran, what it reads was in memory, and all that the first product needs, or
what that can be computed from element by element: a minimum cut again. Which one was the last, nobody knows, so the
least of all that it may have been counts. Before that, another one was the last, and so on, back to a program's
arguments: `_Search` goes through what may have been, what takes least first, as the shortest ways in a graph are found
(Dijkstra), and stops after a number of steps; what it has found by then is a bound, too.

The most of this over all operations is a bound for the arena of every program that `tapec.passes.rematerialize` and
`tapec.passes.loops.checkpoint` can make of this one: they run operations again and elsewhere, but each of them has to
run.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from itertools import count
from typing import NamedTuple

from tapec.ir.core import Body, Function, Operation, Value
from tapec.ir.dims import typical
from tapec.ir.extents import reserved
from tapec.ir.ops.regions import RegionOp
from tapec.passes.memory.cut import least_between
from tapec.passes.memory.ownership import stored, written_over

#: Cuts that are looked for behind one operation, and the values that are looked at in all of them.
_CUTS, _MOST_VALUES = 400, 50_000


class Least(NamedTuple):
    """Bytes that are taken while an operation runs, which is None if there is none."""

    bytes: int
    op: Operation | None


def least_bytes(body: Function | Body) -> Least:
    """The bytes that the arena of a function has at least, and the operation that needs them."""
    return _Search(body).least()


class _Search:
    """Looks for what operations of a function or region need."""

    def __init__(self, body: Function | Body) -> None:
        #: What has memory of its own.
        self.kept = {v for value in body.block.terminator.operands for v in written_over(value)}
        self.position = {op: i for i, op in enumerate(body.block.ops)}
        self.bytes: dict[Value, int] = {}
        self.ops = [op for op in body.block.ops[:-1] if op.defn.form != "index"]
        self.alone = {op: self._during(op) for op in self.ops}
        self.left = _MOST_VALUES
        self.cuts = 0

    def least(self) -> Least:
        """The most that any operation needs; what is looked at first is what needs most alone."""
        first = sorted(self.ops, key=lambda op: -self.alone[op].bytes)
        found = [self._with_makers(op) for op in first]
        return max(found, key=lambda one: one.bytes, default=Least(0, None))

    def _during(self, op: Operation) -> Least:
        """What is in memory while an operation runs."""
        reads = sum(map(self._bytes, _places(_read(op))))
        if not isinstance(op.defn, RegionOp):
            following = _readers if op.defn.form == "contraction" else _nothing
            return Least(reads + least_between(op.results, following, self._bytes), op)
        inside = max((least_bytes(body) for body in op.defn.bodies(op)), key=lambda one: one.bytes)
        carried = sum(self._bytes(op.results[i]) for i in op.defn.overwritten(op))
        return Least(reads + carried + inside.bytes, inside.op or op)

    def _with_makers(self, op: Operation) -> Least:
        """What is in memory while an operation runs, or one that makes what it reads."""
        best = self.alone[op]
        number = count()
        start = (frozenset(_made(op.operands)), frozenset[Operation]())
        queue = [(best.bytes, next(number), *start)]
        seen = {start}
        self.cuts = _CUTS
        while queue and self.cuts > 0 and self.left > 0:
            bytes, _, wanted, over = heapq.heappop(queue)
            best = max(best, Least(bytes, op), key=lambda one: one.bytes)
            makers = sorted(_makers(wanted, over), key=self.position.__getitem__)
            if not makers:  # nothing has to be made
                break
            for maker in makers:
                self.cuts -= 1
                before = (wanted | _made(maker.operands), over | {maker})
                if before not in seen:
                    seen.add(before)
                    most = max(bytes, self._while(maker, wanted, over))
                    heapq.heappush(queue, (most, -next(number), *before))
        else:
            if queue:
                best = max(best, Least(queue[0][0], op), key=lambda one: one.bytes)
        return best

    def _while(self, op: Operation, wanted: Collection[Value], over: Collection[Operation]) -> int:
        """What is in memory while an operation runs, with all for what is wanted that those in ``over`` do not make."""

        def following(value: Value) -> Collection[Value] | None:
            self.left -= 1
            return () if value.op in over else _sources(value)

        read = _places(_read(op))
        bytes = sum(map(self._bytes, read))
        bytes += least_between(
            wanted, following, lambda v: 0 if stored(v) in read else self._bytes(v)
        )
        if isinstance(op.defn, RegionOp):
            bytes += max(least_bytes(body).bytes for body in op.defn.bodies(op))
        return max(bytes, self.alone[op].bytes)

    def _bytes(self, value: Value) -> int:
        """What a value takes of the arena."""
        found = self.bytes.get(value)
        if found is None:
            made = stored(value)
            free = made.op is None or not made.op.operands or made in self.kept
            found = self.bytes[value] = 0 if free else typical(reserved(value.tensor.bytes))
        return found


def _places(values: Iterable[Value]) -> set[Value]:
    """What is in memory for values."""
    return {stored(v) for v in values}


def _read(op: Operation) -> list[Value]:
    """The operands that are in memory all the time while an operation runs, beside what it makes."""
    if isinstance(op.defn, RegionOp):
        return [op.operands[i] for i in op.defn.unchanged(op)] if op.defn.overwritten(op) else []
    return [v for i, v in enumerate(op.operands) if i != op.defn.starts_as]


def _made(values: Iterable[Value]) -> frozenset[Value]:
    """Values that are no arguments."""
    return frozenset(v for v in values if v.op is not None)


def _makers(wanted: Iterable[Value], over: Collection[Operation]) -> list[Operation]:
    """The operations, but for those in ``over``, whose results values are made of element by element."""
    found: dict[Operation, None] = {}
    stack = list(wanted)
    seen = set(stack)
    while stack:
        value = stack.pop()
        following = _sources(value)
        if following is None and value.op is not None and value.op not in over:
            found[value.op] = None
        stack += [v for v in following or () if v not in seen]
        seen.update(following or ())
    return list(found)


def _sources(value: Value) -> list[Value] | None:
    """What an element of a value is computed from, if that is an index form."""
    if value.op is None or value.op.defn.form != "index":
        return None
    return list(value.op.operands)


def _nothing(value: Value) -> None:
    """Nothing comes next to any value."""


def _readers(value: Value) -> list[Value] | None:
    """What is computed of a value element by element, if nobody else reads it."""
    if any(user.defn.form != "index" or user.defn.terminator for user in value.users):
        return None
    return [result for user in value.users for result in user.results]
