"""Let what a gradient reads be computed again, right before it is read.

A program falls into what runs until most memory is in use, the forward part, and what runs after that, the way back.
What the way back reads of the forward part is kept, or computed again from what is kept:

* `repeat_cheap` runs operations of some kinds again. What is kept then is a minimum cut (`tapec.passes.memory.cut`).
* `repeat_steps` cuts the forward part into steps, at products and the like, where little goes from one to the next; it
  keeps as many states between steps as it is told to, and runs the others again (`tapec.passes.loops.reversal`).

Operations that run again have the mark ``recompute``, so that nobody merges them with the first ones; its number says
in which order: with the first number comes what the way back needs first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from tapec.ir.core import Function, Operation, Value, clone_operation
from tapec.ir.dims import typical
from tapec.passes.loops.reversal import state_to_keep
from tapec.passes.memory.cut import least_kept
from tapec.passes.memory.footprint import Footprint, producers
from tapec.passes.memory.ownership import stored

#: Bytes below which a value is kept in any case.
SMALL = 512
#: Steps at most.
_MOST_STEPS = 64
#: How much larger a state may be than the least one of those near it.
_ROOM, _NEAR = 1.25, 3


def is_repeatable(op: Operation) -> bool:
    """Whether an operation may run again: it has no effect and no region, and nobody asked to keep what it makes.

    Random numbers are functions of keys, so they come out the same.
    """
    plain = op.defn.pure and not op.regions and not op.defn.terminator
    return plain and "keep" not in op.attrs


def is_cheap(op: Operation) -> bool:
    """Whether an operation computes each element from few others."""
    return is_repeatable(op) and op.defn.form == "index" and not op.defn.loops


def is_no_product(op: Operation) -> bool:
    """Whether an operation is neither a contraction nor anything with loops of its own but sums."""
    return is_repeatable(op) and op.defn.form == "index"


class Parts:
    """A function's forward part, and what the way back reads of it."""

    def __init__(self, function: Function, peak: Footprint) -> None:
        """``peak`` is of this function, whose forward part is put in front of the rest."""
        self.function = function
        self.forward = producers(peak.before)
        function.block.ops.sort(key=lambda op: op not in self.forward)
        self.position = {op: i for i, op in enumerate(function.block.ops)}
        #: What the way back reads, in program order.
        self.needed = [
            value
            for op in function.block.ops
            if op in self.forward
            for value in op.results
            if typical(value.tensor.bytes) > SMALL
            and any(self.readers(value))
            and not _is_constant(value)
        ]

    def readers(self, value: Value) -> Iterable[Operation]:
        """The operations of the way back that read a value, in program order."""
        found = [op for op in value.users if op not in self.forward and not op.defn.terminator]
        return sorted(found, key=self.position.__getitem__)


def _is_constant(value: Value) -> bool:
    """Whether a value is made of constants by cheap operations: it is computed wherever it is read."""
    op = value.op
    return op is not None and op.defn.cheap and all(map(_is_constant, op.operands))


class Writer:
    """Writes operations again, in front of some that are there."""

    def __init__(self, function: Function) -> None:
        """Write into a function."""
        self.block = function.block
        self.flops = 0

    def repeat(
        self,
        wanted: Iterable[Value],
        known: dict[Value, Value],
        before: Operation,
        number: int,
        may: Callable[[Operation], bool] = is_repeatable,
    ) -> None:
        """Compute values again from those in ``known``, to which they are added; what may not run again stays."""
        for value in wanted:
            self._write(value, known, before, number, may)

    def _write(
        self,
        value: Value,
        known: dict[Value, Value],
        before: Operation,
        number: int,
        may: Callable[[Operation], bool],
    ) -> None:
        stack = [value]
        while stack:
            last = stack[-1]
            op = last.op
            if last in known or op is None or not may(op):
                known.setdefault(last, last)
                stack.pop()
                continue
            missing = [v for v in op.operands if v not in known and v.op is not None]
            if missing:
                stack += missing
                continue
            stack.pop()
            copy = clone_operation(op, dict(known))
            copy.attrs["recompute"] = number
            self.block.insert_before(before, copy)
            known.update(zip(op.results, copy.results, strict=True))
            self.flops += typical(op.defn.flops(op))


