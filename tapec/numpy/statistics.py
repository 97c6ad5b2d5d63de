"""Quantiles, histograms, differences, correlation: what is made of sorted or neighbouring entries."""

from __future__ import annotations

import builtins
import math
from typing import Any

from tapec.errors import NotImplementedError
from tapec.frames import here
from tapec.functions import arithmetic, rearrangement, reductions
from tapec.functions.arithmetic import cast, where
from tapec.functions.broadcasting import axes_of, axis_of, misfit, refuse_in_trace
from tapec.functions.counts import bincount as _bincount
from tapec.functions.elementary import sqrt
from tapec.functions.indexing import entries
from tapec.functions.known import dim_tensor
from tapec.functions.rearrangement import concat, part, reshape, transpose
from tapec.ir.dims import Dim
from tapec.ir.types import F32, I32, I64
from tapec.numpy import elementwise, ordering
from tapec.numpy.creation import diag, linspace
from tapec.numpy.promotion import inexact, inexact_pair, of_dtype, promoted, promoted_inexact
from tapec.numpy.shaping import flat
from tapec.tensor import Tensor, TensorLike, as_tensor

# -- quantiles


def quantile(
    x: TensorLike,
    q: TensorLike,
    /,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """The number below which a share of the elements lies; its gradient goes to the elements it lies between.

    Args:
        x: numbers; a NaN makes the result NaN.
        q: shares from 0 to 1. If there are several, they make the first axis of the result.
        axis: over which axes.
        method: between two elements ``linear``, or the ``lower``, ``higher`` or ``nearest`` one, or the ``midpoint``.
        keepdims: whether axes stay with size 1.

    Raises:
        InvalidArgumentError: an unknown method, or nothing to choose from (ValueError while a function is compiled).
        NotImplementedError: the number of elements is not known while a function is compiled.
    """
    return _quantiles(inexact(x), q, axis, method, keepdims, 1.0, over_nan=False)


def percentile(
    x: TensorLike,
    q: TensorLike,
    /,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """`quantile` with shares from 0 to 100."""
    return _quantiles(inexact(x), q, axis, method, keepdims, 100.0, over_nan=False)


def median(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The element in the middle of the sorted ones, or the mean of the two there."""
    return _quantiles(inexact(x), 0.5, axis, "linear", keepdims, 1.0, over_nan=False)


def nanquantile(
    x: TensorLike,
    q: TensorLike,
    /,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """`quantile` of all but NaN; NaN where there is nothing else."""
    return _quantiles(inexact(x), q, axis, method, keepdims, 1.0, over_nan=True)


def nanpercentile(
    x: TensorLike,
    q: TensorLike,
    /,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """`percentile` of all but NaN; NaN where there is nothing else."""
    return _quantiles(inexact(x), q, axis, method, keepdims, 100.0, over_nan=True)


def nanmedian(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """`median` of all but NaN; NaN where there is nothing else."""
    return _quantiles(inexact(x), 0.5, axis, "linear", keepdims, 1.0, over_nan=True)


def _quantiles(
    x: Tensor, q: TensorLike, axis: Any, method: str, keepdims: bool, whole: float, over_nan: bool
) -> Tensor:
    """Quantiles over axes, which are joined into one last axis and sorted."""
    axes = axes_of(axis, x.type.rank)
    rest = [a for a in range(x.type.rank) if a not in axes]
    lead = tuple(x.type.shape[a] for a in rest)
    size = math.prod(x.type.shape[a] for a in axes)
    if isinstance(size, Dim):
        raise NotImplementedError(
            f"quantiles of {size} elements cannot be compiled: sorting needs their number",
            location=here(),
            hint="pass a tensor whose size is known",
        )
    if size == 0:
        raise misfit(f"quantile of nothing: {x.type} over axis {axis}")
    rows = ordering.sort(reshape(transpose(x, [*rest, *axes]), (*lead, size)))
    shares = (
        as_tensor(q, x.type.dtype.real_dtype)
        if not hasattr(q, "dtype")
        else of_dtype(q, x.type.dtype)
    )
    known = shares._array
    if known is not None and not ((known >= 0) & (known <= whole)).all():
        raise misfit(f"shares of quantiles must be between 0 and {whole:g}, got {known}")
    found = _between(rows, reshape(shares, (-1,)) / whole, method, over_nan)
    found = transpose(found, [len(lead), *range(len(lead))])
    if keepdims:
        kept = [1 if a in axes else n for a, n in enumerate(x.type.shape)]
        found = reshape(found, (found.type.shape[0], *kept))
    shape = found.type.shape[1:]
    return reshape(found, (*shares.type.shape, *shape))


def _between(rows: Tensor, shares: Tensor, method: str, over_nan: bool) -> Tensor:
    """Of sorted rows ``[…, n]`` the numbers at shares ``[q]``: ``[…, q]``."""
    size: Any = rows.type.shape[-1]
    nan = elementwise.isnan(rows)
    dtype = rows.type.dtype
    if over_nan:
        numbers = reductions.reduce_sum(cast(arithmetic.logical_not(nan), dtype), -1, keepdims=True)
        last = arithmetic.maximum(arithmetic.subtract(numbers, 1), 0)
    else:
        last = cast(as_tensor(size - 1), dtype)
    at = arithmetic.multiply(last, shares)
    low, high = arithmetic.floor(at), arithmetic.minimum(arithmetic.ceil(at), last)
    single = {"lower": low, "higher": high, "nearest": arithmetic.round(at)}
    if method in single:
        found = _picked(rows, single[method], over_nan)
    elif method in ("linear", "midpoint"):
        share = at - low if method == "linear" else cast(high > low, dtype) * 0.5
        first = _picked(rows, low, over_nan)
        gap = arithmetic.subtract(_picked(rows, high, over_nan), first)
        # Where both are the same entry, infinity less infinity would be NaN.
        found = where(arithmetic.equal(share, 0), first, first + gap * share)
    else:
        raise misfit(f"unknown method of quantiles {method!r}")
    if over_nan:
        return where(reductions.reduce_all(nan, -1, keepdims=True), math.nan, found)
    return where(reductions.reduce_any(nan, -1, keepdims=True), math.nan, found)


def _picked(rows: Tensor, at: Tensor, each: bool) -> Tensor:
    """Entries of rows at places ``[q]``, or ``[…, q]`` if each row has its own."""
    places = cast(at, I32)
    last = rows.type.rank - 1
    return entries(rows, places, last, last if each else 0)


# -- counts


def bincount(
    x: TensorLike,
    /,
    weights: TensorLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Tensor:
    """How often each number from 0 occurs, or the sum of the weights where it does.

    Args:
        x: ``[n]``, integers that are not negative.
        weights: ``[n]``.
        minlength: the least size of the result.
        length: the size of the result, which is known so while a function is compiled; greater numbers are passed over.

    Raises:
        NotImplementedError: a function is compiled, and ``length`` is not given.
    """
    numbers = as_tensor(x)
    if numbers.type.rank != 1:
        raise misfit(f"expected a vector, got {numbers.type}")
    if length is None:
        refuse_in_trace("bincount", "pass length, the size of the result")
    amounts = None if weights is None else as_tensor(weights)
    return _bincount(
        cast(numbers, I32),
        amounts,
        minlength=minlength if length is None else length,
        maxlength=length,
        dtype=I64 if amounts is None else amounts.type.dtype,
    )


def histogram_bin_edges(x: TensorLike, /, bins: Any = 10, range: Any = None) -> Tensor:
    """The bounds of ``bins`` equal parts of a range, by default from the least to the greatest element."""
    tensor = inexact(x)
    if not isinstance(bins, int):
        return as_tensor(bins)
    if range is None:
        if tensor.type.size == 0:
            range = (0.0, 1.0)
        else:
            low, high = reductions.reduce_min(tensor), reductions.reduce_max(tensor)
            same = arithmetic.equal(low, high)
            edges: Tensor = linspace(
                where(same, low - 0.5, low), where(same, high + 0.5, high), bins + 1
            )
            return edges
    low, high = range
    if not isinstance(low, Tensor) and low == high:
        low, high = low - 0.5, high + 0.5
    dtype = tensor.type.dtype
    found: Tensor = linspace(of_dtype(low, dtype), of_dtype(high, dtype), bins + 1)
    return found


def histogram(
    x: TensorLike,
    /,
    bins: Any = 10,
    range: Any = None,
    density: bool = False,
    weights: TensorLike | None = None,
) -> tuple[Tensor, Tensor]:
    """How many elements lie in each part of a range, and the bounds of the parts; the last includes its upper bound.

    Args:
        x: numbers, of any shape.
        bins: the number of parts, or their bounds, ascending.
        range: from where to where, for a number of parts; by default from the least to the greatest element.
        density: whether to divide by the number of elements and the widths of the parts.
        weights: how much each element counts.
    """
    edges = histogram_bin_edges(x, bins, range)
    numbers, bounds = promoted(flat(inexact(x), None)[0], edges)
    size = bounds.type.shape[0]
    if not isinstance(size, int) or size < 2:
        raise misfit(f"expected two bounds at least, got {bounds.type}")
    at = arithmetic.subtract(ordering.searchsorted(bounds, numbers, side="right"), 1)
    at = where(arithmetic.equal(numbers, bounds[size - 1]), as_tensor(size - 2, I64), at)
    inside = arithmetic.logical_and(arithmetic.greater_equal(at, 0), arithmetic.less(at, size - 1))
    if weights is None:
        amount = cast(inside, F32 if density else I64)
    else:
        given = flat(weights, None)[0]
        amount = where(inside, given, arithmetic.multiply(given, 0))
    at = cast(where(inside, at, as_tensor(0, I64)), I32)
    counts = bincount(at, amount, length=size - 1)
    if density:
        counts = inexact(counts)
        width = of_dtype(difference(edges), counts.type.dtype)
        counts = counts / (width * reductions.reduce_sum(counts))
    return counts, edges


# -- neighbours


def diff(
    x: TensorLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """Each entry of an axis less the one before it; bools differ or not.

    Args:
        x: numbers.
        axis: along which.
        n: how often.
        prepend: what comes before the first.
        append: what comes behind the last.
    """
    tensor = as_tensor(x)
    place = axis_of(axis, tensor.type.rank)
    parts: list[Any] = [v for v in (prepend, tensor, append) if v is not None]
    if len(parts) > 1:
        rows = promoted(*parts)
        shape = tensor.type.shape
        line = (*shape[:place], 1, *shape[place + 1 :])
        tensor = concat(
            [rearrangement.broadcast_to(r, line) if not r.type.rank else r for r in rows], place
        )
    for _ in builtins.range(n):
        tensor = difference(tensor, place)
    return tensor


def difference(x: Tensor, place: int = 0) -> Tensor:
    """Each entry of an axis less the one before it."""
    size = x.type.shape[place]
    if not isinstance(size, Dim) and size == 0:
        return x
    rest = size - 1
    later, sooner = part(x, place, 1, rest), part(x, place, 0, rest)
    if x.type.dtype.is_bool:
        return arithmetic.not_equal(later, sooner)
    return arithmetic.subtract(later, sooner)


def ediff1d(x: TensorLike, /) -> Tensor:
    """`diff` of the flat elements."""
    return difference(flat(x, None)[0])


def trapezoid(
    y: TensorLike, x: TensorLike | None = None, /, dx: TensorLike = 1.0, axis: int = -1
) -> Tensor:
    """The integral along an axis by the rule of trapezoids.

    Args:
        y: the values.
        x: where they are: a vector, or of the shape of ``y``; None for places ``dx`` apart.
        dx: the distance of the places.
        axis: along which.
    """
    heights = inexact(y)
    place = axis_of(axis, heights.type.rank)
    rest = heights.type.shape[place] - 1
    pairs = arithmetic.add(part(heights, place, 1, rest), part(heights, place, 0, rest))
    if x is not None:
        places = of_dtype(x, heights.type.dtype)
        if places.type.rank == 1:
            line = [1] * (heights.type.rank - 1 - place)
            dx = reshape(difference(places), (-1, *line))
        else:
            dx = difference(places, axis_of(axis, places.type.rank))
    widths = of_dtype(dx, heights.type.dtype) if hasattr(dx, "dtype") else dx
    product = arithmetic.multiply(arithmetic.multiply(pairs, 0.5), widths)
    return reductions.reduce_sum(product, place)


def interp(
    x: TensorLike,
    xp: TensorLike,
    fp: TensorLike,
    /,
    left: TensorLike | None = None,
    right: TensorLike | None = None,
) -> Tensor:
    """The values at ``x`` of the polygon through points; differentiable by ``x`` and ``fp``.

    Args:
        x: where.
        xp: ``[n]``, ascending, where the points are.
        fp: ``[n]``, their values.
        left: the value before the first point, by default its own.
        right: the value behind the last point, by default its own.
    """
    at, places, values = promoted_inexact(x, xp, fp)
    size = places.type.shape[0]
    if not isinstance(size, int) or size < 1:
        raise misfit(f"expected one point at least, got {places.type}")
    above = cast(ordering.searchsorted(places, at, side="right"), I32)
    above = arithmetic.clip_by_value(above, min(1, size - 1), size - 1)
    below = arithmetic.maximum(arithmetic.subtract(above, 1), 0)
    x0, x1 = (entries(places, i, 0) for i in (below, above))
    y0, y1 = (entries(values, i, 0) for i in (below, above))
    gap = arithmetic.subtract(x1, x0)
    flat_ = arithmetic.equal(gap, 0)
    share = (at - x0) / where(flat_, 1, gap)
    found = y0 + (y1 - y0) * where(flat_, 0, share)
    first, last = values[0], values[size - 1]
    found = where(
        at < places[0], first if left is None else of_dtype(left, found.type.dtype), found
    )
    beyond = last if right is None else of_dtype(right, found.type.dtype)
    found = where(at > places[size - 1], beyond, found)
    return where(elementwise.isnan(at), at, found)


# -- covariance


def cov(
    m: TensorLike,
    y: TensorLike | None = None,
    /,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
) -> Tensor:
    """The covariances of rows, which are variables, of columns, which are observations.

    Args:
        m: ``[variables, observations]``, or one variable.
        y: more variables.
        rowvar: False if columns are variables and rows observations.
        bias: whether to divide by the number of observations rather than by one less.
        ddof: what to divide by less than that number, whatever ``bias`` says.
    """
    x = _variables(inexact(m), rowvar)
    if y is not None:
        x = concat(inexact_pair(x, _variables(inexact(y), rowvar)), 0)
    lost = (0 if bias else 1) if ddof is None else ddof
    centred = arithmetic.subtract(x, reductions.reduce_mean(x, 1, keepdims=True))
    number = arithmetic.subtract(dim_tensor(x.type.shape[1], x.type.dtype), lost)
    found = (centred @ rearrangement.transpose(arithmetic.conj(centred))) / number
    return rearrangement.squeeze(found) if x.type.shape[0] == 1 else found


def _variables(x: Tensor, rowvar: bool) -> Tensor:
    if x.type.rank < 2:
        return reshape(x, (1, -1))
    return x if rowvar or x.type.shape[0] == 1 else rearrangement.transpose(x)


def corrcoef(x: TensorLike, y: TensorLike | None = None, /, rowvar: bool = True) -> Tensor:
    """Correlations: covariances of rows divided by both standard deviations."""
    found = cov(x, y, rowvar)
    if not found.type.rank:
        return found / found
    spread = sqrt(arithmetic.real(diag(found)))
    return found / reshape(spread, (-1, 1)) / reshape(spread, (1, -1))
