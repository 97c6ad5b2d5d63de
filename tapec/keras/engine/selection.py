"""Choosing, finding, sorting and counting elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable
from keras.src.backend.common.backend_utils import vectorize_impl
from keras.src.backend.common.dtypes import result_type

import tapec
from tapec import numpy
from tapec.keras.engine.conversion import (
    convert_to_numpy,
    convert_to_tensor,
    dtype_of,
    floating,
    promoted,
)
from tapec.keras.engine.places import places_of, shape_unknown
from tapec.numpy.ordering import from_start
from tapec.tensor import Tensor
from tapec.tracing import TracedTensor


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """From the first where it holds, else from the second; alone, the places where it holds."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    a, b = promoted(x1, x2)
    return tapec.where(convert_to_tensor(condition, "bool"), a, b)


def nonzero(x: Any) -> Any:
    """The places of elements other than zero, one tensor for each axis; compiled, single ones of them alone."""
    if _is_traced(x):
        return places_of(x)
    return tuple(convert_to_tensor(n, "int32") for n in np.nonzero(_known(x, "nonzero")))


def _is_traced(x: Any) -> bool:
    """Whether values in it are there only when the program that is being made runs."""
    if isinstance(x, KerasVariable):
        x = x.value
    return any(isinstance(leaf, TracedTensor) for leaf in tree.flatten(x))


def _known(x: Any, what: str) -> Any:
    """The elements as an array, where there are any."""
    if _is_traced(x):
        raise shape_unknown(what, "use where with three operands")
    return convert_to_numpy(x)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """From the first choice whose condition holds, else the default."""
    *choices, found = promoted(*choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        found = tapec.where(convert_to_tensor(condition, "bool"), choice, found)
    return found


def _index(x: Any) -> Tensor:
    found = convert_to_tensor(x)
    return found if found.dtype.is_integer else tapec.cast(found, "int32")


def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """The entries along an axis at indices; of all elements, if None."""
    x, found = convert_to_tensor(x), _index(indices)
    if axis == 0 and x.type.rank:  # whose gradient has rows for the indices alone
        return tapec.gather(x, from_start(found, x.type.shape[0]), axis=0)
    return numpy.take(x, found, axis)


def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """For each place of ``indices``, the element there along an axis."""
    return numpy.take_along_axis(convert_to_tensor(x), _index(indices), axis)


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Places in a shape from their numbers; negative ones count from the end."""
    found = _index(indices)
    count = tapec.constant(math.prod(shape), found.dtype)
    places = numpy.unravel_index(tapec.where(found < 0, found + count, found), shape)
    return tuple(tapec.cast(place, found.dtype) for place in places)


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
    return tapec.cast(numpy.digitize(a, b), "int32")


def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element of the first is among the second."""
    a, b = promoted(x1, x2)
    return numpy.isin(a, b, invert=invert)


# -- counts


def bincount(x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False) -> Tensor:
    """How often each number is there, along the last axis; the sum of weights, if given.

    The result is as long as the greatest number asks for, and not shorter than ``minlength``. Compiled, it has that
    length, and a greater number is an error of the program.

    Raises:
        ValueError: a sparse result is asked for.
        NotImplementedError: it is compiled, and there is no ``minlength``.
    """
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with tapec backend")
    is_traced, given = _is_traced(x), x
    x = convert_to_tensor(x)
    numbers, dtype = tapec.cast(x, "int32"), "int32"
    if weights is not None:
        weights = convert_to_tensor(weights)
        dtype = result_type(dtype_of(x), weights.dtype.name)
    if not is_traced:
        array = convert_to_numpy(given)
        length = max(minlength, int(array.max()) + 1 if array.size else 0)
    elif minlength > 0:
        length = minlength
        tapec.debugging.assert_less(
            numbers, length, message=f"bincount is compiled for numbers below minlength={length}"
        )
    else:
        raise shape_unknown("bincount", "give it a minlength above all numbers")
    hits = tapec.cast(tapec.one_hot(numbers, length), dtype)
    if weights is not None:
        hits = hits * tapec.cast(weights, dtype)[..., None]
    return tapec.reduce_sum(hits, -2)


def histogram(x: Any, bins: Any = 10, range: Any = None) -> tuple[Tensor, Tensor]:
    """How many elements fall between edges, and the edges.

    Raises:
        ValueError: ``bins`` is not positive, or the range is empty.
    """
    if isinstance(bins, int) and bins <= 0:
        raise ValueError(f"Argument `bins` should be a non-negative integer. Received: bins={bins}")
    x = floating(x)
    edges: Any = bins if isinstance(bins, int) else convert_to_tensor(bins, x.dtype.name)
    found, places = numpy.histogram(x, edges, range)
    return tapec.cast(found, "int32"), tapec.cast(places, x.dtype)


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
    """The elements or entries, each once but for NaN, in rising order; eager.

    ``size`` cuts them off, or fills up with ``fill_value`` (the least one, if None).
    """
    array = _known(x, "unique")
    find: Any = partial(np.unique, return_index=True, return_inverse=True, return_counts=True)
    found, *rest = find(array, axis=axis, equal_nan=False)
    first, inverse, counts = rest
    if size is not None:
        along = 0 if axis is None else axis % array.ndim
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
