"""Entries put or added at positions that are data: scatter, segments, counts.

Positions out of range are refused eagerly, where a docstring does not say otherwise; a compiled
function leaves them out.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tapec import arguments
from tapec.functions.arithmetic import (
    cast,
    divide,
    equal,
    greater,
    less,
    less_equal,
    maximum,
    negative,
    where,
)
from tapec.functions.arrays import ones_like
from tapec.functions.assertions import require_inside
from tapec.functions.broadcasting import (
    broadcast,
    converted,
    like,
    may_equal,
    misfit,
    refuse_in_trace,
    wrong_dtype,
)
from tapec.functions.elementary import rsqrt
from tapec.functions.indexing import expand_to, ignores, linear_index, valid_indices
from tapec.functions.known import as_dim, as_shape, dim_tensor, get_static_value
from tapec.functions.rearrangement import expand_dims, part, reshape
from tapec.functions.reductions import reduce_any, reduce_max, reduce_min, reduce_prod, reduce_sum
from tapec.functions.requirements import require
from tapec.ir.dims import DimLike
from tapec.ir.types import I32, TensorType, as_dtype
from tapec.tensor import Tensor, TensorLike, apply, as_tensor
from tapec.tensors.indexed_slices import fitted_slices

# -- by tuples of indices


def scatter_nd(
    indices: TensorLike,
    updates: TensorLike,
    shape: Any,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Zeros of a shape, with updates added at tuples of indices.

    Args:
        indices: ``[..., k]``, indices for the first ``k`` axes.
        updates: ``indices.shape[:-1] + shape[k:]``.
        shape: of the result.
        bad_indices_policy: ``IGNORE`` leaves updates out whose index is out of range.

    Example: ``scatter_nd([[1], [1]], [2.0, 3.0], [3])`` is ``[0.0, 5.0, 0.0]``.

    Raises:
        InvalidArgumentError: an index out of range, see `gather`; or shapes that do not fit.
    """
    places, values, sizes = as_tensor(indices), as_tensor(updates), as_shape(shape)
    if ignores(bad_indices_policy):
        places, valid = valid_indices(places, sizes)
        values = where(expand_to(valid, values.type.rank), values, 0)
    flat, count = linear_index(places, sizes)
    rest = sizes[count:]
    if not may_equal(values.type.shape, (*places.type.shape[:-1], *rest)):
        raise misfit(
            f"scatter_nd: updates of shape {values.shape} for indices of shape {places.shape} "
            f"into {list(sizes)}"
        )
    rows = prod(sizes[:count])
    return reshape(_added(flat, values, rows, rest), sizes)


def _added(index: Tensor, values: Tensor, rows: DimLike, rest: tuple[DimLike, ...]) -> Tensor:
    """``[rows, *rest]`` zeros with values added at row numbers."""
    index = reshape(index, (-1,))
    values = reshape(values, (index.type.shape[0], *rest))
    result: Tensor = apply("scatter_add", index, values, shape=(rows, *rest), axis=0, batch_dims=0)
    return result


