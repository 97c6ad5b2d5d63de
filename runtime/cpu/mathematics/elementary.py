"""Expansions of the exponential and logarithm families, and `rsqrt` and `sign`.

Polynomials are minimax fits (weighted least squares made equal-ripple by Lawson's iteration, in 80 digits, then
rounded coefficient by coefficient) on the interval that the comment beside them gives. Pairs are (single, double).
"""

from __future__ import annotations

import math

from tapec.runtime.cpu.mathematics.expansion import Expansion, Exponent, Reg

LOG2E = 1.4426950408889634
# ln 2 as the nearest number and what is left of it.
LN2 = ((0.6931471824645996, -1.9046542121259336e-09), (0.6931471805599453, 2.3190468138462996e-17))

# (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2
_EXP = (
    (0.5, 0.166665181517601, 0.041666433215141296, 0.0083689633756876, 0.0013937837211415172),
    (
        0.5000000000000013,
        0.1666666666666669,
        0.041666666666511296,
        0.008333333333312019,
        0.0013888888947991955,
        0.00019841269907698304,
        2.4801488997409366e-05,
        2.755722448244363e-06,
        2.7631602101962474e-07,
        2.511538407992497e-08,
    ),
)
# The same, nearest where tanh makes most of its errors: around r = -0.31.
_EXP_OF_TANH = (
    (*_EXP[0][:-1], 0.0013954837),
    (*_EXP[1][:-1], 2.5116184e-08),
)
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in z = s^2, for arguments of log in [sqrt(1/2), sqrt(2)]
_LOG = (
    (0.6666666269302368, 0.4000081419944763, 0.28513234853744507, 0.23964516818523407),
    (
        0.6666666666666811,
        0.39999999999009994,
        0.28571428819433936,
        0.22222191548196357,
        0.18183896457147658,
        0.15306194551826047,
        0.14869476173680923,
    ),
)
#: Beyond these exp is 0 or infinite.
EXP_LOW, EXP_HIGH = (-104.0, -746.0), (89.0, 710.0)


# ---- exponentials


def clamp(f: Expansion, x: Reg, low: float, high: float) -> Reg:
    """``x`` moved into an interval; NaN stays."""
    x = f.select(x < low, low, x)
    return f.select(x > high, high, x)


def reduced_exp(f: Expansion, x: Reg, low_part: Reg | None = None) -> tuple[Exponent, Reg]:
    """``exp(x + low_part) = 2^n (1 + p)``: n and p."""
    high, low = LN2[f.is_double]
    whole = f.nearest(x, LOG2E)
    # Exact: both terms are multiples of the last bit of ln 2, and the difference is small.
    r = f.exact_fma(whole.n, -high, x)
    r = f.fma(whole.n, -low, r)
    if low_part is not None:
        r = r + low_part
    return whole, f.fma(r * r, f.poly(r, _EXP[f.is_double]), r)


def exp_times(f: Expansion, x: Reg, factor: float = 1.0) -> Reg:
    """``exp(x) * factor`` without overflow on the way; the factor is a power of two, 1 at most."""
    high = EXP_HIGH[f.is_double] - math.log2(factor)
    return _exp_within(f, clamp(f, x, EXP_LOW[f.is_double], high), factor)


def _exp_within(f: Expansion, x: Reg, factor: float = 1.0) -> Reg:
    """The same for an argument between `EXP_LOW` and `EXP_HIGH`."""
    high, low = LN2[f.is_double]
    whole = f.nearest(x, LOG2E)
    r = f.fma(whole.n, -low, f.exact_fma(whole.n, -high, x))
    terms = (1.0, 1.0, *_EXP[f.is_double])
    return f.scaled(f.poly(r, [factor * c for c in terms]), whole)


def exp_normal(f: Expansion, x: Reg) -> Reg:
    """The exponential of an argument whose result is neither huge nor subnormal."""
    whole, p = reduced_exp(f, x)
    return (p + 1.0) * f.power(whole)


def exp(f: Expansion, x: Reg) -> Reg:
    """e^x."""
    return exp_times(f, x)


def expm1(f: Expansion, x: Reg) -> Reg:
    """e^x - 1."""
    low = f.choose(-30.0, -50.0)
    whole, p = reduced_exp(f, clamp(f, x, low, EXP_HIGH[f.is_double]))
    # Half of it first: 2^n itself may overflow where the result does not.
    half = f.power_of_two(f.whole(whole) - 1)
    away = f.fma(half, p, half - 0.5) * 2.0
    return f.copysign(f.select(whole.n.equals(0.0), p, away), x)


def tanh(f: Expansion, x: Reg) -> Reg:
    """``-h / (1 + h)`` with ``h = (e^-2|x| - 1) / 2``, as ``-h + h (h / (1 + h))``: what is large is added last."""
    high, low = LN2[f.is_double]
    least = f.choose(-20.0, -40.0)
    y = -abs(x + x)
    y = f.select(y < least, least, y)
    whole = f.nearest(y, LOG2E)
    r = f.exact_fma(whole.n, -high, y)  # exact, so that the sum with the rest is rounded once
    p = r + f.fma(whole.n, -low, r * r * f.poly(r, _EXP_OF_TANH[f.is_double]))
    half = f.power(whole) * 0.5
    # The sum is not made of h: it would have the error of h, too.
    h, one_and_h = f.fma(half, p, half - 0.5), f.fma(half, p, half + 0.5)
    return f.copysign(f.fma(h, h / one_and_h, -h), x)


