"""A search for plans that stay within a capacity, by branch and bound.

Buffers are placed from below: each one at the lowest place above those that were placed before it and live at the
same time, and none lower than the one before it, so that every arrangement is met once. A branch is cut

- where the buffers still to be placed at some moment do not fit above the lowest place that one of them can take;
- where a buffer that should have been placed lower by now has no other beside it that could lift it;
- where another buffer would fit below the one that is placed (it could as well be there);
- and after a placement that is in nobody's way: if that fails, so does everything else.

What is left falls apart into groups that share no moment, and each is solved by itself. The ideas of canonical
solutions, of bounds by sections of time and of groups are from Moffitt, MiniMalloc (ASPLOS 2023).

Compiled by Numba when it is first called; `load` does so, and the machine code is kept by Numba's cache. So that this
takes little time, loops stand where arrays as wholes could, and nothing is allocated inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numba.core.event import Listener, install_listener

from tapec.passes.memory.arena.buffers import Buffer

F = TypeVar("F", bound=Callable[..., Any])

FOUND, NONE, STOPPED = 1, 0, 2
_NEVER = 1 << 62

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# What a frame of the search knows, by column: its group is order[LO:HI], what was placed before it, the number of its
# candidates and of the one that is placed, how far to undo that, whether it is in nobody's way; the number of groups
# that are left then, and which is in work.
_LO, _HI, _ABOVE, _FOUND, _TRIED, _MARK, _FREE, _GROUPS, _GROUP = range(9)


class _Problem(NamedTuple):
    """Buffers by number, and sections of time in which the same buffers live."""

    first: Ints
    last: Ints
    size: Ints
    beside: Ints  # the buffers that live at the same time as each, one after the other
    beside_starts: Ints
    living: Ints  # the buffers that live in each section
    living_starts: Ints
    rank: Ints  # what comes first of two that could come next
    capacity: int


class _State(NamedTuple):
    """How far a search is."""

    waiting: Ints  # bytes still to be placed, by section
    offsets: Ints  # -1 where a buffer is not placed
    lowest: Ints  # where each buffer can go, given those that were placed
    undo: Ints  # what `lowest` was: rows of a buffer and its place
    top: Ints  # how many rows of it are in use
    least: Ints  # where each buffer can go, if others have to lift it first
    blame: Floats


class _Room(NamedTuple):
    """What is written before it is read."""

    frames: Ints
    candidates: Ints  # of each frame
    starts: Ints  # of the groups that are left in each frame
    labels: Ints  # of sections
    ends: Ints  # of the buffers of each label
    moved: Ints  # buffers of a group


class Problem:
    """Buffers in a form that is searched quickly.

    Attributes:
        features: for each of several properties (bytes alive with it, its time in two measures, its size), its
            logarithm for each buffer, from which orders are made.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        """Cut time into sections."""
        table = np.array(buffers, np.int64).reshape(-1, 3)
        moments = np.unique(table[:, :2])
        first, last = np.searchsorted(moments, table[:, 0]), np.searchsorted(moments, table[:, 1])
        size = table[:, 2].copy()
        self._alive = np.zeros(len(moments), np.int64)
        for begin, end, bytes in zip(first, last, size, strict=True):
            self._alive[begin:end] += bytes
        sections = np.arange(len(moments))[:, None]
        beside = (first[:, None] < last) & (first < last[:, None]) & ~np.eye(len(size), dtype=bool)
        living = (first <= sections) & (sections < last)
        self._buffers = (first, last, size, *_lists(beside), *_lists(living))
        pressure = [self._alive[a:b].max() for a, b in zip(first, last, strict=True)]
        count = len(size)
        frames, rows = np.empty((count + 1, 9), np.int64), np.empty((count + 1, count), np.int64)
        starts, moved = np.empty((count + 1, count + 1), np.int64), np.empty(count, np.int64)
        labels, ends = np.empty(len(moments), np.int64), np.empty(len(moments) + 2, np.int64)
        self._room = _Room(frames, rows, starts, labels, ends, moved)
        kinds = [pressure, table[:, 1] - table[:, 0], last - first, size]
        self.features = np.log1p(np.array(kinds, float))

    def within(
        self, capacity: int, priorities: Floats, limit: int, blame: Floats
    ) -> tuple[int, Ints]:
        """Look for a plan.

        Args:
            capacity: the bytes that may be taken.
            priorities: of two buffers that could come next at one offset, the one with more comes first.
            limit: the number of branches that are looked at, at most.
            blame: for each buffer, how often it was left over where a bound failed; it is added to.

        Returns:
            ``FOUND``, ``NONE`` (proven) or ``STOPPED``; and the offsets if a plan was found.
        """
        count = len(priorities)
        rank = np.empty(count, np.int64)
        order = np.argsort(-priorities, kind="stable")
        rank[order] = np.arange(count)
        problem = _Problem(*self._buffers, rank, capacity)
        offsets = np.full(count, -1)
        lowest, least = np.zeros((2, count), np.int64)
        undo = np.empty((count * count + 1, 2), np.int64)
        top = np.zeros(1, np.int64)
        state = _State(self._alive.copy(), offsets, lowest, undo, top, least, blame)
        return _search(problem, state, self._room, order, limit), offsets


