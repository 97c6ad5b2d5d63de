"""Expansions of the exponential and logarithm families, and `rsqrt` and `sign`.

Polynomials are minimax fits (weighted least squares made equal-ripple by Lawson's iteration, in 80 digits, then
rounded coefficient by coefficient) on the interval that the comment beside them gives. Pairs are (single, double).
"""

from __future__ import annotations

from tapec.runtime.cpu.expansion import Expansion, Reg

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
# (tanh(x) - x) / x^3 in z = x^2, for |x| <= 0.625
_TANH = (
    (
        -0.3333333134651184,
        0.13333222270011902,
        -0.053948454558849335,
        0.021708661690354347,
        -0.008194759488105774,
        0.002157243900001049,
    ),
    (
        -0.33333333333333315,
        0.13333333333329994,
        -0.053968253966174516,
        0.021869488471448727,
        -0.008863234350788849,
        0.0035921143394928383,
        -0.0014557279402174503,
        0.0005894596102224068,
        -0.00023703199170418542,
        9.15917801021501e-05,
        -3.021881682707634e-05,
        6.0555660310430185e-06,
    ),
)
#: Beyond these exp is 0 or infinite.
EXP_LOW, EXP_HIGH = (-104.0, -746.0), (89.0, 710.0)


# ---- exponentials


def clamp(f: Expansion, x: Reg, low: float, high: float) -> Reg:
    """``x`` moved into an interval; NaN stays."""
    x = f.select(x < low, low, x)
    return f.select(x > high, high, x)


def reduced_exp(f: Expansion, x: Reg, low_part: Reg | None = None) -> tuple[Reg, Reg, Reg]:
    """``exp(x + low_part) = 2^n (1 + p)``: n as an integer, ``n == 0``, and p."""
    high, low = LN2[f.is_double]
    whole, n = f.round_int(x * LOG2E)
    # Exact: both terms are multiples of the last bit of ln 2, and the difference is small.
    r = f.fma(whole, -high, x)
    r = f.fma(whole, -low, r)
    if low_part is not None:
        r = r + low_part
    p = f.fma(r * r, f.poly(r, _EXP[f.is_double]), r)
    return n, whole.equals(0), p


def scale(f: Expansion, y: Reg, n: Reg) -> Reg:
    """``y * 2^n`` in two steps, so that it may overflow, or underflow with one rounding."""
    half = n >> 1
    return y * f.power_of_two(half) * f.power_of_two(n - half)


def exp_times(f: Expansion, x: Reg, shift: int = 0) -> Reg:
    """``exp(x) * 2^shift`` without overflow on the way."""
    x = clamp(f, x, EXP_LOW[f.is_double], EXP_HIGH[f.is_double] - shift)
    n, _, p = reduced_exp(f, x)
    return scale(f, p + 1.0, n + shift if shift else n)


def exp_normal(f: Expansion, x: Reg) -> Reg:
    """The exponential of an argument whose result is neither huge nor subnormal."""
    n, _, p = reduced_exp(f, x)
    return (p + 1.0) * f.power_of_two(n)


def exp(f: Expansion, x: Reg) -> Reg:
    """e^x."""
    return exp_times(f, x)


def expm1(f: Expansion, x: Reg) -> Reg:
    """e^x - 1."""
    clamped = clamp(f, x, f.choose(-30.0, -50.0), EXP_HIGH[f.is_double])
    n, near, p = reduced_exp(f, clamped)
    # Half of it first: 2^n itself may overflow where the result does not.
    half = f.power_of_two(n - 1)
    away = f.fma(half, p, half - 0.5) * 2.0
    return f.copysign(f.select(near, p, away), x)


def tanh(f: Expansion, x: Reg) -> Reg:
    """(e^x - e^-x) / (e^x + e^-x)."""
    a = abs(x)
    z = x * x
    near = f.fma(a * z, f.poly(z, _TANH[f.is_double]), a)
    doubled = a + a
    doubled = f.select(doubled > 60.0, 60.0, doubled)
    far = 1.0 - 2.0 / (exp_normal(f, doubled) + 1.0)
    return f.copysign(f.select(a < 0.625, near, far), x)


def sigmoid(f: Expansion, x: Reg) -> Reg:
    """1 / (1 + e^-x), by ``e^-x = 2^n (1 + p)``: all is 2^k times smaller, so that nothing overflows on the way."""
    most = -EXP_LOW[f.is_double]
    n, _, p = reduced_exp(f, clamp(f, -x, -most, most))
    k = n >> 1
    one, power = f.power_of_two(-k), f.power_of_two(n - k)
    # A power much larger than 1 is added last, so that nothing of 1 is lost; elsewhere the sum of both is exact.
    large = x < -11.0
    total = f.fma(power, p, f.select(large, one, power + one)) + f.select(large, power, 0.0)
    return 1.0 / total * one


def sinh(f: Expansion, x: Reg) -> Reg:
    """(e^x - e^-x) / 2."""
    a = abs(x)
    t = f.call("expm1", a)
    near = (t + t / (t + 1.0)) * 0.5
    far = exp_times(f, a, -1)
    return f.copysign(f.select(a < f.choose(10.0, 23.0), near, far), x)


def cosh(f: Expansion, x: Reg) -> Reg:
    """(e^x + e^-x) / 2."""
    half = exp_times(f, abs(x), -1)
    return half + 0.25 / half


# ---- logarithms


def split(f: Expansion, x: Reg) -> tuple[Reg, Reg]:
    """``x = 2^k (1 + r)`` with ``1 + r`` in [sqrt(1/2), sqrt(2)]: k and r as floats; for positive finite x."""
    width, tiny, lift = (52, 2.0**-1022, 54) if f.is_double else (23, 2.0**-126, 25)
    root = 0x3FE6A09E667F3BCD if f.is_double else 0x3F3504F3
    subnormal = x < tiny
    x = f.select(subnormal, x * 2.0**lift, x)
    bits = f.as_int(x) - root
    lifted = f.select(subnormal, f.constant(lift, f.integer), f.constant(0, f.integer))
    k = (bits >> width) - lifted
    mantissa = f.as_real((bits & ((1 << width) - 1)) + root)
    return f.to_real(k), mantissa - 1.0


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
    k, r = split(f, x)
    return at_edges(f, log_of(f, k, r), x, 0.0)


def log1p(f: Expansion, x: Reg) -> Reg:
    """log(1 + x), exact about what is lost in 1 + x."""
    u, lost = f.two_sum(f.real(1.0), x)
    k, r = split(f, u)
    value = f.copysign(log_of(f, k, r, lost / u), x)
    return at_edges(f, value, x, -1.0)


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
    near = t + f.sqrt(f.select(t < 0.0, t, t * (t + 2.0)))
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
