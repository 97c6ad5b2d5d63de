"""Expansions of the circular functions and their inverses.

Coefficients: see `tapec.runtime.cpu.mathematics.elementary`.
"""

from __future__ import annotations

from collections.abc import Callable

from tapec.runtime.cpu.mathematics.expansion import Expansion, Reg
from tapec.runtime.cpu.mathematics.large_angles import reduce_large

TWO_OVER_PI = 0.6366197723675814
# pi/2 as a sum of three numbers.
PIO2 = (
    (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
)
#: Angles from here on are reduced by `reduce_large`.
LIMIT = (2.0**20, 2.0**30)
# (sin(r) - r) / r^3 in z = r^2, for |r| <= pi / 4
_SIN = (
    (-0.1666666716337204, 0.008333372883498669, -0.0001985028648050502, 2.8041833957104245e-06),
    (
        -0.16666666666666632,
        0.008333333333322429,
        -0.00019841269829778155,
        2.755731367153532e-06,
        -2.505075372365142e-08,
        1.589648522039245e-10,
    ),
)
# (cos(r) - 1 + r^2 / 2) / r^4 in z = r^2, for |r| <= pi / 4
_COS = (
    (0.04166664555668831, -0.0013887311797589064, 2.443271478114184e-05),
    (
        0.041666666666666595,
        -0.0013888888888873405,
        2.480158728905804e-05,
        -2.755731423469287e-07,
        2.0875707750344834e-09,
        -1.13588615228498e-11,
    ),
)
# (atan(t) - t) / t^3 in z = t^2, for |t| <= tan(pi / 8)
_ATAN = (
    (
        -0.33333316445350647,
        0.1999853253364563,
        -0.14244502782821655,
        0.10600042343139648,
        -0.06092221662402153,
    ),
    (
        -0.333333333333332,
        0.19999999999953771,
        -0.14285714280212772,
        0.11111110784180198,
        -0.0909089777614709,
        0.07692060503999239,
        -0.06663106905104836,
        0.05847906972833073,
        -0.05039370455516078,
        0.03806588693783534,
        -0.01790829526416915,
    ),
)
# (asin(x) - x) / x^3 in z = x^2, for |x| <= 1 / 2
_ASIN = (
    (
        0.16666659712791443,
        0.0750051885843277,
        0.04451434686779976,
        0.03182833641767502,
        0.014363829977810383,
        0.0376179963350296,
    ),
    (
        0.16666666666666763,
        0.07499999999970088,
        0.04464285717532108,
        0.030381942672716083,
        0.022372215998253297,
        0.017351593534986304,
        0.013981045309189252,
        0.011397050344785357,
        0.010790802875203263,
        0.0036661619012787706,
        0.02180627790277099,
        -0.021140149799124115,
        0.032717597988293955,
    ),
)


# ---- sin, cos, tan


def reduce(f: Expansion, x: Reg) -> tuple[Reg, Reg, Reg]:
    """``x = n pi/2 + r + rest`` with ``|r| <= pi/4``: n as an integer, r, rest.

    Below `LIMIT`, by Cody and Waite's three terms. The first step is exact (a multiple of the last bit of pi/2, below
    1), the second keeps its error.
    """
    first, second, third = PIO2[f.is_double]
    whole, n = f.round_int(x * TWO_OVER_PI)
    r = f.exact_fma(whole, -first, x)
    product, lost = f.two_product(whole, f.real(second))
    r, rest = f.two_sum(r, -product)
    rest = f.fma(whole, -third, rest - lost)
    r, rest = f.fast_two_sum(r, rest)
    return n, r, rest


def sin_of(f: Expansion, r: Reg, rest: Reg) -> Reg:
    """sin(r + rest) for ``|r| <= pi/4``."""
    z = r * r
    return r + f.fma(r * z, f.poly(z, _SIN[f.is_double]), rest)


def cos_of(f: Expansion, r: Reg, rest: Reg) -> Reg:
    """cos(r + rest) for ``|r| <= pi/4``."""
    z = r * r
    half = z * 0.5
    w = 1.0 - half
    lost = (1.0 - w) - half
    return w + f.fma(z * z, f.poly(z, _COS[f.is_double]), f.fma(-r, rest, lost))


def _turned(f: Expansion, n: Reg, r: Reg, rest: Reg) -> Reg:
    """sin(n pi/2 + r + rest)."""
    odd = (n & 1).differs(0)
    value = f.select(odd, cos_of(f, r, rest), sin_of(f, r, rest))
    width = 62 if f.is_double else 30
    flip = (n & 2) << width
    return f.as_real(f.as_int(value) ^ flip)


def _for_any_angle(f: Expansion, x: Reg, of: Callable[[Reg, Reg, Reg], Reg]) -> Reg:
    """``of(n, r, rest)`` of the reduced angle, by the method that its size needs."""
    large = (abs(x) < LIMIT[f.is_double]).equals(False)
    first, second, _ = PIO2[f.is_double]
    usual = of(*reduce(f, f.select(large, 0.0, x)))
    return f.rarely(large, usual, lambda: of(*reduce_large(f, x, first, second)))


def sin(f: Expansion, x: Reg) -> Reg:
    """The sine; NaN at infinity."""
    value = _for_any_angle(f, x, lambda n, r, rest: _turned(f, n, r, rest))
    # The reduction loses the sign of a zero.
    return f.select(x.equals(0.0), x, value)


def cos(f: Expansion, x: Reg) -> Reg:
    """The cosine; NaN at infinity."""
    return _for_any_angle(f, x, lambda n, r, rest: _turned(f, n + 1, r, rest))


def tan(f: Expansion, x: Reg) -> Reg:
    """The quotient of sine and cosine, with one reduction."""

    def of(n: Reg, r: Reg, rest: Reg) -> Reg:
        s, c = sin_of(f, r, rest), cos_of(f, r, rest)
        odd = (n & 1).differs(0)
        return f.select(odd, -c, s) / f.select(odd, s, c)

    return f.select(x.equals(0.0), x, _for_any_angle(f, x, of))


# ---- inverses


def _root_and_tail(f: Expansion, a: Reg) -> tuple[Reg, Reg, Reg]:
    """asin(w) = v + tail for ``w = a`` up to 1/2, else ``w = sqrt((1 - a) / 2)``: a <= 1/2, v, tail."""
    near = a <= 0.5
    z = f.select(near, a * a, (1.0 - a) * 0.5)
    root = f.sqrt(z)
    v = f.select(near, a, root)
    # What the square root lost in rounding: z = root^2 + 2 root * lost.
    lost = f.exact_fma(-root, root, z) / f.select(root > 0.0, root + root, 1.0)
    tail = f.fma(v * z, f.poly(z, _ASIN[f.is_double]), f.select(near, 0.0, lost))
    return near, v, tail


def _difference(f: Expansion, base: Reg, low: Reg, v: Reg, tail: Reg) -> Reg:
    """``(base + low) - (v + tail)`` where base is 0 or not smaller than v."""
    t = base - v
    lost = (base - t) - v
    return t + (lost + (low - tail))


def asin(f: Expansion, x: Reg) -> Reg:
    """The angle in [-pi/2, pi/2]; from 1/2 on by the half angle."""
    near, v, tail = _root_and_tail(f, abs(x))
    high, low, _ = PIO2[f.is_double]
    far = _difference(f, f.real(high), f.real(low), v + v, tail + tail)
    return f.copysign(f.select(near, v + tail, far), x)


def acos(f: Expansion, x: Reg) -> Reg:
    """In [0, pi]."""
    near, v, tail = _root_and_tail(f, abs(x))
    high, low, _ = PIO2[f.is_double]
    negative = x < 0.0
    # pi/2 - asin(x), or 2 asin(sqrt((1 - x) / 2)), or pi - 2 asin(sqrt((1 + x) / 2)).
    flip = f.select(near, negative, negative ^ True)
    v, tail = f.select(near, v, v + v), f.select(near, tail, tail + tail)
    v, tail = f.select(flip, -v, v), f.select(flip, -tail, tail)
    base = f.select(near, high, f.select(negative, 2 * high, 0.0))
    rest = f.select(near, low, f.select(negative, 2 * low, 0.0))
    return _difference(f, base, rest, v, tail)


def _atan_fraction(f: Expansion, y: Reg, x: Reg) -> Reg:
    """atan(y / x) for y, x not negative and not both 0 or infinite; one division."""
    high, low, _ = PIO2[f.is_double]
    flat, steep = y < x * 0.41421356237309503, y > x * 2.414213562373095
    above = f.select(flat, y, f.select(steep, -x, y - x))
    below = f.select(flat, x, f.select(steep, y, y + x))
    t = above / below
    z = t * t
    base = f.select(flat, 0.0, f.select(steep, high, high / 2))
    rest = f.select(flat, 0.0, f.select(steep, low, low / 2))
    tail = f.fma(t * z, f.poly(z, _ATAN[f.is_double]), rest)
    total = base + t
    lost = t - (total - base)
    return total + (lost + tail)


def atan(f: Expansion, x: Reg) -> Reg:
    """In [-pi/2, pi/2]."""
    return f.copysign(_atan_fraction(f, abs(x), f.real(1.0)), x)


def atan2(f: Expansion, y: Reg, x: Reg) -> Reg:
    """The angle of the point (x, y), in [-pi, pi]; signed zeros and infinities as in C."""
    ay, ax = abs(y), abs(x)
    both_infinite = ay.equals(ax) & ay.equals(float("inf"))
    both_zero = ay.equals(ax) & ay.equals(0.0)
    ay = f.select(both_infinite, 1.0, ay)
    ax = f.select(both_infinite | both_zero, 1.0, ax)
    # Their sum must not overflow, and products with small numbers not lose bits.
    top, low_end = f.choose(2.0**126, 2.0**1022), f.choose(2.0**-96, 2.0**-960)
    large, small = (ay > top) | (ax > top), (ay < low_end) & (ax < low_end)
    factor = f.select(large, 0.25, f.select(small, f.choose(2.0**64, 2.0**512), 1.0))
    ay, ax = ay * factor, ax * factor
    angle = _atan_fraction(f, ay, ax)
    high, low, _ = PIO2[f.is_double]
    left = f.as_int(x) < 0
    angle = f.select(left, 2 * high - (angle - 2 * low), angle)
    return f.copysign(angle, y)
