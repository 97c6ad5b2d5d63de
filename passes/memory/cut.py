"""The fewest bytes to keep, so that everything that is needed can be computed from them again: a minimum cut.

Values are edges that can be cut for their bytes; what is computed from what is edges that cannot. The source is behind
what cannot be computed again, the sink behind what is needed. Arguments are always there and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import pairwise

from tapec.ir.core import Operation, Value
from tapec.ir.dims import typical

#: Where ways begin and end, and more than can go along any.
_FIRST, _LAST, _ANY = 0, 1, 1 << 62


def least_kept(needed: Iterable[Value], can_repeat: Callable[[Operation], bool]) -> set[Value]:
    """The values to keep.

    Args:
        needed: what has to be there, or to be computable from what is kept and from arguments.
        can_repeat: whether an operation may run again.
    """
    import networkx  # heavy: most programs keep what they have, and are not looked at

    graph = networkx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    stack = [v for v in needed if v.op is not None]
    for value in stack:
        graph.add_edge((value, "out"), "sink")
    seen = set(stack)
    while stack:
        value = stack.pop()
        op = value.op
        assert op is not None
        graph.add_edge((value, "in"), (value, "out"), capacity=typical(value.tensor.bytes))
        if not can_repeat(op):
            graph.add_edge("source", (value, "in"))
            continue
        for operand in op.operands:
            if operand.op is None:
                continue
            graph.add_edge((operand, "out"), (value, "in"))
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    _, (near, _) = networkx.minimum_cut(graph, "source", "sink")
    return {v for v in seen if (v, "in") in near and (v, "out") not in near}


def least_between(
    first: Iterable[Value],
    following: Callable[[Value], Collection[Value] | None],
    bytes: Callable[[Value], int],
) -> int:
    """The fewest bytes of values without which no way leads from the first ones to an end.

    By ways along which more can flow (Edmonds and Karp): graphs are small here, and there are thousands.

    Args:
        first: values, each of which a way may begin with.
        following: the values that come next to one; None at an end.
        bytes: what a value takes.
    """
    number: dict[Value, int] = {}
    room: list[dict[int, int]] = [{}, {}]
    stack = []

    def enter(value: Value) -> int:
        """Where ways come to a value, behind which they leave it."""
        if value not in number:
            number[value] = len(room)
            room.extend(({len(room) + 1: bytes(value)}, {}))
            stack.append(value)
        return number[value]

    for value in first:
        room[_FIRST][enter(value)] = _ANY
    while stack:
        value = stack.pop()
        behind, others = number[value] + 1, following(value)
        for place in [_LAST] if others is None else list(map(enter, others)):
            room[behind][place] = _ANY
    return _most(room)


def _most(room: list[dict[int, int]]) -> int:
    """The most that can flow from the first place to the last; ``room`` has what can go from one to another."""
    total = 0
    while (way := _way(room)) is not None:
        size = min(room[a][b] for a, b in pairwise(way))
        for a, b in pairwise(way):
            room[a][b] -= size
            room[b][a] = room[b].get(a, 0) + size
        total += size
    return total


def _way(room: list[dict[int, int]]) -> list[int] | None:
    """A way from the first place to the last with the fewest places between."""
    came: dict[int, int] = {_FIRST: _FIRST}
    places = [_FIRST]
    for place in places:
        for other, size in room[place].items():
            if size and other not in came:
                came[other] = place
                if other == _LAST:
                    way = [_LAST]
                    while way[-1] != _FIRST:
                        way.append(came[way[-1]])
                    return way[::-1]
                places.append(other)
    return None
