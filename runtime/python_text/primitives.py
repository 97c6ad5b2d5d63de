"""The functions that the Python text of a program calls.

They are written so that they mean the same on NumPy's scalars, as Python runs them, and on machine numbers, as Numba
compiles them: no exception decides, and what would trap or wrap elsewhere is asked for first. A function may compute
more precisely than its operands; the text converts what it returns.

16-bit floats are float32 in registers, always on the grid of their dtype, and uint16 in memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapec.ir.types import BY_CODE

#: Under the names that the records in `tapec.ir.scalar` use.
floor, ceil, rint, sqrt = np.floor, np.ceil, np.rint, np.sqrt
exp, expm1, log, log1p = np.exp, np.expm1, np.log, np.log1p
sin, cos, tan = np.sin, np.cos, np.tan
asin, acos, atan, atan2 = np.arcsin, np.arccos, np.arctan, np.arctan2
sinh, cosh, tanh = np.sinh, np.cosh, np.tanh
asinh, acosh, atanh = np.arcsinh, np.arccosh, np.arctanh
isfinite, isnan = np.isfinite, np.isnan
erf, erfc = math.erf, math.erfc

#: From here on the logarithm of the gamma function is more than the largest number.
_LARGE = 2.5e305


def _converter(code: str) -> Any:
    """A function that converts a number to a dtype; integers wrap."""
    dtype = BY_CODE[code].numpy

    def convert(x: Any) -> Any:
        return np.asarray(x).astype(dtype)[()]

    convert.__name__ = convert.__qualname__ = code
    return convert


f32, f64 = _converter("f32"), _converter("f64")
i8, i16, i32, i64 = (_converter(f"i{bits}") for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (_converter(f"u{bits}") for bits in (8, 16, 32, 64))

#: NumPy's dtypes by the names that texts have.
DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
}


# ---- arithmetic


def maximum(a: Any, b: Any) -> Any:
    """The larger one; NaN if any is, and 0 is more than -0."""
    if a != a:
        return a
    if b != b or b > a:
        return b
    if a == b and a == 0:
        return a + b
    return a


def minimum(a: Any, b: Any) -> Any:
    """The smaller one; NaN if any is, and -0 is less than 0."""
    if a != a:
        return a
    if b != b or b < a:
        return b
    if a == b and a == 0:
        return -((-a) - b)
    return a


def sign(x: Any) -> Any:
    """-1, 0, 1 or NaN."""
    if x != x:
        return x
    return (x > 0) * 1 - (x < 0) * 1


def int_floordiv(a: Any, b: Any) -> Any:
    """The quotient rounded down; by 0 it is 0."""
    if b == 0:
        return a - a
    if b == -1:
        return (a - a) - a
    return a // b


def int_mod(a: Any, b: Any) -> Any:
    """What the quotient rounded down leaves; by 0 it is 0."""
    if b == 0 or b == -1:
        return a - a
    return a % b


def floordiv(a: Any, b: Any) -> Any:
    """The quotient rounded down, as NumPy has it: from an exact remainder."""
    if b == 0:
        return a / b
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    if rest != 0 and (rest < 0) != (b < 0):
        quotient = quotient - 1
    if quotient == 0:
        return np.copysign(quotient, a / b)
    whole = np.floor(quotient)
    return whole + 1 if quotient - whole > 0.5 else whole


def mod(a: Any, b: Any) -> Any:
    """What `floordiv` leaves; it has the divisor's sign."""
    rest = np.fmod(a, b)
    if rest == 0:
        return np.copysign(rest, b)
    return rest + b if (rest < 0) != (b < 0) else rest


def power(x: Any, y: Any, one: Any) -> Any:
    """``x ** y`` of floats."""
    return x**y


def int_power(x: Any, y: Any, one: Any) -> Any:
    """``x ** y`` of integers, wrapping; what is no integer is cut toward 0. ``one`` is 1 of their dtype."""
    zero = one - one
    if y < 0:
        if x == 1:
            return one
        if x == -1:
            return one if (y & one) == 0 else zero - one
        return zero
    total = one
    while y != 0:
        if (y & one) != 0:
            total = total * x
        x = x * x
        y = y >> one
    return total


def shl(x: Any, count: Any, bits: int) -> Any:
    """Bits moved up; none are left after the width or more."""
    return x << count if 0 <= count < bits else x ^ x


def shr(x: Any, count: Any, bits: int) -> Any:
    """Bits of a signed integer moved down; the sign is left after the width or more."""
    return x >> count if 0 <= count < bits else x >> (bits - 1)


def unsigned_shr(x: Any, count: Any, bits: int) -> Any:
    """Bits of an unsigned integer moved down."""
    return x >> count if count < bits else x ^ x


