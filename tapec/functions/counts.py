"""Distinct entries, and entries counted: by value, by range, among the greatest.

Where the number of results depends on values a function is eager-only, and says so while another is compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    clip_by_value,
    divide,
    equal,
    floor,
    greater,
    greater_equal,
    is_finite,
    less,
    minimum,
    multiply,
    subtract,
    where,
)
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import like, misfit, refuse_in_trace, wrong_dtype
from tapec.functions.indexing import gather
from tapec.functions.known import as_dim, dim_tensor, known_elements
from tapec.functions.logic import logical_and
from tapec.functions.rearrangement import expand_dims, reshape
from tapec.functions.reductions import reduce_mean, reduce_sum
from tapec.functions.requirements import require
from tapec.functions.scattering import unsorted_segment_sum
from tapec.ir.types import F32, I32, as_dtype
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, as_tensor


def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """The part of the elements that are 0, as float32."""
    return reduce_mean(cast(equal(as_tensor(value), 0), F32))


def in_top_k(
    targets: TensorLike, predictions: TensorLike, k: Any, name: str | None = None
) -> Tensor:
    """Whether the prediction for the target is among the ``k`` greatest of its row; ties count as if it came first.

    Args:
        targets: ``[batch]`` integers.
        predictions: ``[batch, classes]`` floats. A row with an infinity or NaN in it gives False where they matter.
        k: how many.

    Returns:
        ``[batch]`` bools; False for a target out of range.
    """
    x, classes = as_tensor(predictions), as_tensor(targets)
    if x.type.rank != 2 or classes.type.rank != 1:
        raise misfit(f"in_top_k: targets of {classes.shape} for predictions of {x.shape}")
    count = dim_tensor(x.type.shape[1], classes.type.dtype)
    valid = logical_and(greater_equal(classes, 0), less(classes, count))
    own = expand_dims(gather(x, where(valid, classes, 0), axis=1, batch_dims=1), 1)
    better = reduce_sum(cast(greater(x, own), I32), 1)
    strange = reduce_sum(cast(is_finite(x), I32), 1)
    all_finite = equal(strange, dim_tensor(x.type.shape[1], I32))
    return logical_and(logical_and(valid, all_finite), less(better, as_tensor(k, I32)))


def bincount(
    arr: TensorLike,
    weights: TensorLike = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = I32,
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Tensor:
    """How often each of 0, 1, 2, … occurs.

    Args:
        arr: integers that are not negative.
        weights: what each counts, in the shape of ``arr``; differentiable.
        minlength: the result has at least so many entries.
        maxlength: the result has at most so many; greater numbers are left out.
        dtype: of the result, if there are no weights.
        axis: None or 0 to count all; -1 to count each row of a matrix.
        binary_output: whether to say 1 for what occurs at all.

    While a function is compiled, ``minlength`` and ``maxlength`` must be given and be equal: the size of the result
    must not depend on values.

    Raises:
        NotImplementedError: they are not, while a function is compiled.
        InvalidArgumentError: eager, a negative number.
        ValueError: another axis, or ``binary_output`` with weights.
    """
    x = as_tensor(arr)
    if not arguments.is_one_of(axis, (None, 0, -1)):
        raise ValueError(
            f"Unsupported value for argument axis={axis}. Only 0 and -1 are supported.",
            location=here(),
        )
    binary_output = arguments.flag(binary_output, "binary_output")
    if binary_output and weights is not None:
        raise ValueError(
            "Arguments `binary_output` and `weights` are mutually exclusive.", location=here()
        )
    if not x.type.dtype.is_integer:
        raise wrong_dtype(x.type.dtype, "integers")
    count = _length(x, minlength, maxlength)
    rows = x.type.shape[0] if axis == -1 and x.type.rank == 2 else 1
    line = reshape(x, (rows, -1))
    ones = as_tensor(1, as_dtype(dtype))
    each = ones if weights is None else reshape(as_tensor(weights), (rows, -1))
    # What is too large counts nothing at the last place.
    small = less(line, dim_tensor(count, line.type.dtype))
    amount = where(small, each, 0)
    place = cast(minimum(line, dim_tensor(count - 1, line.type.dtype)), I32)
    if rows != 1:
        place = add(place, expand_dims(multiply(counting(I32, rows), dim_tensor(count, I32)), 1))
    total = unsorted_segment_sum(reshape(amount, (-1,)), reshape(place, (-1,)), rows * count)
    if binary_output:
        total = cast(greater(total, 0), total.type.dtype)
    return reshape(total, (rows, count) if axis == -1 and x.type.rank == 2 else (count,))


def _length(x: Tensor, minlength: Any, maxlength: Any) -> Any:
    """The number of entries of a count."""
    least = None if minlength is None else as_dim(minlength)
    most = None if maxlength is None else as_dim(maxlength)
    if current_trace() is not None and (least is None or least != most):
        refuse_in_trace("bincount", "pass minlength and maxlength, equal ones")
    if least is not None and least == most:
        return least
    array = x.array
    if array.size and array.min() < 0:
        raise misfit(f"Input arr must be non-negative, got {array.min()}")
    size = max(int(array.max()) + 1 if array.size else 0, least or 0)  # type: ignore[type-var]
    return size if most is None else min(size, most)  # type: ignore[type-var]


def histogram_fixed_width_bins(
    values: TensorLike,
    value_range: TensorLike,
    nbins: Any = 100,
    dtype: Any = I32,
    name: str | None = None,
) -> Tensor:
    """In which of ``nbins`` equal parts of a range each value lies; those outside count to the first or the last.

    Args:
        values: numbers.
        value_range: ``[2]``, the bounds.
        nbins: the number of parts.
        dtype: of the result.

    Example: ``histogram_fixed_width_bins([-1.0, 1.5, 15.0], [0.0, 5.0], 5)`` is ``[0, 1, 4]``.

    Raises:
        InvalidArgumentError: the bounds are not two, or not in order.
    """
    x = as_tensor(values)
    bounds = like(value_range, x.type.dtype)
    if bounds.type.rank != 1 or bounds.shape[0] not in (2, None):
        raise misfit(f"value_range should be a vector of 2 elements, got shape {bounds.shape}")
    low, high = bounds[0], bounds[1]
    held = known_elements(bounds)
    wanted = "value_range should satisfy value_range[0] < value_range[1]"
    if held is None:
        require(less(low, high), wanted)
    elif not held[0] < held[1]:
        raise misfit(f"{wanted}, but got {held}")
    count = as_dim(nbins)
    share = divide(subtract(x, low), subtract(high, low))
    place = floor(multiply(share, float(count)))  # type: ignore[arg-type]
    return cast(clip_by_value(place, 0, float(count - 1)), dtype)  # type: ignore[arg-type]


def histogram_fixed_width(
    values: TensorLike,
    value_range: TensorLike,
    nbins: Any = 100,
    dtype: Any = I32,
    name: str | None = None,
) -> Tensor:
    """How many values lie in each of ``nbins`` equal parts of a range; see `histogram_fixed_width_bins`."""
    place = reshape(histogram_fixed_width_bins(values, value_range, nbins), (-1,))
    ones = as_tensor(np.array(1), as_dtype(dtype))
    amount = add(cast(multiply(place, 0), dtype), ones)
    return unsorted_segment_sum(amount, place, nbins)


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
        values.array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    places = first[order].astype(np.int32)
    return gather(values, places), places, rank[which.reshape(-1)].astype(np.int32), counts[order]
