"""Functions of analysis, element by element: roots, exponentials, angles, error and gamma functions.

They take floats, some of them complex numbers too. Gradients at poles are what the formula gives
(inf or NaN), except where a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log as _log

from tapec import arguments
from tapec.functions.arithmetic import (
    add,
    divide,
    floormod,
    is_finite,
    less,
    multiply,
    negative,
    not_equal,
    subtract,
    truncatediv,
    where,
)
from tapec.functions.broadcasting import binary, broadcast_pair, unary
from tapec.ir.types import F16
from tapec.tensor import Tensor, TensorLike, as_tensor


def sqrt(x: TensorLike, name: str | None = None) -> Tensor:
    """The square root; NaN below 0. The gradient is 0 wherever the incoming one is, even at 0."""
    return unary("sqrt", x)


def rsqrt(x: TensorLike, name: str | None = None) -> Tensor:
    """``1 / sqrt(x)``. The gradient is 0 wherever the incoming one is, even at 0."""
    return unary("rsqrt", x)


def exp(x: TensorLike, name: str | None = None) -> Tensor:
    """``e ** x`` of floats and complex numbers."""
    return unary("exp", x)


def expm1(x: TensorLike, name: str | None = None) -> Tensor:
    """``e ** x - 1``, accurate near 0."""
    return unary("expm1", x)


def log(x: TensorLike, name: str | None = None) -> Tensor:
    """The natural logarithm of floats and complex numbers; ``-inf`` at 0, NaN below."""
    return unary("log", x)


def log1p(x: TensorLike, name: str | None = None) -> Tensor:
    """``log(1 + x)``, accurate near 0."""
    return unary("log1p", x)


def sin(x: TensorLike, name: str | None = None) -> Tensor:
    """The sine of an angle in radians."""
    return unary("sin", x)


def cos(x: TensorLike, name: str | None = None) -> Tensor:
    """The cosine of an angle in radians."""
    return unary("cos", x)


def tan(x: TensorLike, name: str | None = None) -> Tensor:
    """The tangent of an angle in radians."""
    return unary("tan", x)


def asin(x: TensorLike, name: str | None = None) -> Tensor:
    """The angle in ``[-pi/2, pi/2]`` whose sine is ``x``."""
    return unary("asin", x)


def acos(x: TensorLike, name: str | None = None) -> Tensor:
    """The angle in ``[0, pi]`` whose cosine is ``x``."""
    return unary("acos", x)


def atan(x: TensorLike, name: str | None = None) -> Tensor:
    """The angle in ``[-pi/2, pi/2]`` whose tangent is ``x``."""
    return unary("atan", x)


def atan2(y: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The angle in ``(-pi, pi]`` of the point ``(x, y)``; its gradient at the origin is NaN."""
    return binary("atan2", y, x)


def sinh(x: TensorLike, name: str | None = None) -> Tensor:
    """The hyperbolic sine."""
    return unary("sinh", x)


def cosh(x: TensorLike, name: str | None = None) -> Tensor:
    """The hyperbolic cosine."""
    return unary("cosh", x)


def tanh(x: TensorLike, name: str | None = None) -> Tensor:
    """The hyperbolic tangent of floats and complex numbers."""
    return unary("tanh", x)


