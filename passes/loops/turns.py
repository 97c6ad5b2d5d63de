"""A loop as `hoist` looks at it: where the values of its body come from, and how it is written anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Operation, Region, Value, clone_operation
from tapec.ir.dims import DimLike, bounds, typical
from tapec.ir.ops.regions import emitted
from tapec.ir.ops.repetition import Loop
from tapec.ir.types import TensorType


class Turns:
    """A loop, and where the values of its body come from.

    Attributes:
        op: the operation.
        body: its body.
        rows: arguments of the body that are rows, with the stacks that they are rows of.
        same: arguments that do not change, with what they are.
        length: how many turns there are at most; 0 if nothing says so.
        count: the same where it is a number, else 0.
        certain: every turn comes, and there is at least one.
    """

    def __init__(self, op: Operation) -> None:
        """Look at a loop."""
        assert isinstance(op.defn, Loop)
        self.op = op
        self.body = op.regions[0].block
        counts, carried, stacked, same = op.defn.parts(op)
        self.carried = self.body.args[: len(carried)]
        args = self.body.args[len(carried) :]
        self.rows = dict(zip(args, stacked, strict=False))
        self.same = dict(zip(args[len(stacked) :], same, strict=True))
        length = op.attrs["length"]
        self.length: DimLike = length
        self.count = length if isinstance(length, int) else 0
        least = bounds(length)[0]
        self.certain = not counts and len(op.regions) == 1 and least is not None and least > 0

    def bytes(self, values: Iterable[Value]) -> int:
        """The size of one row of each of these values together; where sizes are open, what is typical."""
        return sum(typical(value.tensor.bytes) for value in values)

    def fits(self, values: Iterable[Value], room: int) -> bool:
        """Whether the rows of all turns have room."""
        return self.bytes(values) * typical(self.length) <= room

    def stack_of(self, value: Value) -> Value | None:
        """All rows of a value of the body, if they are there: an argument, or one that is yielded as rows."""
        if value in self.rows:
            return self.rows[value]
        yielded = self.body.terminator.operands
        places = [i for i in range(len(self.carried), len(yielded)) if yielded[i] is value]
        return self.op.results[places[0]] if places else None


# ---- writing a loop anew


@dataclass
class Change:
    """What a loop gets: for values of its body the rows, or unchanging values, that replace them; rows to yield."""

    rows: dict[Value, Value] = field(default_factory=dict)
    same: dict[Value, Value] = field(default_factory=dict)
    kept: list[Value] = field(default_factory=list)


def changed_loop(turns: Turns, change: Change) -> Turns:
    """The loop with a change, in its place; more results than before are the kept rows, in order."""
    op, body = turns.op, turns.body
    assert isinstance(op.defn, Loop)
    counts, carried, stacked, same = op.defn.parts(op)
    first = len(carried) + len(stacked)
    types = [a.type for a in body.args]
    new = Block(
        [*types[:first], *map(_type, change.rows), *types[first:], *map(_type, change.same)]
    )
    split = first + len(change.rows)
    end = split + len(same)
    mapping = dict(zip(body.args, [*new.args[:first], *new.args[split:end]], strict=True))
    mapping |= dict(zip(change.rows, new.args[first:split], strict=True))
    mapping |= dict(zip(change.same, new.args[end:], strict=True))
    given = {v: mapping[v] for v in (*change.rows, *change.same)}
    for inner in body.ops[:-1]:
        if not inner.results or not given.keys() >= set(inner.results):
            new.append(clone_operation(inner, mapping))
            mapping |= given
    last = body.terminator
    b = Builder(new)
    yields = [*last.operands, *change.kept]
    b.emit(last.defn, *(mapping[v] for v in yields))
    operands = [
        *counts,
        *carried,
        *stacked,
        *change.rows.values(),
        *same,
        *change.same.values(),
    ]
    attrs = op.attrs | {"stacked": len(stacked) + len(change.rows)}
    regions = [Region([new]), *_conditions(op, change)]
    assert op.block is not None
    outer = Builder(op.block, before=op)
    with outer.at(op.location):
        results = emitted(outer, op.name, operands, regions, **attrs)
    _replace(op, results, len(last.operands), len(change.kept))
    made = results[0].op
    assert made is not None
    return Turns(made)


def _type(value: Value) -> TensorType:
    return value.tensor


def _conditions(op: Operation, change: Change) -> list[Region]:
    """The condition, whose arguments are also what does not change."""
    found = []
    for region in op.regions[1:]:
        old = region.block
        block = Block([*(a.type for a in old.args), *map(_type, change.same)])
        mapping = dict(zip(old.args, block.args, strict=False))
        for inner in old.ops:
            block.append(clone_operation(inner, mapping))
        found.append(Region([block]))
    return found


def _replace(op: Operation, results: Sequence[Value], before: int, more: int) -> None:
    """Let who reads the results read the new ones: rows that are new stand in front of the number of turns."""
    for i, old in enumerate(op.results):
        new = results[i if i < before else i + more]
        new.name = old.name
        old.replace_all_uses(new)
    op.erase()


def with_stacks(turns: Turns, needed: Sequence[Value]) -> tuple[Turns, dict[Value, Value]]:
    """The loop made to keep the rows of some values of its body, and these rows by the values that were asked for."""
    kept = [v for v in needed if turns.stack_of(v) is None]
    count = len(turns.body.terminator.operands)
    stacks = {v: stack for v in needed if (stack := turns.stack_of(v)) is not None}
    own = {v: r.index for v, r in stacks.items() if r.op is turns.op}
    new = changed_loop(turns, Change(kept=kept))
    results = new.op.results
    stacks |= {v: results[i] for v, i in own.items()}
    return new, stacks | dict(zip(kept, results[count:], strict=False))


def behind(turns: Turns) -> Builder:
    """Writes right behind a loop."""
    block = turns.op.block
    assert block is not None
    b = Builder(block, before=block.ops[block.ops.index(turns.op) + 1])
    b.location = turns.op.location
    return b
