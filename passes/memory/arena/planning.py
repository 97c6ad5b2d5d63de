"""The best plan that can be found in a given time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from math import gcd
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from tapec.passes.memory.arena.buffers import Buffer, Plan
from tapec.passes.memory.arena.first_fit import first_fit

if TYPE_CHECKING:
    from tapec.passes.memory.arena.search import Floats

#: Of a turn of the search: branches for each buffer, the weight of blame, what is left of it after, and noise.
_BRANCHES, _WEIGHT, _MEMORY, _NOISE = 2.5, 0.3, 0.9, 0.02
#: Of so many turns at first: a buffer has one branch if nothing is tried twice.
_EARLY, _EARLY_BRANCHES = 24, 1.3

#: Buffers that are searched at most.
_MOST = 2048


def best_plan(
    buffers: Sequence[Buffer],
    *,
    seconds: float,
    capacity: int | None = None,
    tell: Callable[[str], object] = lambda text: None,
) -> Plan:
    """First fit, and where that wastes any bytes, a search.

    The search starts again and again with other orders, of which those that failed have shown what to place first;
    it looks for the bound itself in half of the turns, and for something between in the others.

    Args:
        buffers: what to place.
        seconds: how long to search, once there is machine code for it.
        capacity: bytes that are enough; by default as few as possible.
        tell: called with a text if something has to be done first that takes long.

    Returns:
        The best plan found. Its bound is higher than what is alive at one time, if less was proven not to be enough.
    """
    start = monotonic()
    best = first_fit(buffers, tries=10, seconds=seconds / 10)
    if _is_enough(best, capacity) or not _is_searchable(buffers):
        return best
    # Numba is loaded, and compiles the search, only where there is something to search for. Neither is searching.
    before = monotonic()
    from tapec.passes.memory.arena import search

    search.load(tell)
    start += monotonic() - before
    problem = search.Problem(buffers)
    step = gcd(*(b.size for b in buffers))
    few, branches = (int(a * len(buffers)) for a in (_EARLY_BRANCHES, _BRANCHES))
    for turn, (priorities, blame) in enumerate(_orders(problem.features)):
        if monotonic() - start > seconds:
            break
        target = _target(best, capacity, step, turn)
        # Many orders first, where each plan found lowers what the next must do with, but not where it is given; more
        # branches in later turns, so that a small problem is decided in the end.
        early = capacity is None and 0 < turn < _EARLY
        limit = max(100, few) if early else max(1000, branches) * (1 + turn // 100)
        result, offsets = problem.within(target, priorities, limit, blame)
        if result == search.FOUND:
            total = int(max(o + b.size for o, b in zip(offsets, buffers, strict=True)))
            best = Plan(tuple(map(int, offsets)), total, best.bound)
        elif result == search.NONE:
            # Offsets are sums of sizes: the next total that is possible is a step higher.
            higher = (target // step + 1) * step
            best = Plan(best.offsets, best.total, max(best.bound, higher))
        if _is_enough(best, capacity) or (capacity is not None and best.bound > capacity):
            break
    return best


def _is_searchable(buffers: Sequence[Buffer]) -> bool:
    """Whether the search, which takes room in the square of their number, can count so many bytes and moments."""
    sizes, moments = sum(b.size for b in buffers), [t for b in buffers for t in b[:2]]
    return len(buffers) <= _MOST and max(sizes, max(moments) - min(moments)) < 1 << 60


def _is_enough(plan: Plan, capacity: int | None) -> bool:
    return plan.is_optimal or (capacity is not None and plan.total <= capacity)


def _target(best: Plan, capacity: int | None, step: int, turn: int) -> int:
    """What to try next."""
    if capacity is not None:
        return capacity
    share = (0, 1 / 2, 0, 1 / 4, 0, 3 / 4, 0, 15 / 16)[turn % 8]
    room = max(0, best.total - step - best.bound) // step
    return best.bound + int(room * share) * step


def _orders(features: Floats) -> Iterator[tuple[Floats, Floats]]:
    """What to place first, and whom to blame: a few ways to look at buffers, each learning from its own failures."""
    alive, time, sections, size = features - features.mean(axis=1, keepdims=True)
    crowded = 1000 * alive  # what lives where most is alive comes first of all
    looks = (
        crowded + time,
        crowded + sections,
        time,
        sections,
        sections + size,
        time + size,
        crowded + time + size,
    )
    chance = np.random.default_rng(0)
    blames = [np.zeros(len(size)) for _ in looks]
    for scale in chain([0.0], repeat(_NOISE)):
        for look, blame in zip(looks, blames, strict=True):
            noise = scale * chance.standard_normal(len(size))
            yield look + _WEIGHT * np.log1p(blame) + noise, blame
            blame *= _MEMORY
