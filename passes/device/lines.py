"""What goes through a line of elements in order, as what many threads do at once: see `tapec.passes.device.stages`."""

from __future__ import annotations

from tapec.ir.builder import Builder
from tapec.ir.core import Operation, Value
from tapec.ir.ops.reduction import ArgMax
from tapec.ir.types import I32, I64, TensorType


def running_sum(b: Builder, op: Operation, parts: int) -> Value:
    """A cumulative sum: of each part of the line by itself, and then, of what is before a part, added to all of it."""
    (x,) = op.operands
    axis, shape = op.attrs["axis"], x.tensor.static_shape
    exclusive, reverse = (op.attrs.get(name, False) for name in ("exclusive", "reverse"))
    cut = (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
    pieces = b.emit("reshape", x, shape=cut)
    sums = b.emit(op.defn, pieces, axis=axis + 1, exclusive=exclusive, reverse=reverse)
    ends = _end(b, sums, axis + 1, first=reverse)
    if exclusive:
        ends = b.add(ends, _end(b, pieces, axis + 1, first=reverse))
    before = b.emit(op.defn, ends, axis=axis, exclusive=True, reverse=reverse)
    whole = b.add(_along(b, before, cut, axis + 1), sums)
    result: Value = b.emit("reshape", whole, shape=shape)
    return result


def _end(b: Builder, x: Value, axis: int, *, first: bool) -> Value:
    """The first or the last element of each line."""
    shape = x.tensor.static_shape
    starts = [0] * len(shape)
    starts[axis] = 0 if first else shape[axis] - 1
    sizes = (*shape[:axis], 1, *shape[axis + 1 :])
    one = b.emit("slice", x, starts=tuple(starts), sizes=sizes, strides=(1,) * len(shape))
    result: Value = b.emit("reshape", one, shape=(*shape[:axis], *shape[axis + 1 :]))
    return result


def _along(b: Builder, x: Value, shape: tuple[int, ...], axis: int) -> Value:
    """A number for each line, for all of its elements."""
    kept = tuple(a for a in range(len(shape)) if a != axis)
    result: Value = b.emit("broadcast", x, axes=kept, shape=shape)
    return result


def place_of_best(b: Builder, op: Operation) -> tuple[Value, Value]:
    """The first place of a line's largest or smallest element: the best of all, and the least place that has it.

    Both are reductions, in this order; where an element is NaN, so is the best, and places of NaN count.
    """
    assert isinstance(op.defn, ArgMax)
    (x,) = op.operands
    axis, shape = op.attrs["axis"], x.tensor.static_shape
    best = b.emit(op.defn.best, x, axes=(axis,))
    has_it = b.emit("eq", x, _along(b, best, shape, axis))
    if x.type.dtype.is_floating:
        has_it = b.emit("or", has_it, b.emit("ne", x, x))
    dtype = I32 if shape[axis] <= int(I32.max) else I64
    places = b.emit("iota", axis=axis, type=TensorType(dtype, shape))
    chosen = b.emit("where", has_it, places, b.full_like(int(dtype.max), places))
    return best, b.emit("reduce_min", chosen, axes=(axis,))
