"""Rewriting rules for arithmetic, logic, selection and conversion.

Every rule gives the same value to the bit, whatever the operands: NaN, infinities, zeros of either
sign, integers that wrap around. So ``x * 0`` stays (it may be NaN), and so does ``x + 0.0`` (which
makes 0.0 of -0.0), but ``x + -0.0`` goes.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tapec.ir.builder import Builder
from tapec.ir.core import Operation, Value
from tapec.ir.op import Elementwise
from tapec.ir.ops.arith import Abs, Add, Div, Mul, MulNoNan, Neg, Sub
from tapec.ir.ops.compare import And, Cast, Conj, Not, Or, Where
from tapec.ir.ops.elementary import Pow
from tapec.ir.ops.movement import Broadcast
from tapec.ir.types import DType
from tapec.passes.rules.rewrite import Replacement, Rule, is_exactly, plain, producer, splat


def add_nothing(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    nothing = 0 if x.tensor.dtype.is_integer else -0.0
    if is_exactly(splat(y), nothing):
        return x
    return y if is_exactly(splat(x), nothing) else None


def add_negative(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    if negative := producer(y, Neg):
        return b.sub(x, *negative.operands)
    negative = producer(x, Neg)
    return b.sub(y, *negative.operands) if negative else None


def subtract_nothing(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    return x if is_exactly(splat(y), 0.0) else None


def subtract_negative(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    negative = producer(y, Neg)
    return b.add(x, *negative.operands) if negative else None


def subtract_from_nothing(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    nothing = 0 if x.tensor.dtype.is_integer else -0.0
    return b.neg(y) if is_exactly(splat(x), nothing) else None


def scale_by_one(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    if x.tensor.dtype.is_complex:  # (inf + 0i) * (1 + 0i) has a NaN
        return None
    for factor, other in ((y, x), (x, y)):
        number = splat(factor)
        if is_exactly(number, 1):
            return other
        if is_exactly(number, -1) and not x.tensor.dtype.is_unsigned:
            return b.neg(other)
    return None


def both_negative(b: Builder, op: Operation) -> Replacement:
    x, y = (producer(v, Neg) for v in op.operands)
    if x is None or y is None or op.result.tensor.dtype.is_complex:
        return None
    return b.emit(op.defn, *x.operands, *y.operands)


def negative_times_number(b: Builder, op: Operation) -> Replacement:
    for x, y in (op.operands, op.operands[::-1]):
        negative = producer(x, Neg)
        if negative and splat(y) is not None:
            return b.mul(*negative.operands, negated(b, y))
    return None


def negate_product(b: Builder, op: Operation) -> Replacement:
    product = producer(op.operands[0], Mul)
    # The parts of a complex product are sums, and -(x - x) is not -x + x.
    if product is None or op.result.tensor.dtype.is_complex:
        return None
    for x, y in (product.operands, product.operands[::-1]):
        if splat(y) is not None:
            return b.mul(x, negated(b, y))
    return None


def negated(b: Builder, number: Value) -> Value:
    """A constant whose elements are equal, with the other sign."""
    with np.errstate(over="ignore"):
        return b.full_like(plain(-splat(number)), number)


def product_without_nan(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    number = splat(y)
    if number is None:
        return None
    return b.full_like(0, x) if number == 0 else b.mul(x, y)


def divide_by_one(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    return x if is_exactly(splat(y), 1) and not x.tensor.dtype.is_complex else None


def divide_by_power_of_two(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    number = splat(y)
    if number is None or not x.tensor.dtype.is_floating or not np.isfinite(number) or number == 0:
        return None
    with np.errstate(all="ignore"):
        inverse = number.dtype.type(1) / number
    exact = abs(np.frexp(np.float64(number))[0]) == 0.5
    # Both factors must be normal numbers: hardware may take others for zero.
    tiny = ml_dtypes.finfo(number.dtype).smallest_normal
    if not exact or not np.isfinite(inverse) or min(abs(number), abs(inverse)) < tiny:
        return None
    return b.mul(x, b.full_like(plain(inverse), y))


def twice_is_once(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], type(op.defn))
    return inner.result if inner else None


def twice_is_nothing(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], type(op.defn))
    return inner.operands[0] if inner else None


def magnitude_of_negative(b: Builder, op: Operation) -> Replacement:
    negative = producer(op.operands[0], Neg)
    if negative is None or op.result.tensor.dtype.is_unsigned:
        return None
    return b.abs(*negative.operands)


def small_power(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    exponent = splat(y)
    if x.tensor.dtype.is_complex:
        return None
    if is_exactly(exponent, 1):
        return x
    return b.mul(x, x) if is_exactly(exponent, 2) else None


def with_itself(b: Builder, op: Operation) -> Replacement:
    x, y = op.operands
    return x if x is y else None


def with_known_bool(b: Builder, op: Operation) -> Replacement:
    if not op.result.tensor.dtype.is_bool:
        return None
    neutral = isinstance(op.defn, And)
    for x, y in (op.operands, op.operands[::-1]):
        known = splat(y)
        if known is not None:
            return x if bool(known) is neutral else y
    return None


def choose_known(b: Builder, op: Operation) -> Replacement:
    condition, x, y = op.operands
    if x is y:
        return x
    known = splat(condition)
    return None if known is None else x if known else y


def choose_by_not(b: Builder, op: Operation) -> Replacement:
    condition, x, y = op.operands
    negated = producer(condition, Not)
    return b.where(*negated.operands, y, x) if negated else None


def same_dtype(b: Builder, op: Operation) -> Replacement:
    (x,) = op.operands
    return x if x.type == op.result.type else None


def convert_once(b: Builder, op: Operation) -> Replacement:
    first = producer(op.operands[0], Cast)
    if first is None:
        return None
    (x,) = first.operands
    if not holds(first.result.tensor.dtype, x.tensor.dtype):
        return None
    return b.cast(x, dtype=op.attrs["dtype"])


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of ``narrow`` is one of ``wide``, and behaves there as it did."""
    if wide == narrow:
        return True
    if narrow.is_bool:
        return not wide.is_complex
    if narrow.is_floating:
        # float16 has the finer, bfloat16 the larger numbers.
        return wide.is_floating and wide.bits > narrow.bits
    if narrow.is_integer and wide.is_integer:
        return wide.bits > narrow.bits and (wide.kind == narrow.kind or narrow.is_unsigned)
    return False


