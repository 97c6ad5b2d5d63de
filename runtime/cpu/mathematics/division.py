"""Expansions of division with remainder, shifts and integer powers: total where machines are not.

Integers: division by 0 gives 0, the lowest number divided by -1 wraps, a shift by the width or more leaves 0 (or the
sign). That is what NumPy does; the instructions trap or are undefined. Floats: NumPy's floor_divide and mod, in which
the remainder is exact and has the divisor's sign.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.runtime.cpu.mathematics.expansion import Expansion, Reg


def _is_float(x: Reg) -> bool:
    return x.kind in ("float", "double")


def _safe(f: Expansion, b: Reg, *, signed: bool) -> tuple[Reg, Reg]:
    """A divisor that cannot trap, and where it stands for 0."""
    zero = b.equals(0)
    unsafe = zero | b.equals(-1) if signed else zero
    return f.select(unsafe, f.like(1, b), b), zero


def _int_divide(f: Expansion, a: Reg, b: Reg) -> tuple[Reg, Reg]:
    """Floor quotient and remainder of signed integers."""
    divisor, zero = _safe(f, b, signed=True)
    quotient = f.bits("sdiv", a, divisor)
    rest = a - quotient * divisor
    apart = rest.differs(0) & ((rest ^ divisor) < 0)
    none = f.like(0, a)
    quotient = f.select(apart, quotient - 1, quotient)
    quotient = f.select(b.equals(-1), -a, quotient)
    rest = f.select(apart, rest + divisor, rest)
    return f.select(zero, none, quotient), rest


def floordiv(f: Expansion, a: Reg, b: Reg) -> Reg:
    """The quotient rounded down."""
    if not _is_float(a):
        return _int_divide(f, a, b)[0]
    rest, _, apart = _float_remainder(f, a, b)
    difference = (a - rest) / b
    difference = f.select(apart, difference - 1.0, difference)
    floor = f.intrinsic("floor", difference)
    floor = f.select((difference - floor) > 0.5, floor + 1.0, floor)
    plain = a / b
    value = f.select(difference.equals(0.0), f.copysign(0.0, plain), floor)
    return f.select(b.equals(0.0), plain, value)


def mod(f: Expansion, a: Reg, b: Reg) -> Reg:
    """What the quotient rounded down leaves; it has the divisor's sign."""
    if not _is_float(a):
        return _int_divide(f, a, b)[1]
    rest, exact, apart = _float_remainder(f, a, b)
    value = f.select(apart, rest + b, rest)
    return f.select(exact, f.copysign(0.0, b), value)


def _float_remainder(f: Expansion, a: Reg, b: Reg) -> tuple[Reg, Reg, Reg]:
    """C's fmod; where it is 0; where its sign is not the divisor's."""
    divisor, size = abs(b), abs(a)
    usable = (size < float("inf")) & (divisor > 0.0)
    infinity, lift = float("inf"), f.choose(2.0**63, 2.0**511)

    def is_far(r: Reg) -> Reg:
        return (r / divisor).equals(infinity) & usable

    def come_near(r: Reg) -> Sequence[Reg]:
        # The quotient overflows: a multiple of the divisor serves as well, and one of its multiples may.
        lifted = divisor * lift * lift
        lifted = f.select((r / lifted).equals(infinity), lifted * lift * lift, lifted)
        return (_subtract_multiple(f, r, lifted),)

    def is_left(r: Reg) -> Reg:
        return (r >= divisor) & usable

    (rest,) = f.repeat([size], is_far, come_near)
    (rest,) = f.repeat([rest], is_left, lambda r: (_subtract_multiple(f, r, divisor),))
    rest = f.select(usable, rest, f.select(b.is_nan(), b, float("nan")))
    rest = f.copysign(rest, a)
    exact = rest.equals(0.0)
    return rest, exact, ((rest < 0.0) ^ (b < 0.0)) & rest.differs(0.0)


def _subtract_multiple(f: Expansion, r: Reg, divisor: Reg) -> Reg:
    """``r - q * divisor`` for positive ``r >= divisor``, not negative and exact, with q as large as that allows.

    q is the quotient cut to 21 bits (50 for doubles), a multiple of some power of two u. Then r - q * divisor is a
    multiple of the divisor's last bit times u, and smaller than the divisor times u: it has few enough bits. Where
    the division rounded up it is negative, and one more u repairs that.
    """
    width, cut = (52, 3) if f.is_double else (23, 3)
    quotient = f.intrinsic("floor", r / divisor)
    quotient = f.as_real(f.as_int(quotient) & -(1 << cut))
    bias = 1023 if f.is_double else 127
    exponent = (f.as_int(quotient) >> width) - (bias + width - cut)
    unit = f.power_of_two(f.select(exponent < 0, f.like(0, exponent), exponent))
    rest = f.exact_fma(-quotient, divisor, r)
    return f.select(rest < 0.0, f.exact_fma(unit, divisor, rest), rest)


def udiv(f: Expansion, a: Reg, b: Reg) -> Reg:
    """The quotient of unsigned integers."""
    divisor, zero = _safe(f, b, signed=False)
    return f.select(zero, f.like(0, a), f.bits("udiv", a, divisor))


def umod(f: Expansion, a: Reg, b: Reg) -> Reg:
    """The remainder of unsigned integers."""
    divisor, zero = _safe(f, b, signed=False)
    return f.select(zero, f.like(0, a), f.bits("urem", a, divisor))


def _below_width(f: Expansion, count: Reg) -> Reg:
    """Where a shift count, read as unsigned, is less than the width."""
    width = int(count.kind[1:])
    return (f.shift_right(count, width.bit_length() - 1)).equals(0)


def shl(f: Expansion, x: Reg, count: Reg) -> Reg:
    """Bits moved up; none are left after the width or more."""
    fits = _below_width(f, count)
    none = f.like(0, x)
    return f.select(fits, x << f.select(fits, count, none), none)


def shr(f: Expansion, x: Reg, count: Reg) -> Reg:
    """Bits of a signed integer moved down; the sign is left after the width or more."""
    fits = _below_width(f, count)
    return x >> f.select(fits, count, f.like(int(x.kind[1:]) - 1, x))


def ushr(f: Expansion, x: Reg, count: Reg) -> Reg:
    """Bits of an unsigned integer moved down."""
    fits = _below_width(f, count)
    none = f.like(0, x)
    return f.select(fits, f.shift_right(x, f.select(fits, count, none)), none)


def upow(f: Expansion, x: Reg, y: Reg) -> Reg:
    """``x ** y`` of integers, wrapping; the exponent counts as unsigned. By repeated squaring."""

    def going(total: Reg, square: Reg, left: Reg) -> Reg:
        return left.differs(0)

    def step(total: Reg, square: Reg, left: Reg) -> Sequence[Reg]:
        odd = (left & 1).differs(0)
        following = f.select(odd, total * square, total)
        return following, square * square, f.shift_right(left, 1)

    total, _, _ = f.repeat([f.like(1, x), x, y], going, step)
    return total


def ipow(f: Expansion, x: Reg, y: Reg) -> Reg:
    """``x ** y`` of signed integers; a negative exponent leaves the whole part of 1 / x^-y."""
    negative = y < 0
    power = upow(f, x, f.select(negative, f.like(0, y), y))
    none, one = f.like(0, x), f.like(1, x)
    sign = f.select((y & 1).differs(0), x, one)
    unit = x.equals(1) | x.equals(-1)
    return f.select(negative, f.select(unit, sign, none), power)
