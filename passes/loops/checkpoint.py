"""Let loops keep few of the states that a gradient reads, where a budget of memory has no room for all of them.

The gradient of a loop goes back over the carried values that each turn had, so the loop keeps as many as there are
turns. With a budget it keeps as many as there is room for, and turns are run again from these, in the order that needs
the fewest runs: the attribute ``states`` of a loop tells `tapec.passes.loops.revolve` how many, which does it when the
gradient is written.

Where somebody else reads the states, a gradient of a gradient say, that is not possible. Then a loop of 10,000 turns is
cut into 100 parts of 100: a loop of loops. What goes back over the outer one keeps a state for each part and runs the
inner one again, which keeps those of its own turns: 200 at one time, and the body runs once more. Cut again, there are
fewer, and one more run (Griewank, 1992). Rows are reshaped, not moved; turns that are left over come behind, as a loop
of their own. Sums over turns, such as a weight's gradient, go through all parts, so numbers are added in the order of
one loop, and results are the same to the bit (`tapec.passes.loops.joining`).

How many states, or how deep, is found by trying: the most states, or the fewest cuts, that fit into the attribute
``memory_budget``; ``budget_bytes`` tells what that comes to. What `hoist` would keep, so that products of all turns are
one, has to fit as well: ``row_bytes`` tells it how much it may.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Value, clone_function
from tapec.ir.ops.control import Gradient
from tapec.ir.ops.regions import copied_into, emitted, new_region
from tapec.ir.ops.repetition import Loop
from tapec.passes import adjoint, canonicalize, commit, cse, dce, hoist, pairs, prune, rematerialize
from tapec.passes.loops import revolve
from tapec.passes.loops.reversal import longest, repetitions
from tapec.passes.memory.footprint import Footprint, footprint

#: Turns from which on a loop may keep less than all states, and from which on it is cut.
_SOME, _MANY = 3, 16
#: How often a loop is cut at most.
_DEEPEST = 4
#: How often a turn is run again at most to save a state: the fewest states would take as many runs as there are turns.
_MOST_RUNS = 64
#: Numbers of states that are tried where other values have to be computed again as well: that takes a second or so.
_TRIES = 4


def run(module: Module, options: object = None) -> bool:
    """Let the loops of every function that has a budget and asks for gradients take less."""
    changed = False
    for name, function in list(module.functions.items()):
        budget = function.attrs.get("memory_budget")
        asks = any(isinstance(op.defn, Gradient) for op in function.walk())
        if budget is not None and asks and any(isinstance(op.defn, Loop) for op in function.walk()):
            plain = footprint(_differentiated(function))
            most = rematerialize.limit(budget, plain)
            function.attrs["budget_bytes"] = most
            module.functions[name] = _within(function, most, plain)
            changed = True
    return changed


def _within(function: Function, most: int, plain: Footprint) -> Function:
    """The function, with as many states kept, or cut as little, as need be."""
    tries = _Tries(function, most, plain)
    if tries.fits(tries.plain()) or not tries.has_long or tries.by_states():
        return tries.best
    for depth in range(2, _DEEPEST + 1):
        if tries.fits(tries.cut(depth)):
            break
    return tries.best


class _Tries:
    """Tries how much loops have to be changed.

    Attributes:
        best: what takes least of all that was tried.
        has_long: whether any loop could keep fewer states, or be cut.
    """

    def __init__(self, function: Function, most: int, plain: Footprint) -> None:
        """``most`` bytes may be taken."""
        self._function, self._most = function, most
        self.best, self._least = function, plain.arena
        self._rooms: dict[int, int] = {}
        lengths = [op.attrs["length"] for op in function.walk() if _is_long(op)]
        self.has_long, self._longest = bool(lengths), max(lengths, default=0)

    def fits(self, copy: Function) -> bool:
        """Whether a copy takes no more than the budget; if not, it may be the best yet."""
        arena = footprint(_differentiated(copy)).arena
        if arena < self._least:
            self.best, self._least = copy, arena
        return arena <= self._most

    def plain(self) -> Function:
        """A copy whose loops keep states, but no rows for products."""
        copy = clone_function(self._function)
        copy.attrs["row_bytes"] = 0
        return copy

    def cut(self, depth: int) -> Function:
        """A copy whose loops are loops of loops, so many levels deep."""
        copy = self.plain()
        for number, op in enumerate(list(copy.block.ops)):
            if _is_long(op) and op.attrs["length"] >= _MANY:
                _cut(copy.block, op, depth, f"{number}")
        return copy

    def by_states(self) -> bool:
        """Keep as many states as there is room for; tell whether any number fits.

        If not, the ways of `tapec.passes.rematerialize` may make room beside them.
        """
        low, high = _fewest(self._longest), self._longest
        least, most = self._room(low), self._room(high)
        if least >= most:
            return False
        if least <= self._most:
            number = self._most_that_fit(low, high, least, most)
        elif self._may_have_room(low):
            number = self._most_beside_others(low, high)
        else:
            self.fits(self._with_states(low))
            return False
        self.best = self._with_states(number)
        return True

    def _most_that_fit(self, low: int, high: int, least: int, most: int) -> int:
        """The most states that have room: ``low`` have, and take ``least`` bytes; ``high`` take ``most``."""
        while high - low > 1:
            # What is taken grows evenly with their number, but for what other values have to take.
            part = (self._most - least) * (high - low) // (most - least)
            middle = min(max(low + part, low + 1), high - 1)
            room = self._room(middle)
            if room <= self._most:
                low, least = middle, room
            else:
                high, most = middle, room
        return low

    def _most_beside_others(self, low: int, high: int) -> int:
        """As many states as have room if other values are computed again; how many, is found in a few tries."""
        for _ in range(_TRIES):
            middle = round(math.sqrt(low * high))
            if not low < middle < high:
                break
            low, high = (middle, high) if self._may_have_room(middle) else (low, middle)
        return low

    def _with_states(self, number: int) -> Function:
        """A copy whose longest loop keeps so many states, and whose others do not run their turns more often."""
        copy = self.plain()
        runs = repetitions(self._longest, number - 1)
        for op in copy.walk():
            if _is_long(op):
                length = op.attrs["length"]
                share = math.ceil(number * (length / self._longest) ** (1 / max(runs, 1)))
                op.attrs["states"] = max(share, _fewest(length))
        return copy

    def _room(self, number: int) -> int:
        """The bytes taken if so many states are kept."""
        if number not in self._rooms:
            self._rooms[number] = footprint(_differentiated(self._with_states(number))).arena
        return self._rooms[number]

    def _may_have_room(self, number: int) -> bool:
        """Whether so many states fit if other values are computed again."""
        return rematerialize.fits(_differentiated(self._with_states(number)), self._most)


def _differentiated(function: Function) -> Function:
    """A copy of a function as it comes to `tapec.passes.rematerialize`."""
    copy = clone_function(function)
    module = Module([copy])
    adjoint.run(module)
    prune.run(module)
    commit.run(module)
    pairs.run(module)
    hoist.run(module)
    for simplify in (canonicalize, cse, dce):
        simplify.run(module)
    revolve.run(module)
    return module.entry


def _is_long(op: Operation) -> bool:
    """Whether an operation is a loop of many turns, all of which come."""
    if not isinstance(op.defn, Loop) or len(op.regions) > 1 or op.attrs.get("counted"):
        return False
    length = op.attrs["length"]
    return isinstance(length, int) and length >= _SOME


def _fewest(length: int) -> int:
    """The fewest states that a loop may keep."""
    return next(n for n in count(2) if longest(n - 1, _MOST_RUNS) >= length)


# ---- a loop of loops


def _cut(block: Block, op: Operation, depth: int, name: str) -> None:
    """Replace a loop by loops of loops, so many levels deep, which bear a ``name`` as parts of one."""
    assert isinstance(op.defn, Loop)
    _, carried, stacked, same = op.defn.parts(op)
    b = Builder(block, before=op)
    b.location = op.location
    op.replace(
        _Cut(op, same, name).write(b, op.attrs["length"], list(carried), list(stacked), same, depth)
    )


class _Cut:
    """Writes the turns of a loop in parts."""

    def __init__(self, op: Operation, same: Sequence[Value], name: str) -> None:
        self.name = name
        self.body = op.regions[0].block
        self.backwards = bool(op.attrs.get("reverse"))
        self.same_types = [v.type for v in same]

    def write(
        self,
        b: Builder,
        length: int,
        carried: list[Value],
        rows: list[Value],
        same: Sequence[Value],
        depth: int,
    ) -> list[Value]:
        """So many turns: what is carried at their end, then the rows that they make."""
        if depth == 1 or length < _MANY:
            return self._loop(b, length, carried, rows, same)
        inner = _turns_of_a_part(length, depth)
        parts, rest = divmod(length, inner)
        first = rest if self.backwards else 0
        blocks = [
            b.reshape(_part(b, x, first, parts * inner), shape=(parts, inner, *x.tensor.shape[1:]))
            for x in rows
        ]
        found = self._loop(b, parts, carried, blocks, same, inner, depth)
        state, made = found[: len(carried)], found[len(carried) :]
        made = [b.reshape(y, shape=(parts * inner, *y.tensor.shape[2:])) for y in made]
        if not rest:
            return [*state, *made]
        left = [_part(b, x, 0 if self.backwards else parts * inner, rest) for x in rows]
        found = self._loop(b, rest, state, left, same)
        state, more = found[: len(carried)], found[len(carried) :]
        ends = (more, made) if self.backwards else (made, more)
        return [*state, *(b.concat(x, y, axis=0) for x, y in zip(*ends, strict=True))]

    def _loop(
        self,
        b: Builder,
        length: int,
        carried: Sequence[Value],
        rows: Sequence[Value],
        same: Sequence[Value],
        within: int = 1,
        depth: int = 0,
    ) -> list[Value]:
        """A loop of the body, or of ``within`` turns of it at a time, cut ``depth - 1`` times."""
        count, end = len(carried), len(carried) + len(rows)
        types = [v.type for v in carried]
        types += [x.tensor.with_shape(x.tensor.shape[1:]) for x in rows]

        def write(inner: Builder, args: list[Value]) -> list[Value]:
            if not depth:
                return copied_into(inner, self.body, args)
            own, blocks, rest = args[:count], args[count:end], args[end:]
            return self.write(inner, within, own, blocks, rest, depth - 1)

        region = new_region([*types, *self.same_types], write)
        attrs = {"carried": count, "stacked": len(rows), "length": length, "part": self.name}
        attrs |= {"reverse": True} if self.backwards else {}
        return list(emitted(b, "loop", [*carried, *rows, *same], [region], **attrs))


def _turns_of_a_part(length: int, depth: int) -> int:
    """How many turns the inner loops have: all parts are alike, if there is such a number near the best one."""
    ideal = max(2, round(length ** ((depth - 1) / depth)))
    even = [n for n in range(max(2, ideal // 2), min(length, 2 * ideal) + 1) if length % n == 0]
    return min(even, key=lambda n: abs(n - ideal), default=ideal)


def _part(b: Builder, rows: Value, first: int, count: int) -> Value:
    """So many rows from one on."""
    shape = rows.tensor.shape
    if shape[0] == count:
        return rows
    none = (0,) * (len(shape) - 1)
    sizes, strides = (count, *shape[1:]), (1,) * len(shape)
    result: Value = b.slice(rows, starts=(first, *none), sizes=sizes, strides=strides)
    return result