def _lists(table: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[Ints, Ints]:
    """The columns that are set in each row, one row after the other, and where each row starts."""
    columns = np.ascontiguousarray(np.nonzero(table)[1])  # any strides would be a type of its own
    return columns, np.append(0, np.cumsum(table.sum(axis=1)))


def load(tell: Callable[[str], object] = lambda text: None) -> None:
    """Have machine code: from Numba's cache, or compiled, which takes seconds; before that, ``tell`` is called."""
    with install_listener("numba:compile", _Notice(tell)):
        Problem([Buffer(0, 1, 1)]).within(1, np.zeros(1), 1, np.zeros(1))


class _Notice(Listener):
    """Tells that the search is compiled."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def on_start(self, event: Any) -> None:
        """Tell it, of all functions, about the first one."""
        if event.data["dispatcher"] is _search:
            self._tell("compiling the search, which takes some seconds and is done once")

    def on_end(self, event: Any) -> None:
        """Nothing is left to tell."""


#: Of functions that the search alone calls: Python never does.
_part: Callable[[F], F] = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]


@njit(cache=True)
def _search(problem: _Problem, state: _State, room: _Room, order: Ints, limit: int) -> int:
    """Depth first. A frame places one buffer of its group, then the groups that the others fall into."""
    frames, candidates, starts = room.frames, room.candidates, room.starts
    depth, visited = 0, 0
    frames[0, _LO], frames[0, _HI], frames[0, _ABOVE] = 0, len(order), -1
    entering = True
    while True:
        frame = frames[depth]
        if entering:
            visited += 1
            if visited > limit:
                return STOPPED
            frame[_TRIED] = 0
            group = order[frame[_LO] : frame[_HI]]
            frame[_FOUND] = _candidates(problem, state, group, frame[_ABOVE], candidates[depth])
            entering = False
        if frame[_TRIED] == frame[_FOUND]:
            # Nothing is left to try here: the frame above tries something else.
            if depth == 0:
                return NONE
            depth -= 1
            _take_back(problem, state, frames[depth], candidates[depth], order)
            continue
        if not _advance(problem, state, frame, candidates[depth], order):
            _take_back(problem, state, frame, candidates[depth], order)
            continue
        rest = order[frame[_LO] + 1 : frame[_HI]]
        frame[_GROUPS] = _separate(problem, room, rest, starts[depth])
        frame[_GROUP] = 0
        while frames[depth, _GROUP] == frames[depth, _GROUPS]:
            # All groups are done, and with them this frame's, which is one of the frame above.
            placed = candidates[depth, frames[depth, _TRIED]]
            _wait(problem, state, placed, 1)
            if depth == 0:
                return FOUND
            depth -= 1
            frames[depth, _GROUP] += 1
        frame, number = frames[depth], frames[depth, _GROUP]
        depth += 1
        frames[depth, _LO] = frame[_LO] + 1 + starts[depth - 1, number]
        frames[depth, _HI] = frame[_LO] + 1 + starts[depth - 1, number + 1]
        frames[depth, _ABOVE] = candidates[depth - 1, frame[_TRIED]]
        entering = True


@_part
def _most(values: Ints, begin: int, end: int) -> int:
    """The largest of some numbers, none of which is negative."""
    most = 0
    for i in range(begin, end):
        most = max(most, values[i])
    return most


@_part
def _wait(problem: _Problem, state: _State, buffer: int, sign: int) -> None:
    """Count the bytes of a buffer that waits, or (``sign`` is -1) waits no longer."""
    for section in range(problem.first[buffer], problem.last[buffer]):
        state.waiting[section] += sign * problem.size[buffer]


@_part
def _candidates(problem: _Problem, state: _State, group: Ints, above: int, found: Ints) -> int:
    """Write what may be placed behind ``above``, the lowest first, and return how many there are."""
    first, last, rank = problem.first, problem.last, problem.rank
    floor, turn = (0, -1) if above < 0 else (state.offsets[above], rank[above])
    ceiling, begin, end = _NEVER, len(state.waiting), 0
    for buffer in group:
        ceiling = min(ceiling, max(state.lowest[buffer], floor) + problem.size[buffer])
        begin, end = min(begin, first[buffer]), max(end, last[buffer])
    most = _most(state.waiting, begin, end)
    count = 0
    for buffer in group:
        offset = state.lowest[buffer]
        if offset >= ceiling or offset < floor or offset + most > problem.capacity:
            continue
        if offset == floor and rank[buffer] < turn:
            continue
        if offset + _most(state.waiting, first[buffer], last[buffer]) > problem.capacity:
            continue
        k = count
        while k > 0:
            before = found[k - 1]
            place = state.lowest[before]
            if place < offset or (place == offset and rank[before] < rank[buffer]):
                break
            found[k] = before
            k -= 1
        found[k] = buffer
        count += 1
    return count


@_part
def _advance(problem: _Problem, state: _State, frame: Ints, candidates: Ints, order: Ints) -> bool:
    """Place a frame's next candidate, as the first of its group; return whether there is hope for the rest."""
    placed = candidates[frame[_TRIED]]
    frame[_MARK] = state.top[0]
    state.offsets[placed] = state.lowest[placed]
    _wait(problem, state, placed, -1)
    end = state.lowest[placed] + problem.size[placed]
    for other in problem.beside[problem.beside_starts[placed] : problem.beside_starts[placed + 1]]:
        if state.offsets[other] < 0 and state.lowest[other] < end:
            row = state.undo[state.top[0]]
            row[0], row[1] = other, state.lowest[other]
            state.lowest[other] = end
            state.top[0] += 1
    frame[_FREE] = state.top[0] == frame[_MARK]
    group = order[frame[_LO] : frame[_HI]]
    for i in range(len(group)):
        if group[i] == placed:
            group[i], group[0] = group[0], placed
    return _fits(problem, state, group[1:], placed, frame[_MARK])


@_part
def _take_back(
    problem: _Problem, state: _State, frame: Ints, candidates: Ints, order: Ints
) -> None:
    """Undo a frame's placement and all that came after it; go to its next candidate, if that can be better."""
    placed = candidates[frame[_TRIED]]
    for k in range(state.top[0] - 1, frame[_MARK] - 1, -1):
        state.lowest[state.undo[k, 0]] = state.undo[k, 1]
    state.top[0] = frame[_MARK]
    _wait(problem, state, placed, 1)
    for buffer in order[frame[_LO] : frame[_HI]]:
        state.offsets[buffer] = -1
    frame[_TRIED] = frame[_FOUND] if frame[_FREE] else frame[_TRIED] + 1


@_part
def _fits(problem: _Problem, state: _State, rest: Ints, placed: int, mark: int) -> bool:
    """Whether the bounds leave hope after a placement, which lifted what `undo` has behind ``mark``."""
    begin, end = problem.first[placed], problem.last[placed]
    for other in state.undo[mark : state.top[0], 0]:
        begin, end = min(begin, problem.first[other]), max(end, problem.last[other])
    offset, turn = state.offsets[placed], problem.rank[placed]
    for buffer in rest:
        place = state.lowest[buffer]
        if place < offset or (place == offset and problem.rank[buffer] < turn):
            place = _lifted(problem, state, buffer, offset)
            begin, end = min(begin, problem.first[buffer]), max(end, problem.last[buffer])
        state.least[buffer] = place
        if place + problem.size[buffer] > problem.capacity:
            state.blame[buffer] += 1
            return False
    for section in range(begin, end):
        living = problem.living[problem.living_starts[section] : problem.living_starts[section + 1]]
        floor = _NEVER
        for buffer in living:
            if state.offsets[buffer] < 0:
                floor = min(floor, state.least[buffer])
        if floor < _NEVER and floor + state.waiting[section] > problem.capacity:
            for buffer in living:
                if state.offsets[buffer] < 0:
                    state.blame[buffer] += 1
            return False
    return True


@_part
def _lifted(problem: _Problem, state: _State, buffer: int, offset: int) -> int:
    """Where a buffer can go whose turn at its lowest place is over, so that another beside it has to lift it."""
    place = _NEVER
    for other in problem.beside[problem.beside_starts[buffer] : problem.beside_starts[buffer + 1]]:
        if state.offsets[other] < 0:
            place = min(place, max(state.lowest[other], offset) + problem.size[other])
    return place


@_part
def _separate(problem: _Problem, room: _Room, rest: Ints, starts: Ints) -> int:
    """Sort buffers into groups that share no moment; write where each starts, and return how many there are."""
    count = len(rest)
    if count == 0:
        return 0
    labels, ends = room.labels, room.ends
    begin, end = len(labels), 0
    for buffer in rest:
        begin, end = min(begin, problem.first[buffer]), max(end, problem.last[buffer])
    for section in range(begin, end):
        labels[section] = 0
    for buffer in rest:  # how many of them cross the border behind each section
        labels[problem.first[buffer]] += 1
        labels[problem.last[buffer] - 1] -= 1
    crossing, label = 0, 0
    for section in range(begin, end):
        crossing += labels[section]
        labels[section] = label
        if crossing == 0:
            label += 1
    starts[0] = 0
    # The last section ends a label; where it ends the only one, there is one group.
    if label == 1:
        starts[1] = count
        return 1
    for i in range(label + 1):
        ends[i] = 0
    for i in range(count):
        room.moved[i] = rest[i]
    for buffer in rest:
        ends[labels[problem.first[buffer]] + 1] += 1
    number = 0
    for i in range(label):
        if ends[i + 1] > 0:
            starts[number] = ends[i]
            number += 1
        ends[i + 1] += ends[i]
    starts[number] = count
    for buffer in room.moved[:count]:
        i = labels[problem.first[buffer]]
        rest[ends[i]] = buffer
        ends[i] += 1
    return number
