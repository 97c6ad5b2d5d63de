"""Order, positions and distinct values. Positions are int64, and carry no gradient; the values they choose do.

Functions whose result's shape depends on values (`nonzero`, `unique_values`, `flatnonzero`, …) run eagerly only:
while a function is compiled they raise NotImplementedError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapec.functions import arithmetic, indexing, rearrangement, reductions
from tapec.functions.arithmetic import cast
from tapec.functions.arithmetic import where as _where
from tapec.functions.arrays import full
from tapec.functions.broadcasting import (
    axes_of,
    broadcast,
    common_shape,
    misfit,
    refuse_in_trace,
)
from tapec.functions.indexing import entries
from tapec.functions.rearrangement import reshape, transpose
from tapec.ir.types import I32, I64, U8
from tapec.numpy.promotion import of_dtype, pair, promoted, truth
from tapec.numpy.shaping import flat
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

# -- sorting


def _sortable(x: Tensor) -> Tensor:
    return cast(x, U8) if x.type.dtype.is_bool else x


def argsort(
    x: TensorLike, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The positions that put an axis in order; equal entries keep theirs, NaN is greatest.

    Args:
        x: numbers.
        axis: along which; None for the flat elements.
        descending: whether the greatest comes first.
        stable: without effect: the order always is.

    Raises:
        TargetError: in a compiled function, the size of the axis is not known.
    """
    tensor, place = flat(x, axis)
    order: Tensor = apply(
        "argsort", _sortable(tensor), axis=place, descending=bool(descending), dtype=I64
    )
    return order


