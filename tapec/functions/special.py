"""Special functions, element by element: of Bessel, of Riemann, incomplete gamma and beta functions, inverses.

They take floats; where nothing else is said, also half precision, which is computed in single.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from math import pi
from typing import Any

from tapec.derivatives.custom import custom_gradient
from tapec.eager.composite import composed
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    divide,
    equal,
    floor,
    floormod,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    sign,
    stop_gradient,
    subtract,
    where,
)
from tapec.functions.arithmetic import (
    pow as power,
)
from tapec.functions.broadcasting import (
    as_float,
    broadcast,
    broadcast_pair,
    common_shape,
    has_dtype,
    like,
    unary,
)
from tapec.functions.elementary import digamma, erf, erfc, exp, lgamma, log, log1p, sqrt
from tapec.ir.ops.incomplete import LARGEST
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

#: Temme's coefficients of ``eta ** n / a ** k``, by k and n.
_TEMME = (
    (
        -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
        0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05,
        -2.185448510679992e-06, -1.85406221071516e-06, 8.296711340953087e-07,
        -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08,
        -4.382036018453353e-09,
    ),
    (
        -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
        -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
        -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
        4.647127802807434e-09,
    ),
    (
        0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
        2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
    ),
)  # fmt: skip


# -- functions of one operand


def bessel_i0(x: TensorLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the first kind, of order 0."""
    return unary("bessel_i0", x)


def bessel_i0e(x: TensorLike, name: str | None = None) -> Tensor:
    """``exp(-|x|)`` times `bessel_i0`."""
    return unary("bessel_i0e", x)


