"""Functions of analysis, element by element: roots, exponentials, logarithms, trigonometry, and some of statistics.

Integers become float32 first. Operands of two dtypes are converted to the one that holds both, and broadcast.
"""

from __future__ import annotations

import math

from tapec.functions import arithmetic, elementary, special
from tapec.functions.arithmetic import where
from tapec.numpy.elementwise import copysign
from tapec.numpy.promotion import inexact, inexact_pair
from tapec.tensor import Tensor, TensorLike, as_tensor


def _scaled(x: TensorLike, factor: float) -> Tensor:
    """``x * factor``; the parts of a complex number each for themselves, so that infinity times 0 does not arise."""
    tensor = inexact(x)
    if tensor.type.dtype.is_complex:
        real, imag = arithmetic.real(tensor), arithmetic.imag(tensor)
        return arithmetic.complex(
            arithmetic.multiply(real, factor), arithmetic.multiply(imag, factor)
        )
    return arithmetic.multiply(tensor, factor)


# -- roots, exponentials, logarithms


def sqrt(x: TensorLike, /) -> Tensor:
    """The square root; NaN of a negative float."""
    return elementary.sqrt(inexact(x))


def cbrt(x: TensorLike, /) -> Tensor:
    """The cube root, which has the sign of ``x``."""
    tensor = inexact(x)
    return copysign(arithmetic.pow(arithmetic.abs(tensor), 1 / 3), tensor)


def hypot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``sqrt(x1 ** 2 + x2 ** 2)`` without overflow on the way; infinite if one of the two is.

    The gradient at the origin is 0.
    """
    x, y = inexact_pair(x1, x2)
    x, y = arithmetic.abs(x), arithmetic.abs(y)
    larger, smaller = arithmetic.maximum(x, y), arithmetic.minimum(x, y)
    plain = arithmetic.logical_and(arithmetic.greater(larger, 0), arithmetic.is_finite(larger))
    safe = where(plain, larger, 1)
    share = arithmetic.divide(where(plain, smaller, 0), safe)
    length = arithmetic.multiply(safe, elementary.sqrt(arithmetic.add(arithmetic.square(share), 1)))
    infinite = arithmetic.logical_or(arithmetic.is_inf(x), arithmetic.is_inf(y))
    return where(plain, length, where(infinite, math.inf, larger))


def exp(x: TensorLike, /) -> Tensor:
    """``e ** x``."""
    return elementary.exp(inexact(x))


def exp2(x: TensorLike, /) -> Tensor:
    """``2 ** x``."""
    tensor = inexact(x)
    return arithmetic.pow(as_tensor(2, tensor.type.dtype), tensor)


def expm1(x: TensorLike, /) -> Tensor:
    """``e ** x - 1``, accurate near 0."""
    return elementary.expm1(inexact(x))


def log(x: TensorLike, /) -> Tensor:
    """The natural logarithm."""
    return elementary.log(inexact(x))


def log1p(x: TensorLike, /) -> Tensor:
    """``log(1 + x)``, accurate near 0."""
    return elementary.log1p(inexact(x))


def log2(x: TensorLike, /) -> Tensor:
    """The logarithm to base 2."""
    return _scaled(elementary.log(inexact(x)), 1 / math.log(2))


def log10(x: TensorLike, /) -> Tensor:
    """The logarithm to base 10."""
    return _scaled(elementary.log(inexact(x)), 1 / math.log(10))


def logaddexp(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``log(exp(x1) + exp(x2))`` without overflow."""
    return elementary.logaddexp(*inexact_pair(x1, x2))


def logaddexp2(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """``log2(2 ** x1 + 2 ** x2)`` without overflow."""
    x, y = (_scaled(x, math.log(2)) for x in inexact_pair(x1, x2))
    return _scaled(elementary.logaddexp(x, y), 1 / math.log(2))


# -- angles


def sin(x: TensorLike, /) -> Tensor:
    """The sine."""
    return elementary.sin(inexact(x))


def cos(x: TensorLike, /) -> Tensor:
    """The cosine."""
    return elementary.cos(inexact(x))


def tan(x: TensorLike, /) -> Tensor:
    """The tangent."""
    return elementary.tan(inexact(x))


def asin(x: TensorLike, /) -> Tensor:
    """The angle whose sine is ``x``; NaN outside of ``[-1, 1]``."""
    return elementary.asin(inexact(x))


def acos(x: TensorLike, /) -> Tensor:
    """The angle whose cosine is ``x``; NaN outside of ``[-1, 1]``."""
    return elementary.acos(inexact(x))


def atan(x: TensorLike, /) -> Tensor:
    """The angle whose tangent is ``x``."""
    return elementary.atan(inexact(x))


def atan2(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The angle of the point ``(x2, x1)``, in ``[-pi, pi]``."""
    return elementary.atan2(*inexact_pair(x1, x2))


def sinh(x: TensorLike, /) -> Tensor:
    """The hyperbolic sine."""
    return elementary.sinh(inexact(x))


def cosh(x: TensorLike, /) -> Tensor:
    """The hyperbolic cosine."""
    return elementary.cosh(inexact(x))


def tanh(x: TensorLike, /) -> Tensor:
    """The hyperbolic tangent."""
    return elementary.tanh(inexact(x))


def asinh(x: TensorLike, /) -> Tensor:
    """The inverse of `sinh`."""
    return elementary.asinh(inexact(x))


def acosh(x: TensorLike, /) -> Tensor:
    """The inverse of `cosh`; NaN below 1."""
    return elementary.acosh(inexact(x))


def atanh(x: TensorLike, /) -> Tensor:
    """The inverse of `tanh`; NaN outside of ``[-1, 1]``."""
    return elementary.atanh(inexact(x))


def deg2rad(x: TensorLike, /) -> Tensor:
    """Degrees in radians."""
    return _scaled(x, math.pi / 180)


def rad2deg(x: TensorLike, /) -> Tensor:
    """Radians in degrees."""
    return _scaled(x, 180 / math.pi)


# -- others


def sinc(x: TensorLike, /) -> Tensor:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
    turn = _scaled(x, math.pi)
    zero = arithmetic.equal(turn, 0)
    safe = where(zero, 1, turn)
    return where(zero, 1, arithmetic.divide(elementary.sin(safe), safe))


def i0(x: TensorLike, /) -> Tensor:
    """The modified Bessel function of the first kind, of order 0."""
    return special.bessel_i0(inexact(x))