def tensor_scatter_nd_add(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with updates added at tuples of indices; see `scatter_nd`."""
    return _updated("index_add", tensor, indices, updates, bad_indices_policy)


def tensor_scatter_nd_sub(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with updates subtracted at tuples of indices; see `scatter_nd`."""
    x = as_tensor(tensor)
    return _updated(
        "index_add", x, indices, negative(like(updates, x.type.dtype)), bad_indices_policy
    )


def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Tensor:
    """The tensor with updates in place of the entries at tuples of indices; see `scatter_nd`.

    Of equal indices the last update stays; the gradient reaches each of them.
    """
    return _updated("index_set", tensor, indices, updates)


def tensor_scatter_nd_max(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with the greatest of entry and updates at tuples of indices; see `scatter_nd`.

    Those that tie share the gradient.
    """
    return _updated("index_max", tensor, indices, updates, bad_indices_policy)


def tensor_scatter_nd_min(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with the least of entry and updates at tuples of indices; see `scatter_nd`.

    Those that tie share the gradient.
    """
    return _updated("index_min", tensor, indices, updates, bad_indices_policy)


def _updated(
    op: str,
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
) -> Tensor:
    """An `IndexUpdate` by tuples of indices."""
    x, places = as_tensor(tensor), as_tensor(indices)
    values = like(updates, x.type.dtype)
    shape = x.type.shape
    if not places.type.rank:
        raise misfit("indices are [..., k], got a scalar")
    if ignores(bad_indices_policy):
        places, valid = valid_indices(places, shape)
    flat, count = linear_index(places, shape)
    rows = (prod(shape[:count]), *shape[count:])
    values = fitted_slices(values, flat, rows)
    if ignores(bad_indices_policy):
        # What is passed over says nothing new about the first row.
        first = broadcast(part(reshape(x, rows), 0, 0, 1), values.type.shape)
        neutral = 0 if op == "index_add" else first
        values = where(expand_to(valid, values.type.rank), values, neutral)
    result: Tensor = apply(op, reshape(x, rows), flat, values, axis=0, batch_dims=0)
    return reshape(result, shape)


# -- by segments


def unsorted_segment_sum(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """The sum of the entries of each segment.

    Args:
        data: entries along the leading axes, as many as ``segment_ids`` has.
        segment_ids: integers; entries with a negative one are left out.
        num_segments: the size of the result's first axis.

    Returns:
        ``[num_segments, ...]``; 0 for a segment without entries.

    Raises:
        InvalidArgumentError: an id that is not below ``num_segments``; a compiled function raises it when it runs.

    Example: ``unsorted_segment_sum([1, 2, 3], [0, 1, 0], 2)`` is ``[4, 2]``.
    """
    x, ids, count = _segments(data, segment_ids, num_segments)
    rest = x.type.shape[ids.type.rank :]
    # Entries that are left out go to one more row, which is cut off.
    kept = where(less(ids, 0), dim_tensor(count, ids.type.dtype), ids)
    return part(_added(kept, x, count + 1, rest), 0, 0, count)


def _segments(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any
) -> tuple[Tensor, Tensor, DimLike]:
    x, ids = as_tensor(data), as_tensor(segment_ids)
    if not ids.type.dtype.is_integer:
        raise wrong_dtype(ids.type.dtype, "integer segment_ids")
    count = as_dim(num_segments)
    if not may_equal(x.type.shape[: ids.type.rank], ids.type.shape):
        raise misfit(f"data.shape = {x.shape} does not start with segment_ids.shape = {ids.shape}")
    if ids._array is not None and ids._array.size and ids._array.max() >= count:
        raise misfit(f"segment_ids: {ids._array.max()} is not in [0, {count})")
    left_out = less(ids, 0)
    if count == 0:
        require(left_out, "segment_ids: there are no segments")
    else:
        require_inside(where(left_out, 0, ids), count, "segment_ids")
    return x, ids, count


def unsorted_segment_mean(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """The mean of each segment, 0 without entries; see `unsorted_segment_sum`."""
    total, number = _sum_and_number(data, segment_ids, num_segments)
    return divide(total, number)


def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """The sum of each segment over the root of its number; see `unsorted_segment_sum`."""
    total, number = _sum_and_number(data, segment_ids, num_segments)
    return total * rsqrt(number)


def _sum_and_number(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any
) -> tuple[Tensor, Tensor]:
    x, ids = as_tensor(data), as_tensor(segment_ids)
    total = unsorted_segment_sum(x, ids, num_segments)
    number = maximum(unsorted_segment_sum(ones_like(ids, I32), ids, num_segments), 1)
    line = (number.type.shape[0], *(1,) * (total.type.rank - 1))
    return total, reshape(cast(number, x.type.dtype), line)


def unsorted_segment_max(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """The greatest entry of each segment, the dtype's least value without entries.

    Entries that tie share the gradient.
    """
    x = as_tensor(data)
    fill = float("-inf") if x.type.dtype.is_floating else x.type.dtype.min
    entries, hit = _by_segment(x, segment_ids, num_segments, fill)
    return where(reduce_any(hit, axis=1), reduce_max(entries, axis=1), x.type.dtype.min)


def unsorted_segment_min(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """The least entry of each segment, the dtype's greatest value without entries.

    Entries that tie share the gradient.
    """
    x = as_tensor(data)
    fill = float("inf") if x.type.dtype.is_floating else x.type.dtype.max
    entries, hit = _by_segment(x, segment_ids, num_segments, fill)
    return where(reduce_any(hit, axis=1), reduce_min(entries, axis=1), x.type.dtype.max)


def unsorted_segment_prod(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """The product of each segment, 1 without entries."""
    return reduce_prod(_by_segment(as_tensor(data), segment_ids, num_segments, 1)[0], axis=1)


def _by_segment(
    x: Tensor, segment_ids: TensorLike, num_segments: Any, other: Any
) -> tuple[Tensor, Tensor]:
    """``[segments, entries, ...]``: each entry in the row of its segment, ``other`` elsewhere.

    Also where entries are: ``[segments, entries, 1, ...]``.
    """
    x, ids, count = _segments(x, segment_ids, num_segments)
    rest = x.type.shape[ids.type.rank :]
    flat = reshape(ids, (1, -1))
    rows = apply("iota", axis=0, type=TensorType(ids.type.dtype, (count, 1)))
    hit = reshape(equal(flat, rows), (count, flat.type.shape[1], *(1,) * len(rest)))
    return where(hit, reshape(x, (1, flat.type.shape[1], *rest)), other), hit


def segment_sum(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """`unsorted_segment_sum` for ascending ids, of which the last says how many there are.

    Raises:
        NotImplementedError: while a function is compiled: the result's shape depends on values.
    """
    return unsorted_segment_sum(data, *_ascending(segment_ids))


def segment_mean(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """`unsorted_segment_mean` for ascending ids, in the dtype of the data; see `segment_sum`."""
    x = as_tensor(data)
    return cast(unsorted_segment_mean(x, *_ascending(segment_ids)), x.type.dtype)


def segment_prod(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """`unsorted_segment_prod` for ascending ids; see `segment_sum`."""
    return unsorted_segment_prod(data, *_ascending(segment_ids))


def segment_max(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """The greatest entry of each segment, 0 without entries; see `segment_sum`."""
    ids, count = _ascending(segment_ids)
    return _or_zero(unsorted_segment_max(data, ids, count), ids, count)


def segment_min(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """The least entry of each segment, 0 without entries; see `segment_sum`."""
    ids, count = _ascending(segment_ids)
    return _or_zero(unsorted_segment_min(data, ids, count), ids, count)


def _or_zero(result: Tensor, ids: Tensor, count: int) -> Tensor:
    number = unsorted_segment_sum(ones_like(ids), ids, count)
    return where(reshape(greater(number, 0), (count, *(1,) * (result.type.rank - 1))), result, 0)


def _ascending(segment_ids: TensorLike) -> tuple[Tensor, int]:
    """The ids, and how many segments there are, which must be known."""
    ids = as_tensor(segment_ids)
    if not ids.type.dtype.is_integer:
        raise wrong_dtype(ids.type.dtype, "integer segment_ids")
    array = get_static_value(ids)
    if array is None:
        refuse_in_trace("a segment function", "use the unsorted one, and say how many segments")
    if array.ndim != 1 or (array[1:] < array[:-1]).any() or (array < 0).any():
        raise misfit("segment ids are not increasing")
    return ids, int(array[-1]) + 1 if array.size else 0


# -- counts


def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: Any = None,
    weights: TensorLike = None,
    dtype: Any = I32,
    name: str | None = None,
) -> Tensor:
    """``[classes, classes]``: how often each label (row) met each prediction (column).

    Args:
        labels: integers ``[n]``.
        predictions: integers ``[n]``.
        num_classes: one more than the greatest integer if None, which must then be known.
        weights: how much each pair counts.
        dtype: of the result.
    """
    y, guess = converted(labels, predictions)
    if num_classes is None:
        refuse_in_trace("confusion_matrix without num_classes", "pass num_classes")
        num_classes = int(max(y.array.max(initial=-1), guess.array.max(initial=-1))) + 1
    count = as_dim(num_classes)
    amounts = ones_like(y, dtype) if weights is None else cast(weights, as_dtype(dtype))
    pairs = apply("concat", expand_dims(y, 1), expand_dims(guess, 1), axis=1)
    return scatter_nd(pairs, amounts, (count, count))


def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: Any = I32,
    name: str | None = None,
) -> Tensor:
    """Where values would enter a sorted row: the number of entries below, or not above, each.

    Args:
        sorted_sequence: ``[..., n]``, ascending along the last axis.
        values: ``[..., m]``.
        side: ``left`` counts entries below a value, ``right`` also equal ones.
        out_type: of the result ``[..., m]``.

    Raises:
        InvalidArgumentError: scalars, or leading axes that differ.
    """
    row, wanted = converted(sorted_sequence, values)
    if not (row.type.rank and may_equal(row.type.shape[:-1], wanted.type.shape[:-1])):
        raise misfit(
            f"searchsorted takes rows with leading axes in common, got {row.shape} and {wanted.shape}"
        )
    compare = less if arguments.text(side, "side") == "left" else less_equal
    return reduce_sum(cast(compare(expand_dims(row, -2), expand_dims(wanted, -1)), out_type), -1)