def bessel_i1(x: TensorLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the first kind, of order 1; its slope at 0 is 1/2."""
    return unary("bessel_i1", x)


def bessel_i1e(x: TensorLike, name: str | None = None) -> Tensor:
    """``exp(-|x|)`` times `bessel_i1`."""
    return unary("bessel_i1e", x)


def bessel_k0(x: TensorLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the second kind, of order 0; infinite at 0, NaN below."""
    return unary("bessel_k0", x)


def bessel_k0e(x: TensorLike, name: str | None = None) -> Tensor:
    """``exp(x)`` times `bessel_k0`."""
    return unary("bessel_k0e", x)


def bessel_k1(x: TensorLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the second kind, of order 1; infinite at 0, NaN below."""
    return unary("bessel_k1", x)


def bessel_k1e(x: TensorLike, name: str | None = None) -> Tensor:
    """``exp(x)`` times `bessel_k1`."""
    return unary("bessel_k1e", x)


def bessel_j0(x: TensorLike, name: str | None = None) -> Tensor:
    """The Bessel function of the first kind, of order 0."""
    return unary("bessel_j0", x)


def bessel_j1(x: TensorLike, name: str | None = None) -> Tensor:
    """The Bessel function of the first kind, of order 1."""
    return unary("bessel_j1", x)


def bessel_y0(x: TensorLike, name: str | None = None) -> Tensor:
    """The Bessel function of the second kind, of order 0; minus infinity at 0, NaN below."""
    return unary("bessel_y0", x)


def bessel_y1(x: TensorLike, name: str | None = None) -> Tensor:
    """The Bessel function of the second kind, of order 1; minus infinity at 0, NaN below."""
    return unary("bessel_y1", x)


def dawsn(x: TensorLike, name: str | None = None) -> Tensor:
    """Dawson's integral: ``exp(-x²)`` times the integral of ``exp(t²)`` from 0 to ``x``."""
    return unary("dawsn", x)


def expint(x: TensorLike, name: str | None = None) -> Tensor:
    """The exponential integral: of ``exp(t) / t``, from minus infinity to ``x``; NaN below 0."""
    return unary("expint", x)


def fresnel_cos(x: TensorLike, name: str | None = None) -> Tensor:
    """Fresnel's integral of ``cos(pi t² / 2)`` from 0 to ``x``."""
    return unary("fresnel_cos", x)


def fresnel_sin(x: TensorLike, name: str | None = None) -> Tensor:
    """Fresnel's integral of ``sin(pi t² / 2)`` from 0 to ``x``."""
    return unary("fresnel_sin", x)


def spence(x: TensorLike, name: str | None = None) -> Tensor:
    """The integral of ``-log(t) / (t - 1)`` from 1 to ``x``, the dilogarithm of ``1 - x``; NaN below 0."""
    return unary("spence", x)


# -- inverses of the error function


def erfinv(x: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `erf`: infinite at -1 and 1, NaN outside. Right to the third derivative.

    An approximation is refined by Newton's method. Its first value is a constant for derivatives;
    each step of ``y - (erf(y) - x) / erf'(y)`` doubles the number of digits that are right, and
    also of derivatives: two steps give those up to the third. From 1/2 on, ``1 - |x|`` is exact, and
    the tail of ``erfc`` is inverted instead.
    """
    return composed(_erfinv, as_tensor(x))  # type: ignore[no-any-return]


def _erfinv(x: Tensor) -> Tensor:
    size = absolute(x)
    far = logical_and(greater(size, 0.5), less(size, 1))
    tail = multiply(sign(x), _inverse_of_tail(where(far, subtract(1, size), 0.25)))
    edge = multiply(sign(x), where(equal(size, 1), like(float("inf"), x.type.dtype), float("nan")))
    near = less_equal(size, 0.5)
    return where(near, _inverse_of_centre(where(near, x, 0)), where(far, tail, edge))


def erfcinv(x: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `erfc`: infinite at 0 and 2, NaN outside; see `erfinv`."""
    x = as_tensor(x)
    upper = greater(x, 1)
    part = where(upper, subtract(2, x), x)
    far = logical_and(greater(part, 0), less(part, 0.5))
    tail = _inverse_of_tail(where(far, part, 0.25))
    edge = where(equal(part, 0), like(float("inf"), x.type.dtype), float("nan"))
    outer = where(far, tail, edge)
    near = greater_equal(part, 0.5)
    centre = _inverse_of_centre(where(near, subtract(1, x), 0))
    return where(near, centre, where(upper, negative(outer), outer))


def ndtri(x: TensorLike, name: str | None = None) -> Tensor:
    """The number below which a standard normal one lies with probability ``x``."""
    return multiply(-(2**0.5), erfcinv(multiply(2, as_tensor(x))))


def _inverse_of_centre(x: Tensor) -> Tensor:
    """`erfinv` for ``|x| <= 1/2``.

    Source: Giles, "Approximating the erfinv function", 2010 (single precision, central range).
    """
    held = stop_gradient(x)
    t = subtract(negative(log1p(negative(multiply(held, held)))), 2.5)
    y = multiply(t, 0)
    for coefficient in _GILES:
        y = add(multiply(y, t), coefficient)
    y = multiply(y, held)
    for _ in builtins.range(2):
        y = subtract(y, multiply(subtract(erf(y), x), _inverse_slope(y)))
    return y


_GILES = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip


def _inverse_of_tail(x: Tensor) -> Tensor:
    """The ``y`` with ``erfc(y) = x``, for ``0 < x < 1/2``.

    From ``y² = -log(sqrt(pi) y x)``, nearly, by two steps; then by Halley's method, which needs no
    better start, and at last by two of Newton's steps for the derivatives.
    """
    held = stop_gradient(x)
    scaled = multiply(held, pi**0.5)
    y = sqrt(negative(log(held)))
    for _ in builtins.range(2):
        y = sqrt(maximum(negative(log(multiply(scaled, maximum(y, 0.5)))), 0.25))
    for _ in builtins.range(2):
        error = multiply(subtract(erfc(y), held), _inverse_slope(y))
        y = add(y, divide(error, subtract(1, multiply(y, error))))
    for _ in builtins.range(2):
        y = add(y, multiply(subtract(erfc(y), x), _inverse_slope(y)))
    return y


def _inverse_slope(y: Tensor) -> Tensor:
    """``1 / erf'(y)``."""
    return multiply(0.5 * pi**0.5, exp(multiply(y, y)))


# -- sums of powers


def polygamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The derivative of order ``a`` of `digamma`; NaN where ``a`` is no whole number, or negative.

    Args:
        a: the orders: a Python number, or a tensor that broadcasts with ``x``. No gradient flows to
            it.
        x: floats.
        name: not used.
    """
    if isinstance(a, int | float) and 0 <= a <= _LARGEST_ORDER and a == int(a):
        x = as_tensor(x)
        result: Tensor = apply("polygamma", x, order=int(a)) if a else digamma(x)
        return result
    orders, x = broadcast_pair(a, x)
    orders = stop_gradient(orders)
    whole = logical_and(equal(orders, floor(orders)), greater(orders, 0))
    safe = where(whole, orders, 1)
    size = multiply(exp(lgamma(add(safe, 1))), zeta(add(safe, 1), x))
    value = where(equal(floormod(safe, 2), 0), negative(size), size)
    return where(equal(orders, 0), digamma(x), where(whole, value, float("nan")))


#: Orders up to which factorials are written into the program.
_LARGEST_ORDER = 100
#: ``B(2j) / (2j)!``, j = 1, 2, …, of the formula of Euler and Maclaurin.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
#: Terms that are summed before the rest is approximated.
_SUMMED = 14


def zeta(x: TensorLike, q: TensorLike, name: str | None = None) -> Tensor:
    """The zeta function of Hurwitz: the sum over ``n >= 0`` of ``(q + n) ** -x``.

    Args:
        x: the exponent: infinite at 1, NaN below.
        q: the first base: infinite at 0 and at negative whole numbers. Other negative ones need a
            whole ``x``; else NaN.
        name: not used.

    Gradients flow to both.

    Source: NIST Digital Library of Mathematical Functions, 25.11.3 and 25.11.28.
    """
    x, q = broadcast_pair(x, q)
    s = where(greater(x, 1), x, 2)
    pole = logical_and(less_equal(q, 0), equal(q, floor(q)))
    base = where(pole, 1, q)
    # Far below 0, the sum over all whole n less that over the negative ones, which mirrors another.
    far = less(base, -6)
    part = where(far, subtract(base, floor(base)), 0.5)
    mirrored = subtract(_zeta(s, subtract(1, part)), _zeta(s, where(far, subtract(1, base), 1)))
    mirrored = where(equal(floormod(s, 2), 0), mirrored, negative(mirrored))
    mirrored = where(equal(s, floor(s)), mirrored, float("nan"))
    value = add(_zeta(s, where(far, part, base)), where(far, mirrored, 0))
    value = where(greater(x, 1), value, float("nan"))
    return where(logical_or(equal(x, 1), logical_and(pole, greater(x, 1))), float("inf"), value)


def _zeta(s: Tensor, q: Tensor) -> Tensor:
    """The same for ``s`` above 1 and ``q`` from -6 on, no pole."""
    w = add(q, _SUMMED)
    inverse = divide(1, multiply(w, w))
    rest = multiply(w, 0)
    for j in reversed(builtins.range(1, len(_BERNOULLI))):
        rising = multiply(multiply(add(s, 2 * j - 1), add(s, 2 * j)), inverse)
        rest = multiply(rising, add(rest, _BERNOULLI[j]))
    rest = multiply(divide(s, w), add(rest, _BERNOULLI[0]))
    tail = add(add(divide(w, subtract(s, 1)), 0.5), rest)
    value = multiply(power(w, negative(s)), tail)
    for n in reversed(builtins.range(_SUMMED)):
        value = add(value, power(add(q, n), negative(s)))
    return value


# -- incomplete functions


def igamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The regularised lower incomplete gamma function.

    That is the integral of ``exp(-t) t ** (a - 1) / gamma(a)`` from 0 to ``x``; NaN for ``a <= 0`` or
    ``x < 0``. The operands broadcast. Gradients flow to both, of any order.

    Source: up to ``a = 1000`` see `tapec.ir.ops.incomplete.Igamma`; beyond, Temme, "The asymptotic
    expansion of the incomplete gamma functions", 1979.
    """
    return _incomplete_gamma(a, x, upper=False)


def igammac(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """``1 - igamma(a, x)``, accurate where it is small: the integral from ``x`` on."""
    return _incomplete_gamma(a, x, upper=True)


def _incomplete_gamma(a: TensorLike, x: TensorLike, *, upper: bool) -> Tensor:
    a, x = broadcast_pair(a, x)
    known = as_float(a)._array
    if known is not None and not (known > LARGEST).any():
        small: Tensor = apply("igamma", a, x, order=0, upper=upper)
        return small
    large = greater(a, LARGEST)
    small = apply("igamma", where(large, 1, a), where(large, 1, x), order=0, upper=upper)
    return where(large, _large_gamma(where(large, a, 2000), where(large, x, 2000), upper), small)


def _large_gamma(a: Tensor, x: Tensor, upper: bool) -> Tensor:
    """Temme's uniform expansion: half an error function, and a sum of powers of ``1 / a``."""
    m = divide(subtract(x, a), a)
    below, end = less(x, 0), equal(x, float("inf"))
    m = minimum(maximum(where(logical_or(below, end), 0, m), -0.999), 1e6)
    # eta² / 2 = m - log(1 + m); near 0 by the series of (m - log(1 + m)) / m²
    near = less(absolute(m), 0.1)
    inner, outer = where(near, m, 0), where(near, 1, m)
    series = multiply(inner, 0)
    for n in reversed(builtins.range(2, 18)):
        series = add(multiply(series, inner), (1 if n % 2 == 0 else -1) / n)
    away = sqrt(multiply(2, subtract(outer, log1p(outer))))
    eta = where(near, multiply(inner, sqrt(multiply(2, series))), multiply(sign(outer), away))
    # Where eta is larger, the exponential below leaves nothing.
    held = minimum(maximum(eta, -0.5), 0.5)
    total = multiply(a, 0)
    for coefficients in reversed(_TEMME):
        polynomial = multiply(a, 0)
        for c in reversed(coefficients):
            polynomial = add(multiply(polynomial, held), c)
        total = add(divide(total, a), polynomial)
    height = exp(multiply(multiply(a, multiply(eta, eta)), -0.5))
    rest = multiply(divide(height, sqrt(multiply(2 * pi, a))), total)
    argument = multiply(eta, sqrt(multiply(a, 0.5)))
    if upper:
        value = add(multiply(0.5, erfc(argument)), rest)
    else:
        value = subtract(multiply(0.5, erfc(negative(argument))), rest)
    value = where(end, 0.0 if upper else 1.0, value)
    return where(logical_or(below, not_equal(x, x)), float("nan"), value)


def betainc(a: TensorLike, b: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """The regularised incomplete beta function; NaN for ``a <= 0``, ``b <= 0``, or ``x`` outside of [0, 1].

    That is the integral of ``t ** (a - 1) (1 - t) ** (b - 1)`` from 0 to ``x``, divided by the one
    to 1. The operands broadcast. The gradient flows to ``x`` alone, as in TensorFlow.
    """
    given = next((v for v in (x, a, b) if has_dtype(v)), x)
    dtype = as_tensor(given).type.dtype
    tensors = [like(v, dtype) for v in (a, b, x)]
    shape = common_shape(*(t.type.shape for t in tensors))
    a, b, x = (broadcast(t, shape) for t in tensors)
    result: Any = _betainc(a, b, x)
    return result  # type: ignore[no-any-return]


@custom_gradient
def _betainc(
    a: Tensor, b: Tensor, x: Tensor
) -> tuple[Tensor, Callable[[Tensor], tuple[None, None, Tensor]]]:
    """`betainc` of equal shapes, with the density as its derivative."""

    def gradient(upstream: Tensor) -> tuple[None, None, Tensor]:
        size = subtract(lgamma(add(a, b)), add(lgamma(a), lgamma(b)))
        powers = add(multiply(subtract(a, 1), log(x)), multiply(subtract(b, 1), log1p(negative(x))))
        return None, None, multiply(upstream, exp(add(size, powers)))

    result: Tensor = apply("betainc", a, b, x)
    return result, gradient
