"""Which kernel runs when: each after what it reads, so that little memory is in use.

Of the kernels that can run, the one goes first that adds least to the memory in use: it frees more than it takes. So a
cotangent is consumed before the next is made, and an optimizer's update, which takes nothing, runs as soon as the last
kernel has read the old weight. Ties keep the order of the program. A greedy order may be worse than the program's own;
then that is kept.

What is computed again to save memory comes no earlier than the program has it.

A loop that may take long comes before updates that it does not depend on: once something was updated, a step cannot be
stopped any more (`tapec.passes.poll`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tapec.ir.core import Body, Function, Operation, Value
from tapec.ir.dims import typical
from tapec.ir.ops.regions import may_take_long
from tapec.passes.fusion.grouping import Group, sources

Item = Group | Operation

#: Kernels that are compared at each step; more of them are rarely ready, and then any order does.
_MOST_COMPARED = 32


def ordered(
    function: Function | Body,
    groups: Iterable[Group],
    outside: Iterable[Operation],
    position: Mapping[Operation, int],
    *,
    thrifty: bool = True,
) -> list[Item]:
    """The kernels, and the operations outside of them, in the order in which they run.

    Without ``thrifty``, that of the program as far as possible.
    """
    graph = _Graph(function, [*groups, *outside], position)
    plain = graph.sort(thrifty=False)
    saving = graph.sort(thrifty=True) if thrifty else plain
    return saving if graph.peak(saving) <= graph.peak(plain) else plain


class _Graph:
    """What depends on what, and how large it is."""

    def __init__(
        self, function: Function | Body, items: list[Item], position: Mapping[Operation, int]
    ) -> None:
        self.reads = {item: sources(item) for item in items}
        self.writes = {item: _writes(item) for item in items}
        maker = {v: item for item in items for v in self.writes[item]}
        #: The values in whose memory others are.
        self.home: dict[Value, Value] = {}
        for item in items:
            if isinstance(item, Operation) and not item.regions:
                for result in item.results:
                    self.home[result] = item.operands[0]
        self.before: dict[Item, set[Item]] = {
            item: {maker[v] for v in self.reads[item] if v in maker} for item in items
        }
        self.readers: dict[Value, set[Item]] = {}
        for item in items:
            for value in self.reads[item]:
                self.readers.setdefault(self._root(value), set()).add(item)
        self._update_last(function, maker)
        returned = function.block.terminator.operands
        #: Memory that is there all the time.
        self.fixed = {self._root(v) for v in (*function.args, *returned)}
        self.items = sorted(items, key=lambda item: _key(item, position))
        self._repeat_late()

    def _root(self, value: Value) -> Value:
        while value in self.home:
            value = self.home[value]
        return value

    def _update_last(self, function: Function | Body, maker: Mapping[Value, Item]) -> None:
        """Let what replaces an argument come after all that read it, unless they depend on it."""
        returned = function.block.terminator.operands
        after: dict[Item, set[Item]] = {item: set() for item in self.before}
        for item, earlier in self.before.items():
            for other in earlier:
                after[other].add(item)
        long = [item for item in self.before if isinstance(item, Operation) and may_take_long(item)]
        for result, argument in function.updates.items():
            writer = maker.get(self._root(returned[result]))
            old = function.args[argument]
            if writer is None:
                continue
            if writer not in long:
                self._put_before(writer, long, after)
            self._put_before(writer, self.readers.get(old, ()), after)

    def _repeat_late(self) -> None:
        """Let what is computed again come after what the program has in front of it, or it is there too early."""
        if not any(map(_is_repeated, self.items)):
            return
        after: dict[Item, set[Item]] = {item: set() for item in self.items}
        for item, earlier in self.before.items():
            for other in earlier:
                after[other].add(item)
        last: Item | None = None
        for item in self.items:
            if not _is_repeated(item):
                last = item
            elif last is not None:
                self._put_before(item, [last], after)

    def _put_before(
        self, writer: Item, items: Iterable[Item], after: Mapping[Item, set[Item]]
    ) -> None:
        """Let an item come after others, unless they depend on it."""
        later = _reachable(writer, after)
        for item in items:
            if item not in later:
                self.before[writer].add(item)
                after[item].add(writer)

    def sort(self, *, thrifty: bool) -> list[Item]:
        """An order; the program's own as far as possible, or one that saves memory."""
        missing = {item: len(self.before[item]) for item in self.items}
        after: dict[Item, list[Item]] = {item: [] for item in self.items}
        for item in self.items:
            for other in self.before[item]:
                after[other].append(item)
        number = {item: n for n, item in enumerate(self.items)}
        ready = [item for item in self.items if not missing[item]]
        left = {value: len(items) for value, items in self.readers.items()}
        order: list[Item] = []
        while ready:
            some = ready[:_MOST_COMPARED] if thrifty else ready[:1]
            item = min(some, key=lambda item: (self._growth(item, left), number[item]))
            ready.remove(item)
            order.append(item)
            for value in {self._root(v) for v in self.reads[item]}:
                left[value] -= 1
            for later in after[item]:
                missing[later] -= 1
                if not missing[later]:
                    ready.append(later)
            ready.sort(key=number.__getitem__)
        assert len(order) == len(self.items), "kernels depend on each other in a circle"
        return order

    def _growth(self, item: Item, left: Mapping[Value, int]) -> int:
        """Bytes that are in use after an item and were not before it."""
        made = sum(_bytes(v) for v in self.writes[item] if self._counts(v))
        read = {self._root(v) for v in self.reads[item]}
        return made - sum(_bytes(v) for v in read if left[v] == 1 and self._counts(v))

    def _counts(self, value: Value) -> bool:
        """Whether a value takes memory of its own for a time."""
        return value not in self.home and value not in self.fixed

    def peak(self, order: list[Item]) -> int:
        """The most bytes in use at one time."""
        left = {value: len(items) for value, items in self.readers.items()}
        used = most = 0
        for item in order:
            used += sum(_bytes(v) for v in self.writes[item] if self._counts(v))
            most = max(most, used)
            for value in {self._root(v) for v in self.reads[item]}:
                left[value] -= 1
                if not left[value] and self._counts(value):
                    used -= _bytes(value)
        return most


def _is_repeated(item: Item) -> bool:
    """Whether all that an item does is done for the second time (`tapec.passes.memory.recomputation`)."""
    ops = [item] if isinstance(item, Operation) else item.ops
    return any("recompute" in op.attrs for op in ops) and all(
        "recompute" in op.attrs or not op.operands for op in ops
    )


def _writes(item: Item) -> list[Value]:
    return list(item.results) if isinstance(item, Operation) else item.outputs


def _key(item: Item, position: Mapping[Operation, int]) -> int:
    """Where the program has an item: a kernel is where its last operation is."""
    ops = [item] if isinstance(item, Operation) else item.ops
    return max(position[op] for op in ops)


def _bytes(value: Value) -> int:
    """Size of a value, to reckon with."""
    return typical(value.tensor.bytes)


def _reachable(start: Item, after: Mapping[Item, set[Item]]) -> set[Item]:
    """An item and what depends on it."""
    seen = {start}
    stack = [start]
    while stack:
        for item in after[stack.pop()]:
            if item not in seen:
                seen.add(item)
                stack.append(item)
    return seen
