"""Shapes, and the order of axes and entries; nothing is computed. Axes may be negative, and then count from the end.

Raises of every function: InvalidArgumentError for an axis out of range or a shape that does not fit (ValueError while a
function is compiled).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapec.functions import rearrangement
from tapec.functions.broadcasting import axes_of, axis_of, broadcast, common_shape, misfit
from tapec.functions.known import as_shape
from tapec.functions.rearrangement import concat as _concat
from tapec.functions.rearrangement import part
from tapec.functions.rearrangement import reshape as _reshape
from tapec.functions.rearrangement import transpose as _transpose
from tapec.ir.dims import Dim
from tapec.ir.types import Shape
from tapec.numpy.promotion import of_dtype
from tapec.tensor import Tensor, TensorLike, as_tensor


def flat(x: TensorLike, axis: Any) -> tuple[Tensor, int]:
    """A tensor and one of its axes; without an axis, the elements in one row."""
    tensor = as_tensor(x)
    if axis is None:
        return _reshape(tensor, (-1,) if tensor.type.size != 0 else (0,)), 0
    return tensor, axis_of(axis, tensor.type.rank)


def _axes(axis: Any, rank: int) -> list[int]:
    """Axes from a number or several, in the order in which they are given."""
    given = axis if isinstance(axis, Sequence) else [axis]
    found = [axis_of(a, rank) for a in given]
    if len(set(found)) != len(found):
        raise misfit(f"an axis is named twice in {tuple(given)}")
    return found


def reshape(x: TensorLike, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The same elements, row-major, in another shape; one size may be -1 and is found.

    Args:
        x: the tensor.
        shape: the sizes.
        copy: without effect: tensors do not change.

    Example: ``reshape(arange(6), (2, -1))`` is ``[[0, 1, 2], [3, 4, 5]]``.
    """
    tensor, wanted = as_tensor(x), as_shape(shape)
    if tensor.type.size == 0 and -1 in wanted and 0 not in wanted:  # then -1 can only be 0
        wanted = tuple([0 if n == -1 else n for n in wanted])
    return _reshape(tensor, wanted)


def ravel(x: TensorLike, /) -> Tensor:
    """The elements in one row."""
    return flat(x, None)[0]


