"""Choosing, finding, sorting and counting elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras.src.backend.common.backend_utils import canonicalize_axis, vectorize_impl
from keras.src.backend.common.dtypes import result_type

import tapec
from tapec.keras.engine.conversion import (
    convert_to_numpy,
    convert_to_tensor,
    dtype_of,
    floating,
    promoted,
)
from tapec.keras.engine.elementwise import truths
from tapec.recording import current_trace
from tapec.tensor import Tensor


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """From the first where it holds, else from the second; alone, the places where it holds."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    a, b = promoted(x1, x2)
    return tapec.where(truths(condition), a, b)


def nonzero(x: Any) -> tuple[Tensor, ...]:
    """The places of elements other than zero, one tensor for each axis; eager."""
    _refuse_in_trace("nonzero")
    return tuple(convert_to_tensor(n, "int32") for n in np.nonzero(convert_to_numpy(x)))


def _refuse_in_trace(what: str) -> None:
    if current_trace() is not None:
        raise NotImplementedError(
            f"{what} cannot be compiled: the shape of its result depends on values; use where with three operands"
        )


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """From the first choice whose condition holds, else the default."""
    *choices, found = promoted(*choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        found = tapec.where(truths(condition), choice, found)
    return found


def _index(x: Any) -> Tensor:
    found = convert_to_tensor(x)
    return found if found.dtype.is_integer else tapec.cast(found, "int32")


def _from_the_end(indices: Tensor, size: Any) -> Tensor:
    """Negative indices count from the end; what lies outside is moved to the nearest end."""
    if indices.dtype.is_unsigned:
        indices = tapec.cast(indices, "int64" if indices.dtype.size > 2 else "int32")
    whole = convert_to_tensor(size, indices.dtype.name)
    found = tapec.where(indices < 0, indices + whole, indices)
    return tapec.clip_by_value(found, 0, whole - 1)


def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """The entries along an axis at indices; of all elements, if None."""
    x, found = convert_to_tensor(x), _index(indices)
    if axis is None:
        x, axis = tapec.reshape(x, [-1]), 0
    axis = canonicalize_axis(axis, x.type.rank)
    return tapec.gather(x, _from_the_end(found, _size(x, axis)), axis=axis)


def _size(x: Tensor, axis: int) -> Any:
    return tapec.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """For each place of ``indices``, the element there along an axis."""
    x, found = convert_to_tensor(x), _index(indices)
    if axis is None:
        if found.type.rank != 1:
            raise ValueError("`indices` must be a vector if `axis` is None")
        return take(x, found)
    axis = canonicalize_axis(axis, x.type.rank)
    found = _from_the_end(found, _size(x, axis))
    sizes = [n for n in range(x.type.rank) if n != axis]
    rows = tapec.transpose(x, [*sizes, axis])
    places = tapec.transpose(found, [*sizes, axis])
    shape = [max(_size(rows, n), _size(places, n)) for n in range(len(sizes))]
    rows = tapec.broadcast_to(rows, [*shape, _size(rows, -1)])
    places = tapec.broadcast_to(places, [*shape, _size(places, -1)])
    chosen = tapec.gather(rows, places, axis=len(sizes), batch_dims=len(sizes))
    return tapec.transpose(chosen, list(np.argsort([*sizes, axis])))


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Places in a shape from their numbers; negative ones count from the end."""
    found = _index(indices)
    count = int(np.prod(shape))
    found = tapec.where(found < 0, found + tapec.constant(count, found.dtype), found)
    places = []
    for size in reversed(shape):
        places.append(tapec.floormod(found, tapec.constant(size, found.dtype)))
        found = tapec.floordiv(found, tapec.constant(size, found.dtype))
    return tuple(reversed(places))


# -- order


def sort(x: Any, axis: int | None = -1) -> Tensor:
    """In rising order along an axis."""
    x, axis = _along(x, axis)
    if x.dtype.name == "bool":
        return tapec.cast(tapec.sort(tapec.cast(x, "int8"), axis), "bool")
    return tapec.sort(x, axis)


def _along(x: Any, axis: int | None) -> tuple[Tensor, int]:
    x = convert_to_tensor(x)
    return (tapec.reshape(x, [-1]), 0) if axis is None else (x, axis)


def argsort(x: Any, axis: int | None = -1) -> Tensor:
    """The indices that sort along an axis."""
    x, axis = _along(x, axis)
    if x.dtype.name == "bool":
        x = tapec.cast(x, "uint8")
    if not x.type.rank:
        return tapec.constant(0)
    return tapec.cast(tapec.argsort(x, axis, stable=True), "int32")


def argpartition(x: Any, kth: int, axis: int = -1) -> Tensor:
    """Indices with the smaller ones than the ``kth`` element before it: those that sort."""
    return argsort(x, axis)


def searchsorted(sorted_sequence: Any, values: Any, side: str = "left") -> Tensor:
    """Where values would be put into a sorted vector.

    Raises:
        ValueError: the first operand is no vector.
    """
    a, b = promoted(sorted_sequence, values)
    if a.type.rank != 1:
        raise ValueError(
            "`searchsorted` only supports 1-D sorted sequences. You can use `keras.ops.vectorized_map` "
            f"to extend it to N-D sequences. Received: sorted_sequence.shape={a.shape}"
        )
    flat = tapec.reshape(b, [-1])
    return tapec.reshape(tapec.searchsorted(a, flat, side), tapec.shape(b))


def digitize(x: Any, bins: Any) -> Tensor:
    """The number of the bin that each element falls in."""
    a, b = promoted(x, bins)
    found = tapec.searchsorted(b, tapec.reshape(a, [-1]), "right")
    return tapec.reshape(found, tapec.shape(a))


def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element of the first is among the second."""
    a, b = promoted(x1, x2)
    found = tapec.reduce_any(tapec.equal(a[..., None], tapec.reshape(b, [-1])), -1)
    return tapec.logical_not(found) if invert else found


# -- counts


def bincount(x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False) -> Tensor:
    """How often each number is there, along the last axis; the sum of weights, if given.

    Raises:
        ValueError: a sparse result is asked for.
        NotImplementedError: it is compiled, and the greatest number is not known.
    """
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with tapec backend")
    numbers = tapec.cast(convert_to_tensor(x), "int32")
    dtype = "int32"
    if weights is not None:
        weights = convert_to_tensor(weights)
        dtype = result_type(dtype_of(convert_to_tensor(x)), weights.dtype.name)
    _refuse_in_trace("bincount")
    length = max(minlength, int(np.max(convert_to_numpy(numbers), initial=-1)) + 1)
    hits = tapec.cast(tapec.one_hot(numbers, length), dtype)
    if weights is not None:
        hits = hits * tapec.cast(weights, dtype)[..., None]
    return tapec.reduce_sum(hits, -2)


def histogram(x: Any, bins: Any = 10, range: Any = None) -> tuple[Tensor, Tensor]:
    """How many elements fall between edges, and the edges.

    Raises:
        ValueError: ``bins`` is not positive, or the range is empty.
    """
    x = floating(tapec.reshape(convert_to_tensor(x), [-1]))
    if isinstance(bins, int):
        low, high = range if range is not None else (tapec.reduce_min(x), tapec.reduce_max(x))
        low, high = convert_to_tensor(low, x.dtype.name), convert_to_tensor(high, x.dtype.name)
        same = tapec.equal(low, high)
        half = tapec.constant(0.5, x.dtype)
        low, high = tapec.where(same, low - half, low), tapec.where(same, high + half, high)
        edges = low + (high - low) * tapec.cast(np.arange(bins + 1), x.dtype) / float(bins)
        edges = tapec.concat([edges[:-1], high[None]], 0)
    else:
        edges = convert_to_tensor(bins, x.dtype.name)
    below = tapec.searchsorted(tapec.sort(x), edges[:-1], "left")
    end = tapec.searchsorted(tapec.sort(x), edges[-1:], "right")
    found = tapec.concat([below, end], 0)
    return tapec.cast(found[1:] - found[:-1], "int32"), edges


def unique(
    x: Any,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements or entries, each once, in rising order; eager.

    ``size`` cuts them off, or fills up with ``fill_value`` (the least one, if None).
    """
    _refuse_in_trace("unique")
    array = convert_to_numpy(x)
    found, *rest = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    first, inverse, counts = rest
    if size is not None:
        along = 0 if axis is None else axis
        found = _sized(found, size, along, fill_value)
        first, counts = _sized(first, size, 0, None), _sized(counts, size, 0, 0)
    dtype = convert_to_tensor(x).dtype.name
    asked = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    results = [convert_to_tensor(v, "int32") for wanted, v in asked if wanted]
    values = convert_to_tensor(found, dtype)
    return (values, *results) if results else values


def _sized(array: Any, size: int, axis: int, fill: Any) -> Any:
    count = array.shape[axis]
    if count >= size:
        return np.take(array, range(size), axis)
    missing = [(0, size - count if n == axis else 0) for n in range(array.ndim)]
    if fill is None:
        rows = np.concatenate(
            [array, np.repeat(np.take(array, [0], axis), size - count, axis)], axis
        )
        return rows
    return np.pad(array, missing, constant_values=fill)


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = None, signature: str | None = None
) -> Any:
    """A function of elements as one of tensors."""
    return vectorize_impl(pyfunc, tapec.vectorized_map, excluded=excluded, signature=signature)


def slogdet(x: Any) -> tuple[Tensor, Tensor]:
    """The sign of the determinant and the logarithm of its absolute value."""
    return tuple(tapec.linalg.slogdet(floating(x)))  # type: ignore[return-value]
