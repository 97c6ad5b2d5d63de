"""Sums, products, extrema, means and running sums over axes.

``axis`` is None (all axes), a number, or several; ``keepdims`` leaves axes of size 1 in place. Sums and products of
integers narrower than 32 bits, and of bools, are 32 bits wide; means of integers are float32.

Raises of every function: InvalidArgumentError for an axis out of range (ValueError while a function is compiled).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapec.functions import arithmetic, reductions
from tapec.functions.arithmetic import cast, where
from tapec.functions.arrays import full, ones_like
from tapec.functions.broadcasting import axes_of, axis_of, may_equal, misfit
from tapec.functions.elementary import sqrt
from tapec.functions.known import dim_tensor
from tapec.functions.rearrangement import broadcast_to, concat, reshape
from tapec.functions.reductions import count
from tapec.ir.dims import Dim
from tapec.ir.types import BF16, F16, F32, U8, as_dtype
from tapec.numpy import elementwise
from tapec.numpy.promotion import counted, inexact, of_dtype, promoted, truth
from tapec.numpy.shaping import flat
from tapec.tensor import Tensor, TensorLike, as_tensor


def _summed(x: TensorLike, dtype: Any) -> Tensor:
    tensor = as_tensor(x)
    return of_dtype(tensor, counted(tensor.type.dtype) if dtype is None else as_dtype(dtype))


def _kept(x: TensorLike, kept: Any, other: Any) -> Tensor:
    """The elements that count, and what changes nothing in place of the others."""
    tensor = as_tensor(x)
    return tensor if kept is True else where(truth(kept), tensor, other)


def sum(
    x: TensorLike,
    /,
    axis: Any = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    """The sum over axes.

    Args:
        x: numbers or bools.
        axis: over which axes.
        dtype: in which to add up.
        keepdims: whether axes stay with size 1.
        initial: what to add to.
        where: which elements count.
    """
    found = reductions.reduce_sum(_summed(_kept(x, where, 0), dtype), axis, keepdims)
    return found if initial is None else arithmetic.add(found, of_dtype(initial, found.type.dtype))


def prod(
    x: TensorLike,
    /,
    axis: Any = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    """The product over axes; see `sum`."""
    found = reductions.reduce_prod(_summed(_kept(x, where, 1), dtype), axis, keepdims)
    if initial is None:
        return found
    return arithmetic.multiply(found, of_dtype(initial, found.type.dtype))


def max(
    x: TensorLike,
    /,
    axis: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    """The greatest element over axes; NaN if one is. Ties share the gradient.

    Args:
        x: numbers or bools.
        axis: over which axes.
        keepdims: whether axes stay with size 1.
        initial: what the result is at least.
        where: which elements count; ``initial`` is needed then.

    Raises:
        InvalidArgumentError: there is nothing, and no ``initial`` (ValueError while a function is compiled).
    """
    return _extremum(reductions.reduce_max, elementwise.maximum, x, axis, keepdims, initial, where)


def min(
    x: TensorLike,
    /,
    axis: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tensor:
    """The least element over axes; see `max`."""
    return _extremum(reductions.reduce_min, elementwise.minimum, x, axis, keepdims, initial, where)


def _extremum(
    reduce: Callable[..., Tensor],
    choose: Callable[..., Tensor],
    x: TensorLike,
    axis: Any,
    keepdims: bool,
    initial: Any,
    kept: Any,
) -> Tensor:
    tensor = as_tensor(x)
    dtype = tensor.type.dtype
    if initial is None:
        if kept is not True:
            raise misfit("the extremum of chosen elements needs initial: none may be chosen")
        if count(tensor, axis) == 0 and tensor.type.size == 0 and _is_asked(tensor, axis):
            raise misfit(f"{tensor.type} has no greatest or least element over axis {axis}")
    tensor = cast(_kept(tensor, kept, initial), U8 if dtype.is_bool else dtype)
    found = cast(reduce(tensor, axis, keepdims), dtype)
    return found if initial is None else choose(found, of_dtype(initial, dtype))


def _is_asked(x: Tensor, axis: Any) -> bool:
    """Whether the result of reducing an empty tensor has elements."""
    axes = axes_of(axis, x.type.rank)
    return math.prod(n for a, n in enumerate(x.type.shape) if a not in axes) != 0


def ptp(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The greatest element less the least one."""
    return arithmetic.subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def any(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether one of the elements over axes is not 0."""
    return reductions.reduce_any(truth(x), axis, keepdims)


def all(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether none of the elements over axes is 0."""
    return reductions.reduce_all(truth(x), axis, keepdims)


def allclose(
    x1: TensorLike,
    x2: TensorLike,
    /,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Whether all elements are close; see `isclose`."""
    return all(elementwise.isclose(x1, x2, rtol, atol, equal_nan))


def array_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether two tensors have one shape and equal elements."""
    x, y = promoted(x1, x2)
    if not may_equal(x.type.shape, y.type.shape):
        return as_tensor(False)
    return all(elementwise.equal(x, y))


# -- means


def mean(
    x: TensorLike,
    /,
    axis: Any = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    where: Any = True,
) -> Tensor:
    """The mean over axes; NaN of nothing.

    Args:
        x: numbers or bools.
        axis: over which axes.
        dtype: in which to compute; float32 for integers, unless it is given.
        keepdims: whether axes stay with size 1.
        where: which elements count.
    """
    tensor = inexact(x) if dtype is None else cast(x, dtype)
    if where is True:
        return reductions.reduce_mean(tensor, axis, keepdims)
    return _weighted(_kept(tensor, where, 0), _counting(tensor, where), axis, keepdims)


def _counting(x: Tensor, kept: Any) -> Tensor:
    """1 for each element that counts, else 0."""
    return where(truth(kept), ones_like(x), full(0, x.type.dtype, ()))


def _weighted(x: Tensor, weights: Tensor, axis: Any, keepdims: bool) -> Tensor:
    total = reductions.reduce_sum(arithmetic.multiply(x, weights), axis, keepdims)
    return arithmetic.divide(total, reductions.reduce_sum(weights, axis, keepdims))


def var(
    x: TensorLike,
    /,
    axis: Any = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    where: Any = True,
) -> Tensor:
    """The squared distance from the mean, summed over axes and divided by the number of elements less ``correction``.

    Args:
        x: numbers or bools.
        axis: over which axes.
        correction: 0 for the variance of these elements, 1 for the one of what they are a sample of.
        keepdims: whether axes stay with size 1.
        dtype: in which to compute; float32 for integers, unless it is given.
        where: which elements count.
    """
    tensor = inexact(x) if dtype is None else cast(x, dtype)
    own = tensor.type.dtype
    if own in (F16, BF16):  # which cannot hold the sum of many squares
        found = var(cast(tensor, F32), axis, correction=correction, keepdims=keepdims, where=where)
        return cast(found, own)
    if where is True:
        if not correction:
            return reductions.reduce_variance(tensor, axis, keepdims)
        number: Any = count(tensor, axis)
        squares = reductions.reduce_variance(tensor, axis, keepdims)
        real = squares.type.dtype
        if isinstance(number, Dim):
            size = dim_tensor(number, real)
            return squares * (size / arithmetic.subtract(size, correction))
        left = number - correction
        return arithmetic.multiply(squares, number / left if left > 0 else math.nan)
    weights, tensor = _counting(tensor, where), _kept(tensor, where, 0)
    gap = arithmetic.subtract(tensor, _weighted(tensor, weights, axis, keepdims=True))
    squares = arithmetic.multiply(
        arithmetic.real(arithmetic.multiply(arithmetic.conj(gap), gap)), arithmetic.real(weights)
    )
    left = arithmetic.subtract(
        reductions.reduce_sum(arithmetic.real(weights), axis, keepdims), correction
    )
    return arithmetic.divide(reductions.reduce_sum(squares, axis, keepdims), left)


def std(
    x: TensorLike,
    /,
    axis: Any = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    where: Any = True,
) -> Tensor:
    """The square root of `var`; its gradient is NaN where all elements are equal."""
    return sqrt(var(x, axis, correction=correction, keepdims=keepdims, dtype=dtype, where=where))


def average(
    x: TensorLike,
    /,
    axis: Any = None,
    weights: TensorLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The mean over axes, each element as often as its weight says.

    Args:
        x: numbers.
        axis: over which axes.
        weights: of the shape of ``x``, or of the axes; all 1 if None.
        returned: whether to return the sum of weights as well.
        keepdims: whether axes stay with size 1.
    """
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        tensor = as_tensor(x)
        number = dim_tensor(count(tensor, axis), found.type.dtype)
        return (found, broadcast_to(number, found.type.shape)) if returned else found
    tensor, amounts = promoted(inexact(x), weights)
    tensor, amounts = inexact(tensor), inexact(amounts)
    if amounts.type.shape != tensor.type.shape:
        axes = axes_of(axis, tensor.type.rank)
        if axis is None or amounts.type.rank != len(axes):
            raise misfit(f"weights {amounts.type} do not fit {tensor.type} over axis {axis}")
        line = [n if a in axes else 1 for a, n in enumerate(tensor.type.shape)]
        amounts = broadcast_to(reshape(amounts, tuple(line)), tensor.type.shape)
    found = _weighted(tensor, amounts, axis, keepdims)
    return (found, reductions.reduce_sum(amounts, axis, keepdims)) if returned else found


# -- running sums


def cumulative_sum(
    x: TensorLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sum of the entries up to each one along an axis.

    Args:
        x: numbers.
        axis: along which; it may be left out for vectors.
        dtype: in which to add up.
        include_initial: whether to begin with 0.
    """
    return _cumulative(reductions.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: TensorLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The product of the entries up to each one along an axis; see `cumulative_sum`, which begins with 1 here."""
    return _cumulative(reductions.cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(
    run: Callable[..., Tensor], start: int, x: TensorLike, axis: Any, dtype: Any, initial: bool
) -> Tensor:
    tensor = _summed(x, dtype)
    if axis is None and tensor.type.rank != 1:
        raise misfit(f"axis may be left out for vectors only, got {tensor.type}")
    place = axis_of(0 if axis is None else axis, tensor.type.rank)
    found = run(tensor, place)
    if not initial:
        return found
    shape = tensor.type.shape
    first = full(start, found.type.dtype, (*shape[:place], 1, *shape[place + 1 :]))
    return concat([first, found], place)


def cumsum(x: TensorLike, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumulative_sum`; of the flat elements without an axis."""
    tensor, place = flat(x, axis)
    return cumulative_sum(tensor, axis=place, dtype=dtype)


def cumprod(x: TensorLike, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumulative_prod`; of the flat elements without an axis."""
    tensor, place = flat(x, axis)
    return cumulative_prod(tensor, axis=place, dtype=dtype)


# -- that pass over NaN


def _numbers_only(x: TensorLike, other: float) -> Tensor:
    """A number in place of NaN."""
    tensor = as_tensor(x)
    if not tensor.type.dtype.is_differentiable:
        return tensor
    return where(elementwise.isnan(tensor), full(other, tensor.type.dtype, ()), tensor)


def nansum(
    x: TensorLike, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """The sum over axes of all but NaN."""
    return sum(_numbers_only(x, 0), axis, dtype=dtype, keepdims=keepdims)


def nanprod(
    x: TensorLike, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False
) -> Tensor:
    """The product over axes of all but NaN."""
    return prod(_numbers_only(x, 1), axis, dtype=dtype, keepdims=keepdims)


def nancumsum(x: TensorLike, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumsum` with 0 for NaN."""
    return cumsum(_numbers_only(x, 0), axis, dtype=dtype)


def nancumprod(x: TensorLike, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumprod` with 1 for NaN."""
    return cumprod(_numbers_only(x, 1), axis, dtype=dtype)


def nanmax(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The greatest element over axes that is not NaN; NaN if there is none."""
    return _nan_extremum(max, -math.inf, x, axis, keepdims)


def nanmin(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The least element over axes that is not NaN; NaN if there is none."""
    return _nan_extremum(min, math.inf, x, axis, keepdims)


def _nan_extremum(
    reduce: Callable[..., Tensor], least: float, x: TensorLike, axis: Any, keepdims: bool
) -> Tensor:
    tensor = as_tensor(x)
    found = reduce(_numbers_only(tensor, least), axis, keepdims=keepdims)
    if not tensor.type.dtype.is_floating:
        return found
    return where(all(elementwise.isnan(tensor), axis, keepdims=keepdims), math.nan, found)


def _known(x: Tensor) -> Tensor:
    return arithmetic.logical_not(elementwise.isnan(x))


def nanmean(x: TensorLike, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The mean over axes of all but NaN."""
    tensor = inexact(x)
    return mean(tensor, axis, keepdims=keepdims, where=_known(tensor))


def nanvar(
    x: TensorLike, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """`var` of all but NaN."""
    tensor = inexact(x)
    return var(tensor, axis, correction=correction, keepdims=keepdims, where=_known(tensor))


def nanstd(
    x: TensorLike, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """`std` of all but NaN."""
    return sqrt(nanvar(x, axis, correction=correction, keepdims=keepdims))