def repeat_cheap(parts: Parts, may: Callable[[Operation], bool]) -> int:
    """Run operations again that ``may``; return the arithmetic that this costs."""
    kept = least_kept(parts.needed, may)
    writer = Writer(parts.function)
    todo = [v for v in parts.needed if v not in kept and v.op is not None and may(v.op)]
    first = {v: next(iter(parts.readers(v))) for v in todo}
    todo.sort(key=lambda v: parts.position[first[v]])
    known: dict[Value, Value] = {v: v for v in kept}
    for number, value in enumerate(todo, 1):
        readers = list(parts.readers(value))
        writer.repeat([value], known, first[value], number, may)
        for reader in readers:
            _read_instead(reader, value, known[value])
    return writer.flops


def _read_instead(reader: Operation, old: Value, new: Value) -> None:
    reader.set_operands([new if v is old else v for v in reader.operands])


# ---- steps


@dataclass
class Step:
    """Operations of the forward part, and the state behind them: what later steps read of what there is by then."""

    ops: list[Operation] = field(default_factory=list)
    state: list[Value] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The size of the state."""
        return sum(typical(v.tensor.bytes) for v in self.state)


def steps_of(parts: Parts) -> list[Step]:
    """The steps of the forward part, cut where the state is small, compared with others near by."""
    steps: list[Step] = []
    for op in parts.function.block.ops:
        if op not in parts.forward:
            continue
        if not steps or op.defn.form != "index":
            steps.append(Step())
        steps[-1].ops.append(op)
    _find_states(parts, steps)
    sizes = [step.bytes for step in steps]
    small = [i for i, size in enumerate(sizes) if size and _is_small(sizes, i)]
    small = small[:: -(-len(small) // _MOST_STEPS) or 1]
    joined = [Step()]
    for i, step in enumerate(steps):
        joined[-1].ops += step.ops
        joined[-1].state = step.state
        if i in small:
            joined.append(Step())
    return [step for step in joined if step.ops]


def _is_small(sizes: list[int], at: int) -> bool:
    """Whether a state is no larger than those in front of it, or than those behind it; empty ones do not count."""
    sides = (sizes[max(0, at - _NEAR) : at + 1], sizes[at : at + _NEAR + 1])
    return any(sizes[at] <= _ROOM * min(size for size in side if size) for side in sides)


def _find_states(parts: Parts, steps: list[Step]) -> None:
    number = {op: i for i, step in enumerate(steps) for op in step.ops}
    for i, step in enumerate(steps):
        for op in step.ops:
            for value in op.results:
                last = max((number[u] for u in value.users if u in number), default=i)
                if not op.operands or typical(value.tensor.bytes) <= SMALL:
                    continue
                for later in steps[i:last]:
                    later.state.append(value)


def repeat_steps(parts: Parts, steps: list[Step], slots: int) -> int:
    """Keep so many states beside arguments, and run steps again from these; return the arithmetic that this costs."""
    reversal = _Reversal(parts, steps)
    reversal.reverse(0, len(steps), slots, {}, original=True)
    return reversal.writer.flops


class _Reversal:
    """Goes back through the steps, the last one first."""

    def __init__(self, parts: Parts, steps: list[Step]) -> None:
        self.parts, self.steps = parts, steps
        self.writer = Writer(parts.function)
        made = {v: i for i, step in enumerate(steps, 1) for op in step.ops for v in op.results}
        #: What each step's part of the way back reads: pairs of reader and value.
        self.reads: list[list[tuple[Operation, Value]]] = [[] for _ in range(len(steps) + 1)]
        readers: dict[Operation, list[Value]] = {}
        for value in parts.needed:
            for reader in parts.readers(value):
                readers.setdefault(reader, []).append(value)
        for reader, values in readers.items():
            number = max(self._step(v, made[v]) for v in values)
            for value in values:
                # A value of long ago, which is no part of the state there, waits for its own step.
                there = made[value] == number or value in self._state(number - 1)
                own = number if there else self._step(value, made[value])
                self.reads[own].append((reader, value))
        self.places = self._places()

    def _state(self, number: int) -> list[Value]:
        """The state behind step ``number``."""
        return self.steps[number - 1].state if number else []

    def _step(self, value: Value, made: int) -> int:
        """The step whose part of the way back has a value at hand: that which makes it, or which takes it up."""
        return made + (value in self._state(made) and made < len(self.steps))

    def _places(self) -> list[Operation | None]:
        """For each step, in front of which operation it runs again: before its readers, and those of earlier steps.

        There, as little as possible is in memory of what the way back has made, but behind what later steps read.
        """
        found: list[Operation | None] = [None] * len(self.reads)
        position = self.parts.position
        firsts = [
            min((position[r] for r, _ in reads), default=len(position)) for reads in self.reads
        ]
        alive = self._alive()
        ops = self.parts.function.block.ops
        behind = len(self.parts.forward) - 1
        for number in reversed(range(len(firsts))):
            first = min(firsts[: number + 1])
            if first < len(ops):
                place = min(
                    range(min(behind + 1, first), first + 1), key=lambda at: (alive[at], -at)
                )
                found[number] = ops[place]
                behind = first if self.reads[number] else behind
            last = {value: 0 for _, value in self.reads[number]}
            for reader, value in self.reads[number]:
                last[value] = max(last[value], position[reader])
            for value, end in last.items():
                for at in range(behind + 1, end + 1):
                    alive[at] += typical(value.tensor.bytes)
        return found

    def _alive(self) -> list[int]:
        """In front of each operation, the bytes of what the way back has made and still reads."""
        ops, position = self.parts.function.block.ops, self.parts.position
        returned = {stored(v) for v in ops[-1].operands}
        changes = [0] * (len(ops) + 1)
        for op in ops:
            for value in op.results if op not in self.parts.forward else ():
                if stored(value) in returned:
                    continue
                last = max((position[u] for u in value.users), default=position[op])
                changes[position[op] + 1] += typical(value.tensor.bytes)
                changes[last + 1] -= typical(value.tensor.bytes)
        return list(accumulate(changes))

    def reverse(
        self, first: int, last: int, slots: int, known: dict[Value, Value], *, original: bool
    ) -> None:
        """Go back through the steps behind state ``first``, whose values are ``known``, up to ``last``.

        ``original``: they run for the first time.
        """
        if last - first <= 1:
            if last > first:
                self._back(last, known, original=original)
        elif slots:
            kept = first + state_to_keep(last - first, slots)
            state = self._advance(first, kept, known, last, original=original)
            self.reverse(kept, last, slots - 1, state, original=original)
            self.reverse(first, kept, slots, known, original=False)
        else:
            for number in range(last, first, -1):
                state = self._advance(first, number - 1, known, number, original=original)
                self._back(number, state, original=original)
                original = False

    def _advance(
        self,
        first: int,
        last: int,
        known: dict[Value, Value],
        wanted: int,
        *,
        original: bool,
    ) -> dict[Value, Value]:
        """The state behind step ``last``, from that behind step ``first``, for going back through step ``wanted``."""
        if original:
            return {v: v for v in self._state(last)}
        found = dict(known)
        before = self.places[wanted]
        if before is not None and last > first:
            self.writer.repeat(self._state(last), found, before, self._number(wanted))
        return {v: found.get(v, v) for v in self._state(last)}

    def _back(self, number: int, known: dict[Value, Value], *, original: bool) -> None:
        """Let what belongs to a step on the way back read what is computed again."""
        before = self.places[number]
        if original or before is None:
            return
        found = dict(known)
        values = dict.fromkeys(value for _, value in self.reads[number])
        self.writer.repeat(values, found, before, self._number(number))
        for reader, value in self.reads[number]:
            _read_instead(reader, value, found[value])

    def _number(self, step: int) -> int:
        return len(self.steps) - step + 1
