"""NumPy's sums, means and their like, with NumPy's parameters."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from tapec.functions import arithmetic, logic, ordering, rearrangement, reductions
from tapec.functions.arithmetic import add, cast, divide, multiply, subtract
from tapec.functions.arrays import ones_like
from tapec.functions.broadcasting import axis_of
from tapec.functions.elementary import sqrt
from tapec.functions.indexing import entries, getitem
from tapec.ir.types import BOOL
from tapec.tensor import Tensor, TensorLike, as_tensor

Function = Callable[..., Any]


def floats(a: TensorLike) -> Tensor:
    """Integers as the floats that NumPy makes of them."""
    tensor = as_tensor(a)
    return tensor if tensor.type.dtype.is_differentiable else cast(tensor, "float64")


def _kept(a: TensorLike, kept: Any, other: Any) -> Tensor:
    """The elements that count, and what changes nothing in place of the others."""
    return as_tensor(a) if kept is True else arithmetic.where(kept, a, other)


def _sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    x = _kept(a, where, 0)
    total = reductions.reduce_sum(x if dtype is None else cast(x, dtype), axis, keepdims)
    return total if initial is None else add(total, initial)


def _prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    x = _kept(a, where, 1)
    product = reductions.reduce_prod(x if dtype is None else cast(x, dtype), axis, keepdims)
    return product if initial is None else multiply(product, initial)


def _extremum(reduce: Function, choose: Function) -> Function:
    def extremum(
        a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        if where is not True and initial is None:
            return NotImplemented
        found = reduce(_kept(a, where, initial), axis, keepdims)
        return found if initial is None else choose(found, initial)

    return extremum


def _weights(x: Tensor, kept: Any) -> Tensor:
    """1 for each element that counts, else 0."""
    return arithmetic.where(kept, ones_like(x), 0)


def _weighted_mean(x: Tensor, weights: Tensor, axis: Any, keepdims: bool) -> Tensor:
    total = reductions.reduce_sum(multiply(x, weights), axis, keepdims)
    return divide(total, reductions.reduce_sum(weights, axis, keepdims))


def _mean(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = True
) -> Tensor:
    x = floats(a) if dtype is None else cast(a, dtype)
    if where is True:
        return reductions.reduce_mean(x, axis, keepdims)
    return _weighted_mean(_kept(x, where, 0), _weights(x, where), axis, keepdims)


def _variance(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    *,
    keepdims: bool = False,
    where: Any = True,
    correction: float | None = None,
) -> Tensor:
    x = floats(a) if dtype is None else cast(a, dtype)
    lost = ddof if correction is None else correction
    weights, x = _weights(x, where), _kept(x, where, 0)
    distance = subtract(x, _weighted_mean(x, weights, axis, keepdims=True))
    squares = multiply(arithmetic.square(distance), weights)
    count = subtract(reductions.reduce_sum(weights, axis, keepdims), lost)
    return divide(reductions.reduce_sum(squares, axis, keepdims), count)


def _deviation(*args: Any, **kwargs: Any) -> Tensor:
    return sqrt(_variance(*args, **kwargs))


def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    x = floats(a)
    amounts = ones_like(x) if weights is None else as_tensor(weights, x.type.dtype)
    if amounts.type.rank < x.type.rank:
        if axis is None or amounts.type.rank != 1:
            return NotImplemented
        line = [1] * x.type.rank
        line[axis_of(axis, x.type.rank)] = -1
        amounts = rearrangement.broadcast_to(rearrangement.reshape(amounts, line), x.shape)
    mean = _weighted_mean(x, amounts, axis, keepdims)
    total = reductions.reduce_sum(amounts, axis, keepdims)
    return (mean, total) if returned else mean


def _without_nan(function: Function, neutral: Any) -> Function:
    """A reduction that passes over NaN."""

    def reduce(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        x = floats(a)
        return function(arithmetic.where(arithmetic.is_nan(x), neutral, x), axis, keepdims)

    return reduce


def _nan_where(function: Function) -> Function:
    def reduce(a: Any, axis: Any = None, **options: Any) -> Any:
        x = floats(a)
        return function(x, axis, where=logic.logical_not(arithmetic.is_nan(x)), **options)

    return reduce


def flat(a: Any, axis: Any) -> tuple[Tensor, Any]:
    """NumPy's default of no axis: the elements in one row."""
    return (rearrangement.reshape(a, [-1]), 0) if axis is None else (as_tensor(a), axis)


def _along(function: Function) -> Function:
    def along(a: Any, axis: Any = None, dtype: Any = None) -> Any:
        return function(*flat(a if dtype is None else cast(a, dtype), axis))

    return along


