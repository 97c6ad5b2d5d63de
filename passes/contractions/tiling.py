"""How a contraction is cut into tiles: which form of loops, how large, what is packed, what runs in parallel.

`choose` searches the few hundred tiles that fit into the registers for the one with the least cost in an idealised
processor. The choice is attributes of the kernel operation, so that it shows in a dump;
`tapec.passes.contractions.contraction` writes the loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Literal

from tapec.passes.contractions.copies import (
    BLOCK_DEPTH,
    copied_block,
    lines_in_set,
    most_depth,
    packs,
    strips,
)
from tapec.passes.contractions.problem import Machine, Problem, Workload, size, turned

Form = Literal["outer", "dot", "plain", "tile", "warps", "halves"]

#: Lanes that a tile uses at most: with more, squares are too large to be transposed in registers.
MOST_LANES = 16
#: Work in multiply-adds from which on waking another thread pays.
PARALLEL_WORK = 1 << 20
#: Operations after a tile's accumulators above which they are written in a loop.
STAGED_WEIGHT = 64
#: Bytes of columns that are copied to run along depth.
_NARROW_LIMIT = 1 << 14
#: Tiles that run over a block of depth, at least: fewer are not worth keeping sums for.
_BLOCK_TILES = 8
#: Tiles, at most, of a result for which threads share the depth, and multiply-adds, at least.
_DEEP_TILES, _DEEP_WORK = 6, 4 * PARALLEL_WORK
#: So few rows that a large right operand is read in the order of memory, so many depths at a time.
_FEW_ROWS, _STREAM_DEPTH = 2, 4
#: Bytes between elements that follow each other, from which on they are prefetched, and cycles that this takes.
_JUMP, _FETCH_CYCLES = 256, 256
#: What a tiling in blocks, or one whose rows are shared, may cost by itself, in terms of the best.
_BLOCK_COST = 1.1
#: Cycles of a load: of two at once where an element that all lanes get is loaded by the multiply-add itself; and where
#: that is an instruction of its own, since then others wait for them, and what else runs on the core counts, too.
_LOAD, _SPLAT_LOAD = 0.5, 0.75
#: Turns of depth for one that is prefetched, at least, where registers are few: to begin loops of less costs more.
_LEAST_AHEAD = 6
#: Turns of a loop that threads share, at least, and rows that do not make up for a panel that others wait for.
_TURNS, _LOW = 8, 128
#: Rows of tiles that threads can share.
_ROW_TURNS = 4


@dataclass(frozen=True)
class Tiling:
    """The choice.

    ``outer`` keeps ``rows`` times ``vectors`` accumulators of ``lanes`` elements in registers, splats elements of the
    left and loads vectors of the right, from a packed panel if ``pack``; ``strips``: of the left, from a copy of some
    rows, tile by tile (`tapec.passes.contractions.packing.Strips`). ``dot`` multiplies vectors along depth, for
    ``rows`` times so many columns that the sums of their lanes make up one vector. ``plain`` computes one vector of
    results after the other. ``staged`` sends a tile through scratch, so that what follows is written once, in a loop,
    not once for each accumulator.

    ``across``: tiles follow each other along columns, so that results, and what is read with them, pass in the order of
    memory; otherwise along rows. ``fetch`` prefetches these while a tile is summed. ``ahead``, if not 0, prefetches the
    right operand's next columns, one depth after that many. ``reach``, if not 0, prefetches the left operand, so many
    depths before they are read; ``follow`` its next rows, of which a tile's are one piece of memory. ``block``, if not
    0, is how many turns of the outermost summed axis all tiles run over before the next
    (`tapec.passes.contractions.blocked`). ``part``, if not 0, is how many small tiles of a convolution are transformed
    together (`tapec.passes.contractions.sliding`). ``turn``, if not -1, is an axis of the batch that is rows, and
    the one row of the batch (`tapec.passes.contractions.problem.exchanged`).
    """

    form: Form = "plain"
    lanes: int = 1
    rows: int = 1
    vectors: int = 1
    unroll: int = 1
    pack: bool = False
    strips: bool = False
    staged: bool = False
    across: bool = False
    fetch: bool = False
    ahead: int = 0
    reach: int = 0
    follow: bool = False
    block: int = 0
    part: int = 0
    turn: int = -1
    swapped: bool = False
    #: The loop that threads share: ``batch``, ``columns``, ``rows``, ``depth`` if there is a block, or none.
    parallel: str = ""

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.lanes // self.rows if self.form == "dot" else self.lanes * self.vectors

    def in_blocks(self, block: int) -> Tiling:
        """The same over so many turns of the outermost summed axis at a time, which read operands where they are."""
        return replace(
            self,
            block=block,
            pack=False,
            strips=False,
            staged=False,
            across=False,
            fetch=False,
            ahead=0,
        )

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the kernel operation."""
        return asdict(self)

    @classmethod
    def from_attrs(cls, attrs: Mapping[str, Any]) -> Tiling:
        """The inverse of `attrs`."""
        return cls(**{name: attrs[name] for name in cls.__dataclass_fields__})


