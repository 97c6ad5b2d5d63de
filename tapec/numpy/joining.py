"""Tensors put together and taken apart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tapec.errors import NotImplementedError
from tapec.frames import here
from tapec.functions import rearrangement
from tapec.functions.broadcasting import axis_of, misfit
from tapec.functions.known import as_shape
from tapec.functions.rearrangement import part, reshape
from tapec.ir.dims import Dim, DimLike
from tapec.numpy.promotion import promoted
from tapec.numpy.shaping import atleast_3d, ravel
from tapec.tensor import Tensor, TensorLike, as_tensor


def _parts(arrays: Any) -> list[Tensor]:
    """Tensors of one dtype; one tensor is the sequence of its entries."""
    parts = rearrangement.unstack(arrays) if isinstance(arrays, Tensor) else list(arrays)
    if not parts:
        raise misfit("expected one tensor at least, got none")
    return promoted(*parts)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Tensors one behind the other along an axis; without one, their flat elements.

    Raises:
        InvalidArgumentError: they do not agree in every other size (ValueError while a function is compiled).
    """
    parts = _parts(arrays)
    if axis is None:
        return rearrangement.concat([ravel(p) for p in parts], 0)
    return rearrangement.concat(parts, axis)


def concatenate(arrays: Any, /, axis: int | None = 0) -> Tensor:
    """`concat`."""
    return concat(arrays, axis=axis)


def append(x: TensorLike, values: TensorLike, /, axis: int | None = None) -> Tensor:
    """``values`` behind ``x``; the flat elements of both without an axis."""
    return concat([x, values], axis=axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    return rearrangement.stack(_parts(arrays), axis)


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The entries of an axis."""
    return tuple(rearrangement.unstack(x, axis=axis))


def vstack(arrays: Any, /) -> Tensor:
    """Rows one below the other; vectors are rows."""
    parts = [reshape(p, (1, -1)) if p.type.rank < 2 else p for p in _parts(arrays)]
    return rearrangement.concat(parts, 0)


def hstack(arrays: Any, /) -> Tensor:
    """Columns one beside the other; vectors one behind the other."""
    parts = [reshape(p, (1,)) if not p.type.rank else p for p in _parts(arrays)]
    return rearrangement.concat(parts, 0 if parts[0].type.rank == 1 else 1)


def dstack(arrays: Any, /) -> Tensor:
    """One behind the other along the third axis; see `atleast_3d`."""
    return rearrangement.concat([atleast_3d(p) for p in _parts(arrays)], 2)


def column_stack(arrays: Any, /) -> Tensor:
    """Columns one beside the other; vectors are columns."""
    parts = [reshape(p, (-1, 1)) if p.type.rank < 2 else p for p in _parts(arrays)]
    return rearrangement.concat(parts, 1)


# -- taken apart


def array_split(x: TensorLike, indices_or_sections: Any, /, axis: int = 0) -> list[Tensor]:
    """The parts of an axis.

    Args:
        x: the tensor.
        indices_or_sections: how many parts, which are as large as each other or larger by one; or where to cut.
        axis: along which.

    Raises:
        NotImplementedError: the size of the axis is not known before run time.
    """
    tensor = as_tensor(x)
    place = axis_of(axis, tensor.type.rank)
    extent = tensor.type.shape[place]
    if isinstance(indices_or_sections, int | np.integer):
        number = int(indices_or_sections)
        if number < 1:
            raise misfit(f"the number of parts must be positive, got {number}")
        rows, left = np.divmod(_known(extent), number)
        sizes = [rows + 1] * left + [rows] * (number - left)
        bounds: list[DimLike] = [0, *np.cumsum(sizes).tolist()]
    else:
        cuts = as_shape(indices_or_sections)
        bounds = [0, *[_inside(c, extent) for c in cuts], extent]
    return [part(tensor, place, a, _room(a, b)) for a, b in pairwise(bounds)]


def _known(extent: DimLike) -> int:
    if isinstance(extent, Dim):
        raise NotImplementedError(
            f"an axis of size {extent} cannot be split into equal parts while a function is compiled",
            location=here(),
            hint="say where to cut, or reshape it",
        )
    return extent


def _inside(cut: DimLike, extent: DimLike) -> DimLike:
    """A place to cut, as Python's slices take it."""
    if isinstance(cut, Dim) or isinstance(extent, Dim):
        return cut
    return min(cut, extent) if cut >= 0 else max(cut + extent, 0)


def _room(start: DimLike, stop: DimLike) -> DimLike:
    if isinstance(start, Dim) or isinstance(stop, Dim):
        return stop - start
    return max(stop - start, 0)


def split(x: TensorLike, indices_or_sections: Any, /, axis: int = 0) -> list[Tensor]:
    """Equal parts of an axis, or the parts between places to cut; see `array_split`.

    Raises:
        InvalidArgumentError: the axis has no such equal parts (ValueError while a function is compiled).
    """
    tensor = as_tensor(x)
    if isinstance(indices_or_sections, int | np.integer):
        number = int(indices_or_sections)
        extent = tensor.type.shape[axis_of(axis, tensor.type.rank)]
        if number < 1 or (not isinstance(extent, Dim) and extent % number):
            raise misfit(f"an axis of size {extent} has no {number} equal parts")
        if isinstance(extent, Dim):
            return rearrangement.split(tensor, number, axis)
    return array_split(tensor, indices_or_sections, axis)


def vsplit(x: TensorLike, indices_or_sections: Any, /) -> list[Tensor]:
    """`split` along the first axis."""
    return split(x, indices_or_sections, 0)


def hsplit(x: TensorLike, indices_or_sections: Any, /) -> list[Tensor]:
    """`split` along the second axis, of a vector along its only one."""
    tensor = as_tensor(x)
    return split(tensor, indices_or_sections, 0 if tensor.type.rank == 1 else 1)


def dsplit(x: TensorLike, indices_or_sections: Any, /) -> list[Tensor]:
    """`split` along the third axis."""
    return split(x, indices_or_sections, 2)
