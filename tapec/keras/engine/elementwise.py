"""Element by element: arithmetic, comparison, bits, elementary functions, with Keras' rules for dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common.dtypes import result_type

import tapec
from tapec.keras.engine.borrowed import numpy_function
from tapec.keras.engine.conversion import convert_to_tensor, dtype_of, floating, promoted
from tapec.tensor import Tensor

Unary = Callable[[Any], Tensor]
Binary = Callable[[Any, Any], Tensor]


def of_floats(function: Callable[..., Any]) -> Unary:
    """A function of one operand that is computed in floats."""

    def applied(x: Any) -> Tensor:
        return function(floating(x))

    return applied


def kept(function: Callable[..., Any]) -> Unary:
    """A function of one operand that keeps the dtype, or gives truths."""

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


def unless_truths(whole: Callable[..., Any], truths: Callable[..., Any]) -> Callable[..., Any]:
    """A function of operands of one dtype, with another for truths."""

    def applied(*operands: Tensor) -> Tensor:
        chosen = truths if operands[0].dtype.name == "bool" else whole
        return chosen(*operands)

    return applied


def _as_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """For truths: as integers and back."""

    def applied(*operands: Tensor) -> Tensor:
        found = function(*(tapec.cast(x, "int32") for x in operands))
        return tapec.cast(found, "bool")

    return applied


def _never_whole(function: Callable[..., Any], whole: Callable[..., Any]) -> Unary:
    """A test that is decided for integers and truths."""

    def applied(x: Any) -> Tensor:
        x = convert_to_tensor(x)
        if x.dtype.is_floating or x.dtype.is_complex:
            return function(x)
        return whole(x, dtype="bool")

    return applied


# -- arithmetic

add = of_both(unless_truths(tapec.add, tapec.logical_or))
subtract = of_both(tapec.subtract)
multiply = of_both(unless_truths(tapec.multiply, tapec.logical_and))
maximum = of_both(unless_truths(tapec.maximum, tapec.logical_or))
minimum = of_both(unless_truths(tapec.minimum, tapec.logical_and))
fmax = of_both(unless_truths(numpy_function(np.fmax), tapec.logical_or))
fmin = of_both(unless_truths(numpy_function(np.fmin), tapec.logical_and))
divide = of_both_floats(tapec.divide)
true_divide = divide
divide_no_nan = of_both_floats(tapec.math.divide_no_nan)
hypot = of_both_floats(numpy_function(np.hypot))
arctan2 = of_both_floats(tapec.atan2)
logaddexp = of_both_floats(tapec.math.logaddexp)
logaddexp2 = of_both_floats(numpy_function(np.logaddexp2))
nextafter = of_both_floats(tapec.math.nextafter)
heaviside = of_both_floats(numpy_function(np.heaviside))


def _whole_part(x1: Any, x2: Any, function: Callable[..., Any]) -> Tensor:
    a, b = promoted(x1, x2)
    if a.dtype.name == "bool":
        a, b = tapec.cast(a, "int32"), tapec.cast(b, "int32")
    return function(a, b)


def floor_divide(x1: Any, x2: Any) -> Tensor:
    """The quotient, rounded down."""
    return _whole_part(x1, x2, tapec.floordiv)


def mod(x1: Any, x2: Any) -> Tensor:
    """What is left of a division that rounds down."""
    return _whole_part(x1, x2, tapec.floormod)


def fmod(x1: Any, x2: Any) -> Tensor:
    """What is left of a division that rounds towards zero."""
    return _whole_part(x1, x2, tapec.truncatemod)


def power(x1: Any, x2: Any) -> Tensor:
    """``x1`` to the power of ``x2``; the exponent may be a number of Python."""
    a, b = promoted(x1, x2)
    if a.dtype.name == "bool":
        a, b = tapec.cast(a, "int32"), tapec.cast(b, "int32")
    if type(x2) is int and x2 == 2:
        return tapec.square(a)
    return tapec.pow(a, b)


def ldexp(x1: Any, x2: Any) -> Tensor:
    """``x1 * 2**x2``, in floats; the exponent is an integer.

    Raises:
        TypeError: the exponent is none.
    """
    a, b = convert_to_tensor(x1), convert_to_tensor(x2)
    dtype = result_type(a.dtype.name, b.dtype.name, float)
    if not b.dtype.is_integer:
        raise TypeError(
            f"ldexp exponent must be an integer type. Received: x2 dtype={b.dtype.name}"
        )
    return tapec.cast(a, dtype) * tapec.pow(tapec.constant(2.0, dtype), tapec.cast(b, dtype))


def _common_factor(a: Tensor, b: Tensor) -> Tensor:
    """The greatest common divisor, by Euclid."""
    a, b = tapec.abs(a), tapec.abs(b)
    shape = tapec.broadcast_dynamic_shape(tapec.shape(a), tapec.shape(b))
    a, b = tapec.broadcast_to(a, shape), tapec.broadcast_to(b, shape)
    found: Tensor = tapec.while_loop(
        lambda _, b: tapec.reduce_any(tapec.not_equal(b, tapec.zeros_like(b))),
        _euclid,
        (a, b),
    )[0]
    return found


def _euclid(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    is_done = tapec.equal(b, tapec.zeros_like(b))
    divisor = tapec.where(is_done, tapec.ones_like(b), b)
    rest = tapec.floormod(a, divisor)
    return tapec.where(is_done, a, b), tapec.where(is_done, b, rest)


gcd = of_both(_common_factor)


def lcm(x1: Any, x2: Any) -> Tensor:
    """The least common multiple; 0 where one is 0."""
    a, b = promoted(x1, x2)
    factor = _common_factor(a, b)
    divisor = tapec.where(
        tapec.equal(factor, tapec.zeros_like(factor)), tapec.ones_like(factor), factor
    )
    return tapec.abs(tapec.floordiv(a, divisor) * b)


# -- comparison and logic

equal = of_both(tapec.equal)
not_equal = of_both(tapec.not_equal)
greater = of_both(
    unless_truths(tapec.greater, lambda a, b: tapec.logical_and(a, tapec.logical_not(b)))
)
less = of_both(unless_truths(tapec.less, lambda a, b: tapec.logical_and(tapec.logical_not(a), b)))
greater_equal = of_both(
    unless_truths(tapec.greater_equal, lambda a, b: tapec.logical_or(a, tapec.logical_not(b)))
)
less_equal = of_both(
    unless_truths(tapec.less_equal, lambda a, b: tapec.logical_or(tapec.logical_not(a), b))
)


def truths(x: Any) -> Tensor:
    """Whether each element is other than zero."""
    return convert_to_tensor(x, "bool")


def logical_and(x1: Any, x2: Any) -> Tensor:
    """Whether both hold."""
    return tapec.logical_and(truths(x1), truths(x2))


def logical_or(x1: Any, x2: Any) -> Tensor:
    """Whether one holds at least."""
    return tapec.logical_or(truths(x1), truths(x2))


def logical_xor(x1: Any, x2: Any) -> Tensor:
    """Whether one alone holds."""
    return tapec.logical_xor(truths(x1), truths(x2))


def logical_not(x: Any) -> Tensor:
    """Whether it does not hold."""
    return tapec.logical_not(truths(x))


isfinite = _never_whole(tapec.math.is_finite, tapec.ones_like)
isinf = _never_whole(tapec.math.is_inf, tapec.zeros_like)
isnan = _never_whole(tapec.math.is_nan, tapec.zeros_like)


def _infinite(x: Any, sign: int) -> Tensor:
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return tapec.zeros_like(x, dtype="bool")
    return tapec.equal(x, tapec.constant(sign * np.inf, x.dtype))


def isposinf(x: Any) -> Tensor:
    """Whether each element is positive infinity."""
    return _infinite(x, 1)


def isneginf(x: Any) -> Tensor:
    """Whether each element is negative infinity."""
    return _infinite(x, -1)


def isreal(x: Any) -> Tensor:
    """Whether each element has no imaginary part."""
    x = convert_to_tensor(x)
    if not x.dtype.is_complex:
        return tapec.ones_like(x, dtype="bool")
    part = tapec.math.imag(x)
    return tapec.equal(part, tapec.zeros_like(part))


def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether elements differ by no more than ``atol + rtol * |x2|``."""
    a, b = map(floating, promoted(x1, x2))
    if a.dtype.name in ("float16", "bfloat16"):
        a, b = tapec.cast(a, "float32"), tapec.cast(b, "float32")
    near = tapec.less_equal(tapec.abs(a - b), atol + rtol * tapec.abs(b))
    close = tapec.where(logical_and(isfinite(a), isfinite(b)), near, tapec.equal(a, b))
    return tapec.logical_or(close, tapec.logical_and(isnan(a), isnan(b))) if equal_nan else close


def allclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether all elements are close: see `isclose`."""
    return tapec.reduce_all(isclose(x1, x2, rtol, atol, equal_nan))


# -- bits


def _of_bits(truthful: Callable[..., Any], whole: Callable[..., Any]) -> Binary:
    return of_both(unless_truths(whole, truthful))


bitwise_and = _of_bits(tapec.logical_and, tapec.bitwise.bitwise_and)
bitwise_or = _of_bits(tapec.logical_or, tapec.bitwise.bitwise_or)
bitwise_xor = _of_bits(tapec.logical_xor, tapec.bitwise.bitwise_xor)
bitwise_not = kept(unless_truths(tapec.bitwise.invert, tapec.logical_not))
bitwise_invert = bitwise_not


def _shift(function: Callable[..., Any]) -> Binary:
    def applied(x1: Any, x2: Any) -> Tensor:
        a, b = promoted(x1, x2)
        if a.dtype.name == "bool":
            a, b = tapec.cast(a, "int32"), tapec.cast(b, "int32")
        return function(a, b)

    return applied


left_shift = _shift(tapec.bitwise.left_shift)
right_shift = _shift(tapec.bitwise.right_shift)
bitwise_left_shift = left_shift
bitwise_right_shift = right_shift

# -- functions of one operand

negative = kept(tapec.negative)
absolute = kept(unless_truths(tapec.abs, tapec.identity))
fabs = of_floats(tapec.abs)
sign = kept(unless_truths(tapec.sign, tapec.identity))
square = kept(unless_truths(tapec.square, lambda x: tapec.cast(x, "int32")))
copy = kept(tapec.identity)
sqrt = of_floats(tapec.sqrt)
cbrt = of_floats(numpy_function(np.cbrt))
exp = of_floats(tapec.exp)
exp2 = of_floats(numpy_function(np.exp2))
expm1 = of_floats(tapec.math.expm1)
log = of_floats(tapec.math.log)
log10 = of_floats(numpy_function(np.log10))
log1p = of_floats(tapec.math.log1p)
log2 = of_floats(numpy_function(np.log2))
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
sinc = of_floats(numpy_function(np.sinc))
i0 = of_floats(tapec.math.bessel_i0)
ceil = of_floats(tapec.math.ceil)
floor = of_floats(tapec.floor)
reciprocal = of_floats(tapec.math.reciprocal)
deg2rad = of_floats(numpy_function(np.deg2rad))
rad2deg = of_floats(numpy_function(np.rad2deg))
angle = of_floats(tapec.math.angle)
conjugate = kept(tapec.math.conj)
conj = conjugate


def real(x: Any) -> Tensor:
    """The real part."""
    x = convert_to_tensor(x)
    return tapec.math.real(x) if x.dtype.is_complex else x


def imag(x: Any) -> Tensor:
    """The imaginary part."""
    x = convert_to_tensor(x)
    return tapec.math.imag(x) if x.dtype.is_complex else tapec.zeros_like(x)


def trunc(x: Any) -> Tensor:
    """The integer next to it, towards zero."""
    x = convert_to_tensor(x)
    return numpy_function(np.trunc)(x) if x.dtype.is_floating else x


def signbit(x: Any) -> Tensor:
    """Whether the sign is minus, of zeros as well."""
    x = convert_to_tensor(x)
    if x.dtype.is_floating:
        return numpy_function(np.signbit)(x)
    if x.dtype.name == "bool" or x.dtype.is_unsigned:
        return tapec.zeros_like(x, dtype="bool")
    return tapec.less(x, tapec.zeros_like(x))


def round(x: Any, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, of two the even one; integers stay integers."""
    x = convert_to_tensor(x)
    if x.dtype.name == "bool":
        return tapec.cast(x, "int32")
    if x.dtype.is_integer:
        return (
            x
            if decimals >= 0
            else tapec.cast(_rounded(tapec.cast(x, "float64"), decimals), x.dtype)
        )
    return _rounded(x, decimals)


