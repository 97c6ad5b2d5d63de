"""Bytes that are taken at some time, and the lowest ones that are free for a while: for plans of many buffers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


def lowest_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """The lowest place for so many bytes between parts, from their first byte to behind their last, in order."""
    offset = 0
    for start, end in taken:
        if offset + size <= start:
            break
        if end > offset:
            offset = end
    return offset


class Occupied:
    """A tree over the moments when something begins or ends: what to look at grows with the logarithm of their number.

    Each node stands for a part of the time, and knows the bytes taken for all of it, and those taken at any moment of
    it. Parts of memory that touch each other are one, so that nodes know few.
    """

    def __init__(self, moments: Iterable[int]) -> None:
        self._number = {moment: i for i, moment in enumerate(sorted(set(moments)))}
        self._leaves = len(self._number)
        #: By node, first bytes and ends in turn, in order.
        self._always: list[list[int]] = [[] for _ in range(2 * self._leaves)]
        self._ever: list[list[int]] = [[] for _ in range(2 * self._leaves)]

    def lowest(self, first: int, last: int, size: int) -> int:
        """The lowest place that is free from one moment until another, which comes later."""
        around, parts = self._nodes(first, last)
        found = [self._always[node] for node in around] + [self._ever[node] for node in parts]
        return lowest_gap(sorted(pair for taken in found for pair in _pairs(taken)), size)

    def add(self, first: int, last: int, start: int, end: int) -> None:
        """Take bytes from one moment until another, which comes later."""
        around, parts = self._nodes(first, last)
        for node in parts:
            _add(self._always[node], start, end)
        for node in around.union(parts):
            _add(self._ever[node], start, end)

    def _nodes(self, first: int, last: int) -> tuple[set[int], list[int]]:
        """Those around the first and the last moment of a time, and those that it is made of."""
        low, high = self._number[first] + self._leaves, self._number[last] + self._leaves
        around, parts = set(), []
        for node in (low, high - 1):
            while node:
                around.add(node)
                node >>= 1
        while low < high:
            if low & 1:
                parts.append(low)
                low += 1
            if high & 1:
                high -= 1
                parts.append(high)
            low, high = low >> 1, high >> 1
        return around, parts


def _pairs(taken: list[int]) -> Iterator[tuple[int, int]]:
    return zip(taken[::2], taken[1::2], strict=True)


def _add(taken: list[int], start: int, end: int) -> None:
    """Add a part; what it touches becomes one with it."""
    left, right = bisect_left(taken, start), bisect_right(taken, end)
    taken[left:right] = [start] * (left % 2 == 0) + [end] * (right % 2 == 0)