def permute_dims(x: TensorLike, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order: axis ``axes[i]`` becomes axis ``i``."""
    tensor = as_tensor(x)
    order = _axes(tuple(axes), tensor.type.rank)
    if len(order) != tensor.type.rank:
        raise misfit(f"expected {tensor.type.rank} axes, got {tuple(axes)}")
    return _transpose(tensor, order)


def transpose(x: TensorLike, /, axes: Sequence[int] | None = None) -> Tensor:
    """`permute_dims`; without ``axes`` all axes the other way round."""
    return _transpose(x) if axes is None else permute_dims(x, axes)


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """The last two axes swapped."""
    tensor = as_tensor(x)
    if tensor.type.rank < 2:
        raise misfit(f"expected a matrix, or a batch of them, got {tensor.type}")
    return swapaxes(tensor, -1, -2)


def moveaxis(x: TensorLike, source: Any, destination: Any, /) -> Tensor:
    """Axes moved to other places, the others in their order.

    Args:
        x: the tensor.
        source: an axis, or several.
        destination: where each of them goes.
    """
    tensor = as_tensor(x)
    rank = tensor.type.rank
    starts, ends = _axes(source, rank), _axes(destination, rank)
    if len(starts) != len(ends):
        raise misfit(f"{len(starts)} axes cannot be moved to {len(ends)} places")
    order = [n for n in range(rank) if n not in starts]
    for end, start in sorted(zip(ends, starts, strict=True)):
        order.insert(end, start)
    return _transpose(tensor, order)


def swapaxes(x: TensorLike, axis1: int, axis2: int, /) -> Tensor:
    """Two axes swapped."""
    tensor = as_tensor(x)
    order = list(range(tensor.type.rank))
    one, other = axis_of(axis1, tensor.type.rank), axis_of(axis2, tensor.type.rank)
    order[one], order[other] = other, one
    return _transpose(tensor, order)


def expand_dims(x: TensorLike, /, axis: Any = 0) -> Tensor:
    """With axes of size 1 at places of the result."""
    tensor = as_tensor(x)
    rank = tensor.type.rank + (len(axis) if isinstance(axis, Sequence) else 1)
    shape = list(tensor.type.shape)
    for place in sorted(_axes(axis, rank)):
        shape.insert(place, 1)
    return _reshape(tensor, tuple(shape))


def squeeze(x: TensorLike, /, axis: Any = None) -> Tensor:
    """Without axes of size 1: those that are named, or all of them."""
    tensor = as_tensor(x)
    if axis is None:
        return rearrangement.squeeze(tensor)
    axes, shape = axes_of(axis, tensor.type.rank), tensor.type.shape
    if any(shape[a] != 1 for a in axes):
        raise misfit(f"axes {axes} of {tensor.type} are not all of size 1")
    return _reshape(tensor, tuple([n for a, n in enumerate(shape) if a not in axes]))


def atleast_1d(*arrays: TensorLike) -> Any:
    """Scalars as vectors; one tensor, or a tuple of them."""
    return _at_least(1, arrays)


def atleast_2d(*arrays: TensorLike) -> Any:
    """Vectors as rows; one tensor, or a tuple of them."""
    return _at_least(2, arrays)


def atleast_3d(*arrays: TensorLike) -> Any:
    """Vectors and matrices as NumPy has them in three axes, ``[1, n, 1]`` and ``[m, n, 1]``."""
    return _at_least(3, arrays)


def _at_least(rank: int, arrays: Sequence[TensorLike]) -> Any:
    found = []
    for x in map(as_tensor, arrays):
        shape: Shape = x.type.shape
        if rank == 3 and len(shape) in (1, 2):
            shape = (1, *shape, 1)[-(rank if len(shape) == 2 else 4) :]
        while len(shape) < rank:
            shape = (1, *shape)
        found.append(_reshape(x, shape))
    return found[0] if len(found) == 1 else tuple(found)


def broadcast_to(x: TensorLike, /, shape: Any) -> Tensor:
    """Repeated to a shape."""
    return rearrangement.broadcast_to(x, shape)


def broadcast_arrays(*arrays: TensorLike) -> list[Tensor]:
    """Each repeated to the shape that all of them broadcast to."""
    tensors = [as_tensor(a) for a in arrays]
    if not tensors:
        return []
    shape = common_shape(*[t.type.shape for t in tensors])
    return [broadcast(t, shape) for t in tensors]


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape that all of these broadcast to."""
    return tuple(common_shape(*[as_shape(s) for s in shapes])) if shapes else ()


# -- the order of entries


def flip(x: TensorLike, /, *, axis: Any = None) -> Tensor:
    """The entries of axes, by default of all, in the opposite order."""
    tensor = as_tensor(x)
    return rearrangement.reverse(tensor, list(axes_of(axis, tensor.type.rank)))


def fliplr(x: TensorLike, /) -> Tensor:
    """The columns in the opposite order."""
    return flip(x, axis=1)


def flipud(x: TensorLike, /) -> Tensor:
    """The rows in the opposite order."""
    return flip(x, axis=0)


def rot90(x: TensorLike, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by ``k`` right angles, from the first of two axes to the second."""
    tensor = as_tensor(x)
    one, other = _axes(tuple(axes), tensor.type.rank)
    turns = k % 4
    if turns == 2:
        return rearrangement.reverse(tensor, [one, other])
    if turns == 1:
        return swapaxes(rearrangement.reverse(tensor, [other]), one, other)
    return rearrangement.reverse(swapaxes(tensor, one, other), [other]) if turns else tensor


def roll(x: TensorLike, /, shift: Any, *, axis: Any = None) -> Tensor:
    """The entries moved by ``shift`` places along axes; what leaves at the end enters in front.

    Args:
        x: the tensor.
        shift: how far, for each of the axes or for all.
        axis: an axis or several; without one the flat elements move.

    Example: ``roll([1, 2, 3], 1)`` is ``[3, 1, 2]``.
    """
    tensor = as_tensor(x)
    if axis is None:
        shape = tensor.type.shape
        by = shift[0] if isinstance(shift, Sequence) and len(shift) == 1 else shift
        return _reshape(_rolled(ravel(tensor), [(by, 0)]), shape)
    axes = axis if isinstance(axis, Sequence) else [axis]
    shifts = shift if isinstance(shift, Sequence) else [shift]
    wide = max(len(axes), len(shifts))
    axes, shifts = (list(v) * (wide if len(v) == 1 else 1) for v in (axes, shifts))
    if len(axes) != len(shifts):
        raise misfit(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    rank = tensor.type.rank
    return _rolled(tensor, [(s, axis_of(a, rank)) for s, a in zip(shifts, axes, strict=True)])


def _rolled(x: Tensor, moves: Sequence[tuple[Any, int]]) -> Tensor:
    for by, place in moves:
        x = rearrangement.roll(x, by, place)
    return x


def repeat(x: TensorLike, repeats: TensorLike, /, *, axis: Any = None) -> Tensor:
    """Every entry of an axis so many times in a row; the flat elements without an axis.

    Args:
        x: the tensor.
        repeats: how often, one number or one for each entry.
        axis: along which.

    Raises:
        TypeError: ``repeats`` is not known while a function is compiled.
    """
    tensor, place = flat(x, axis)
    return rearrangement.repeat(tensor, repeats, place)


def tile(x: TensorLike, repetitions: Any, /) -> Tensor:
    """The whole so many times along each axis; missing axes come first."""
    tensor = as_tensor(x)
    counts = as_shape(repetitions)
    rank = max(tensor.type.rank, len(counts))
    lead = (1,) * (rank - tensor.type.rank)
    counts = ((1,) * (rank - len(counts))) + counts
    return rearrangement.tile(_reshape(tensor, (*lead, *tensor.type.shape)), counts)


# -- padding


def pad(
    x: TensorLike, /, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0
) -> Tensor:
    """More entries in front of and behind each axis.

    Args:
        x: the tensor.
        pad_width: how many: a number, a pair ``(before, after)``, or a pair for each axis.
        mode: ``constant``, ``edge`` (the entries at the edge), ``reflect`` (mirrored without the edge), ``symmetric``
            (mirrored with it) or ``wrap`` (from the other end).
        constant_values: of ``constant``: a number, or as ``pad_width``.

    Raises:
        ValueError: an unknown mode.
    """
    tensor = as_tensor(x)
    rank = tensor.type.rank
    widths = np.broadcast_to(np.asarray(pad_width), (rank, 2)).tolist()
    if mode == "constant":
        return _filled(tensor, widths, constant_values)
    cut = {"edge": _edge, "reflect": _reflected, "symmetric": _mirrored, "wrap": _wrapped}.get(mode)
    if cut is None:
        raise misfit(f"unknown mode of padding {mode!r}")
    for axis, (before, after) in enumerate(widths):
        parts = [cut(tensor, axis, before, True), tensor, cut(tensor, axis, after, False)]
        tensor = _concat([p for p in parts if p is not None], axis)
    return tensor


def _filled(x: Tensor, widths: Any, values: Any) -> Tensor:
    if isinstance(values, Tensor) or hasattr(values, "read_value"):
        ones = rearrangement.pad(of_dtype(as_tensor(x), x.type.dtype) * 0, widths, "CONSTANT", 1)
        return rearrangement.pad(x, widths) + ones * of_dtype(values, x.type.dtype)
    rows = np.broadcast_to(np.asarray(0 if values is None else values), (x.type.rank, 2)).tolist()
    numbers = {v for row in rows for v in row}
    if len(numbers) <= 1:
        return rearrangement.pad(x, widths, "CONSTANT", next(iter(numbers), 0))
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, rows, strict=True)):
        zero = [[0, 0] for _ in widths]
        x = rearrangement.pad(x, [*zero[:axis], [before, 0], *zero[axis + 1 :]], "CONSTANT", low)
        x = rearrangement.pad(x, [*zero[:axis], [0, after], *zero[axis + 1 :]], "CONSTANT", high)
    return x


def _edge(x: Tensor, axis: int, count: int, front: bool) -> Tensor | None:
    extent = x.type.shape[axis]
    if not count:
        return None
    return rearrangement.repeat(part(x, axis, 0 if front else extent - 1, 1), count, axis)


def _wrapped(x: Tensor, axis: int, count: int, front: bool) -> Tensor | None:
    extent = x.type.shape[axis]
    if not count:
        return None
    if isinstance(extent, Dim) or count <= extent:
        return part(x, axis, extent - count if front else 0, count)
    whole = rearrangement.tile(
        x, [-(-count // extent) if a == axis else 1 for a in range(x.type.rank)]
    )
    return _wrapped(whole, axis, count, front)


def _mirrored(x: Tensor, axis: int, count: int, front: bool) -> Tensor | None:
    cycle = _concat([x, rearrangement.reverse(x, [axis])], axis)
    return _wrapped(cycle, axis, count, True) if front else _behind(cycle, x, axis, count)


def _behind(cycle: Tensor, x: Tensor, axis: int, count: int) -> Tensor | None:
    """What follows ``x`` in a cycle that begins with it."""
    after = rearrangement.roll(cycle, -x.type.shape[axis], axis)
    return _wrapped(after, axis, count, False)


def _reflected(x: Tensor, axis: int, count: int, front: bool) -> Tensor | None:
    extent = x.type.shape[axis]
    if extent == 1:
        return _edge(x, axis, count, front)
    inner = part(x, axis, 1, extent - 2)
    cycle = _concat([x, rearrangement.reverse(inner, [axis])], axis)
    return _wrapped(cycle, axis, count, True) if front else _behind(cycle, x, axis, count)