# ---- functions


def rsqrt(x: Any) -> Any:
    """1 over the root."""
    return 1 / np.sqrt(x)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))`` without overflow."""
    e = np.exp(-abs(x))
    return (1 if x >= 0 else e) / (1 + e)


def lgamma(x: Any) -> Any:
    """The logarithm of the gamma function's absolute value."""
    if x != x or x == -np.inf:
        return x * 1.0
    if (x <= 0 and np.floor(x) == x) or x > _LARGE:
        return np.inf
    return math.lgamma(x)


def digamma(x: Any) -> Any:
    """The derivative of `lgamma`: reflected, moved up, then the asymptotic series (Abramowitz and Stegun, 6.3)."""
    if x == 0:
        return np.copysign(np.inf, -x)
    if x < 0 and np.floor(x) == x:
        return np.nan
    y, value = np.float64(x), 0.0
    if y < 0:
        value = -math.pi / np.tan(math.pi * (y - np.rint(y)))
        y = 1.0 - y
    while y < 12.0:
        value = value - 1.0 / y
        y = y + 1.0
    z = 1.0 / (y * y)
    tail = z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z * (1 / 12))))
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - tail)))
    return value + np.log(y) - 0.5 / y - series


# ---- conversions


def saturated(x: Any, low: int, high: int) -> Any:
    """A float cut to an integer in these bounds; NaN is 0."""
    if x != x:
        return 0
    if x <= low:
        return low
    return high if x >= high else int(x)


def saturated_u64(x: Any) -> Any:
    """The same for 64 bits without a sign."""
    if not x > 0:
        return np.uint64(0)
    return np.uint64(18446744073709551615) if x >= 18446744073709551616.0 else np.uint64(x)


def _on_grid(x: Any, digits: int, lowest: int, limit: float) -> Any:
    """A float rounded to so many binary digits, exponents from ``lowest`` on; infinite from ``limit`` on."""
    size = np.fabs(x) * 1.0
    if size >= limit:
        return np.copysign(np.inf, x)
    if not size > 0:
        return x * 1.0
    quantum = math.ldexp(1.0, max(math.frexp(size)[1], lowest) - digits)
    return np.copysign(np.rint(size / quantum) * quantum, x)


def f16(x: Any) -> Any:
    """A float rounded to float16, once."""
    return np.float32(_on_grid(np.float64(x), 11, -13, 65520.0))


def bf16(x: Any) -> Any:
    """A float rounded to bfloat16, once."""
    # (2 - 2^-8) 2^127, halfway between the largest number and the next that there would be.
    return np.float32(_on_grid(np.float64(x), 8, -125, 3.3961775292304601e38))


def jammed(x: Any, eleven: Any, one: Any) -> Any:
    """An integer of 64 bits as float64, rounded to odd, so that a second rounding is as good as one.

    The two numbers beside it are of its dtype.
    """
    near = np.float64(x)
    if np.fabs(near) < 9007199254740992.0:
        return near
    high = x >> eleven
    return np.float64(high if high << eleven == x else high | one) * 2048.0


def f16_bits(x: Any) -> Any:
    """What float16 stores for a number on its grid."""
    size = np.fabs(x) * 1.0
    if x != x:
        bits = 0x7E00
    elif size > 65504.0:
        bits = 0x7C00
    elif size < 2.0**-14:
        bits = int(size * 2.0**24)
    else:
        fraction, exponent = math.frexp(size)
        bits = ((exponent + 14) << 10) + int((fraction * 2.0 - 1.0) * 1024.0)
    return np.uint16(bits | 0x8000) if np.copysign(1.0, x) < 0 else np.uint16(bits)


def f16_value(bits: Any) -> Any:
    """The number that float16 stores so."""
    exponent, fraction = (int(bits) >> 10) & 31, int(bits) & 1023
    if exponent == 31:
        size = np.inf if fraction == 0 else np.nan
    elif exponent == 0:
        size = fraction * 2.0**-24
    else:
        size = math.ldexp(1.0 + fraction / 1024.0, exponent - 15)
    return np.float32(-size if int(bits) & 0x8000 else size)


def bf16_bits(x: Any) -> Any:
    """What bfloat16 stores for a number on its grid."""
    return np.uint16(np.float32(x).view(np.uint32) >> np.uint32(16))


def bf16_value(bits: Any) -> Any:
    """The number that bfloat16 stores so."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


# ---- memory


def part(buffer: Any, offset: int, size: int, dtype: Any, shape: Any) -> Any:
    """So many bytes of a buffer, from an offset on, as another buffer; it shares the memory."""
    return buffer.reshape(-1).view(np.uint8)[offset : offset + size].view(dtype).reshape(shape)
