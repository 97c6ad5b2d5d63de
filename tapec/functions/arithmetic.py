"""Arithmetic, order, comparison, logic, choice and conversion, element by element.

Two operands are broadcast against each other by NumPy's rule. Python numbers and NumPy arrays take
the dtype of the tensor they meet; two tensors must have the same dtype (`cast` converts). Functions
of analysis are in `elementary`.

Raises of every function of two operands: InvalidArgumentError if shapes or dtypes do not fit; while
a function is compiled the same mistake is a ValueError or TypeError.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.broadcasting import (
    as_float,
    binary,
    broadcast,
    broadcast_pair,
    common_shape,
    compatible,
    converted,
    like,
    refuse_in_trace,
    unary,
    wrong_dtype,
)
from tapec.functions.domains import refuse_integer_zero, refuse_negative_power
from tapec.functions.logic import logical_and as logical_and
from tapec.functions.logic import logical_not as logical_not
from tapec.functions.logic import logical_or as logical_or
from tapec.functions.logic import logical_xor as logical_xor
from tapec.ir.types import BOOL, F32, F64, STRING, as_dtype
from tapec.tensor import Tensor, TensorLike, apply, as_tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.tensors.texts import texts_equal


def add(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x + y``. Integers wrap around.

    Example: ``add([1.0, 2.0], 1)`` is ``[2.0, 3.0]``.
    """
    return binary("add", x, y)