def _rounded(x: Tensor, decimals: int) -> Tensor:
    if not decimals:
        return tapec.round(x)
    scale = tapec.constant(10.0**decimals, x.dtype)
    return tapec.round(x * scale) / scale


def clip(x: Any, x_min: Any, x_max: Any) -> Tensor:
    """The elements, but none below ``x_min`` or above ``x_max``."""
    x = convert_to_tensor(x)
    if x.dtype.name == "bool":
        x = tapec.cast(x, "int32")
    dtype = result_type(x.dtype.name, *(dtype_of(v) for v in (x_min, x_max) if v is not None))
    x = tapec.cast(x, dtype)
    if x_min is not None:
        x = tapec.maximum(x, convert_to_tensor(x_min, dtype))
    return x if x_max is None else tapec.minimum(x, convert_to_tensor(x_max, dtype))


def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """The elements, with numbers in place of NaN and infinity: the greatest there are, if None."""
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return x
    limit = x.dtype.max
    for test, value in (
        (isnan, nan),
        (isposinf, limit if posinf is None else posinf),
        (isneginf, -limit if neginf is None else neginf),
    ):
        x = tapec.where(test(x), tapec.constant(value, x.dtype), x)
    return x


def view(x: Any, dtype: Any = None) -> Tensor:
    """The same bytes, as elements of another dtype."""
    x = convert_to_tensor(x)
    if dtype is None:
        return x
    to = tapec.as_dtype(config.floatx() if dtype is float else getattr(dtype, "__name__", dtype))
    if x.type.rank and to.size > x.dtype.size:
        factor = to.size // x.dtype.size
        return tapec.bitcast(tapec.reshape(x, [*x.shape[:-1], -1, factor]), to)
    found = tapec.bitcast(x, to)
    if to.size < x.dtype.size:
        return tapec.reshape(found, [*x.shape[:-1], -1])
    return found


abs = functools.wraps(absolute)(absolute)