def asinh(x: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `sinh`."""
    return unary("asinh", x)


def acosh(x: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `cosh`, not negative; NaN below 1."""
    return unary("acosh", x)


def atanh(x: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `tanh`."""
    return unary("atanh", x)


def sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """``1 / (1 + e ** -x)``, without overflow."""
    return unary("sigmoid", x)


def softplus(features: TensorLike, name: str | None = None) -> Tensor:
    """``log(1 + e ** x)`` of features ``x``, without overflow. The gradient is ``sigmoid(x)``.

    Formula: ``x + log1p(e ** -x)`` for ``x >= 0`` and ``log1p(e ** x)`` below. Each branch is
    smooth everywhere, so derivatives of any order are right at 0 too, which those of ``max(x, 0) +
    log1p(e ** -|x|)`` are not. Powers of e that are subnormal count as 0, as in TensorFlow, whose
    kernels flush them; those of float16 have no smaller numbers to spare and stay.
    """
    x = as_tensor(features)
    below = less(x, 0)
    return add(where(below, 0, x), _log_of_one_and_power(x, below))


def log_sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """``log(sigmoid(x))``, without underflow: ``-softplus(-x)``, as `softplus` computes it."""
    value = as_tensor(x)
    below = less(value, 0)
    return subtract(where(below, value, 0), _log_of_one_and_power(value, below))


def _log_of_one_and_power(x: Tensor, below: Tensor) -> Tensor:
    """``log1p(e ** -|x|)``, where it is known which ``x`` are below 0."""
    exponent = where(below, x, negative(x))
    power = exp(exponent)
    if x.type.dtype.is_floating and x.type.dtype != F16:
        least = _log(x.type.dtype.smallest_normal)
        power = where(less(exponent, least), 0, power)
    return log1p(power)


def erf(x: TensorLike, name: str | None = None) -> Tensor:
    """The error function ``2 / sqrt(pi) * integral from 0 to x of e ** -t² dt``."""
    return unary("erf", x)


def erfc(x: TensorLike, name: str | None = None) -> Tensor:
    """``1 - erf(x)``, accurate where it is small."""
    return unary("erfc", x)


def polyval(coeffs: Sequence[TensorLike], x: TensorLike, name: str | None = None) -> Tensor:
    """The polynomial with these coefficients, that of the highest power first (Horner's scheme).

    Example: ``polyval([2.0, 0.0, 1.0], 3.0)`` is ``19.0``.
    """
    x = as_tensor(x)
    value = multiply(x, 0)
    for coefficient in arguments.items(coeffs, "coeffs"):
        value = add(multiply(value, x), coefficient)
    return value


def lgamma(x: TensorLike, name: str | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function."""
    return unary("lgamma", x)


def digamma(x: TensorLike, name: str | None = None) -> Tensor:
    """The derivative of `lgamma`."""
    return unary("digamma", x)


def xlogy(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x * log(y)``, and 0 with gradient 0 where ``x`` is 0, whatever ``y`` is."""
    x, y = broadcast_pair(x, y)
    used = not_equal(x, 0)
    return where(used, multiply(x, log(where(used, y, 1))), 0)


def xlog1py(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x * log1p(y)``, and 0 with gradient 0 where ``x`` is 0."""
    x, y = broadcast_pair(x, y)
    used = not_equal(x, 0)
    return where(used, multiply(x, log1p(where(used, y, 0))), 0)


def xdivy(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x / y``, and 0 with gradient 0 where ``x`` is 0."""
    x, y = broadcast_pair(x, y)
    used = not_equal(x, 0)
    return where(used, divide(x, where(used, y, 1)), 0)


def logaddexp(x: TensorLike, y: TensorLike) -> Tensor:
    """``log(e ** x + e ** y)``, without overflow."""
    x, y = broadcast_pair(x, y)
    below = less(x, y)
    larger, smaller = where(below, y, x), where(below, x, y)
    gap = subtract(smaller, where(is_finite(larger), larger, 0))  # inf - inf would be NaN
    return add(larger, log1p(exp(gap)))


def log2(x: TensorLike) -> Tensor:
    """The logarithm to base 2."""
    return multiply(log(x), 1 / _log(2))


def log10(x: TensorLike) -> Tensor:
    """The logarithm to base 10."""
    return multiply(log(x), 1 / _log(10))


def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x - truncatediv(x, y) * y``: the remainder has the sign of ``x``, as in C.

    Raises:
        InvalidArgumentError: eager, an integer is taken modulo 0.
    """
    x, y = broadcast_pair(x, y)
    if not x.type.dtype.is_floating:
        return subtract(x, multiply(truncatediv(x, y), y))
    # The quotient rounds, the remainder is exact: as of C's fmod.
    below = less(x, 0)
    rest = floormod(where(below, negative(x), x), where(less(y, 0), negative(y), y))
    return where(below, negative(rest), rest)
