"""Make long sums in two stages, where one would keep a device's blocks of threads waiting for few of them.

A reduction of very many elements to few numbers is cut along one of its axes: first each part is reduced, by threads of
its own, then what the parts gave. Products of matrices and convolutions that are few tiles, each of a long sum, are cut
the same way: gradients of weights have the batch to sum over, and every place of a picture. They become as many
products as there are parts, and these are added up. How many parts there are depends on shapes alone, so results are
the same each time.

Where few lines are long, what goes through each in order would be done by as many threads. So a cumulative sum is made
of parts, with what is before each; and where the largest element is, is found when it is known which that is
(`tapec.passes.device.lines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, isqrt, prod
from string import ascii_letters

from tapec.ir.builder import Builder
from tapec.ir.core import Module, Operation, Value
from tapec.ir.op import OPS
from tapec.ir.ops.contraction import SumOfProducts
from tapec.ir.ops.cumulative import CumSum
from tapec.ir.ops.reduction import ArgMax, Reduction
from tapec.ir.types import F32, I64, DType, TensorType
from tapec.passes.contractions.problem import Problem, describe
from tapec.passes.device.lines import place_of_best, running_sum
from tapec.passes.device.tile import BUSY, DEEP, has_tiles, tiles


@dataclass(frozen=True)
class Options:
    """Blocks, and threads, that keep a device busy, and what a part has at least.

    Attributes:
        blocks: of one launch.
        threads: of one launch.
        elements: of a row's part, which a block of threads reduces; of a line that one thread goes through otherwise.
        column: of a column's part, which a thread reduces.
        depth: turns of a tile's sums.
        long: elements that are reduced to one of several numbers from which on that is done in two stages.
    """

    blocks: int = 256
    threads: int = 1 << 14
    elements: int = 1024
    column: int = 64
    depth: int = 256
    long: int = 1 << 14


def run(module: Module, options: Options) -> bool:
    """Cut what is long."""
    changed = False
    for function in module.functions.values():
        for op in list(function.walk()):
            if op.block is None or not all(_is_known(v) for v in op.operands):
                continue
            if isinstance(op.defn, Reduction):
                changed |= _cut_reduction(op, options)
            elif isinstance(op.defn, SumOfProducts):
                changed |= _cut_products(op, options)
            elif isinstance(op.defn, CumSum):
                changed |= _cut_running_sum(op, options)
            elif isinstance(op.defn, ArgMax):
                changed |= _find_best(op, options)
    return changed


def _is_known(value: Value) -> bool:
    """Whether sizes are known, of what is one number each."""
    return not value.type.dtype.is_complex and all(isinstance(n, int) for n in value.tensor.shape)


def _is_narrow(dtype: DType) -> bool:
    """Whether numbers are floats that are added up in more bits than they have."""
    return dtype.is_floating and dtype.bits < 32


def _parts(extent: int, most: int) -> int:
    """The largest number of equal parts, at most so many."""
    return max((n for n in range(1, min(extent, most) + 1) if extent % n == 0), default=1)


def _are_enough(parts: int, most: int) -> bool:
    """Whether parts are worth a launch: two or three of many are not much better than none."""
    return parts > 1 and most > 3 and (parts > 3 or 4 * parts >= most)


# ---- reductions


def _cut_reduction(op: Operation, options: Options) -> bool:
    axes, shape = op.attrs["axes"], op.operands[0].tensor.static_shape
    most = _most_parts(shape, axes, options)
    for axis in sorted(axes):
        parts = _parts(shape[axis], most)
        if _are_enough(parts, most):
            _reduce_twice(op, shape, axis, parts)
            return True
    return False


def _most_parts(shape: Sequence[int], axes: Sequence[int], options: Options) -> int:
    """How many parts a reduction is worth."""
    many = prod(n for a, n in enumerate(shape) if a not in axes)
    each = prod(shape[a] for a in axes)
    if many != 1 and (each < options.long or many == 0):
        return 1
    if len(shape) - 1 in axes:  # rows, each of which a block of threads reduces
        return min(options.blocks // many, each // options.elements)
    return min(options.blocks, options.threads // many, each // options.column)


def _reduce_twice(op: Operation, shape: Sequence[int], axis: int, parts: int) -> None:
    (x,) = op.operands
    b = _before(op)
    cut = (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
    inner = tuple(a + (a >= axis) for a in op.attrs["axes"])
    # What is between the stages is not rounded to fewer bits than sums have.
    if _is_narrow(x.type.dtype):
        x = b.emit("cast", x, dtype=F32)
    first = b.emit(op.defn, b.emit("reshape", x, shape=cut), axes=inner)
    at = sum(a not in inner for a in range(axis))
    whole = b.emit(op.defn, first, axes=(at,))
    if _is_narrow(op.result.type.dtype):
        whole = b.emit("cast", whole, dtype=op.result.type.dtype)
    op.replace([whole], "two stages")


def _before(op: Operation) -> Builder:
    assert op.block is not None
    b = Builder(op.block, before=op)
    b.location = op.location
    return b


# ---- lines


def _lines(op: Operation, options: Options) -> int:
    """How many lines an operation goes through, if few of them are long; else 0."""
    axis, shape = op.attrs["axis"], op.operands[0].tensor.static_shape
    many = prod(n for a, n in enumerate(shape) if a != axis)
    return many if many < options.threads and shape[axis] >= options.elements else 0


def _cut_running_sum(op: Operation, options: Options) -> bool:
    many, dtype = _lines(op, options), op.result.type.dtype
    # Sums of 16 bits are rounded from one to the next.
    if not many or _is_narrow(dtype):
        return False
    length = op.operands[0].tensor.static_shape[op.attrs["axis"]]
    most = min(isqrt(length), options.threads // many)
    parts = _parts(length, most)
    if not _are_enough(parts, most):
        return False
    op.replace([running_sum(_before(op), op, parts)], "two stages")
    return True


def _find_best(op: Operation, options: Options) -> bool:
    if not _lines(op, options):
        return False
    b = _before(op)
    best, place = place_of_best(b, op)
    dtype = op.attrs.get("dtype", I64)
    op.replace(
        [place if place.type.dtype == dtype else b.emit("cast", place, dtype=dtype)], "two stages"
    )
    for reduction in (best.op, place.op):
        assert reduction is not None
        _cut_reduction(reduction, options)
    return True


# ---- products


def _cut_products(op: Operation, options: Options) -> bool:
    """As many products as there are parts of a letter that both operands sum over."""
    assert isinstance(op.defn, SumOfProducts)
    left, right = (v.tensor for v in op.operands)
    problem = describe(op.defn.contraction(left, right, **op.parameters), left, right)
    blocks = _blocks(problem)
    if not 0 < blocks < BUSY:
        return False
    attrs = op.defn.letters(op)
    windowed = {pair[0] for pair in attrs["windows"]}
    summed = set(attrs["left"]) & set(attrs["right"]) - set(attrs["result"]) - windowed
    sizes = dict(zip(attrs["left"], left.static_shape, strict=True))
    depth = prod(n for n in problem.depth if isinstance(n, int))
    each = options.depth if has_tiles(problem) else options.elements
    most = min(options.blocks // blocks, depth // each)
    # What is copied together stays together.
    groups = depth // DEEP if depth % DEEP == 0 else depth
    found = [(_parts(gcd(sizes[letter], groups), most), letter) for letter in sorted(summed)]
    parts, letter = max(found, default=(1, ""))
    return _are_enough(parts, most) and _multiply_in_parts(op, letter, parts, problem)


def _blocks(problem: Problem) -> int:
    """The blocks that make a product: one for each tile, or for each sum."""
    if has_tiles(problem):
        return tiles(problem)
    extents = (*problem.batch, problem.rows, problem.columns)
    return prod(n for n in extents if isinstance(n, int))


def _multiply_in_parts(op: Operation, letter: str, parts: int, problem: Problem) -> bool:
    """Cut the axes of a letter, if the products of parts have tiles as the whole one had."""
    assert isinstance(op.defn, SumOfProducts)
    attrs = dict(op.defn.letters(op))
    used = {*attrs["left"], *attrs["right"], *(c for pair in attrs["windows"] for c in pair)}
    part = next(c for c in ascii_letters if c not in used)
    shapes = []
    for role, operand in zip(("left", "right"), op.operands, strict=True):
        at, shape = attrs[role].index(letter), operand.tensor.static_shape
        shapes.append((*shape[:at], parts, shape[at] // parts, *shape[at + 1 :]))
        attrs[role] = attrs[role].replace(letter, part + letter)
    attrs["result"] = part + attrs["result"]
    left, right = (TensorType(v.type.dtype, s) for v, s in zip(op.operands, shapes, strict=True))
    if _is_narrow(op.result.type.dtype):
        attrs["wide"] = True
    whole: SumOfProducts = OPS["conv"]  # type: ignore[assignment]
    cut = describe(whole.contraction(left, right, **attrs), left, right)
    if has_tiles(cut) != has_tiles(problem) or _blocks(cut) != parts * _blocks(problem):
        return False
    b = _before(op)
    cut_operands = [b.emit("reshape", v, shape=s) for v, s in zip(op.operands, shapes, strict=True)]
    found = b.emit("sum", b.emit(whole, *cut_operands, **attrs), axes=(0,))
    if attrs.get("wide"):
        found = b.emit("cast", found, dtype=op.result.type.dtype)
    op.replace([found], "two stages")
    return True
