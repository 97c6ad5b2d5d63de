"""Reduction of large angles: the remainder of any float by pi/2, by Payne and Hanek's method.

Only the bits of 2/pi matter whose product with the angle is neither a multiple of 4 nor too small to see. They are
looked up by the angle's exponent and multiplied with its mantissa in integers. (Payne and Hanek, "Radian reduction
for trigonometric functions", 1983.)
"""

from __future__ import annotations

from itertools import pairwise

from tapec.runtime.cpu.mathematics.expansion import Expansion, Reg

#: 2/pi after the binary point, 1280 bits.
_DIGITS = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d"
)
#: Zero bits in front of them, for angles so small that the window starts left of the point.
_LEAD = 64


def table(bits: int) -> str:
    """The digits as a constant of words of 32 or 64 bits, the first ones highest."""
    digits = "0" * (_LEAD // 4) + _DIGITS.upper()
    width = bits // 4
    words = [int(digits[i : i + width], 16) for i in range(0, len(digits), width)]
    listed = ", ".join(f"i{bits} {word}" for word in words)
    return f"{table_name(bits)} = private unnamed_addr constant [{len(words)} x i{bits}] [{listed}]"


def table_name(bits: int) -> str:
    """What `table` defines."""
    return f"@tapec.two_over_pi.{bits}"


def _window(f: Expansion, start: Reg) -> list[Reg]:
    """Three words of 2/pi from bit ``start`` on (of the table)."""
    bits = int(start.kind[1:])
    word = start >> (bits.bit_length() - 1)
    shift = start & (bits - 1)
    words = [f.look_up("two_over_pi", word + i) for i in range(4)]
    return [f.intrinsic("fshl", a, b, shift) for a, b in pairwise(words)]


def reduce_large(f: Expansion, x: Reg, first: float, second: float) -> tuple[Reg, Reg, Reg]:
    """As `circular.reduce`, for ``|x|`` from 2^20 (2^30) on; ``first + second`` is pi/2."""
    width, bias = (52, 1023) if f.is_double else (23, 127)
    half, whole = f.integer, "i128" if f.is_double else "i64"
    bits = f.as_int(x)
    exponent = f.shift_right(bits, width) & (2 * bias + 1)
    mantissa = (bits & ((1 << width) - 1)) | (1 << width)
    # x = mantissa * 2^e; what has weight 4 or more in 2^e * 2/pi does not turn the angle.
    start = exponent - (bias + width) + (_LEAD - 2)
    size = int(half[1:])
    # Infinity and NaN look somewhere inside the table.
    start = f.select(exponent.equals(2 * bias + 1), f.constant(0, half), start)
    m = f.convert("zext", mantissa, whole)
    high, middle, low = (f.convert("zext", p, whole) for p in _window(f, start))
    product = ((m * high) << size) + m * middle + f.shift_right(m * low, size)
    # The product is the angle in units of 2^-(2 size - 2) quarter turns, modulo 4 of them.
    point = 2 * size - 2
    quarter = f.shift_right(product + (1 << (point - 1)), point)
    rest = product - (quarter << point)
    n = f.convert("trunc", quarter, half)
    value, tail = _to_pair(f, rest)
    # To radians.
    r, lost = f.two_product(value, f.real(first))
    lost = f.fma(value, second, f.fma(tail, first, lost))
    r, lost = f.fast_two_sum(r, lost)
    negative = bits < 0
    n = f.select(negative, -n, n)
    r, lost = f.select(negative, -r, r), f.select(negative, -lost, lost)
    finite = abs(x) < float("inf")
    return n, f.select(finite, r, float("nan")), lost


def _to_pair(f: Expansion, fixed: Reg) -> tuple[Reg, Reg]:
    """A signed number of twice the width with two bits before the point, as a sum of two floats."""
    if not f.is_double:
        value = f.convert("sitofp", fixed, "float")
        left = fixed - f.convert("fptosi", value, "i64")
        unit = 2.0**-62
        return value * unit, f.convert("sitofp", left, "float") * unit
    top = f.convert("trunc", fixed >> 64, "i64")
    bottom = f.convert("trunc", fixed, "i64")
    value = f.convert("sitofp", top, "double")
    left = f.convert("sitofp", top - f.convert("fptosi", value, "i64"), "double")
    left = f.fma(f.convert("uitofp", bottom, "double"), 2.0**-64, left)
    value, left = f.fast_two_sum(value, left)
    unit = 2.0**-62
    return value * unit, left * unit
