"""Which operands of a product are copied, into what, and in which blocks of depth.

A copy costs a pass over the operand. It pays where tiles would read what lies apart: lines that displace each other in
the first cache, vectors across two lines, or lines of which a tile needs a part.
"""

from __future__ import annotations

from math import gcd, prod

from tapec.ir.dims import bounds
from tapec.ir.types import Shape
from tapec.passes.contractions.problem import Machine, Problem, size

#: Bytes of a packed panel, which lives on the stack.
PANEL_LIMIT = 1 << 20
#: Bytes of copied strips, which live on the stack, too.
STRIP_LIMIT = 1 << 20
#: Tiles of columns that read each strip, and multiply-adds, at least: threads meet when all are copied.
_STRIP_TILES, STRIP_WORK = 3, 1 << 23
#: Bytes of a line of the caches, and how many times the first one's sets the second one has.
LINE, _SPANS = 64, 16
#: From here on neighbours in depth are so far apart, in so many pages, that a copy of the panel pays.
PACK_DISTANCE = 1 << 21
#: Rows, depth and multiply-adds, at least, of products of which blocks are copied: threads meet at the end of each.
_COPIED_ROWS, _COPIED_DEPTH, _COPIED_WORK = 16, 1024, 1 << 24
#: Turns of a block of depth, at least.
BLOCK_DEPTH = 48
#: Depths that are copied, at most, where nobody knows how many there are; the rest is read where it is.
MOST_OPEN = 4096
#: How many times as much as is reckoned with the depth may be where nobody knows: what is too much for a cache costs
#: more than what would do for less.
_RESERVE = 4


def most_depth(problem: Problem) -> int:
    """Depths for which there should be room in caches."""
    depth = prod(problem.depth)
    high = bounds(depth)[1]
    return _RESERVE * size(depth) if high is None else high


def room_for(depth: Shape, width: int, bytes: int) -> int:
    """How many depths a copy of so many columns holds: all, or, where they are not known, some; 0 if there are none."""
    count = prod(depth)
    if isinstance(count, int):
        return count
    high, room = bounds(count)[1], min(PANEL_LIMIT // (width * bytes), MOST_OPEN)
    return 0 if len(depth) > 1 else room if high is None else min(room, high)


def packs(problem: Problem, lanes: int, vectors: int, machine: Machine) -> bool | None:
    """Whether the right operand is copied into panels; None if it had to be and cannot."""
    depth = prod(problem.depth)
    bytes = problem.dtype.bytes
    kept = 2 * bytes if problem.small else bytes
    room = room_for(problem.depth, vectors * lanes, kept)
    fits = 0 < room * vectors * lanes * kept <= PANEL_LIMIT or depth == 0
    if problem.right[0] != 1 and lanes > 1:
        return True if fits and isinstance(depth, int) else None
    if problem.small and fits and lanes > 1 and _packed_rows(problem) >= 32:
        return True  # each element is widened once, not once for each tile
    rows = _packed_rows(problem)
    far = (problem.right[1] or 0) * bytes * size(depth) >= PACK_DISTANCE
    if machine.registers >= 32:
        return fits and lanes > 1 and far and rows >= 64
    # A tile of few registers is done before a line comes from the second cache; the first may have no place for all.
    crowded = lines_in_set(problem.right[1], most_depth(problem), bytes, machine) > machine.ways
    # A vector may lie across two lines.
    across = depth != 1 and (problem.right[1] or 0) % lanes != 0
    apart = size(problem.columns) > vectors * lanes
    often = (rows >= 16 and (far or crowded)) or (rows >= 64 and across)
    return fits and lanes > 1 and apart and often


def strips(problem: Problem, height: int, width: int, machine: Machine, *, pack: bool) -> bool:
    """Whether the left operand is copied tile by tile."""
    depth, (along_rows, along_depth) = prod(map(size, problem.depth)), problem.left
    known = all(isinstance(n, int) for n in (problem.rows, problem.columns))
    known &= room_for(problem.depth, width, max(problem.dtype.bytes, 4)) > 0
    once = pack and problem.shared and any(n != 1 for n in problem.batch)
    if machine.registers >= 32 or along_rows != 1 or not known or once or height == 1:
        return False
    if problem.work < STRIP_WORK:
        return False
    if not machine.masked and height & (height - 1):
        return False
    if depth * height * max(problem.dtype.bytes, 4) > STRIP_LIMIT:
        return False
    lines = lines_in_set(along_depth, depth, problem.dtype.bytes, machine)
    crowded = lines > machine.ways or 2 * depth * LINE > machine.level1
    # The second cache, of as many ways, has no places either.
    least = _STRIP_TILES - (lines > _SPANS * machine.ways)
    return crowded and size(problem.columns) >= least * width


def strip_rows(bytes: int, height: int) -> int:
    """Rows of so many bytes whose copies there is room for, in tiles of a height."""
    return STRIP_LIMIT // (bytes * height) * height


def copied_block(problem: Problem, width: int, machine: Machine) -> int:
    """How many turns of the outermost summed axis make up a block whose panels, copied, stay in the first cache.

    0 where a product is not deep, or there is no room for sums to wait in scratch.
    """
    extents = (*problem.batch, problem.rows, problem.columns, *problem.depth)
    if problem.right[0] != 1 or not all(isinstance(n, int) for n in extents):
        return 0
    first, *inner = map(size, problem.depth)
    turns = prod(inner)
    kept = prod(map(size, extents[: -len(problem.depth)])) * max(problem.dtype.bytes, 4)
    fits = size(problem.columns) >= width and 2 * kept <= machine.level2
    most = machine.level1 // (width * problem.dtype.bytes * turns)
    deep = size(problem.rows) >= _COPIED_ROWS and first * turns >= _COPIED_DEPTH
    if not (fits and deep and problem.work >= _COPIED_WORK):
        return 0
    some = (n for n in range(1, min(most, first - 1) + 1) if first % n == 0)
    return max((n for n in some if n * turns >= BLOCK_DEPTH), default=0)


def _packed_rows(problem: Problem) -> int:
    """Rows that a packed panel serves."""
    return size(problem.rows) * (prod(map(size, problem.batch)) if problem.shared else 1)


def lines_in_set(stride: int | None, count: int, bytes: int, machine: Machine) -> int:
    """How many of ``count`` addresses with a stride compete for the same lines of level 1."""
    if not stride:
        return 1
    apart = machine.set_span // gcd(stride * bytes, machine.set_span)
    return -(-count // apart)