def sigmoid(f: Expansion, x: Reg) -> Reg:
    """1 / (1 + e^-x), with ``t = e^-|x|``: ``t - t (t / (1 + t))`` on the left, ``1 - t / (1 + t)`` on the right."""
    low = EXP_LOW[f.is_double]
    a = -abs(x)
    t = _exp_within(f, f.select(a < low, low, a))
    u = f.select(x < 0.0, t, 1.0)
    return f.fma(-u, t / (t + 1.0), u)


def sinh(f: Expansion, x: Reg) -> Reg:
    """(e^x - e^-x) / 2."""
    a = abs(x)
    t = f.call("expm1", a)
    near = (t + t / (t + 1.0)) * 0.5
    far = exp_times(f, a, 0.5)
    return f.copysign(f.select(a < f.choose(10.0, 23.0), near, far), x)


def cosh(f: Expansion, x: Reg) -> Reg:
    """(e^x + e^-x) / 2."""
    half = exp_times(f, abs(x), 0.5)
    return half + 0.25 / half


# ---- logarithms


def split(f: Expansion, x: Reg) -> tuple[Reg, Reg]:
    """``x = 2^k (1 + r)`` with ``1 + r`` in [sqrt(1/2), sqrt(2)]: k and r as floats; for positive finite x."""
    tiny, lift = (2.0**-1022, 54) if f.is_double else (2.0**-126, 25)
    subnormal = x < tiny
    k, r = split_normal(f, f.select(subnormal, x * 2.0**lift, x))
    return k - f.select(subnormal, float(lift), 0.0), r


def split_normal(f: Expansion, x: Reg) -> tuple[Reg, Reg]:
    """`split` of what is not subnormal."""
    width, root = (52, 0x3FE6A09E667F3BCD) if f.is_double else (23, 0x3F3504F3)
    bits = f.as_int(x) - root
    mantissa = f.as_real((bits & ((1 << width) - 1)) + root)
    return f.to_real(bits >> width), mantissa - 1.0


def is_ordinary(f: Expansion, x: Reg) -> Reg:
    """Positive, finite, and not subnormal: one comparison of integers."""
    least, count = (1 << 52, 0x7FE << 52) if f.is_double else (1 << 23, 0xFE << 23)
    return f.below(f.as_int(x) - least, count)


def log_of(f: Expansion, k: Reg, r: Reg, correction: Reg | None = None) -> Reg:
    """``k ln 2 + log(1 + r) + correction`` (the scheme of fdlibm's log)."""
    high, low = LN2[f.is_double]
    s = r / (r + 2.0)
    z = s * s
    half = r * r * 0.5
    rest = s * f.fma(z, f.poly(z, _LOG[f.is_double]), half)
    tail = f.fma(k, low, rest)
    if correction is not None:
        tail = tail + correction
    return f.fma(k, high, r - (half - tail))


def at_edges(f: Expansion, value: Reg, x: Reg, zero: float) -> Reg:
    """A logarithm's value outside of its domain: infinite at ``zero`` and infinity, NaN before and at NaN."""
    value = f.select(x < float("inf"), value, x)
    value = f.select(x.equals(zero), float("-inf"), value)
    return f.select(x < zero, float("nan"), value)


def log(f: Expansion, x: Reg) -> Reg:
    """The natural logarithm."""

    def elsewhere() -> Reg:
        return at_edges(f, log_of(f, *split(f, x)), x, 0.0)

    return f.rarely(~is_ordinary(f, x), log_of(f, *split_normal(f, x)), elsewhere)


def log1p(f: Expansion, x: Reg) -> Reg:
    """log(1 + x), exact about what is lost in 1 + x."""
    u, lost = f.two_sum(f.real(1.0), x)
    value = f.copysign(log_of(f, *split_normal(f, u), lost / u), x)
    return f.rarely(~is_ordinary(f, u), value, lambda: at_edges(f, value, x, -1.0))


def asinh(f: Expansion, x: Reg) -> Reg:
    """log(x + sqrt(x^2 + 1)), as log1p."""
    a = abs(x)
    large = a > f.choose(2.0**25, 2.0**54)
    square = a * a
    near = a + square / (f.sqrt(square + 1.0) + 1.0)
    value = f.call("log1p", f.select(large, a, near))
    value = value + f.select(large, LN2[1][0], 0.0)
    return f.copysign(value, x)


def acosh(f: Expansion, x: Reg) -> Reg:
    """log(x + sqrt(x^2 - 1)), as log1p."""
    large = x > f.choose(2.0**25, 2.0**54)
    t = x - 1.0
    # Far below 1 the square would be positive again, and the sum of t and its root 0.
    near = t + f.sqrt(f.select(t < 0.0, t, f.fma(t, t, t + t)))
    value = f.call("log1p", f.select(large, x, near))
    return value + f.select(large, LN2[1][0], 0.0)


def atanh(f: Expansion, x: Reg) -> Reg:
    """log((1 + x) / (1 - x)) / 2, as log1p."""
    a = abs(x)
    value = f.call("log1p", (a + a) / (1.0 - a)) * 0.5
    return f.copysign(value, x)


# ---- the rest


def rsqrt(f: Expansion, x: Reg) -> Reg:
    """1 / sqrt(x)."""
    return 1.0 / f.sqrt(x)


def sign(f: Expansion, x: Reg) -> Reg:
    """-1, 0 or 1; NaN stays."""
    one, minus = f.like(1, x), f.like(-1, x)
    rest = f.select(x < 0, minus, f.like(0, x))
    value = f.select(x > 0, one, rest)
    return f.select(x.is_nan(), x, value) if x.kind in ("float", "double") else value


def is_finite(f: Expansion, x: Reg) -> Reg:
    """Neither infinite nor NaN."""
    return abs(x) < float("inf")
