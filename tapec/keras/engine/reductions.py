"""Sums, extremes, means, counts, cumulative ones and those that leave NaN out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type

import tapec
from tapec import numpy
from tapec.keras.engine.conversion import convert_to_tensor, floating, promoted
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
    return tapec.reduce_all(convert_to_tensor(x, "bool"), _axes(axis), keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element along axes holds."""
    return tapec.reduce_any(convert_to_tensor(x, "bool"), _axes(axis), keepdims)


def count_nonzero(x: Any, axis: Axis = None) -> Tensor:
    """How many elements along axes are not zero."""
    return tapec.reduce_sum(tapec.cast(convert_to_tensor(x, "bool"), "int32"), _axes(axis))


# -- running ones, those without NaN, and those that sort


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def applied(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        x = convert_to_tensor(x)
        dtype = result_type(dtype or x.dtype.name)
        wide = "int32" if dtype == "bool" else dtype
        return function(tapec.cast(x, wide), axis, dtype=wide)

    return applied


cumsum = _running(numpy.cumsum)
cumprod = _running(numpy.cumprod)
nancumsum = _running(numpy.nancumsum)
nancumprod = _running(numpy.nancumprod)


def _along(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of ``x``, ``axis`` and ``keepdims``."""

    def applied(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
        return function(convert_to_tensor(x), axis, keepdims=keepdims)

    return applied


nansum = _along(numpy.nansum)
nanprod = _along(numpy.nanprod)
nanmax = _along(numpy.nanmax)
nanmin = _along(numpy.nanmin)
nanmean = _along(numpy.nanmean)
nanvar = _along(numpy.nanvar)
nanstd = _along(numpy.nanstd)
median = _along(numpy.median)
nanmedian = _along(numpy.nanmedian)


def _of_shares(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of ``x`` and the shares of all below what it gives."""

    def applied(
        x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
    ) -> Tensor:
        shares = floating(q)
        return function(floating(x), shares, axis, method=method, keepdims=keepdims)

    return applied


quantile = _of_shares(numpy.quantile)
nanquantile = _of_shares(numpy.nanquantile)
percentile = _of_shares(numpy.percentile)
nanpercentile = _of_shares(numpy.nanpercentile)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis, by the trapezoidal rule."""
    y = floating(y)
    if x is not None:
        y, x = map(floating, promoted(y, x))
    return numpy.trapezoid(y, x, dx, axis)


# -- where


def _place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def applied(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return tapec.cast(function(convert_to_tensor(x), axis, keepdims=keepdims), "int32")

    return applied


argmax = _place(numpy.argmax)
argmin = _place(numpy.argmin)
nanargmax = _place(numpy.nanargmax)
nanargmin = _place(numpy.nanargmin)