def choose(work: Workload) -> Tiling:
    """The tiling of least cost."""
    contraction, turn = turned(work.contraction, work.left, work.right)
    work = replace(work, contraction=contraction)
    found = list(candidates(work))
    least, best = min(found, key=lambda pair: pair[0])
    best = replace(best, turn=turn)
    operands = work.left.bytes, work.right.bytes
    if best.form != "outer" or best.swapped or not all(isinstance(n, int) for n in operands):
        return best
    problem, bytes = work.problem(), sum(map(size, operands))
    if best.strips and (block := copied_block(problem, best.width, work.machine)):
        part = replace(problem, depth=(block, *problem.depth[1:]))
        ahead = _ahead(part, best.rows, best.width, replace(work.machine, level2=0))
        return replace(
            best, block=block, pack=True, staged=False, across=False, fetch=False, ahead=ahead
        )
    deep = [
        (cost, replace(tiling.in_blocks(block), turn=turn))
        for cost, tiling in found
        if cost <= _BLOCK_COST * least and (block := _block(problem, tiling, bytes, work.machine))
    ]
    if deep:
        return min(deep, key=lambda pair: pair[0])[1]
    block = _block(problem, best, bytes, work.machine, apart=True)
    return replace(best.in_blocks(block), parallel="depth") if block else best


