"""Buffers that live for a time, and plans that give each an offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple


class Buffer(NamedTuple):
    """Bytes that are needed for a time.

    Attributes:
        first: when they are needed first.
        last: the first moment when they are not needed any more.
        size: how many, in bytes.
    """

    first: int
    last: int
    size: int


@dataclass(frozen=True)
class Plan:
    """An offset for each buffer.

    Attributes:
        offsets: in bytes, in the order of the buffers.
        total: the bytes that all take together.
        bound: a number of bytes that no plan can stay below.
    """

    offsets: tuple[int, ...]
    total: int
    bound: int

    @property
    def is_optimal(self) -> bool:
        """Whether no plan takes less: proven by the bound."""
        return self.total == self.bound


def most_alive(buffers: Sequence[Buffer]) -> int:
    """The most bytes alive at one time: no plan takes less."""
    changes = [(b.last, -b.size) for b in buffers] + [(b.first, b.size) for b in buffers]
    # At one moment, what ends makes room for what begins: the negative changes come first.
    return max(accumulate(change for _, change in sorted(changes)), default=0)


def collisions(buffers: Sequence[Buffer], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of buffers that share a byte at some moment, by number; none in a valid plan.

    It compares every pair of those alive at each moment when one begins, and knows nothing of how plans are made.
    """
    found = []
    for i, one in enumerate(buffers):
        for k, other in enumerate(buffers):
            alive = other.first <= one.first < other.last and one.first < one.last
            if k == i or not alive or (other.first == one.first and k > i):
                continue
            if offsets[k] < offsets[i] + one.size and offsets[i] < offsets[k] + other.size:
                found.append((k, i))
    return found
