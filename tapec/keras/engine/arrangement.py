"""What moves elements: shapes, axes, joining, splitting, repeating, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras.src.backend.common.backend_utils import canonicalize_axis, to_tuple_or_list

import tapec
from tapec import numpy
from tapec.keras.engine.conversion import convert_to_tensor, promoted
from tapec.keras.engine.reductions import sum
from tapec.tensor import Tensor

Sizes = int | Sequence[Any]


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def ndim(x: Any) -> int:
    """The number of axes."""
    return convert_to_tensor(x).type.rank


def size(x: Any) -> Tensor:
    """The number of elements."""
    return tapec.size(convert_to_tensor(x))


def reshape(x: Any, newshape: Sizes) -> Tensor:
    """The elements in another shape; None and -1 are the size that is left."""
    sizes = [newshape] if isinstance(newshape, int) else list(newshape)
    return tapec.reshape(convert_to_tensor(x), [-1 if n is None else n for n in sizes])


def ravel(x: Any) -> Tensor:
    """The elements in one axis."""
    return tapec.reshape(convert_to_tensor(x), [-1])


def expand_dims(x: Any, axis: Any) -> Tensor:
    """New axes of size 1 at places of the result."""
    x = convert_to_tensor(x)
    axes = to_tuple_or_list(axis)
    rank = x.type.rank + len(axes)
    for place in sorted(canonicalize_axis(n, rank) for n in axes):
        x = tapec.expand_dims(x, place)
    return x


def squeeze(x: Any, axis: Any = None) -> Tensor:
    """Without axes of size 1."""
    x = convert_to_tensor(x)
    return tapec.squeeze(x, None if axis is None else list(to_tuple_or_list(axis)))


def transpose(x: Any, axes: Any = None) -> Tensor:
    """The axes in another order, the reverse if None."""
    x = convert_to_tensor(x)
    order = None if axes is None else [canonicalize_axis(n, x.type.rank) for n in axes]
    return tapec.transpose(x, order)


def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """Axes at other places."""
    return numpy.moveaxis(convert_to_tensor(x), source, destination)


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes, each in the place of the other."""
    return numpy.swapaxes(convert_to_tensor(x), axis1, axis2)


def broadcast_to(x: Any, shape: Any) -> Tensor:
    """Repeated to a shape."""
    return tapec.broadcast_to(convert_to_tensor(x), list(shape))


def flip(x: Any, axis: Any = None) -> Tensor:
    """Backwards along axes, all if None."""
    x = convert_to_tensor(x)
    axes = range(x.type.rank) if axis is None else to_tuple_or_list(axis)
    return tapec.reverse(x, list(axes)) if x.type.rank else x


def fliplr(x: Any) -> Tensor:
    """Backwards along the second axis."""
    return flip(x, 1)


def flipud(x: Any) -> Tensor:
    """Backwards along the first axis."""
    return flip(x, 0)


