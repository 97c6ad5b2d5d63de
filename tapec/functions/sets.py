"""Distinct entries, orders and their inverses, and entries dealt out and put together again.

Where the number of results depends on values a function is eager-only, and says so while another is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapec import arguments
from tapec.functions.arithmetic import (
    cast,
    equal,
    floordiv,
    floormod,
    less,
    less_equal,
    negative,
    subtract,
    where,
)
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import axis_of, misfit, refuse_in_trace
from tapec.functions.indexing import boolean_mask, gather
from tapec.functions.known import as_shape, dim_tensor
from tapec.functions.ordering import argsort, top_k
from tapec.functions.rearrangement import concat, expand_dims, part, reshape, stack, transpose
from tapec.functions.reductions import reduce_all
from tapec.functions.scattering import scatter_nd
from tapec.ir.types import I32
from tapec.tensor import Tensor, TensorLike, as_tensor


class Unique(NamedTuple):
    """The distinct entries, and which of them each entry is."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """The distinct entries, which of them each entry is, and how often each occurs."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # not the method of tuples


def unique(x: TensorLike, out_idx: Any = I32, name: str | None = None) -> Unique:
    """The distinct entries of a vector, in the order in which they come first.

    Args:
        x: ``[n]``.
        out_idx: the dtype of indices.

    Returns:
        ``y`` with ``x[i] == y[idx[i]]``, and ``idx``.

    Raises:
        NotImplementedError: while a function is compiled: the number of distinct entries depends on values.
    """
    values, _, which, _ = _distinct(x, "unique")
    return Unique(values, cast(as_tensor(which), out_idx))


def unique_with_counts(
    x: TensorLike, out_idx: Any = I32, name: str | None = None
) -> UniqueWithCounts:
    """The distinct entries of a vector and how often each occurs; see `unique`."""
    values, _, which, counts = _distinct(x, "unique_with_counts")
    return UniqueWithCounts(
        values, cast(as_tensor(which), out_idx), cast(as_tensor(counts), out_idx)
    )


def _distinct(x: TensorLike, what: str) -> tuple[Tensor, Any, Any, Any]:
    values = as_tensor(x)
    refuse_in_trace(what, "sort, and compare neighbours")
    if values.type.rank != 1:
        raise misfit(f"{what} expects a 1D vector, got shape {values.shape}")
    _, first, which, counts = np.unique(
        values.array, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    places = first[order].astype(np.int32)
    return gather(values, places), places, rank[which.reshape(-1)].astype(np.int32), counts[order]


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Where 0, 1, 2, … stand in a permutation of them.

    Example: ``invert_permutation([2, 0, 1])`` is ``[1, 2, 0]``.

    Raises:
        InvalidArgumentError: eager, something else than a permutation.
    """
    order = as_tensor(x)
    if order.type.rank != 1:
        raise misfit(f"invert_permutation expects a 1D vector, got shape {order.shape}")
    array = order._array
    if array is not None and not np.array_equal(np.sort(array), np.arange(len(array))):
        raise misfit(f"not a permutation of 0 to {len(array) - 1}: {array.tolist()[:20]}")
    return cast(argsort(order), order.type.dtype)


def unravel_index(indices: TensorLike, dims: Any, name: str | None = None) -> Tensor:
    """Tuples of indices, along the first axis, from row-major positions in a tensor of a shape.

    Example: ``unravel_index([7, 3], [3, 4])`` is ``[[1, 0], [3, 3]]``.
    """
    rest = as_tensor(indices)
    found: list[Tensor] = []
    for n in reversed(as_shape(dims)):
        size = dim_tensor(n, rest.type.dtype)
        found.append(floormod(rest, size))
        rest = floordiv(rest, size)
    return stack(found[::-1])


def reverse_sequence(
    input: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: Any = None,
    batch_axis: Any = None,
    name: str | None = None,
) -> Tensor:
    """The first ``seq_lengths[i]`` entries of each sequence in reverse.

    Args:
        input: sequences.
        seq_lengths: ``[batch]`` integers.
        seq_axis: along which a sequence runs; 1 if None.
        batch_axis: which counts the sequences; 0 if None.

    Example: ``reverse_sequence([[1, 2, 3]], [2])`` is ``[[2, 1, 3]]``.
    """
    x, lengths = as_tensor(input), cast(as_tensor(seq_lengths), I32)
    along = axis_of(1 if seq_axis is None else seq_axis, x.type.rank)
    batch = axis_of(0 if batch_axis is None else batch_axis, x.type.rank)
    order = [batch, along, *(a for a in range(x.type.rank) if a not in (batch, along))]
    rows = transpose(x, order)
    place = expand_dims(counting(I32, x.type.shape[along]), 0)
    length = expand_dims(lengths, 1)
    source = where(less(place, length), subtract(subtract(length, 1), place), place)
    back = [order.index(a) for a in range(x.type.rank)]
    return transpose(gather(rows, source, axis=1, batch_dims=1), back)


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


def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Entries dealt out to lists by number.

    Args:
        data: entries along the leading axes, as many as ``partitions`` has.
        partitions: integers in ``[0, num_partitions)``.
        num_partitions: how many lists.

    Raises:
        NotImplementedError: while a function is compiled: sizes depend on values.
        InvalidArgumentError: a number out of range.
    """
    x, which = as_tensor(data), as_tensor(partitions)
    refuse_in_trace("dynamic_partition", "multiply by the mask of each part")
    array = which.array
    if array.size and not 0 <= array.min() <= array.max() < num_partitions:
        raise misfit(
            f"partitions must be in [0, {num_partitions}), got {array.reshape(-1).tolist()[:20]}"
        )
    return [boolean_mask(x, equal(which, number)) for number in range(num_partitions)]


def dynamic_stitch(
    indices: Sequence[TensorLike], data: Sequence[TensorLike], name: str | None = None
) -> Tensor:
    """Entries put together at their indices; of several for one index the last counts.

    Args:
        indices: integers, a tensor for each of ``data``.
        data: ``indices[i].shape + rest``, with one ``rest`` for all.

    Returns:
        ``[greatest index + 1, *rest]``, 0 where there is no entry.

    Raises:
        NotImplementedError: while a function is compiled: the size depends on values.
    """
    refuse_in_trace("dynamic_stitch", "use tapec.scatter_nd, which is told the shape")
    places = [as_tensor(i, I32) for i in arguments.items(indices, "indices")]
    values = [as_tensor(v) for v in arguments.items(data, "data")]
    if not places or len(places) != len(values):
        raise misfit(f"dynamic_stitch: {len(places)} indices for {len(values)} pieces of data")
    rest = values[0].type.shape[places[0].type.rank :]
    flat = concat([reshape(i, (-1,)) for i in places], 0)
    entries = concat([reshape(v, (-1, *rest)) for v in values], 0)
    array = flat.array
    size = int(array.max()) + 1 if array.size else 0
    last = np.array([i for i, place in enumerate(array) if place not in array[i + 1 :]], np.int32)
    chosen = expand_dims(gather(flat, last), -1)
    return scatter_nd(chosen, gather(entries, last), (size, *rest))
