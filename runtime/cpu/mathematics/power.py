"""Expansion of ``x ** y`` for floats: exp(y log |x|) with the logarithm to nearly twice the precision.

Coefficients: see `tapec.runtime.cpu.mathematics.elementary`.
"""

from __future__ import annotations

from tapec.runtime.cpu.mathematics import division
from tapec.runtime.cpu.mathematics.elementary import (
    EXP_HIGH,
    EXP_LOW,
    LN2,
    clamp,
    reduced_exp,
    split,
)
from tapec.runtime.cpu.mathematics.expansion import Expansion, Reg

# 2/3 as the nearest number and what is left of it.
_TWO_THIRDS = (
    (0.6666666865348816, -1.9868215517249155e-08),
    (0.6666666666666666, 3.700743415417188e-17),
)
# ((log((1 + s) / (1 - s)) - 2 s) / s^3 - 2/3) / z in z = s^2, for arguments of log in [sqrt(1/2), sqrt(2)]
_LOG = (
    (0.40000152587890625, 0.2854709327220917, 0.23419547080993652),
    (
        0.3999999999999998,
        0.28571428571443813,
        0.2222222221779825,
        0.18181818842982803,
        0.1538455848788052,
        0.13336262696472365,
        0.1167580684584307,
        0.11981622445121907,
    ),
)


def precise_log(f: Expansion, x: Reg) -> tuple[Reg, Reg]:
    """log(x) of a positive finite number as an unevaluated sum of two."""
    k, r = split(f, x)
    # s = r / (2 + r), then log(1 + r) = 2 s + s^3 (2/3 + z (…)), z = s^2; all to two numbers.
    below, lost = f.two_sum(r, f.real(2.0))
    s = r / below
    s_low = f.fma(-s, lost, f.exact_fma(-s, below, r)) / below
    z, z_low = f.two_product(s, s)
    z_low = f.fma(s + s, s_low, z_low)
    third, third_low = _TWO_THIRDS[f.is_double]
    tail = z * f.poly(z, _LOG[f.is_double])
    c, c_low = f.fast_two_sum(f.real(third), tail)
    c_low = c_low + third_low
    zc, zc_low = f.two_product(z, c)
    zc_low = f.fma(z, c_low, f.fma(z_low, c, zc_low))
    # s (2 + z c)
    factor, factor_low = f.fast_two_sum(f.real(2.0), zc)
    factor_low = factor_low + zc_low
    log, log_low = f.two_product(s, factor)
    log_low = f.fma(s, factor_low, f.fma(s_low, factor, log_low))
    high, low = LN2[f.is_double]
    base, base_low = f.two_product(k, f.real(high))
    total, error = f.two_sum(base, log)
    return f.fast_two_sum(total, error + (f.fma(k, low, base_low) + log_low))


def pow_(f: Expansion, x: Reg, y: Reg) -> Reg:
    """``x ** y`` with C's special cases."""
    if x.kind not in ("float", "double"):
        return division.ipow(f, x, y)
    a = abs(x)
    log, log_low = precise_log(f, a)
    product, lost = f.two_product(y, log)
    lost = f.fma(y, log_low, lost)
    low, high = EXP_LOW[f.is_double], EXP_HIGH[f.is_double]
    inside = (product > low) & (product < high)
    whole_part, p = reduced_exp(f, clamp(f, product, low, high), f.select(inside, lost, 0.0))
    value = f.scaled(p + 1.0, whole_part)
    infinite = a.equals(float("inf"))
    edge = infinite | a.equals(0.0)
    at_edge = f.select(infinite ^ (y < 0.0), float("inf"), 0.0)
    value = f.select(edge, at_edge, value)
    value = f.select(a.equals(1.0), 1.0, value)
    half = y * 0.5
    whole = f.intrinsic("roundeven", y).equals(y)
    odd = whole & f.intrinsic("roundeven", half).differs(half)
    value = f.select((f.as_int(x) < 0) & odd, -value, value)
    value = f.select((x < 0.0) & (infinite | whole).equals(False), float("nan"), value)
    value = f.select(x.is_nan() | y.is_nan(), float("nan"), value)
    return f.select(x.equals(1.0) | y.equals(0.0), 1.0, value)
