"""Let a loop that goes back have the states of the loop there from a stack that has not room for all of them.

The gradient of a loop is a loop the other way round, over the carried values that each turn had. If the first one has
the attribute ``states`` (`tapec.passes.loops.checkpoint`), it keeps no more than so many of them, in a stack that it
carries; the loop back puts others in their place as it goes, and makes these from those before them, by running the
turns again. Which ones, and in which order, is the schedule that runs the fewest turns (`tapec.passes.loops.reversal`):
tables of numbers, which the loop back goes through. Each of its turns takes a stretch of those of the first loop:

1. States are put into the stack, with as many turns between them as the table says.
2. Of the last of these on, all states that the stretch needs are put behind it.
3. The stretch is gone back through, turn by turn: the body of the loop back as it was, so all sums are added up in the
   order in which they were, and results are the same to the bit.

It is done if nobody but the loop back reads the states, and if running a turn again has no effect and makes nothing
that the user asked to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Module, Operation, Value, clone_operation
from tapec.ir.ops.regions import copied_into, emitted, new_region
from tapec.ir.ops.repetition import Loop
from tapec.ir.types import I32, TensorType
from tapec.passes import dce
from tapec.passes.loops.reversal import schedule
from tapec.passes.loops.turns import Turns
from tapec.passes.memory.footprint import producers

_NUMBER = TensorType(I32)


def run(module: Module, options: object = None) -> bool:
    """Do it in every function, wherever loops say how many states they may keep."""
    changed = False
    for function in module.functions.values():
        if _visit(function.block):
            dce.sweep(function.block)
            changed = True
    return changed


def _visit(block: Block) -> bool:
    changed = False
    for op in block.ops:
        for region in op.regions:
            changed |= _visit(region.block)
    for op in [op for op in block.ops if "states" in op.attrs]:
        if op.block is block:  # it may have been a loop back over another one
            pair = _pair(op, op.attrs.pop("states"))
            if pair is not None:
                _Writer(pair).write()
            changed = True
    return changed


# ---- what belongs together


@dataclass
class _Pair:
    """A loop, and that which goes back over its states.

    Attributes:
        saved: for results of the first loop that are rows of states, the carried value that they are of, by number.
        made: the carried values that it takes to make these states again, by number.
        rows: how many states there is room for.
    """

    there: Turns
    back: Turns
    saved: dict[int, int]
    made: list[int]
    rows: int


def _pair(op: Operation, rows: int) -> _Pair | None:
    """The loop and the one back over it; None if states have to be kept as they are."""
    there = Turns(op)
    yielded = there.body.terminator.operands
    numbers = {arg: i for i, arg in enumerate(there.carried)}
    saved = {
        r.index: numbers[yielded[r.index]]
        for r in op.results[len(there.carried) :]
        if r.users and yielded[r.index] in numbers
    }
    readers = dict.fromkeys(user for i in saved for user in op.results[i].users)
    if not there.certain or not 2 <= rows < there.count or len(readers) != 1:
        return None
    (reader,) = readers
    if not isinstance(reader.defn, Loop) or reader.block is not op.block:
        return None
    back = Turns(reader)
    _, carried, _, same = reader.defn.parts(reader)
    stacks = {op.results[i] for i in saved}
    backwards = bool(op.attrs.get("reverse")) is not bool(reader.attrs.get("reverse"))
    if not back.certain or back.count != there.count or not backwards:
        return None
    made = _closed(there, set(saved.values()))
    if stacks & {*carried, *same} or not _may_run_again(there, made):
        return None
    return _Pair(there, back, saved, made, rows)


def _closed(turns: Turns, wanted: set[int]) -> list[int]:
    """What is carried that these carried values depend on, from turn to turn; by number."""
    while True:
        yields = [turns.body.terminator.operands[i] for i in wanted]
        found = {arg.index for arg in _live(turns.body, yields)} & set(range(len(turns.carried)))
        if found <= wanted:
            return sorted(wanted)
        wanted |= found


def _live(block: Block, values: Sequence[Value]) -> set[Value]:
    """The arguments of a block that values depend on."""
    made = {v for op in _needed(block, values) for v in op.operands} | set(values)
    return made & set(block.args)


def _needed(block: Block, values: Sequence[Value]) -> list[Operation]:
    """The operations of a block that values depend on, in program order."""
    found = producers(values)
    return [op for op in block.ops if op in found]


def _may_run_again(turns: Turns, made: Sequence[int]) -> bool:
    """Whether what makes carried values has no effect, and makes nothing that the user asked to keep."""
    yields = [turns.body.terminator.operands[i] for i in made]
    return all(
        (inner.defn.pure or inner.defn.terminator) and "keep" not in inner.attrs
        for op in _needed(turns.body, yields)
        for inner in op.walk()
    )


# ---- writing

#: Values that belong together, and several of these.
Group = Sequence[Value]
Groups = Sequence[Group]


class _Writer:
    """Writes both loops of a pair anew."""

    def __init__(self, pair: _Pair) -> None:
        self.pair = pair
        self.there, self.back = pair.there, pair.back
        self.schedule = schedule(pair.there.count, pair.rows)
        yields = [self.there.body.terminator.operands[i] for i in pair.made]
        #: What it takes to run a turn again: operations, and beside what is carried, rows and what does not change.
        self.again = _needed(self.there.body, yields)
        used = _live(self.there.body, yields)
        self.rows = {a: v for a, v in self.there.rows.items() if a in used}
        self.same = {a: v for a, v in self.there.same.items() if a in used}

    def write(self) -> None:
        """Both loops, in their places."""
        self._write_back(self._write_there())
        self.there.op.erase()

    # ---- the first loop

    def _write_there(self) -> Group:
        """Write the first loop with stacks of few states instead of all of them; return the stacks."""
        op, pair = self.there.op, self.pair
        assert isinstance(op.defn, Loop)
        _, carried, stacked, same = op.defn.parts(op)
        ends = [i for i in range(len(carried), len(op.results)) if i not in pair.saved]
        assert op.block is not None
        b = Builder(op.block, before=op)
        b.location = op.location

        def write(
            inner: Builder, own: Group, kept: Group, at: Group, rows: Group, same: Group
        ) -> Groups:
            row, turn = at
            stored = _put(inner, kept, row, [own[i] for i in pair.made])
            yields = copied_into(inner, self.there.body, [*own, *rows, *same])
            # Until the turn comes whose state belongs there, a row holds those before it.
            is_kept = inner.ge(turn, _entry(inner, self.schedule.kept, row))
            at = (inner.where(is_kept, _later(inner, row), row), _later(inner, turn))
            return yields[: len(own)], stored, at, [yields[i] for i in ends]

        empty = [b.full(0, _stack(carried[i], pair.rows)) for i in pair.made]
        carries = (carried, empty, (b.full(0, _NUMBER), b.full(0, _NUMBER)))
        reverse = bool(op.attrs.get("reverse"))
        length = self.there.count
        last, stacks, _, rows = _loop(
            b, write, carries, (same,), stacked, length=length, reverse=reverse
        )
        numbers = [*range(len(carried)), *ends]
        for i, result in zip(numbers, [*last, *rows], strict=True):
            result.name = op.results[i].name
            op.results[i].replace_all_uses(result)
        return stacks

    # ---- the loop back

    def _write_back(self, stacks: Group) -> None:
        """Write the loop back over stretches of turns."""
        op, found = self.back.op, self.schedule.stretches
        assert isinstance(op.defn, Loop)
        _, carried, stacked, same = op.defn.parts(op)
        others = [v for v in stacked if self._state_of(v) is None]
        assert op.block is not None
        b = Builder(op.block, before=op)
        b.location = op.location

        def write(
            inner: Builder,
            flow: Group,
            made: Group,
            kept: Group,
            at: Group,
            rows: Group,
            fixed: Group,
            *rest: Group,
        ) -> Groups:
            which, number = at
            count, top, first, again, steps = (_entry(inner, c, which) for c in columns)
            kept, (number,) = self._advanced(inner, count, (kept, (number,)), (rows, fixed))
            kept = self._filled(inner, again, (kept, (top, first)), (rows, fixed))
            end = (inner.add(top, steps), inner.add(first, steps))
            flow, made = self._gone_back(inner, steps, (flow, made, end), (kept, *rest))
            return flow, made, kept, (_later(inner, which), number)

        zeros = [b.full_like(0, v) for v in op.results[len(carried) :]]
        carries = (carried, zeros, stacks, (b.full(0, _NUMBER), b.full(0, _NUMBER)))
        columns = [
            [len(s.advances) for s in found],
            [s.row for s in found],
            [s.first for s in found],
            [s.steps - 1 if s.runs else 0 for s in found],
            [s.steps for s in found],
        ]
        reads = ([*self.rows.values()], [*self.same.values()], others, same)
        last, made, *_ = _loop(b, write, carries, reads, length=len(found))
        for old, new in zip(op.results, [*last, *made], strict=True):
            new.name = old.name
            old.replace_all_uses(new)
        op.erase()

    def _state_of(self, stack: Value) -> int | None:
        """Of which stack of states rows are, by number; None of others."""
        is_state = stack.op is self.there.op and stack.index in self.pair.saved
        return self.pair.made.index(self.pair.saved[stack.index]) if is_state else None

    def _advanced(self, b: Builder, count: Value, state: Groups, reads: Groups) -> Groups:
        """The stacks with so many more states, and the number of the next advance."""
        advances = [a for s in self.schedule.stretches for a in s.advances]
        most = max(len(s.advances) for s in self.schedule.stretches)
        if not advances:
            return state

        def write(inner: Builder, kept: Group, at: Group, *reads: Group) -> Groups:
            (number,) = at
            row, first, steps = (_entry(inner, [a[k] for a in advances], number) for k in range(3))
            states = self._run(inner, steps, (_take(inner, kept, row), (first,)), reads)
            return _put(inner, kept, _later(inner, row), states), (_later(inner, number),)

        return _loop(b, write, state, reads, length=most, count=count)[:2]

    def _run(self, b: Builder, count: Value, state: Groups, reads: Groups) -> Group:
        """States so many turns later."""
        most = max(a.steps for s in self.schedule.stretches for a in s.advances)

        def write(inner: Builder, own: Group, at: Group, *reads: Group) -> Groups:
            (turn,) = at
            return self._turn(inner, own, turn, *reads), (_later(inner, turn),)

        return _loop(b, write, state, reads, length=most, count=count)[0]

    def _turn(self, b: Builder, own: Group, turn: Value, rows: Group, fixed: Group) -> Group:
        """States after one more turn."""
        there, made = self.there, self.pair.made
        rows = _take(b, rows, self._place(b, there, turn)) if rows else ()
        args = [*(there.carried[i] for i in made), *self.rows, *self.same]
        values = dict(zip(args, [*own, *rows, *fixed], strict=True))
        for op in self.again:
            b.insert(clone_operation(op, values))
        return [values[there.body.terminator.operands[i]] for i in made]

    def _filled(self, b: Builder, count: Value, state: Groups, reads: Groups) -> Group:
        """The stacks with the states of so many turns behind a row."""
        most = max(s.steps for s in self.schedule.stretches)

        def write(inner: Builder, kept: Group, at: Group, *reads: Group) -> Groups:
            row, turn = at
            states = self._turn(inner, _take(inner, kept, row), turn, *reads)
            at = (_later(inner, row), _later(inner, turn))
            return _put(inner, kept, at[0], states), at

        return _loop(b, write, state, reads, length=most, count=count)[0]

    def _gone_back(self, b: Builder, count: Value, state: Groups, reads: Groups) -> Groups:
        """What becomes of what the loop back carries, and of its rows, over the turns of a stretch."""
        back = self.back
        most = max(s.steps for s in self.schedule.stretches)

        def write(
            inner: Builder,
            flow: Group,
            made: Group,
            at: Group,
            kept: Group,
            others: Group,
            same: Group,
        ) -> Groups:
            row, turn = (_earlier(inner, n) for n in at)
            states = _take(inner, kept, row)
            place = self._place(inner, self.there, turn)
            rest = iter(_take(inner, others, place))
            sources = [self._state_of(v) for v in back.rows.values()]
            rows = [next(rest) if s is None else states[s] for s in sources]
            yields = copied_into(inner, back.body, [*flow, *rows, *same])
            stored = [
                y
                for x, z in zip(made, yields[len(flow) :], strict=True)
                for y in _put(inner, [x], place, [z])
            ]
            return yields[: len(flow)], stored, (row, turn)

        return _loop(b, write, state, reads, length=most, count=count)[:2]

    def _place(self, b: Builder, loop: Turns, turn: Value) -> Value:
        """The row of a turn."""
        if not loop.op.attrs.get("reverse"):
            return turn
        result: Value = b.sub(b.full(loop.length - 1, _NUMBER), turn)
        return result


# ---- parts of programs


def _loop(
    b: Builder,
    write: Callable[..., Groups],
    carried: Groups,
    same: Groups,
    stacked: Group | None = None,
    *,
    length: int,
    count: Value | None = None,
    reverse: bool = False,
) -> list[Group]:
    """A loop whose body gets groups of values, and gives some: what is carried; rows, if any are taken; the rest.

    ``write`` gives what is carried next, and then rows, if any are made. Returned is the same.
    """
    ends = [v for group in carried for v in group]
    rest = [v for group in same for v in group]
    rows = () if stacked is None else (stacked,)
    stacked = stacked or ()
    types = [*_types(ends), *(v.tensor.with_shape(v.tensor.shape[1:]) for v in stacked)]

    def flat(inner: Builder, args: list[Value]) -> list[Value]:
        return [v for group in write(inner, *_apart(args, (*carried, *rows, *same))) for v in group]

    region = new_region([*types, *_types(rest)], flat)
    counts = [] if count is None else [count]
    attrs = {"carried": len(ends), "stacked": len(stacked), "length": length}
    attrs |= {"counted": True} if counts else {}
    attrs |= {"reverse": True} if reverse else {}
    found = emitted(b, "loop", [*counts, *ends, *stacked, *rest], [region], **attrs)
    return [*_apart(found, carried), found[len(ends) :]]


def _types(values: Group) -> list[TensorType]:
    return [v.tensor for v in values]


def _apart(values: Group, groups: Groups) -> list[Group]:
    """As many values at a time as each group has."""
    rest = iter(values)
    return [[*islice(rest, len(group))] for group in groups]


def _stack(like: Value, rows: int) -> TensorType:
    return like.tensor.with_shape((rows, *like.tensor.shape))


def _take(b: Builder, stacks: Group, row: Value) -> Group:
    return [b.gather(x, row, axis=0) for x in stacks]


def _put(b: Builder, stacks: Group, row: Value, values: Group) -> Group:
    return [b.index_set(x, row, v, axis=0) for x, v in zip(stacks, values, strict=True)]


def _entry(b: Builder, numbers: Sequence[int], at: Value) -> Value:
    result: Value = b.gather(b.dense(np.array(numbers, np.int32), I32), at, axis=0)
    return result


def _later(b: Builder, number: Value) -> Value:
    result: Value = b.add(number, b.full(1, _NUMBER))
    return result


def _earlier(b: Builder, number: Value) -> Value:
    result: Value = b.sub(number, b.full(1, _NUMBER))
    return result