def rot90(array: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by ``k`` right angles in the plane of two axes.

    Raises:
        ValueError: there are less than two axes, or those given are not two.
    """
    x = convert_to_tensor(array)
    if x.type.rank < 2:
        raise ValueError(
            f"Input array must have at least 2 dimensions. Received: array.ndim={x.type.rank}"
        )
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"Invalid axes: {axes}. Axes must be a tuple of two different dimensions.")
    return numpy.rot90(x, k, tuple(axes))


def roll(x: Any, shift: Any, axis: Any = None) -> Tensor:
    """What leaves at one end of an axis comes in at the other."""
    x = convert_to_tensor(x)
    if axis is None:
        return tapec.reshape(tapec.roll(tapec.reshape(x, [-1]), shift, 0), tapec.shape(x))
    return tapec.roll(x, _list(shift), _list(axis))


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Each entry along an axis several times."""
    x = convert_to_tensor(x)
    if axis is None:
        x, axis = tapec.reshape(x, [-1]), 0
    count = _list(repeats)
    if isinstance(count, list) and len(count) == 1:
        count = count[0]
    return tapec.repeat(x, count, axis)


def tile(x: Any, repeats: Any) -> Tensor:
    """The whole several times along axes."""
    x = convert_to_tensor(x)
    times = [repeats] if isinstance(repeats, int) else list(repeats)
    missing = x.type.rank - len(times)
    times = [1] * missing + times
    for _ in range(-missing):
        x = tapec.expand_dims(x, 0)
    return tapec.tile(x, times)


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Tensor:
    """Elements before and after along axes: of a value, or from inside.

    Raises:
        ValueError: ``constant_values`` beside another mode.
    """
    x = convert_to_tensor(x)
    if constant_values is not None and mode != "constant":
        raise ValueError(
            "Argument `constant_values` can only be provided when `mode == 'constant'`. "
            f"Received: mode={mode}"
        )
    widths = [list(pair) for pair in pad_width]
    if len(widths) == 1 and x.type.rank > 1:
        widths = widths * x.type.rank
    if mode not in ("constant", "reflect", "symmetric"):
        return numpy.pad(x, widths, mode)
    if x.dtype.name == "bool":
        return tapec.cast(
            tapec.pad(tapec.cast(x, "uint8"), widths, mode, int(constant_values or 0)), "bool"
        )
    return tapec.pad(x, widths, mode, 0 if constant_values is None else constant_values)


# -- joining


def concatenate(xs: Any, axis: int | None = 0) -> Tensor:
    """One after the other along an axis; of all elements, if None."""
    parts = promoted(*xs)
    if axis is None:
        return tapec.concat([tapec.reshape(x, [-1]) for x in parts], 0)
    return tapec.concat(parts, axis)


def stack(x: Any, axis: int = 0) -> Tensor:
    """Beside each other along a new axis."""
    return tapec.stack(promoted(*x), axis)


def append(x1: Any, x2: Any, axis: int | None = None) -> Tensor:
    """The second behind the first."""
    return concatenate([x1, x2], axis)


def _together(function: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    def applied(xs: Any) -> Tensor:
        return function(promoted(*xs))

    return applied


dstack = _together(numpy.dstack)
hstack = _together(numpy.hstack)
vstack = _together(numpy.vstack)


def meshgrid(*x: Any, indexing: str = "xy") -> list[Tensor]:
    """Each vector as a grid of all."""
    vectors = [tapec.reshape(convert_to_tensor(v), [-1]) for v in x]
    return list(tapec.meshgrid(*vectors, indexing=indexing))


# -- splitting


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Equal parts along an axis, or parts that begin at places."""
    x = convert_to_tensor(x)
    if isinstance(indices_or_sections, int):
        if isinstance(x.shape[axis], int) and x.shape[axis] % indices_or_sections:
            raise ValueError(
                f"array split does not result in an equal division: axis {axis} of {x.shape} "
                f"into {indices_or_sections}"
            )
        return list(tapec.split(x, indices_or_sections, axis))
    return _cut(x, [int(n) for n in np.asarray(indices_or_sections).reshape(-1)], axis)


def _cut(x: Tensor, places: Sequence[int], axis: int) -> list[Tensor]:
    lead = [slice(None)] * (axis % x.type.rank)
    ends = [*places, None]
    return [x[(*lead, slice(a, b))] for a, b in zip([0, *places], ends, strict=True)]


def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """As equal parts as can be along an axis."""
    x = convert_to_tensor(x)
    if not isinstance(indices_or_sections, int):
        return split(x, indices_or_sections, axis)
    whole, left = divmod(int(x.shape[axis]), indices_or_sections)
    sizes = [whole + 1] * left + [whole] * (indices_or_sections - left)
    return list(tapec.split(x, sizes, axis))


def hsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Along the second axis, of a vector along its own."""
    x = convert_to_tensor(x)
    return split(x, indices_or_sections, 1 if x.type.rank > 1 else 0)


def vsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Along the first axis."""
    return split(x, indices_or_sections, 0)


def dsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Along the third axis."""
    return split(x, indices_or_sections, 2)


# -- diagonals and triangles


def diag(x: Any, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix of a diagonal."""
    x = convert_to_tensor(x)
    if x.type.rank == 2:
        return diagonal(x, k)
    return tapec.linalg.diag(x, k=k)


def diagflat(x: Any, k: int = 0) -> Tensor:
    """The matrix whose diagonal all elements are."""
    return tapec.linalg.diag(ravel(x), k=k)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonal of the matrices in two axes, as the last axis."""
    return numpy.diagonal(convert_to_tensor(x), offset, axis1, axis2)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of `diagonal`."""
    return sum(diagonal(x, offset, axis1, axis2), -1)


def _triangle(x: Any, k: int, lower: bool) -> Tensor:
    x = convert_to_tensor(x)
    rows = tapec.range(tapec.shape(x)[-2])[:, None]
    columns = tapec.range(tapec.shape(x)[-1])[None, :]
    kept = columns - rows <= k if lower else columns - rows >= k
    return tapec.where(kept, x, tapec.zeros_like(x))


def tril(x: Any, k: int = 0) -> Tensor:
    """What lies on and below a diagonal, zeros elsewhere."""
    return _triangle(x, k, lower=True)


def triu(x: Any, k: int = 0) -> Tensor:
    """What lies on and above a diagonal, zeros elsewhere."""
    return _triangle(x, k, lower=False)


def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """The differences of neighbours along an axis, ``n`` times over."""
    return numpy.diff(convert_to_tensor(a), n=n, axis=axis)