def subtract(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x - y``. Integers wrap around."""
    return binary("sub", x, y)


def multiply(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x * y``. Integers wrap around."""
    return binary("mul", x, y)


def truediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x / y``. Integers of up to 16 bits become float32 first, wider ones float64.

    Example: ``truediv(7, 2)`` is a float64 ``3.5``.
    """
    if type(y) in (float, int) and isinstance(x, Tensor) and x.type.dtype.is_floating:
        return binary("div", x, y)  # the common case
    x, y = converted(x, y)
    if not x.type.dtype.is_differentiable and x.type.dtype == y.type.dtype:
        wide = F32 if x.type.dtype.bits <= 16 else F64
        x, y = cast(x, wide), cast(y, wide)
    return binary("div", x, y)


def divide(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x / y``; see `truediv`."""
    return truediv(x, y)


def floordiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``floor(x / y)``, rounding towards minus infinity as Python does. No derivative.

    Raises:
        InvalidArgumentError: an integer is divided by 0; a compiled function raises it when it runs.
    """
    left, right = broadcast_pair(x, y)
    refuse_integer_zero(y, right, "FloorDiv")
    return binary("floordiv", left, right)


def floormod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x - floor(x / y) * y``: the remainder has the sign of ``y``.

    Raises:
        InvalidArgumentError: an integer is taken modulo 0; a compiled function raises it when it runs.
    """
    left, right = broadcast_pair(x, y)
    refuse_integer_zero(y, right, "FloorMod")
    return binary("mod", left, right)


def truncatediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x / y`` of integers, rounded towards 0 as C does. No derivative.

    Example: ``truncatediv(-7, 2)`` is ``-3``.

    Raises:
        InvalidArgumentError: a division by 0.
    """
    x, y = broadcast_pair(x, y)
    quotient = floordiv(abs(x), abs(y))
    return where(logical_xor(less(x, 0), less(y, 0)), negative(quotient), quotient)


def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x ** y``. Of floats, NaN for a negative ``x`` unless ``y`` is whole.

    The gradient by ``y`` is ``z log x``, and 0 where ``x`` is not positive.

    Raises:
        InvalidArgumentError: an integer to a negative integer power; a compiled function raises it when it runs.
    """
    given = y
    x, y = broadcast_pair(x, y)
    refuse_negative_power(given, y)
    return binary("pow", x, y)


def negative(x: TensorLike, name: str | None = None) -> Tensor:
    """``-x``."""
    return unary("neg", x)


def abs(x: TensorLike, name: str | None = None) -> Tensor:
    """The absolute value; of complex numbers the modulus, a float. The gradient at 0 is 0."""
    x = as_tensor(x)
    if not x.type.dtype.is_complex:
        return unary("abs", x)
    square = add(multiply(real(x), real(x)), multiply(imag(x), imag(x)))
    nonzero = not_equal(square, 0)
    root = unary("sqrt", where(nonzero, square, 1))
    return where(nonzero, root, 0)


def sign(x: TensorLike, name: str | None = None) -> Tensor:
    """-1, 0 or 1; NaN for NaN. The gradient is 0."""
    return unary("sign", x)


def square(x: TensorLike, name: str | None = None) -> Tensor:
    """``x * x``."""
    x = as_tensor(x)
    return multiply(x, x)


def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``(x - y) ** 2``; of complex numbers the squared modulus of the difference."""
    d = subtract(x, y)
    return multiply(conj(d), d)


def reciprocal(x: TensorLike, name: str | None = None) -> Tensor:
    """``1 / x`` of floats and complex numbers; the gradient is 0 wherever the incoming one is."""
    return unary("reciprocal", x)


def divide_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x / y``, and 0 with gradient 0 wherever ``y`` is 0.

    Example: ``divide_no_nan(1.0, 0.0)`` is ``0.0``.
    """
    x, y = broadcast_pair(x, y)
    usable = not_equal(y, 0)
    return where(usable, truediv(x, where(usable, y, 1)), 0)


def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """``1 / x``, and 0 with gradient 0 wherever ``x`` is 0."""
    x = as_tensor(x)
    return divide_no_nan(like(1, x.type.dtype), x)


def multiply_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x * y``, and 0 wherever ``y`` is 0, even if ``x`` is infinite or NaN there."""
    return binary("mul_no_nan", x, y)


# -- order and rounding


def maximum(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The larger of ``x`` and ``y``; NaN if either is. On a tie the gradient goes to ``x``."""
    return binary("max", x, y)


def minimum(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The smaller of ``x`` and ``y``; NaN if either is. On a tie the gradient goes to ``x``."""
    return binary("min", x, y)


def clip_by_value(
    t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> Tensor:
    """``t`` moved into ``[clip_value_min, clip_value_max]``; the bounds broadcast to its shape.

    The gradient passes within the bounds, bounds included. NaN stays NaN. If the bounds cross, the
    lower one wins.

    Raises:
        ValueError: ``t`` is None, or the bounds would enlarge ``t``.
        TypeError: a float bound for an integer tensor.
    """
    if isinstance(t, IndexedSlices):
        return t.map(lambda v: clip_by_value(v, clip_value_min, clip_value_max))  # type: ignore[no-any-return]
    t = as_tensor(t)
    result = maximum(
        minimum(t, as_tensor(clip_value_max, t.type.dtype)),
        as_tensor(clip_value_min, t.type.dtype),
    )
    if result.type.shape != t.type.shape:
        raise ValueError(
            f"Shapes {t.shape} and {result.shape} are incompatible: the bounds of clip_by_value are larger than what "
            "they clip",
            location=here(),
        )
    return result


def floor(x: TensorLike, name: str | None = None) -> Tensor:
    """The greatest integer not above ``x``, as a float. No derivative."""
    return unary("floor", x)


def ceil(x: TensorLike, name: str | None = None) -> Tensor:
    """The smallest integer not below ``x``, as a float. No derivative."""
    return unary("ceil", x)


def round(x: TensorLike, name: str | None = None) -> Tensor:
    """The nearest integer, the even one of two as near; integers stay. No derivative.

    Example: ``round([0.5, 1.5, 2.5])`` is ``[0.0, 2.0, 2.0]``.
    """
    x = as_tensor(x)
    return x if x.type.dtype.is_integer else unary("round", x)


def rint(x: TensorLike, name: str | None = None) -> Tensor:
    """The nearest integer; see `round`."""
    return round(x)


# -- comparison and logic


def equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x == y`` as bools; NaN equals nothing. Strings are compared too, eagerly."""
    texts = _equal_texts(x, y)
    return binary("eq", x, y) if texts is None else texts


def not_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x != y`` as bools."""
    texts = _equal_texts(x, y)
    return binary("ne", x, y) if texts is None else logical_not(texts)


def _equal_texts(x: TensorLike, y: TensorLike) -> Tensor | None:
    """Which of two tensors' strings are equal; None if they are numbers."""
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.type.dtype is not STRING:
        return None
    first, second = converted(x, y)
    if STRING not in (first.type.dtype, second.type.dtype):
        return None
    if first.type.dtype != second.type.dtype:
        raise wrong_dtype(second.type.dtype, first.type.dtype.name)
    common_shape(first.type.shape, second.type.shape)  # which refuses those that do not fit
    return as_tensor(texts_equal(first.array, second.array))


def less(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x < y`` as bools."""
    return binary("lt", x, y)


def less_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x <= y`` as bools."""
    return binary("le", x, y)


def greater(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x > y`` as bools."""
    return binary("gt", x, y)


def greater_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x >= y`` as bools."""
    return binary("ge", x, y)


def tensor_equal(x: TensorLike, y: TensorLike) -> Any:
    """The operator ``==``: `equal`, but a plain False for None and a scalar False for shapes that do not broadcast."""
    if x is None or y is None:
        return False
    x, y = converted(x, y)
    return equal(x, y) if compatible(x.type.shape, y.type.shape) else as_tensor(False)


def tensor_not_equal(x: TensorLike, y: TensorLike) -> Any:
    """The operator ``!=``: `not_equal`, but True for None and for shapes that do not broadcast."""
    if x is None or y is None:
        return True
    x, y = converted(x, y)
    return not_equal(x, y) if compatible(x.type.shape, y.type.shape) else as_tensor(True)


def is_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """True where ``x`` is NaN."""
    return unary("is_nan", x)


def is_finite(x: TensorLike, name: str | None = None) -> Tensor:
    """True where ``x`` is neither infinite nor NaN."""
    return unary("is_finite", x)


def is_inf(x: TensorLike, name: str | None = None) -> Tensor:
    """True where ``x`` is plus or minus infinity."""
    x = as_tensor(x)
    return logical_not(logical_or(is_finite(x), is_nan(x)))


def where(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """``x`` where the condition holds, ``y`` elsewhere; all three broadcast.

    The gradient goes to the one chosen. With one argument: the int64 indices
    ``[count, rank]`` of what is true, row-major.

    Example: ``where([True, False], [1, 2], 0)`` is ``[1, 0]``; ``where([True, False, True])`` is
    ``[[0], [2]]``.

    Raises:
        ValueError: one of ``x`` and ``y`` is missing.
        NotImplementedError: one argument while a function is compiled: the result's shape would
            depend on values.
    """
    if x is None and y is None:
        condition = as_tensor(condition)
        refuse_in_trace("where with one argument", "use where(condition, x, y)")
        return as_tensor(np.argwhere(condition.array))
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.", location=here())
    condition = as_tensor(condition, BOOL)
    x, y = broadcast_pair(x, y)
    if condition.type.shape != x.type.shape:
        shape = common_shape(condition.type.shape, x.type.shape)
        condition, x, y = (broadcast(v, shape) for v in (condition, x, y))
    result: Tensor = apply("where", condition, x, y)
    return result


# -- conversion and identity


def cast(x: TensorLike, dtype: Any, name: str | None = None) -> Tensor:
    """``x`` converted to ``dtype``; ``x`` itself if it has it.

    Floats lose their fraction on the way to an integer and saturate, NaN becomes 0; integers wrap
    around; what is not 0 is true. The gradient is converted back, and is None from or to integers
    and bools.

    Example: ``cast([1.9, -1.9], tapec.int32)`` is ``[1, -1]``.

    Raises:
        TypeError: ``dtype`` names no dtype.
    """
    if isinstance(x, IndexedSlices):
        return x.map(lambda v: cast(v, dtype))  # type: ignore[no-any-return]
    target = named_dtype(dtype)
    tensor = as_tensor(x)
    if tensor.type.dtype == target:
        return tensor
    result: Tensor = apply("cast", tensor, dtype=target)
    return result


def named_dtype(dtype: Any) -> Any:
    """The dtype that an argument names.

    Raises:
        TypeError: it names none.
    """
    try:
        return as_dtype(dtype)
    except builtins.TypeError as error:
        raise TypeError(str(error), location=here()) from None


def saturate_cast(value: TensorLike, dtype: Any, name: str | None = None) -> Tensor:
    """``value`` moved into the range of ``dtype``, then converted to it.

    Example: ``saturate_cast([-1, 300], tapec.uint8)`` is ``[0, 255]``.
    """
    x, target = as_tensor(value), named_dtype(dtype)
    x = x if target.is_complex else real(x)
    if target.is_bool or target.is_complex or x.type.dtype.is_bool:
        return cast(x, target)
    # A bound that the source cannot hold does not bind it.
    low, high = (np.asarray(v).astype(np.float64) for v in (target.min, target.max))
    own_low, own_high = (np.asarray(v).astype(np.float64) for v in (x.dtype.min, x.dtype.max))
    if low > own_low:
        x = maximum(x, np.asarray(target.min).astype(x.type.dtype.numpy))
    if high < own_high:
        x = minimum(x, np.asarray(target.max).astype(x.type.dtype.numpy))
    return cast(x, target)


def identity(input: TensorLike, name: str | None = None) -> Tensor:
    """``input`` as a new Tensor: a watched one is another source than ``input``."""
    if isinstance(input, IndexedSlices):
        return input.map(lambda v: identity(v))  # type: ignore[no-any-return]
    return unary("watch", input)


def stop_gradient(input: TensorLike, name: str | None = None) -> Tensor:
    """``input``, through which no gradient flows."""
    if isinstance(input, IndexedSlices):
        return input.map(lambda v: stop_gradient(v))  # type: ignore[no-any-return]
    return unary("stop_gradient", input)


# -- complex numbers


def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Tensor:
    """``real + i imag`` from float32 (complex64) or float64 (complex128) parts.

    Raises:
        TypeError: the parts are of another dtype, or of two.
    """
    x, y = broadcast_pair(real, imag)
    if x.type.dtype != y.type.dtype or x.type.dtype not in (F32, F64):
        raise TypeError(
            f"the parts of a complex number are both float32 or both float64, got {x.dtype.name} and {y.dtype.name}",
            location=here(),
            hint="convert them with tapec.cast",
        )
    result: Tensor = apply("complex", x, y)
    return result


def real(input: TensorLike, name: str | None = None) -> Tensor:
    """The real part; a real tensor itself."""
    x = as_tensor(input)
    return unary("real", x) if x.type.dtype.is_complex else x


def imag(input: TensorLike, name: str | None = None) -> Tensor:
    """The imaginary part; zeros of a real tensor."""
    x = as_tensor(input)
    if x.type.dtype.is_complex:
        return unary("imag", x)
    zeros: Tensor = apply("constant", value=0, type=x.type)
    return zeros


def conj(x: TensorLike, name: str | None = None) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    x = as_tensor(x)
    return unary("conj", x) if x.type.dtype.is_complex else x


def angle(input: TensorLike, name: str | None = None) -> Tensor:
    """The argument in ``(-pi, pi]``; of a real tensor 0 or pi."""
    x = as_float(input)
    return binary("atan2", imag(x), real(x))
