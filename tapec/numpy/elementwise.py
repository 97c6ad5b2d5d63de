"""Arithmetic, rounding, comparison, logic and bits, element by element.

Operands of two dtypes are converted to the one that holds both (`tapec.numpy.promotion`), and broadcast against each
other. Raises of every function of two operands: InvalidArgumentError if shapes do not fit (ValueError while a function
is compiled).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable

from tapec.functions import arithmetic
from tapec.functions import bits as _bits
from tapec.functions.arithmetic import cast, where
from tapec.functions.broadcasting import binary, unary, wrong_dtype
from tapec.functions.elementary import truncatemod
from tapec.ir.types import I32
from tapec.numpy.promotion import inexact, inexact_pair, pair, truth
from tapec.tensor import Tensor, TensorLike, as_tensor


def _of_bools(op: str, logical: str, x1: TensorLike, x2: TensorLike) -> Tensor:
    """An operation of two numbers; of two bools the logical one that NumPy has in its place."""
    x, y = pair(x1, x2)
    return binary(logical if x.type.dtype.is_bool else op, x, y)


# -- arithmetic


def add(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 + x2``. Integers wrap around; of bools it is ``or``."""
    return _of_bools("add", "or", x1, x2)


def subtract(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 - x2``. Integers wrap around."""
    return binary("sub", *pair(x1, x2))


def multiply(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 * x2``. Integers wrap around; of bools it is ``and``."""
    return _of_bools("mul", "and", x1, x2)


def divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 / x2``; integers become float32 first."""
    return binary("div", *inexact_pair(x1, x2))


def divide_no_nan(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 / x2``, and 0 where ``x2`` is 0, with gradients that are 0 there too."""
    return arithmetic.divide_no_nan(*inexact_pair(x1, x2))


def floor_divide(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``floor(x1 / x2)``, rounding towards minus infinity. No derivative.

    Raises:
        InvalidArgumentError: eager, an integer is divided by 0. A compiled function gives 0 there.
    """
    return arithmetic.floordiv(*_counting(x1, x2))


def remainder(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """What `floor_divide` leaves: it has the sign of ``x2``.

    Raises:
        InvalidArgumentError: eager, an integer is taken modulo 0. A compiled function gives 0 there.
    """
    return arithmetic.floormod(*_counting(x1, x2))


def fmod(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """What division towards 0 leaves, as in C: it has the sign of ``x1``."""
    x, y = _counting(x1, x2)
    if not x.type.dtype.is_floating:
        return truncatemod(x, y)
    left = arithmetic.floormod(arithmetic.abs(x), arithmetic.abs(y))
    return copysign(left, x)


def divmod(x1: TensorLike, x2: TensorLike, /) -> tuple[Tensor, Tensor]:
    """`floor_divide` and `remainder`."""
    return floor_divide(x1, x2), remainder(x1, x2)


def _counting(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, Tensor]:
    """Operands of one dtype, bools as integers."""
    x, y = pair(x1, x2)
    return _numbers(x), _numbers(y)


def pow(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 ** x2``. The gradient by ``x2`` is 0 where ``x1`` is not positive.

    Raises:
        InvalidArgumentError: eager, an integer to a negative integer power.
    """
    return arithmetic.pow(*_counting(x1, x2))


def float_power(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 ** x2`` of floats; integers become float32 first."""
    return arithmetic.pow(*inexact_pair(x1, x2))


def negative(x: TensorLike, /) -> Tensor:
    """``-x``."""
    return unary("neg", x)


def positive(x: TensorLike, /) -> Tensor:
    """``x``, as a new tensor."""
    return arithmetic.identity(as_tensor(x))


def abs(x: TensorLike, /) -> Tensor:
    """The absolute value; of a complex number its modulus, a float."""
    tensor = as_tensor(x)
    dtype = tensor.type.dtype
    if dtype.is_bool or dtype.is_unsigned:
        return tensor
    size = arithmetic.abs(tensor)
    return where(isinf(tensor), math.inf, size) if dtype.is_complex else size


def fabs(x: TensorLike, /) -> Tensor:
    """The absolute value as a float."""
    return arithmetic.abs(inexact(x))


def sign(x: TensorLike, /) -> Tensor:
    """-1, 0 or 1; of a complex number ``x / abs(x)``."""
    return arithmetic.sign(x)


def signbit(x: TensorLike, /) -> Tensor:
    """Whether the sign bit is set: of negative numbers, of -0 and of some NaN."""
    tensor = as_tensor(x)
    dtype = tensor.type.dtype
    if not dtype.is_floating:
        return arithmetic.less(_numbers(tensor), 0)
    whole = {16: "int16", 32: "int32", 64: "int64"}[dtype.bits]
    return arithmetic.less(_bits.bitcast(tensor, whole), 0)


def copysign(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The absolute value of ``x1`` with the sign of ``x2``, a float; -0 has a sign. No gradient flows to ``x2``."""
    x, y = inexact_pair(x1, x2)
    other = arithmetic.logical_xor(signbit(x), signbit(y))
    return where(other, arithmetic.negative(x), x)


def heaviside(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """0 below 0, 1 above it, ``x2`` at 0; a float."""
    x, at_zero = inexact_pair(x1, x2)
    step = where(arithmetic.is_nan(x), x, cast(arithmetic.greater(x, 0), x.type.dtype))
    return where(arithmetic.equal(x, 0), at_zero, step)


def square(x: TensorLike, /) -> Tensor:
    """``x * x``; bools count as integers."""
    return arithmetic.square(_numbers(as_tensor(x)))


def reciprocal(x: TensorLike, /) -> Tensor:
    """``1 / x``; integers become float32 first."""
    return arithmetic.reciprocal(inexact(x))


def _numbers(x: Tensor) -> Tensor:
    return cast(x, I32) if x.type.dtype.is_bool else x


def ldexp(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 * 2 ** x2`` for integers ``x2``, a float.

    Raises:
        InvalidArgumentError: ``x2`` holds no integers (TypeError while a function is compiled).
    """
    exponent = as_tensor(x2)
    if not exponent.type.dtype.is_integer:
        raise wrong_dtype(exponent.type.dtype, "integers as exponents")
    x, power = inexact_pair(x1, exponent)
    half = arithmetic.floor(arithmetic.multiply(power, 0.5))  # so that neither factor overflows
    for part in (half, arithmetic.subtract(power, half)):
        x = arithmetic.multiply(x, arithmetic.pow(as_tensor(2, x.type.dtype), part))
    return x


# -- order and choice


def maximum(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The greater one; NaN if one is. Ties share the gradient."""
    return _of_bools("max", "or", x1, x2)


def minimum(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The lesser one; NaN if one is. Ties share the gradient."""
    return _of_bools("min", "and", x1, x2)


def fmax(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The greater one; a NaN loses."""
    return _without_nan(maximum, x1, x2)


def fmin(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The lesser one; a NaN loses."""
    return _without_nan(minimum, x1, x2)


def _without_nan(
    choose: Callable[[Tensor, Tensor], Tensor], x1: TensorLike, x2: TensorLike
) -> Tensor:
    x, y = pair(x1, x2)
    if not x.type.dtype.is_floating:
        return choose(x, y)
    other = where(arithmetic.is_nan(y), x, y)
    return choose(where(arithmetic.is_nan(x), other, x), other)


def clip(x: TensorLike, /, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """``x`` held between bounds, either of which may be None, in the dtype of ``x`` if it can hold them."""
    tensor = _numbers(as_tensor(x))
    if min is not None:
        tensor = maximum(tensor, min)
    return tensor if max is None else minimum(tensor, max)


def nan_to_num(
    x: TensorLike,
    /,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """``x`` with numbers in place of NaN and infinity; by default 0, and the largest and least numbers there are.

    Args:
        x: the tensor.
        copy: without effect: tensors do not change.
        nan: in place of NaN.
        posinf: in place of infinity.
        neginf: in place of minus infinity.
    """
    tensor = as_tensor(x)
    dtype = tensor.type.dtype
    if dtype.is_complex:
        return _by_parts(lambda part: nan_to_num(part, copy, nan, posinf, neginf), tensor)
    if not dtype.is_floating:
        return tensor
    tensor = where(arithmetic.is_nan(tensor), nan, tensor)
    high, low = dtype.max if posinf is None else posinf, dtype.min if neginf is None else neginf
    tensor = where(arithmetic.equal(tensor, float("inf")), as_tensor(high, dtype), tensor)
    return where(arithmetic.equal(tensor, -float("inf")), as_tensor(low, dtype), tensor)


def _by_parts(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A function of both parts of complex numbers."""
    return arithmetic.complex(function(arithmetic.real(x)), function(arithmetic.imag(x)))


# -- rounding


def _rounded(op: str, x: TensorLike) -> Tensor:
    tensor = as_tensor(x)
    return unary(op, tensor) if tensor.type.dtype.is_differentiable else tensor


def floor(x: TensorLike, /) -> Tensor:
    """The greatest integer not above ``x``; integers stay. No derivative."""
    return _rounded("floor", x)


def ceil(x: TensorLike, /) -> Tensor:
    """The least integer not below ``x``; integers stay. No derivative."""
    tensor = as_tensor(x)
    return arithmetic.ceil(tensor) if tensor.type.dtype.is_differentiable else tensor


def trunc(x: TensorLike, /) -> Tensor:
    """Without its fraction, towards 0; integers stay. No derivative."""
    tensor = as_tensor(x)
    if not tensor.type.dtype.is_differentiable:
        return tensor
    return copysign(arithmetic.floor(arithmetic.abs(tensor)), tensor)


def round(x: TensorLike, /, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, the even one of two as near. No derivative."""
    tensor = as_tensor(x)
    dtype = tensor.type.dtype
    if dtype.is_complex:
        return _by_parts(lambda part: round(part, decimals), tensor)
    if not dtype.is_floating and decimals >= 0:
        return tensor
    if not decimals:
        return arithmetic.round(tensor)
    scale = 10.0 ** builtins.abs(decimals)
    number = tensor if dtype.is_floating else cast(tensor, "float64")
    if decimals > 0:
        found = arithmetic.divide(arithmetic.round(arithmetic.multiply(number, scale)), scale)
    else:
        found = arithmetic.multiply(arithmetic.round(arithmetic.divide(number, scale)), scale)
    return cast(found, dtype)


# -- comparison


def equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 == x2``; NaN equals nothing."""
    return arithmetic.equal(*pair(x1, x2))


def not_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 != x2``; true if either is NaN."""
    return arithmetic.not_equal(*pair(x1, x2))


def less(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 < x2``."""
    return arithmetic.less(*_counting(x1, x2))


def less_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 <= x2``."""
    return arithmetic.less_equal(*_counting(x1, x2))


def greater(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 > x2``."""
    return arithmetic.greater(*_counting(x1, x2))


def greater_equal(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``x1 >= x2``."""
    return arithmetic.greater_equal(*_counting(x1, x2))


def isclose(
    x1: TensorLike,
    x2: TensorLike,
    /,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Whether ``abs(x1 - x2) <= atol + rtol * abs(x2)``; infinities of one sign are close.

    Args:
        x1: the numbers.
        x2: what they should be.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN is close to NaN.
    """
    x, y = inexact_pair(x1, x2)
    gap = arithmetic.abs(arithmetic.subtract(x, y))
    size = arithmetic.abs(y)
    within = arithmetic.less_equal(gap, arithmetic.add(arithmetic.multiply(size, rtol), atol))
    known = arithmetic.logical_and(isfinite(x), isfinite(y))
    close = where(known, within, arithmetic.equal(x, y))
    if equal_nan:
        close = arithmetic.logical_or(close, arithmetic.logical_and(isnan(x), isnan(y)))
    return close


# -- what a number is


def _of_parts(
    test: Callable[[Tensor], Tensor], join: Callable[[Tensor, Tensor], Tensor], x: TensorLike
) -> Tensor:
    """A test of floats; of complex numbers one of both parts; integers are finite."""
    tensor = as_tensor(x)
    if tensor.type.dtype.is_complex:
        return join(test(arithmetic.real(tensor)), test(arithmetic.imag(tensor)))
    if not tensor.type.dtype.is_floating:
        tensor = cast(tensor, "float32")
    return test(tensor)


def isnan(x: TensorLike, /) -> Tensor:
    """Whether it is NaN; of a complex number, whether a part is."""
    return _of_parts(arithmetic.is_nan, arithmetic.logical_or, x)


def isinf(x: TensorLike, /) -> Tensor:
    """Whether it is infinite; of a complex number, whether a part is."""
    return _of_parts(arithmetic.is_inf, arithmetic.logical_or, x)


def isfinite(x: TensorLike, /) -> Tensor:
    """Whether it is neither infinite nor NaN, in both parts."""
    return _of_parts(arithmetic.is_finite, arithmetic.logical_and, x)


def isposinf(x: TensorLike, /) -> Tensor:
    """Whether it is infinity."""
    return arithmetic.equal(inexact(x), float("inf"))


def isneginf(x: TensorLike, /) -> Tensor:
    """Whether it is minus infinity."""
    return arithmetic.equal(inexact(x), -float("inf"))


def isreal(x: TensorLike, /) -> Tensor:
    """Whether the imaginary part is 0."""
    return arithmetic.logical_not(iscomplex(x))


def iscomplex(x: TensorLike, /) -> Tensor:
    """Whether the imaginary part is not 0."""
    return arithmetic.cast(arithmetic.imag(x), "bool")


# -- logic


def logical_and(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether both hold; numbers hold unless they are 0."""
    return arithmetic.logical_and(truth(x1), truth(x2))


def logical_or(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether one of the two holds."""
    return arithmetic.logical_or(truth(x1), truth(x2))


def logical_xor(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Whether one of the two holds and the other does not."""
    return arithmetic.logical_xor(truth(x1), truth(x2))


def logical_not(x: TensorLike, /) -> Tensor:
    """Whether it does not hold."""
    return arithmetic.logical_not(truth(x))


# -- complex numbers


def real(x: TensorLike, /) -> Tensor:
    """The real part; a real tensor itself."""
    return arithmetic.real(x)


def imag(x: TensorLike, /) -> Tensor:
    """The imaginary part; zeros of a real tensor."""
    return arithmetic.imag(x)


def conj(x: TensorLike, /) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    return arithmetic.conj(x)


def angle(x: TensorLike, /, deg: bool = False) -> Tensor:
    """The argument of complex numbers, in ``(-pi, pi]``, or in degrees; of real ones 0 or pi."""
    found = arithmetic.angle(inexact(x))
    return arithmetic.multiply(found, 180 / math.pi) if deg else found
