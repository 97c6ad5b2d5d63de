"""Make long sums in two stages, where one would keep a device's blocks of threads waiting for one of them.

A reduction of very many elements to one number is cut along one of its axes: first each part is reduced, each by its
own block, then what the parts gave. Products of matrices whose depth is their rows, as gradients of weights have the
batch, are cut the same way, as a batch of products that is added up. How many parts there are depends on shapes alone,
so results are the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tapec.ir.builder import Builder
from tapec.ir.core import Module, Operation, Value
from tapec.ir.ops.contraction import MatMul
from tapec.ir.ops.reduction import Reduction
from tapec.passes.device.tile import PART, tiles


@dataclass(frozen=True)
class Options:
    """Blocks that keep a device busy; elements, or turns of a product's depth, that a part has at least."""

    blocks: int = 256
    elements: int = 1024
    depth: int = 256


def run(module: Module, options: Options) -> bool:
    """Cut what is long."""
    changed = False
    for function in module.functions.values():
        for op in list(function.walk()):
            if isinstance(op.defn, Reduction):
                changed |= _cut_reduction(op, options)
            elif isinstance(op.defn, MatMul):
                changed |= _cut_product(op, options)
    return changed


def _parts(extent: int, most: int) -> int:
    """The largest number of equal parts, at most so many."""
    return max((n for n in range(1, min(extent, most) + 1) if extent % n == 0), default=1)


def _cut_reduction(op: Operation, options: Options) -> bool:
    (x,) = op.operands
    axes = op.attrs["axes"]
    shape = _static(x)
    if shape is None or _is_narrow(x) or op.block is None:
        return False
    if len(axes) < len(shape) or not axes:
        return False  # rows, each of which a block of threads reduces
    most = min(options.blocks, prod(shape) // options.elements)
    for axis in sorted(axes):
        parts = _parts(shape[axis], most)
        # Few parts are not worth a launch, and not much better than none.
        if parts > 1 and 4 * parts >= most > 3:
            _reduce_twice(op, shape, axis, parts)
            return True
    return False


def _reduce_twice(op: Operation, shape: Sequence[int], axis: int, parts: int) -> None:
    (x,) = op.operands
    assert op.block is not None
    b = Builder(op.block, before=op)
    b.location = op.location
    cut = (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
    inner = tuple(a + (a >= axis) for a in op.attrs["axes"])
    first = b.emit(op.defn, b.emit("reshape", x, shape=cut), axes=inner)
    op.replace([b.emit(op.defn, first, axes=(0,))], "two stages")


def _cut_product(op: Operation, options: Options) -> bool:
    """``aᵀ b`` of few rows and columns: as many products as there are parts of the depth."""
    a, b_ = op.operands
    left, right = _static(a), _static(b_)
    plain = op.attrs.get("transpose_a", False) and not op.attrs.get("transpose_b", False)
    if left is None or right is None or len(left) != 2 or not plain or _is_narrow(a):
        return False
    depth, rows = left
    columns = right[1]
    if op.block is None or min(rows, columns) < 2 * PART:
        return False
    most = min(options.blocks // tiles(rows, columns), depth // options.depth)
    parts = _parts(depth, most)
    if parts == 1 or 4 * parts < most:
        return False
    b = Builder(op.block, before=op)
    b.location = op.location
    cut = [
        b.emit("reshape", v, shape=(parts, depth // parts, n))
        for v, n in zip((a, b_), (rows, columns), strict=True)
    ]
    products = b.emit(op.defn, *cut, **op.attrs)
    op.replace([b.emit("sum", products, axes=(0,))], "two stages")
    return True


def _static(value: Value) -> tuple[int, ...] | None:
    shape = value.tensor.shape
    return tuple(int(str(n)) for n in shape) if all(isinstance(n, int) for n in shape) else None


def _is_narrow(value: Value) -> bool:
    """Whether what is added up in between would be rounded to fewer bits than the sums have."""
    dtype = value.type.dtype
    return dtype.is_complex or (dtype.is_floating and dtype.bits < 32)