def choose_rows(work: Workload) -> Tiling | None:
    """The tiling of least cost whose rows threads share, all columns of a row of tiles at once; None if that costs.

    It gives the bits that `choose` gives: tiles are cut otherwise, sums are not.
    """
    problem = work.problem()
    if not isinstance(problem.rows, int) or not isinstance(problem.columns, int):
        return None
    found = candidates(work)
    fitting: list[tuple[float, Tiling]] = []
    for _, tiling in found:
        even = problem.rows % tiling.rows == 0 and problem.columns % tiling.width == 0
        copied = tiling.pack and problem.right[0] != 1
        plain = tiling.form == "outer" and not (tiling.swapped or copied)
        if not (even and plain and problem.rows // tiling.rows >= _ROW_TURNS):
            continue
        across = problem.columns > tiling.width
        if across and not _fits_across(problem, tiling.width, work.machine, pack=False):
            continue
        tiling = replace(tiling, pack=False, strips=False, across=across, ahead=0, parallel="rows")
        fitting.append((_outer_cost(problem, tiling, work), tiling))
    least = min((cost for cost, _ in found), default=0.0)
    cost, best = min(fitting, key=lambda pair: pair[0], default=(0.0, None))
    return best if cost <= _BLOCK_COST * least else None


def streams(problem: Problem) -> bool:
    """Whether there are so few rows that blocks are of a few depths."""
    return size(problem.rows) <= _FEW_ROWS


def _block(
    problem: Problem, tiling: Tiling, bytes: int, machine: Machine, *, apart: bool = False
) -> int:
    """How many turns of the outermost summed axis make up a block; 0 if operands of ``bytes`` need no blocks.

    ``apart``: for results of so few tiles that threads share the depth.
    """
    extents = (*problem.batch, problem.rows, problem.columns)
    first, *inner = problem.depth
    known = all(isinstance(n, int) for n in (*extents, *problem.depth))
    if tiling.form != "outer" or tiling.swapped or not known:
        return 0
    even = problem.rows % tiling.rows == 0 and problem.columns % tiling.width == 0
    if streams(problem):
        large = (
            not inner and first % _STREAM_DEPTH == 0 and 4 * _right_bytes(problem) >= machine.level2
        )
        whole = even and tiling.rows == problem.rows and problem.right[0] == 1
        return _STREAM_DEPTH if large and whole and not apart else 0
    results, tile = prod(map(size, extents)), tiling.rows * tiling.width
    kept = results * max(problem.dtype.bytes, 4)
    # A left operand that is contiguous in depth stays in the first cache for a row of tiles.
    strides = problem.right[0] == 1 and problem.left[1] != 1
    large = strides and not tiling.strips and 2 * kept <= machine.level2 <= 2 * bytes
    deep = results <= _DEEP_TILES * tile and problem.work >= _DEEP_WORK
    if not (even and (deep if apart else large and results >= _BLOCK_TILES * tile)):
        return 0
    turns, each = prod(map(size, inner)), bytes // size(first)
    fits = (n for n in range(1, size(first)) if size(first) % n == 0)
    return max(
        (n for n in fits if n * turns >= BLOCK_DEPTH and n * each <= 3 * machine.level2 // 8),
        default=0,
    )


def candidates(work: Workload) -> list[tuple[float, Tiling]]:
    """All tilings that `choose` looks at, with their costs in cycles."""
    if len(work.contraction.space) - work.contraction.reduced < 2:
        return [(0, Tiling())]
    problem = work.problem()
    if problem.columns == 1 and problem.rows != 1:
        problem = work.problem(swapped=True)
    real = problem.dtype.kind != "complex"
    # As many as sums, which are in 32 bits at least, fill a register.
    lanes = min(max(work.lanes // 2, 1) if problem.small else work.lanes, MOST_LANES)
    work = replace(work, lanes=lanes)
    found: list[tuple[float, Tiling]] = []
    if problem.separable and real:
        found += _outer(problem, work)
        found += _dot(problem, lanes, work.machine)
        if 1 < size(problem.columns) < lanes <= size(problem.rows):
            found += _outer(work.problem(swapped=True), replace(work, traffic=0))
    shared = _shared(problem, 1, size(problem.columns))
    return found or [(0, Tiling(lanes=lanes if real else 1, parallel=shared))]


def _outer(problem: Problem, work: Workload) -> Iterator[tuple[float, Tiling]]:
    """Tiles of accumulators with their costs in cycles."""
    machine, traffic = work.machine, work.traffic
    rows, columns = size(problem.rows), size(problem.columns)
    lanes = _width(columns, work.lanes, machine)
    right_bytes = _right_bytes(problem)
    for vectors in range(1, min(_ceil(columns, lanes), machine.registers // 2) + 1):
        pack = packs(problem, lanes, vectors, machine)
        if pack is None:
            continue
        for most in range(1, min(rows, (machine.registers - 1 - vectors) // vectors) + 1):
            # Tiles of equal height: less is computed twice.
            height = _ceil(rows, _ceil(rows, most)) if isinstance(problem.rows, int) else most
            if height != most:
                continue
            unroll = max(1, min(8 // (height * vectors), 4))
            width = vectors * lanes
            ahead = _ahead(problem, height, width, machine)
            # There is room for one stream of prefetches: the one of more bytes.
            passes = traffic >= machine.level2 // 2 and (traffic >= right_bytes or not ahead)
            across = passes and _fits_across(problem, width, machine, pack=pack)
            parallel = _shared(problem, height, width, least=_turns(problem, machine, pack=pack))
            copied = strips(problem, height, width, machine, pack=pack)
            tiling = Tiling(
                form="outer",
                lanes=lanes,
                rows=height,
                vectors=vectors,
                unroll=unroll,
                pack=pack,
                strips=copied,
                staged=problem.apart or height * vectors * work.weight > STAGED_WEIGHT,
                across=across,
                fetch=passes,
                ahead=0 if passes else ahead,
                reach=0 if copied else _reach(problem, height * vectors, machine),
                follow=_follows(problem, machine) and not copied,
                swapped=problem.swapped,
                parallel="rows" if across and parallel == "columns" else parallel,
            )
            yield _outer_cost(problem, tiling, work), tiling


def _outer_cost(problem: Problem, tiling: Tiling, work: Workload) -> float:
    """Cycles of a processor that starts two multiply-adds and two loads in each, with a latency of four."""
    machine, weight = work.machine, work.weight
    tall, wide = tiling.rows, tiling.vectors
    products = tall * wide
    turns = _ceil(size(problem.rows), tall)
    tiles = turns * _ceil(size(problem.columns), wide * tiling.lanes)
    depth = prod(map(size, problem.depth))
    widen = problem.small
    few = machine.registers < 32
    loads = tall * (1 + widen) + wide * (1 + (widen and not tiling.pack))
    if lines_in_set(problem.left[0], tall, problem.dtype.bytes, machine) > machine.ways - 1:
        loads *= 3
    panel = most_depth(problem) * wide * tiling.lanes * problem.dtype.bytes
    if tiling.across:
        panel = _right_bytes(problem)  # all of it is read before any is read again
    # The first tile of a panel reads it from the second cache; so do the others if the first does not keep it.
    far = 1.5 if few and tiling.pack else 2.5
    fetch = wide * (1 + 1.5 / turns if panel <= machine.level1 else far)
    load = _SPLAT_LOAD if few else _LOAD
    step = max(products / 2, loads * load, fetch, 4) + 0.1 + 1 / products
    after = 4 + tall / 2 + products * (0.5 + weight)
    if problem.apart:
        after += products * tiling.lanes * (2 + weight)
    elif tiling.staged:
        after += (6 if few else 3) * products
    # Of equally fast tiles the smaller is less code.
    batch = prod(map(size, problem.batch))
    total = batch * tiles * (depth * step + after) * (1 + products / 2048)
    if tiling.pack:
        copies = 1 if problem.shared else batch
        copied = depth * size(problem.columns) / tiling.lanes
        total += copies * copied * (2 if problem.right[0] == 1 else 4)
    return total


def _fits_across(problem: Problem, width: int, machine: Machine, *, pack: bool) -> bool:
    """Whether several tiles lie side by side, and the right operand, read for each row of them, stays in a cache."""
    known = isinstance(problem.columns, int) and isinstance(problem.rows, int)
    if pack and any(n != 1 for n in problem.batch):
        return False  # each would have its panels
    panels = size(problem.columns) // width
    bytes = size(problem.columns) * most_depth(problem) * problem.dtype.bytes
    return known and panels >= 2 and bytes <= machine.level2 // 2


def _ahead(problem: Problem, height: int, width: int, machine: Machine) -> int:
    """Turns of depth for one that is prefetched: a panel's tiles together fetch the next panel.

    Otherwise the first tile of each would wait for memory at every turn. 0 where there is nothing to gain.
    """
    rows, columns, deepest = size(problem.rows), problem.columns, problem.depth[-1]
    if not (isinstance(columns, int) and isinstance(deepest, int)):
        return 0
    flat = len(problem.depth) == 1 and all(n == 1 for n in problem.batch)
    dense = problem.right[0] == 1 or problem.right == (deepest, 1)
    if not flat or not dense or columns < 2 * width or _right_bytes(problem) < machine.level2 // 4:
        return 0
    turns = deepest // _ceil(deepest, _ceil(rows, height))
    return turns if machine.registers >= 32 or turns >= _LEAST_AHEAD else 0


def _follows(problem: Problem, machine: Machine) -> bool:
    """Whether the left operand comes from memory, and tiles read it from its beginning to its end."""
    whole = len(problem.depth) == 1 and problem.left == (problem.depth[0], 1)
    return whole and _left_bytes(problem) >= machine.level2 // 4


def _reach(problem: Problem, products: int, machine: Machine) -> int:
    """Turns of depth after which what is prefetched of the left operand has come; 0 where a cache holds that.

    Processors foresee by themselves what is read in the order of memory, but no jumps from page to page.
    """
    stride = problem.left[1]
    jumps = stride is not None and stride * problem.dtype.bytes >= _JUMP
    far = jumps and _left_bytes(problem) >= machine.level2 // 8
    return _ceil(_FETCH_CYCLES, products) if far else 0


def _left_bytes(problem: Problem) -> int:
    extents = (*problem.batch, problem.rows, *problem.depth)
    return prod(map(size, extents)) * problem.dtype.bytes


def _right_bytes(problem: Problem) -> int:
    return size(problem.columns) * prod(map(size, problem.depth)) * problem.dtype.bytes


def must_stage(problem: Problem, tiling: Tiling) -> bool:
    """Whether tiles overlap, so that a result which is updated would be updated twice.

    Those of the form ``outer`` do so along extents that are known. Where results are only written, two tiles write the
    same bits, by whatever threads.
    """
    known = tiling.form == "outer"
    rows = problem.rows % tiling.rows != 0 and not (known and not isinstance(problem.rows, int))
    # Columns that do not fill one vector are masked.
    narrow = tiling.width if tiling.form == "dot" else tiling.lanes
    if isinstance(problem.columns, int):
        columns = problem.columns % tiling.width != 0 and problem.columns > narrow
    else:
        columns = not known
    return rows or columns


def _dot(problem: Problem, lanes: int, machine: Machine) -> Iterator[tuple[float, Tiling]]:
    """Products along depth: for a few rows, whose work would not pay for transposing the right operand.

    Or for a few columns, which are copied if they do not run along depth.
    """
    deepest = problem.depth[-1]
    whole = machine.masked or (isinstance(deepest, int) and deepest % lanes == 0)
    pack = problem.right[1] != 1
    if lanes == 1 or not whole or problem.left[1] != 1 or (pack and not _is_narrow(problem, lanes)):
        return
    vectors = prod(map(size, problem.depth[:-1])) * _ceil(size(deepest), lanes)
    batch = prod(map(size, problem.batch))
    for height in (1, 2, 4, 8):
        width = lanes // height
        if height > 1 and (width < 2 or not isinstance(problem.rows, int) or problem.rows < height):
            break
        tiles = _ceil(size(problem.columns), width) * _ceil(size(problem.rows), height)
        shared = _shared(problem, height, width)
        tiling = Tiling("dot", lanes, height, pack=pack, swapped=problem.swapped, parallel=shared)
        # A column's vectors come from the second cache; few accumulators wait for them now and then.
        step = max(0.75 * lanes, 1.25 * width)
        bytes = problem.dtype.bytes
        lines = lines_in_set(problem.right[0], width, bytes, machine)
        if lines + lines_in_set(problem.left[0], height, bytes, machine) >= machine.ways:
            step *= 1.25
        copied = size(problem.columns) * size(deepest) * 3 if pack else 0
        yield batch * (tiles * (vectors * step + 3 * lanes + 8 + height) + copied), tiling


def _is_narrow(problem: Problem, lanes: int) -> bool:
    """Whether the right operand is a few columns that fit into the first cache."""
    columns, *depth = problem.columns, *problem.depth
    known = isinstance(columns, int) and isinstance(depth[0], int) and len(depth) == 1
    return known and size(columns) < lanes and _right_bytes(problem) <= _NARROW_LIMIT


def _shared(problem: Problem, height: int, width: int, *, least: int = _TURNS) -> str:
    """Which loop threads share: one with ``least`` turns or more, as far out as possible."""
    if problem.work < PARALLEL_WORK:
        return ""
    batch = next((size(n) for n in problem.batch if n != 1), 1)
    turns = {
        "batch": batch,
        "columns": _ceil(size(problem.columns), width),
        "rows": _ceil(size(problem.rows), height),
    }
    return next(
        (name for name, n in turns.items() if n >= least), max(turns, key=lambda n: turns[n])
    )


def _turns(problem: Problem, machine: Machine, *, pack: bool) -> int:
    """Turns, at least, of the loop that threads share: where they share rows, one thread copies panels for all."""
    low = pack and machine.registers < 32 and size(problem.rows) <= _LOW
    return _TURNS // 2 if low else _TURNS


def _width(columns: int, lanes: int, machine: Machine) -> int:
    """Lanes for results with few columns: as many as they are, rounded to a power of two."""
    while lanes > 1 and lanes >= 2 * columns:
        lanes //= 2
    return lanes if machine.masked or lanes <= columns else lanes // 2


def _ceil(n: int, d: int) -> int:
    return -(-n // d)