def sort(
    x: TensorLike, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The entries of an axis in order; see `argsort`. Each gradient goes where its entry came from."""
    tensor, place = flat(x, axis)
    if not tensor.type.rank:
        return tensor
    last = tensor.type.rank - 1
    order = list(range(last + 1))
    order[place], order[last] = last, place
    rows = transpose(tensor, order)
    places = apply("argsort", _sortable(rows), axis=last, descending=bool(descending), dtype=I32)
    return transpose(entries(rows, places, last, last), order)


def partition(x: TensorLike, kth: int, /, axis: int | None = -1) -> Tensor:
    """The entries of an axis with the ``kth`` where sorting would put it: sorted, which is more."""
    tensor, place = flat(x, axis)
    _check_rank(tensor, kth, place)
    return sort(tensor, axis=place)


def argpartition(x: TensorLike, kth: int, /, axis: int | None = -1) -> Tensor:
    """The positions that put the ``kth`` entry where sorting would: those of `argsort`."""
    tensor, place = flat(x, axis)
    _check_rank(tensor, kth, place)
    return argsort(tensor, axis=place)


def _check_rank(x: Tensor, kth: int, axis: int) -> None:
    extent = x.type.shape[axis]
    if isinstance(extent, int) and not -extent <= kth < extent:
        raise misfit(f"kth={kth} is out of bounds for an axis of size {extent}")


def searchsorted(
    x1: TensorLike, x2: TensorLike, /, *, side: str = "left", sorter: TensorLike | None = None
) -> Tensor:
    """Where values would enter a sorted vector so that it stays sorted.

    Args:
        x1: ``[n]``, ascending, or made so by ``sorter``.
        x2: the values, of any shape.
        side: ``left`` before equal entries, ``right`` behind them.
        sorter: the positions that put ``x1`` in order.
    """
    if side not in ("left", "right"):
        raise misfit(f"side must be 'left' or 'right', got {side!r}")
    row, wanted = pair(x1, x2)
    if row.type.rank != 1:
        raise misfit(f"expected a vector to search in, got {row.type}")
    if sorter is not None:
        row = take(row, sorter)
    shape = wanted.type.shape
    line = reshape(wanted, (-1,) if wanted.type.size != 0 else (0,))
    return reshape(_found(_sortable(row), _sortable(line), side), shape)


def _found(row: Tensor, values: Tensor, side: str) -> Tensor:
    """For each value, how many entries of a sorted row come before it; NaN is greatest.

    By halving, where the size of the row is known, else by counting.
    """
    extent = row.type.shape[0]

    def comes_before(entry: Tensor) -> Tensor:
        if side == "left":
            return _before(entry, values)
        return arithmetic.logical_not(_before(values, entry))

    if not isinstance(extent, int):
        wide = rearrangement.expand_dims(row, -1)
        return reductions.reduce_sum(cast(comes_before(wide), I64), 0)
    low = full(0, I64, values.type.shape)
    high = full(extent, I64, values.type.shape)
    for _ in range(extent.bit_length()):
        middle = arithmetic.floordiv(arithmetic.add(low, high), 2)
        before = comes_before(entries(row, arithmetic.minimum(middle, extent - 1), 0))
        is_open = arithmetic.less(low, high)
        moves = arithmetic.logical_and(is_open, before)
        stays = arithmetic.logical_and(is_open, arithmetic.logical_not(before))
        low, high = _where(moves, arithmetic.add(middle, 1), low), _where(stays, middle, high)
    return low


def _before(x: Tensor, y: Tensor) -> Tensor:
    """Whether ``x`` comes before ``y`` in order, where NaN comes last."""
    less = arithmetic.less(x, y)
    if not x.type.dtype.is_floating:
        return less
    last = arithmetic.logical_and(
        arithmetic.logical_not(arithmetic.is_nan(x)), arithmetic.is_nan(y)
    )
    return arithmetic.logical_or(less, last)


def digitize(x: TensorLike, bins: TensorLike, /, right: bool = False) -> Tensor:
    """In which of the parts between bounds each value lies: how many bounds are not above it.

    Args:
        x: the values.
        bins: ``[n]``, ascending or descending.
        right: whether a bound belongs to the part below it.
    """
    bounds = as_tensor(bins)
    size = bounds.type.shape[0]
    rising = searchsorted(bounds, x, side="left" if right else "right")
    if not isinstance(size, int) or size < 2:
        return rising
    turned = rearrangement.reverse(bounds, [0])
    falling = arithmetic.subtract(
        as_tensor(size, I64), searchsorted(turned, x, side="left" if right else "right")
    )
    descends = arithmetic.greater(bounds[0], bounds[size - 1])
    return _where(descends, falling, rising)


# -- extrema


def _position(op: str, x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    row, place = flat(_sortable(tensor), axis)
    if row.type.rank and row.type.shape[place] == 0:
        raise misfit(f"{op} of nothing: axis {place} of {row.type} is empty")
    if not row.type.rank:
        return _full_zero(row)
    found: Tensor = apply(op, row, axis=place, dtype=I64)
    if not keepdims:
        return found
    if axis is None:
        return reshape(found, (1,) * tensor.type.rank)
    shape = tensor.type.shape
    return reshape(found, (*shape[:place], 1, *shape[place + 1 :]))


def _full_zero(x: Tensor) -> Tensor:
    zero: Tensor = apply("constant", value=0, type=x.type.with_dtype(I64))
    return zero


def argmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the greatest entry stands, the first of several: in an axis, or among the flat elements.

    Raises:
        InvalidArgumentError: there is none (ValueError while a function is compiled).
    """
    return _position("argmax", x, axis, keepdims)


def argmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the least entry stands; see `argmax`."""
    return _position("argmin", x, axis, keepdims)


def nanargmax(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """`argmax` that passes over NaN; -1 where there is nothing else."""
    return _without_nan("argmax", -math.inf, x, axis, keepdims)


def nanargmin(x: TensorLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """`argmin` that passes over NaN; -1 where there is nothing else."""
    return _without_nan("argmin", math.inf, x, axis, keepdims)


def _without_nan(op: str, least: float, x: TensorLike, axis: Any, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    if not tensor.type.dtype.is_floating:
        return _position(op, tensor, axis, keepdims)
    nan = arithmetic.is_nan(tensor)
    found = _position(op, _where(nan, least, tensor), axis, keepdims)
    return _where(reductions.reduce_all(nan, axis, keepdims), as_tensor(-1, I64), found)


# -- chosen entries


def where(condition: TensorLike, x1: Any = None, x2: Any = None, /) -> Any:
    """``x1`` where the condition holds, ``x2`` elsewhere; all three broadcast. With one argument `nonzero`."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise misfit("where takes both x1 and x2, or none of them")
    return _where(truth(condition), *pair(x1, x2))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: TensorLike = 0) -> Tensor:
    """The choice of the first condition that holds, ``default`` where none does."""
    if len(condlist) != len(choicelist) or not condlist:
        raise misfit(f"{len(condlist)} conditions for {len(choicelist)} choices")
    *choices, found = promoted(*choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        found = _where(truth(condition), choice, found)
    return found


def take(x: TensorLike, indices: TensorLike, /, axis: int | None = None) -> Tensor:
    """The entries of an axis at positions, negative ones from the end; of the flat elements without an axis.

    Raises:
        InvalidArgumentError: a position is out of range.
    """
    tensor, place = flat(x, axis)
    return entries(tensor, from_start(indices, tensor.type.shape[place]), place)


def from_start(indices: TensorLike, extent: Any) -> Tensor:
    """Positions counted from the start."""
    at = as_tensor(indices)
    if at.type.dtype.is_bool:
        at = cast(at, I32)
    if at.type.dtype.is_unsigned:
        return cast(at, I64)
    if at._array is not None and (at._array >= 0).all():
        return at
    size = as_tensor(extent, at.type.dtype) if isinstance(extent, int) else _extent(extent, at)
    return _where(arithmetic.less(at, 0), arithmetic.add(at, size), at)


def _extent(extent: Any, like: Tensor) -> Tensor:
    size: Tensor = apply("extent", dim=extent, type=like.type.with_shape(()))
    return size


def take_along_axis(x: TensorLike, indices: TensorLike, /, axis: int | None = -1) -> Tensor:
    """For each place of ``indices``, the entry of its row of ``x`` that it names.

    Args:
        x: the tensor.
        indices: of the rank of ``x``; the other axes broadcast.
        axis: along which.
    """
    tensor, place = flat(x, axis)
    at = as_tensor(indices) if axis is not None else flat(indices, None)[0]
    rank = tensor.type.rank
    if at.type.rank != rank:
        raise misfit(f"indices of rank {at.type.rank} for a tensor of rank {rank}")
    at = from_start(at, tensor.type.shape[place])
    order = [n for n in range(rank) if n != place] + [place]
    back = [order.index(n) for n in range(rank)]
    rows, at = transpose(tensor, order), transpose(at, order)
    lead = common_shape(rows.type.shape[:-1], at.type.shape[:-1])
    rows = broadcast(rows, (*lead, rows.type.shape[-1]))
    at = broadcast(at, (*lead, at.type.shape[-1]))
    return transpose(entries(rows, at, rank - 1, rank - 1), back)


def compress(condition: TensorLike, x: TensorLike, /, axis: int | None = None) -> Tensor:
    """The entries of an axis at which a vector of bools holds."""
    tensor, place = flat(x, axis)
    return indexing.boolean_mask(tensor, truth(condition), place)


def extract(condition: TensorLike, x: TensorLike, /) -> Tensor:
    """The elements at which a condition holds."""
    return indexing.boolean_mask(flat(x, None)[0], flat(truth(condition), None)[0])


def unravel_index(indices: TensorLike, shape: Any, /) -> tuple[Tensor, ...]:
    """The positions along each axis of places in the flat order."""
    at = as_tensor(indices)
    found = indexing.unravel_index(reshape(at, (-1,)), shape)
    rows = rearrangement.unstack(found)
    return tuple(reshape(of_dtype(r, at.type.dtype), at.type.shape) for r in rows)


# -- what is there


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The positions along each axis of what is not 0, row-major."""
    tensor = as_tensor(x)
    refuse_in_trace("nonzero", "multiply by a mask, or use where with three arguments")
    if not tensor.type.rank:
        raise misfit("nonzero takes a tensor with axes")
    return tuple(as_tensor(at.astype(np.int64)) for at in np.nonzero(tensor.array))


def flatnonzero(x: TensorLike, /) -> Tensor:
    """The positions of what is not 0 among the flat elements."""
    return nonzero(flat(x, None)[0])[0]


def argwhere(x: TensorLike, /) -> Tensor:
    """The positions of what is not 0, one in each row."""
    refuse_in_trace("argwhere", "multiply by a mask, or use where with three arguments")
    return as_tensor(np.argwhere(as_tensor(x).array).astype(np.int64))


def count_nonzero(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """How many elements are not 0, over axes."""
    tensor = as_tensor(x)
    return reductions.reduce_sum(
        cast(truth(tensor), I64), axes_of(axis, tensor.type.rank), keepdims
    )


def isin(
    x1: TensorLike, x2: TensorLike, /, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element of ``x1`` is among the elements of ``x2``.

    Args:
        x1: the elements.
        x2: what to look for.
        assume_unique: without effect.
        invert: whether to say the opposite.
    """
    x, among = pair(x1, x2)
    hit = reductions.reduce_any(
        arithmetic.equal(rearrangement.expand_dims(x, -1), flat(among, None)[0]), -1
    )
    return arithmetic.logical_not(hit) if invert else hit


class UniqueAll(NamedTuple):
    """What `unique_all` finds."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` finds."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` finds."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: TensorLike, /) -> UniqueAll:
    """The distinct elements in ascending order, where each comes first, which each element is, and how often it occurs.

    A NaN differs from every other, and 0 equals -0.
    """
    tensor = as_tensor(x)
    refuse_in_trace("unique", "sort, and compare neighbours")
    line, _ = flat(tensor, None)
    _, first, inverse, counts = np.unique(
        line.array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    places = as_tensor(first.astype(np.int64))
    return UniqueAll(
        entries(line, places, 0),
        places,
        reshape(as_tensor(inverse.reshape(-1).astype(np.int64)), tensor.type.shape),
        as_tensor(counts.astype(np.int64)),
    )


def unique_counts(x: TensorLike, /) -> UniqueCounts:
    """The distinct elements and how often each occurs; see `unique_all`."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: TensorLike, /) -> UniqueInverse:
    """The distinct elements and which of them each element is; see `unique_all`."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: TensorLike, /) -> Tensor:
    """The distinct elements in ascending order; see `unique_all`."""
    return unique_all(x).values
