"""Plans in one go: buffers in some order, each at the lowest place that is free while it lives."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

from tapec.passes.arena.buffers import Buffer, Plan, most_alive

#: What comes first: large ones, large ones that live long, long-lived ones, early ones.
_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (-b.size * (b.last - b.first), b.first),
    lambda b: (b.first - b.last, -b.size, b.first),
    lambda b: (b.first, -b.size),
)


def first_fit(buffers: Sequence[Buffer], tries: int = 0, slack: float = 0.0) -> Plan:
    """The best plan of a few orders, always the same.

    Args:
        buffers: what to place.
        tries: how many more orders to try for each of the usual ones, if these waste any bytes. Each brings forward
            what stuck out of the last plan, as in Joslin and Clements, Squeaky Wheel Optimization (1999).
        slack: the share of the bound that a plan may waste without that more is tried.
    """
    best = Plan((), 0, most_alive(buffers))
    for key in _ORDERS:
        order = sorted(range(len(buffers)), key=lambda i, key=key: key(buffers[i]))  # type: ignore[misc]
        for _ in range(1 + tries):
            offsets = _in_order(buffers, order)
            ends = [offset + b.size for offset, b in zip(offsets, buffers, strict=True)]
            total = max(ends, default=0)
            if not best.offsets or total < best.total:
                best = Plan(tuple(offsets), total, best.bound)
            if best.total <= best.bound * (1 + slack):
                return best
            order = _forward(order, [end > best.bound for end in ends])
    return best


def _forward(order: Sequence[int], sticks_out: Sequence[bool]) -> list[int]:
    """An order in which what stuck out comes a third earlier."""
    places = {
        number: (place * 2 // 3 - 0.5 if sticks_out[number] else place)
        for place, number in enumerate(order)
    }
    return sorted(order, key=places.__getitem__)


def _in_order(buffers: Sequence[Buffer], order: Sequence[int]) -> list[int]:
    """Put each at the lowest place that is free while it lives."""
    placed: list[tuple[int, int]] = []  # offset and number, by offset
    offsets = [0] * len(buffers)
    for number in order:
        first, last, size = buffers[number]
        offset = 0
        for start, k in placed:
            other = buffers[k]
            if other.last <= first or last <= other.first:
                continue
            if offset + size <= start:
                break
            offset = max(offset, start + other.size)
        insort(placed, (offset, number))
        offsets[number] = offset
    return offsets
