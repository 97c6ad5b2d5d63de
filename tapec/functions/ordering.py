"""Sorting along an axis, and orders: the order carries no gradient, the sorted values do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    cast,
    equal,
    less,
    less_equal,
    negative,
    where,
)
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import axis_of, misfit
from tapec.functions.indexing import entries
from tapec.functions.known import static_integer, static_value
from tapec.functions.logic import logical_not
from tapec.functions.rearrangement import expand_dims, part, reshape, transpose
from tapec.functions.reductions import reduce_all, reduce_logsumexp
from tapec.functions.requirements import require
from tapec.ir.dims import Dim
from tapec.ir.types import I32, TensorType
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


class TopK(NamedTuple):
    """The greatest entries of each row and where they stand."""

    values: Tensor
    indices: Tensor


def argsort(
    values: TensorLike,
    axis: Any = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """The int32 indices that would sort an axis; equal entries keep their order, NaN is greatest.

    A compiled function sorts by a network, whose comparisons depend on the size of the axis alone.

    Args:
        values: numbers.
        axis: along which.
        direction: ``ASCENDING`` or ``DESCENDING``.
        stable: ignored, as the order always is.

    Example: ``argsort([3, 1, 2])`` is ``[1, 2, 0]``.

    Raises:
        ValueError: an unknown direction.
        TargetError: in a compiled function, the size of the axis is not known.
    """
    x = as_tensor(values)
    place = axis_of(axis, x.type.rank)
    result: Tensor = apply("argsort", x, axis=place, descending=not _ascends(direction), dtype=I32)
    return result


def _ascends(direction: str) -> bool:
    if not arguments.is_one_of(direction, ("ASCENDING", "DESCENDING")):
        raise ValueError(
            f"Argument `direction` should be one of 'ASCENDING' or 'DESCENDING'. Received: "
            f"{direction}",
            location=here(),
        )
    return direction == "ASCENDING"


def _swapped(x: Tensor, axis: int) -> Tensor:
    """With one axis and the last one swapped."""
    order = list(range(x.type.rank))
    order[axis], order[-1] = order[-1], order[axis]
    return transpose(x, order)


def sort(
    values: TensorLike, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """The entries of an axis in order; see `argsort`. Each gradient goes where its entry came from."""
    x = as_tensor(values)
    place = axis_of(axis, x.type.rank)
    rows = _swapped(x, place)
    order = argsort(rows, -1, direction)
    return _swapped(_along_last(rows, order), place)


def _along_last(x: Tensor, indices: Tensor) -> Tensor:
    return entries(x, indices, x.type.rank - 1, x.type.rank - 1)


def top_k(
    input: TensorLike,
    k: Any = 1,
    sorted: bool = True,
    index_type: Any = I32,
    name: str | None = None,
) -> TopK:
    """The ``k`` greatest entries of the last axis, the greatest first, and their indices.

    Args:
        input: numbers ``[..., n]``.
        k: how many.
        sorted: ignored, as the entries always are.
        index_type: the dtype of the indices: int16, int32 or int64.

    Example: ``top_k([3.0, 1.0, 2.0], 2)`` is ``([3.0, 2.0], [0, 2])``.

    Raises:
        InvalidArgumentError: there are less than ``k`` entries.
    """
    x = as_tensor(input)
    count = static_integer(k, "k")
    if not isinstance(count, Dim) and count < 0:
        raise misfit(f"Need k >= 0, got {count}")
    if not x.type.rank or (isinstance(n := x.type.shape[-1], int) and n < count):
        raise misfit(f"input must have at least k={count} columns, got shape {x.shape}")
    order = part(argsort(x, -1, "DESCENDING"), x.type.rank - 1, 0, count)
    return TopK(_along_last(x, order), cast(order, index_type))


def cumulative_logsumexp(
    x: TensorLike,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """``log(sum(exp(...)))`` of the entries up to each one along an axis, without overflow.

    Each result is a `reduce_logsumexp` of its own, so that small entries are not lost beside large
    ones that come later. ``exclusive`` leaves the entry itself out, ``reverse`` sums from the
    end.
    """
    values = as_tensor(x)
    place = axis_of(static_value(axis, "axis"), values.type.rank)
    reverse = arguments.flag(reverse, "reverse")
    exclusive = arguments.flag(exclusive, "exclusive")
    rows = _swapped(values, place)
    n = rows.type.shape[-1]
    pairs = TensorType(I32, (n, n))
    mine, other = (apply("iota", axis=a, type=pairs) for a in ((1, 0) if reverse else (0, 1)))
    used = less(other, mine) if exclusive else logical_not(less(mine, other))
    masked = where(used, expand_dims(rows, -2), float("-inf"))
    return _swapped(reduce_logsumexp(masked, axis=-1), place)


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Where 0, 1, 2, … stand in a permutation of them.

    Example: ``invert_permutation([2, 0, 1])`` is ``[1, 2, 0]``.

    Raises:
        InvalidArgumentError: something else than a permutation.
    """
    order = as_tensor(x)
    if order.type.rank != 1:
        raise misfit(f"invert_permutation expects a 1D vector, got shape {order.shape}")
    array = order._array
    if array is not None and not np.array_equal(np.sort(array), np.arange(len(array))):
        raise misfit(f"not a permutation of 0 to {len(array) - 1}: {array.tolist()[:20]}")
    places = argsort(order)
    if array is None:
        count = counting(order.type.dtype, order.type.shape[0])
        inside = apply("gather", order, places, axis=0, batch_dims=0)
        require(equal(inside, count), "not a permutation of 0, 1, 2 and so on")
    return cast(places, order.type.dtype)


def is_non_decreasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether no element is less than the one before it, in row-major order."""
    line = reshape(as_tensor(x), (-1,))
    n = line.type.shape[0]
    return reduce_all(less_equal(part(line, 0, 0, n - 1), part(line, 0, 1, n - 1)))


def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether each element is greater than the one before it, in row-major order."""
    line = reshape(as_tensor(x), (-1,))
    n = line.type.shape[0]
    return reduce_all(less(part(line, 0, 0, n - 1), part(line, 0, 1, n - 1)))


class ApproxTopK(NamedTuple):
    """The greatest or least entries and where they stand."""

    values: Tensor
    indices: Tensor


def approx_max_k(
    operand: TensorLike,
    k: Any,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """The ``k`` greatest entries along an axis, exactly: whatever recall is asked for is met."""
    x = as_tensor(operand)
    axis = axis_of(reduction_dimension, x.type.rank)
    order = [a for a in range(x.type.rank) if a != axis] + [axis]
    found = top_k(transpose(x, order), k)
    back = [order.index(a) for a in range(x.type.rank)]
    return ApproxTopK(transpose(found.values, back), transpose(found.indices, back))


def approx_min_k(
    operand: TensorLike,
    k: Any,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> ApproxTopK:
    """The ``k`` least entries along an axis; see `approx_max_k`."""
    found = approx_max_k(negative(as_tensor(operand)), k, reduction_dimension)
    return ApproxTopK(negative(found.values), found.indices)
