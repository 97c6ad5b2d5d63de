"""Plans in one go: buffers in some order, each at the lowest place that is free while it lives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from time import monotonic

from tapec.passes.memory.arena.buffers import Buffer, Plan, most_alive
from tapec.passes.memory.arena.occupied import Occupied, lowest_gap

#: What comes first: large ones, large ones that live long, long-lived ones, early ones.
_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (-b.size * (b.last - b.first), b.first),
    lambda b: (b.first - b.last, -b.size, b.first),
    lambda b: (b.first, -b.size),
)

#: Of how many others that live while one does, on average, a tree of moments is faster than a list of them.
_CROWD = 256


def first_fit(
    buffers: Sequence[Buffer], tries: int = 0, slack: int = 0, seconds: float = inf
) -> Plan:
    """The best plan of a few orders, always the same unless the time is up.

    Args:
        buffers: what to place.
        tries: how many more orders to try for each of the usual ones, if these waste any bytes. Each brings forward
            what stuck out of the last plan, as in Joslin and Clements, Squeaky Wheel Optimization (1999).
        slack: the thousandths of the bound that a plan may waste without that more is tried.
        seconds: how long to try orders, of which the first is tried in any case.
    """
    end = monotonic() + seconds
    in_order: Callable[[Sequence[Buffer], Sequence[int]], list[int]]
    in_order = _in_crowd if _is_crowd(buffers) else partial(_in_order, _beside(buffers))
    best = Plan((), 0, most_alive(buffers))
    for key in _ORDERS:
        order = sorted(range(len(buffers)), key=lambda i, key=key: key(buffers[i]))  # type: ignore[misc]
        for _ in range(1 + tries):
            offsets = in_order(buffers, order)
            tops = [offset + b.size for offset, b in zip(offsets, buffers, strict=True)]
            total = max(tops, default=0)
            if not best.offsets or total < best.total:
                best = Plan(tuple(offsets), total, best.bound)
            # In integers: there are bytes that no float counts.
            is_enough = 1000 * (best.total - best.bound) <= slack * best.bound
            if is_enough or monotonic() > end:
                return best
            order = _forward(order, [top > best.bound for top in tops])
    return best


def _forward(order: Sequence[int], sticks_out: Sequence[bool]) -> list[int]:
    """An order in which what stuck out comes a third earlier."""
    places = {
        number: (place * 2 // 3 - 0.5 if sticks_out[number] else place)
        for place, number in enumerate(order)
    }
    return sorted(order, key=places.__getitem__)


def _beside(buffers: Sequence[Buffer]) -> list[list[int]]:
    """For each buffer those that live at some moment when it does, by number."""
    found: list[list[int]] = [[] for _ in buffers]
    alive: list[int] = []
    for number in sorted(range(len(buffers)), key=lambda i: buffers[i].first):
        first = buffers[number].first
        alive = [k for k in alive if buffers[k].last > first]
        for k in alive:
            found[k].append(number)
        found[number] += alive
        alive.append(number)
    return found


def _in_order(
    beside: Sequence[Sequence[int]], buffers: Sequence[Buffer], order: Sequence[int]
) -> list[int]:
    """Put each at the lowest place that is free while it lives."""
    offsets, ends = [-1] * len(buffers), [0] * len(buffers)
    for number in order:
        size = buffers[number].size
        taken = sorted([(offsets[k], ends[k]) for k in beside[number] if offsets[k] >= 0])
        offsets[number] = offset = lowest_gap(taken, size)
        ends[number] = offset + size
    return offsets


def _is_crowd(buffers: Sequence[Buffer]) -> bool:
    """Whether many live at the same time, and each at some."""
    ends = sorted(b.last for b in buffers)
    begun = enumerate(sorted(b.first for b in buffers))
    pairs = sum(number - bisect_right(ends, first) for number, first in begun)
    return pairs > _CROWD * len(buffers) and all(b.first < b.last for b in buffers)


def _in_crowd(buffers: Sequence[Buffer], order: Sequence[int]) -> list[int]:
    """The same as `_in_order`, where lists of those that live at the same time would be long."""
    occupied = Occupied(moment for b in buffers for moment in b[:2])
    offsets = [0] * len(buffers)
    for number in order:
        first, last, size = buffers[number]
        offsets[number] = offset = occupied.lowest(first, last, size)
        occupied.add(first, last, offset, offset + size)
    return offsets