def _peak_to_peak(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return subtract(
        reductions.reduce_max(a, axis, keepdims), reductions.reduce_min(a, axis, keepdims)
    )


def _quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    scale: float = 1,
) -> Any:
    """Between the two sorted elements about each place; the places are known numbers."""
    if method != "linear" or isinstance(axis, tuple | list) or isinstance(q, Tensor):
        return NotImplemented
    x, place = flat(floats(a), axis)
    place = axis_of(place, x.type.rank)
    extent = x.type.shape[place]
    if not isinstance(extent, builtins.int) or not extent:
        return NotImplemented
    shares = np.asarray(q, np.float64) / scale
    at = np.atleast_1d(shares) * (extent - 1)
    below = np.clip(np.floor(at), 0, extent - 1).astype(np.int32)
    above = np.minimum(below + 1, extent - 1)
    ordered = ordering.sort(x, place)
    low, high = (entries(ordered, as_tensor(i), place) for i in (below, above))
    line = [1] * x.type.rank
    line[place] = -1
    part = rearrangement.reshape(as_tensor(at - below, x.type.dtype), line)
    found = add(low, multiply(subtract(high, low), part))
    order = [place, *(n for n in range(x.type.rank) if n != place)]
    rows = rearrangement.transpose(found, order)  # quantiles come first
    if keepdims:
        axes = range(as_tensor(a).type.rank) if axis is None else [place]
        for n in axes:
            rows = rearrangement.expand_dims(rows, n + 1)
    return rows if shares.ndim else getitem(rows, 0)


def _percentile(a: Any, q: Any, axis: Any = None, **options: Any) -> Any:
    return _quantile(a, q, axis, scale=100, **options)


def _median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return _quantile(a, 0.5, axis, keepdims=keepdims)


def _difference(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    x = as_tensor(a)
    place = axis_of(axis, x.type.rank)
    whole = [builtins.slice(None)] * place
    for _ in range(n):
        later = getitem(x, (*whole, builtins.slice(1, None)))
        x = subtract(later, getitem(x, (*whole, builtins.slice(None, -1))))
    return x


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    heights = floats(y)
    place = axis_of(axis, heights.type.rank)
    whole = (builtins.slice(None),) * place
    pairs = add(
        getitem(heights, (*whole, builtins.slice(1, None))),
        getitem(heights, (*whole, builtins.slice(None, -1))),
    )
    if x is not None:
        steps = _difference(as_tensor(x, heights.type.dtype))
        if steps.type.rank != 1:
            return NotImplemented
        dx = rearrangement.reshape(steps, [-1, *[1] * (heights.type.rank - 1 - place)])
    return reductions.reduce_sum(multiply(multiply(pairs, 0.5), dx), place)


def _covariance(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None
) -> Tensor:
    x = floats(m)
    x = rearrangement.reshape(x, [1, -1]) if x.type.rank < 2 else x
    x = x if rowvar or x.type.shape[0] == 1 else rearrangement.transpose(x)
    if y is not None:
        other = as_tensor(y, x.type.dtype)
        other = rearrangement.reshape(other, [1, -1]) if other.type.rank < 2 else other
        x = rearrangement.concat(
            [x, other if rowvar or other.type.shape[0] == 1 else rearrangement.transpose(other)], 0
        )
    centred = subtract(x, reductions.reduce_mean(x, 1, keepdims=True))
    lost = (0 if bias else 1) if ddof is None else ddof
    count = subtract(reductions.reduce_sum(ones_like(getitem(x, 0))), lost)
    product = divide(centred @ rearrangement.transpose(arithmetic.conj(centred)), count)
    return rearrangement.squeeze(product) if x.type.shape[0] == 1 else product


_max = _extremum(reductions.reduce_max, arithmetic.maximum)
_min = _extremum(reductions.reduce_min, arithmetic.minimum)

STATISTICS: dict[Any, Function] = {
    np.sum: _sum,
    np.prod: _prod,
    np.max: _max,
    np.amax: _max,
    np.min: _min,
    np.amin: _min,
    np.mean: _mean,
    np.var: _variance,
    np.std: _deviation,
    np.average: _average,
    np.median: _median,
    np.quantile: _quantile,
    np.percentile: _percentile,
    np.ptp: _peak_to_peak,
    np.any: lambda a, axis=None, *, keepdims=False: reductions.reduce_any(
        cast(a, BOOL), axis, keepdims
    ),
    np.all: lambda a, axis=None, *, keepdims=False: reductions.reduce_all(
        cast(a, BOOL), axis, keepdims
    ),
    np.argmax: lambda a, axis=None: reductions.argmax(*flat(a, axis)),
    np.argmin: lambda a, axis=None: reductions.argmin(*flat(a, axis)),
    np.count_nonzero: lambda a, axis=None, *, keepdims=False: reductions.count_nonzero(
        a, axis, keepdims
    ),
    np.cumsum: _along(reductions.cumsum),
    np.cumprod: _along(reductions.cumprod),
    np.nansum: _without_nan(reductions.reduce_sum, 0),
    np.nanprod: _without_nan(reductions.reduce_prod, 1),
    np.nanmax: _without_nan(reductions.reduce_max, -np.inf),
    np.nanmin: _without_nan(reductions.reduce_min, np.inf),
    np.nanmean: _nan_where(_mean),
    np.nanvar: _nan_where(_variance),
    np.nanstd: _nan_where(_deviation),
    np.diff: _difference,
    np.ediff1d: lambda ary: _difference(rearrangement.reshape(ary, [-1])),
    np.trapezoid: _trapezoid,
    np.cov: _covariance,
}
