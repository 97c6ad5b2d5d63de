"""Element by element: arithmetic, comparison, bits, elementary functions, in the dtypes that Keras gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src.backend.common.dtypes import result_type

import tapec
from tapec import numpy
from tapec.keras.engine.conversion import common_dtype, convert_to_tensor, floating, promoted
from tapec.tensor import Tensor

Unary = Callable[[Any], Tensor]
Binary = Callable[[Any, Any], Tensor]


def of_floats(function: Callable[..., Any]) -> Unary:
    """A function of one operand that is computed in floats."""

    def applied(x: Any) -> Tensor:
        return function(floating(x))

    return applied


def of_one(function: Callable[..., Any]) -> Unary:
    """A function of one operand, that decides what comes out."""

    def applied(x: Any) -> Tensor:
        return function(convert_to_tensor(x))

    return applied


def of_both(function: Callable[..., Any]) -> Binary:
    """A function of two operands in their common dtype."""

    def applied(x1: Any, x2: Any) -> Tensor:
        return function(*promoted(x1, x2))

    return applied


def of_both_floats(function: Callable[..., Any]) -> Binary:
    """A function of two operands in their common dtype, computed in floats."""

    def applied(x1: Any, x2: Any) -> Tensor:
        a, b = promoted(x1, x2)
        return function(floating(a), floating(b))

    return applied


def of_truth(function: Callable[..., Any]) -> Unary:
    """A function of a truth: of whether its operand is other than zero."""

    def applied(x: Any) -> Tensor:
        return function(convert_to_tensor(x, "bool"))

    return applied


def of_truths(function: Callable[..., Any]) -> Binary:
    """A function of two truths: of whether operands are other than zero."""

    def applied(x1: Any, x2: Any) -> Tensor:
        return function(convert_to_tensor(x1, "bool"), convert_to_tensor(x2, "bool"))

    return applied


def of_bits(function: Callable[..., Any]) -> Binary:
    """A function of the bits of two operands in their common dtype."""

    def applied(x: Any, y: Any) -> Tensor:
        return function(*promoted(x, y))

    return applied


# -- arithmetic

add = of_both(numpy.add)
subtract = of_both(numpy.subtract)
multiply = of_both(numpy.multiply)
divide = of_both_floats(numpy.divide)
true_divide = divide
divide_no_nan = of_both_floats(numpy.divide_no_nan)
floor_divide = of_both(numpy.floor_divide)
mod = of_both(numpy.remainder)
fmod = of_both(numpy.fmod)
maximum = of_both(numpy.maximum)
minimum = of_both(numpy.minimum)
fmax = of_both(numpy.fmax)
fmin = of_both(numpy.fmin)
hypot = of_both_floats(numpy.hypot)
arctan2 = of_both_floats(numpy.atan2)
logaddexp = of_both_floats(numpy.logaddexp)
logaddexp2 = of_both_floats(numpy.logaddexp2)
heaviside = of_both_floats(numpy.heaviside)
gcd = of_both(numpy.gcd)
lcm = of_both(numpy.lcm)


def nextafter(x1: Any, x2: Any) -> Tensor:
    """The next number there is from ``x1`` towards ``x2``."""
    a, b = map(floating, promoted(x1, x2))
    if a.dtype.size > 2:
        return numpy.nextafter(a, b)
    # Of half floats: numbers of one sign are in the order of their bits.
    bits = tapec.bitcast(a, "int16")
    outwards = tapec.equal(tapec.greater(b, a), tapec.greater(a, 0.0))
    step = tapec.where(outwards, tapec.ones_like(bits), -tapec.ones_like(bits))
    least = tapec.bitcast(tapec.ones_like(bits), a.dtype)
    from_zero = tapec.where(tapec.greater(b, 0.0), least, -least)
    found = tapec.where(tapec.equal(a, 0.0), from_zero, tapec.bitcast(bits + step, a.dtype))
    return tapec.where(tapec.equal(a, b), b, tapec.where(isnan(a + b), a + b, found))


def power(x1: Any, x2: Any) -> Tensor:
    """``x1`` to the power of ``x2``, which may be a number of Python."""
    a, b = promoted(x1, x2)
    if type(x2) is int and x2 == 2 and a.dtype.name != "bool":
        return tapec.square(a)
    return numpy.pow(a, b)


def ldexp(x1: Any, x2: Any) -> Tensor:
    """``x1 * 2**x2`` in floats.

    Raises:
        TypeError: the exponent is no integer.
    """
    a, b = convert_to_tensor(x1), convert_to_tensor(x2)
    if not b.dtype.is_integer:
        raise TypeError(
            f"ldexp exponent must be an integer type. Received: x2 dtype={b.dtype.name}"
        )
    return numpy.ldexp(tapec.cast(a, result_type(a.dtype.name, b.dtype.name, float)), b)


# -- comparison and logic

equal = of_both(numpy.equal)
not_equal = of_both(numpy.not_equal)
greater = of_both(numpy.greater)
less = of_both(numpy.less)
greater_equal = of_both(numpy.greater_equal)
less_equal = of_both(numpy.less_equal)
logical_and = of_truths(tapec.logical_and)
logical_or = of_truths(tapec.logical_or)
logical_xor = of_truths(tapec.logical_xor)
logical_not = of_truth(tapec.logical_not)
isfinite = of_one(numpy.isfinite)
isinf = of_one(numpy.isinf)
isnan = of_one(numpy.isnan)
isposinf = of_one(numpy.isposinf)
isneginf = of_one(numpy.isneginf)
isreal = of_one(numpy.isreal)


def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether elements differ by no more than ``atol + rtol * |x2|``."""
    a, b = promoted(x1, x2)
    return numpy.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def allclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether all elements are close: see `isclose`."""
    return tapec.reduce_all(isclose(x1, x2, rtol, atol, equal_nan))


# -- bits

bitwise_and = of_bits(numpy.bitwise_and)
bitwise_or = of_bits(numpy.bitwise_or)
bitwise_xor = of_bits(numpy.bitwise_xor)
bitwise_not = of_one(numpy.bitwise_invert)
bitwise_invert = bitwise_not


def _shift(function: Callable[..., Tensor]) -> Binary:
    """A shift; of truths, as of integers."""

    def applied(x: Any, y: Any) -> Tensor:
        a, b = promoted(x, y)
        if a.dtype.name == "bool":
            a, b = tapec.cast(a, "int32"), tapec.cast(b, "int32")
        return function(a, b)

    return applied


left_shift = _shift(numpy.bitwise_left_shift)
right_shift = _shift(numpy.bitwise_right_shift)
bitwise_left_shift = left_shift
bitwise_right_shift = right_shift

# -- functions of one operand

negative = of_one(numpy.negative)
absolute = of_one(numpy.abs)
abs = absolute
fabs = of_floats(numpy.fabs)
signbit = of_one(numpy.signbit)
square = of_one(numpy.square)
copy = of_one(tapec.identity)
sqrt = of_floats(tapec.sqrt)
cbrt = of_floats(numpy.cbrt)
exp = of_floats(tapec.exp)
exp2 = of_floats(numpy.exp2)
expm1 = of_floats(tapec.math.expm1)
log = of_floats(tapec.math.log)
log10 = of_floats(numpy.log10)
log1p = of_floats(tapec.math.log1p)
log2 = of_floats(numpy.log2)
sin = of_floats(tapec.sin)
cos = of_floats(tapec.cos)
tan = of_floats(tapec.tan)
arcsin = of_floats(tapec.asin)
arccos = of_floats(tapec.acos)
arctan = of_floats(tapec.atan)
sinh = of_floats(tapec.sinh)
cosh = of_floats(tapec.cosh)
tanh = of_floats(tapec.tanh)
arcsinh = of_floats(tapec.asinh)
arccosh = of_floats(tapec.acosh)
arctanh = of_floats(tapec.atanh)
sinc = of_floats(numpy.sinc)
i0 = of_floats(numpy.i0)
ceil = of_floats(tapec.math.ceil)
floor = of_floats(tapec.floor)
reciprocal = of_floats(tapec.math.reciprocal)
deg2rad = of_floats(numpy.deg2rad)
rad2deg = of_floats(numpy.rad2deg)
angle = of_floats(numpy.angle)
conjugate = of_one(numpy.conj)
conj = conjugate
real = of_one(numpy.real)
imag = of_one(numpy.imag)
trunc = of_one(numpy.trunc)


def sign(x: Any) -> Tensor:
    """-1, 0 or 1."""
    x = convert_to_tensor(x)
    if x.dtype.is_unsigned:
        return tapec.minimum(x, tapec.ones_like(x))
    return numpy.sign(x)


def round(x: Any, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, of two the even one."""
    return numpy.round(convert_to_tensor(x), decimals)


def clip(x: Any, x_min: Any, x_max: Any) -> Tensor:
    """The elements, but none below ``x_min`` or above ``x_max``."""
    x = convert_to_tensor(x)
    if x.dtype.name == "bool":
        x = tapec.cast(x, "int32")
    dtype = common_dtype(x, *(v for v in (x_min, x_max) if v is not None))
    x = tapec.cast(x, dtype)
    if x_min is not None:
        x = tapec.maximum(x, convert_to_tensor(x_min, dtype))
    return x if x_max is None else tapec.minimum(x, convert_to_tensor(x_max, dtype))


def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """The elements, with numbers in place of NaN and infinity: the greatest there are, if None."""
    return numpy.nan_to_num(convert_to_tensor(x), nan=nan, posinf=posinf, neginf=neginf)


def view(x: Any, dtype: Any = None) -> Tensor:
    """The same bytes, as elements of another dtype."""
    return numpy.view(convert_to_tensor(x), dtype)
