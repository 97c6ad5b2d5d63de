"""Sums, extremes, means, counts, cumulative ones and those that leave NaN out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type

import tapec
from tapec.keras.engine.borrowed import numpy_function
from tapec.keras.engine.conversion import convert_to_tensor, floating, promoted
from tapec.keras.engine.elementwise import isnan, truths
from tapec.tensor import Tensor

Axis = int | Sequence[int] | None


def _axes(axis: Any) -> Any:
    return list(axis) if isinstance(axis, tuple) else axis


def _countable(x: Tensor) -> Tensor:
    """Truths and small integers in a dtype in which they are added up."""
    if x.dtype.name in ("bool", "int8", "int16"):
        return tapec.cast(x, "int32")
    return tapec.cast(x, "uint32") if x.dtype.name in ("uint8", "uint16") else x


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum along axes."""
    return tapec.reduce_sum(_countable(convert_to_tensor(x)), _axes(axis), keepdims)


def prod(x: Any, axis: Axis = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product along axes."""
    x = convert_to_tensor(x)
    x = _countable(x) if dtype is None else tapec.cast(x, standardize_dtype(dtype))
    return tapec.reduce_prod(x, _axes(axis), keepdims)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean along axes, in floats; half floats are added up in single ones."""
    return _in_wide(tapec.reduce_mean, floating(x), axis, keepdims)


def _in_wide(function: Callable[..., Any], x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    if x.dtype.name in ("float16", "bfloat16"):
        found = function(tapec.cast(x, "float32"), _axes(axis), keepdims)
        return tapec.cast(found, x.dtype)
    return function(x, _axes(axis), keepdims)


def var(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The variance along axes."""
    return _in_wide(tapec.math.reduce_variance, _of_parts(x), axis, keepdims)


def std(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The standard deviation along axes."""
    return _in_wide(tapec.math.reduce_std, _of_parts(x), axis, keepdims)


def _of_parts(x: Any) -> Tensor:
    return floating(x)


def average(x: Any, axis: Axis = None, weights: Any = None) -> Tensor:
    """The mean along an axis, in which elements have weights."""
    x = convert_to_tensor(x)
    if weights is None:
        return mean(x, axis)
    x, weights = map(floating, promoted(x, weights))
    if weights.type.rank == 1 and x.type.rank > 1 and isinstance(axis, int):
        place = axis % x.type.rank
        weights = tapec.reshape(weights, [-1 if n == place else 1 for n in range(x.type.rank)])
    weights = tapec.broadcast_to(weights, tapec.shape(x))
    total = tapec.reduce_sum(weights, _axes(axis))
    return tapec.reduce_sum(x * weights, _axes(axis)) / total


def _extreme(
    whole: Callable[..., Any], truthful: Callable[..., Any], pair: Callable[..., Any]
) -> Callable[..., Tensor]:
    def applied(x: Any, axis: Axis = None, keepdims: bool = False, initial: Any = None) -> Tensor:
        x = convert_to_tensor(x)
        if x.dtype.name == "bool":
            found = truthful(x, _axes(axis), keepdims)
        elif 0 in x.shape and initial is not None:
            shape = tapec.reduce_sum(tapec.zeros_like(x), _axes(axis), keepdims)
            return tapec.zeros_like(shape) + convert_to_tensor(initial, x.dtype.name)
        else:
            found = whole(x, _axes(axis), keepdims)
        if initial is None:
            return found
        return pair(found, convert_to_tensor(initial, found.dtype.name))

    return applied


max = _extreme(tapec.reduce_max, tapec.reduce_any, tapec.maximum)
min = _extreme(tapec.reduce_min, tapec.reduce_all, tapec.minimum)


def amax(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest element along axes."""
    return max(x, axis, keepdims)


def amin(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The least element along axes."""
    return min(x, axis, keepdims)


def ptp(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The distance from the least to the greatest element along axes."""
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes hold."""
    return tapec.reduce_all(truths(x), _axes(axis), keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element along axes holds."""
    return tapec.reduce_any(truths(x), _axes(axis), keepdims)


def count_nonzero(x: Any, axis: Axis = None) -> Tensor:
    """How many elements along axes are not zero."""
    return tapec.reduce_sum(tapec.cast(truths(x), "int32"), _axes(axis))


# -- running ones


def _running(function: Callable[..., Any], fill: int | None) -> Callable[..., Tensor]:
    """Cumulative sums or products; with ``fill`` that takes the place of NaN."""

    def applied(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        x = convert_to_tensor(x)
        if fill is not None and x.dtype.is_floating:
            x = tapec.where(isnan(x), tapec.constant(fill, x.dtype), x)
        dtype = result_type(dtype or x.dtype.name)
        x = tapec.cast(x, "int32" if dtype == "bool" else dtype)
        if axis is None:
            x, axis = tapec.reshape(x, [-1]), 0
        return function(x, axis=axis)

    return applied


cumsum = _running(tapec.cumsum, None)
cumprod = _running(tapec.math.cumprod, None)
nancumsum = _running(tapec.cumsum, 0)
nancumprod = _running(tapec.math.cumprod, 1)

# -- without NaN


def _filled(x: Any, value: float) -> Tensor:
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return x
    return tapec.where(isnan(x), tapec.constant(value, x.dtype), x)


def nansum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`sum` of what is not NaN."""
    return sum(_filled(x, 0.0), axis, keepdims)


def nanprod(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`prod` of what is not NaN."""
    return prod(_filled(x, 1.0), axis, keepdims)


def _known(x: Any, axis: Axis, keepdims: bool = False) -> Tensor:
    """How many elements along axes are not NaN, in floats."""
    found = tapec.cast(tapec.logical_not(isnan(x)), "float32")
    return tapec.reduce_sum(found, _axes(axis), keepdims)


def _or_nan(found: Tensor, known: Tensor) -> Tensor:
    """NaN where nothing was known."""
    return tapec.where(known > 0.0, found, tapec.constant(np.nan, found.dtype))


def nanmax(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`max` of what is not NaN."""
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return max(x, axis, keepdims)
    return _or_nan(max(_filled(x, -np.inf), axis, keepdims), _known(x, axis, keepdims))


def nanmin(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`min` of what is not NaN."""
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return min(x, axis, keepdims)
    return _or_nan(min(_filled(x, np.inf), axis, keepdims), _known(x, axis, keepdims))


def nanmean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`mean` of what is not NaN."""
    x = floating(x)
    known = tapec.cast(_known(x, axis, keepdims), x.dtype)
    return tapec.reduce_sum(_filled(x, 0.0), _axes(axis), keepdims) / known


def nanvar(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`var` of what is not NaN."""
    x = floating(x)
    wide = tapec.cast(x, "float32") if x.dtype.size < 4 else x
    off = wide - nanmean(wide, axis, True)
    return tapec.cast(nanmean(tapec.square(off), axis, keepdims), x.dtype)


def nanstd(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`std` of what is not NaN."""
    return tapec.sqrt(nanvar(x, axis, keepdims))


# -- order statistics


def _quantiles(x: Any, q: Any, axis: Any, method: str, keepdims: bool, skip: bool) -> Tensor:
    """Quantiles along axes, by sorting; ``skip`` leaves NaN out."""
    x = floating(x)
    wide = x if x.dtype.name in ("float32", "float64") else tapec.cast(x, "float32")
    shares = convert_to_tensor(q, wide.dtype.name)
    axes = _all_axes(axis, x.type.rank)
    rest = [n for n in range(x.type.rank) if n not in axes]
    kept = [x.shape[n] for n in rest]
    rows = tapec.sort(tapec.reshape(tapec.transpose(wide, [*rest, *axes]), [*kept, -1]), -1)
    missing = isnan(rows)
    count = tapec.reduce_sum(tapec.cast(tapec.logical_not(missing), wide.dtype), -1)
    flat = tapec.reshape(shares, [-1, *[1] * len(kept)])
    whole = count if skip else tapec.zeros_like(count) + float(rows.shape[-1])
    found = _between(rows, flat * tapec.maximum(whole - 1.0, tapec.zeros_like(whole)), method)
    is_unknown = whole < 1.0 if skip else count < whole
    found = tapec.where(is_unknown, tapec.constant(np.nan, found.dtype), found)
    sizes = [1 if n in axes else x.shape[n] for n in range(x.type.rank)] if keepdims else kept
    found = tapec.reshape(found, [*shares.shape, *sizes])
    return tapec.cast(found, x.dtype)


def _all_axes(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return list(range(rank))
    return sorted(n % rank for n in (axis if isinstance(axis, list | tuple) else [axis]))


def _between(rows: Tensor, place: Tensor, method: str) -> Tensor:
    """What stands at places that lie between elements of sorted rows, ``[q, *rows]``."""
    low, high = tapec.floor(place), tapec.math.ceil(place)
    below, above = _at(rows, low), _at(rows, high)
    if method == "lower":
        return below
    if method == "higher":
        return above
    if method == "midpoint":
        return (below + above) / 2.0
    if method == "nearest":
        return _at(rows, tapec.round(place))
    if method != "linear":
        raise ValueError(
            "`method` must be one of 'linear', 'lower', 'higher', 'midpoint' and 'nearest'. "
            f"Received: method={method}"
        )
    return below + tapec.where(
        tapec.equal(low, high), tapec.zeros_like(below), (above - below) * (place - low)
    )


def _at(rows: Tensor, place: Tensor) -> Tensor:
    """The elements at whole places of rows, for each of the leading axis of ``place``."""
    index = tapec.cast(place, "int32")
    table = tapec.broadcast_to(rows[None], [place.shape[0], *rows.shape])
    return tapec.gather(table, index, batch_dims=rows.type.rank, axis=rows.type.rank)


def quantile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The elements below which shares ``q`` of all lie, along axes."""
    return _quantiles(x, q, axis, method, keepdims, skip=False)


def nanquantile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile` of what is not NaN."""
    return _quantiles(x, q, axis, method, keepdims, skip=True)


def _hundredths(q: Any) -> Tensor:
    return floating(q) / 100.0


def percentile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile` in hundredths."""
    return quantile(x, _hundredths(q), axis, method, keepdims)


def nanpercentile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`percentile` of what is not NaN."""
    return nanquantile(x, _hundredths(q), axis, method, keepdims)


def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The element in the middle along axes."""
    return quantile(x, 0.5, axis, "linear", keepdims)


def nanmedian(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`median` of what is not NaN."""
    return nanquantile(x, 0.5, axis, "linear", keepdims)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis, by the trapezoidal rule."""
    y = floating(y)
    if x is not None:
        y, x = map(floating, promoted(y, x))
    return numpy_function(np.trapezoid)(y, x, dx, axis)


# -- where


def _place(function: Callable[..., Any]) -> Callable[..., Tensor]:
    def applied(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
        x = convert_to_tensor(x)
        if x.dtype.name == "bool":
            x = tapec.cast(x, "uint8")
        if axis is None:
            found = function(tapec.reshape(x, [-1]), 0, "int32")
            return tapec.reshape(found, [1] * x.type.rank) if keepdims else found
        found = function(x, axis, "int32")
        return tapec.expand_dims(found, axis) if keepdims else found

    return applied


argmax = _place(tapec.argmax)
argmin = _place(tapec.argmin)


def _known_place(function: Callable[..., Tensor], fill: float) -> Callable[..., Tensor]:
    def applied(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
        x = convert_to_tensor(x)
        found = function(_filled(x, fill), axis, keepdims)
        if not x.dtype.is_floating:
            return found
        nothing = tapec.reduce_all(isnan(x), axis, keepdims)
        return tapec.where(nothing, tapec.constant(-1, found.dtype), found)

    return applied


nanargmax = _known_place(argmax, -np.inf)
nanargmin = _known_place(argmin, np.inf)