def repeat_late(b: Builder, op: Operation) -> Replacement:
    """Compute on what was repeated, and repeat the result."""
    repeats = [producer(v, Broadcast) for v in op.operands]
    first = next(filter(None, repeats), None)
    if first is None:
        return None
    small, axes = first.operands[0].tensor, first.attrs["axes"]
    if small.rank == op.result.tensor.rank:
        return None
    for value, repeat in zip(op.operands, repeats, strict=True):
        if repeat is None and splat(value) is None:
            return None
        if repeat and (repeat.attrs["axes"], repeat.operands[0].tensor.shape) != (
            axes,
            small.shape,
        ):
            return None

    def before(value: Value, repeat: Operation | None) -> Value:
        if repeat is not None:
            return repeat.operands[0]
        return b.full(plain(splat(value)), value.tensor.with_shape(small.shape))

    operands = [before(v, r) for v, r in zip(op.operands, repeats, strict=True)]
    y = b.emit(op.defn, *operands, **op.parameters)
    return b.broadcast(y, shape=first.attrs["shape"], axes=axes)


RULES = (
    Rule("x + -0.0 -> x", Add, add_nothing),
    Rule("x + -y -> x - y", Add, add_negative),
    Rule("x - 0 -> x", Sub, subtract_nothing),
    Rule("x - -y -> x + y", Sub, subtract_negative),
    Rule("-0.0 - x -> -x", Sub, subtract_from_nothing),
    Rule("x * 1 -> x, x * -1 -> -x", Mul, scale_by_one),
    Rule("-x * -y -> x * y, -x / -y -> x / y", (Mul, Div), both_negative),
    Rule("-x * c -> x * -c", Mul, negative_times_number),
    Rule("-(x * c) -> x * -c", Neg, negate_product),
    Rule("mul_no_nan(x, 0) -> 0, mul_no_nan(x, c) -> x * c", MulNoNan, product_without_nan),
    Rule("x / 1 -> x", Div, divide_by_one),
    Rule("x / 2**n -> x * 2**-n", Div, divide_by_power_of_two),
    Rule("--x -> x, conj(conj(x)) -> x, not not x -> x", (Neg, Conj, Not), twice_is_nothing),
    Rule("abs(abs(x)) -> abs(x)", Abs, twice_is_once),
    Rule("abs(-x) -> abs(x)", Abs, magnitude_of_negative),
    Rule("x ** 1 -> x, x ** 2 -> x * x", Pow, small_power),
    Rule("x and x -> x, x or x -> x", (And, Or), with_itself),
    Rule("x and true -> x, x and false -> false, and so for or", (And, Or), with_known_bool),
    Rule("where(true, x, y) -> x, where(c, x, x) -> x", Where, choose_known),
    Rule("where(not c, x, y) -> where(c, y, x)", Where, choose_by_not),
    Rule("cast(x) -> x if it has the dtype", Cast, same_dtype),
    Rule("cast(cast(x)) -> cast(x) if the first loses nothing", Cast, convert_once),
    Rule("f(broadcast(x), broadcast(y)) -> broadcast(f(x, y))", Elementwise, repeat_late),
)
