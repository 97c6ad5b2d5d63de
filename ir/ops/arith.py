"""Elementwise arithmetic, rounding and order; `compare` and `elementary` have the rest.

Derivatives agree with TensorFlow's where a derivative is a convention: at ties, kinks and poles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir import pairs
from tapec.ir import scalar as primitives
from tapec.ir.composed import Composed
from tapec.ir.op import Cotangents, Elementwise, Index, Kernel, Sample
from tapec.ir.types import F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


def conj(b: Builder, x: Value) -> Value:
    """The complex conjugate of ``x``: of a real value, the value itself."""
    return b.conj(x) if x.tensor.dtype.is_complex else x


def scaled(b: Builder, factor: float, x: Value) -> Any:
    """``factor * x`` for a factor that is a number."""
    return b.mul(b.full_like(factor, x), x)


class Add(Elementwise):
    """``x + y``."""

    name = "add"
    scalar = primitives.ADD
    spreads = True
    commutative = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = y_bar = ct``."""
        return cts[0], cts[0]


class Sub(Elementwise):
    """``x - y``."""

    name = "sub"
    scalar = primitives.SUB
    spreads = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct``, ``y_bar = -ct``."""
        return cts[0], b.neg(cts[0])


class Mul(Elementwise):
    """``x * y``."""

    name = "mul"
    scalar = primitives.MUL
    spreads = True
    commutative = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * conj(y)``, ``y_bar = ct * conj(x)``."""
        x, y = op.operands
        return b.mul(cts[0], conj(b, y)), b.mul(cts[0], conj(b, x))


class MulNoNan(Composed):
    """``x * y``, and 0 wherever ``y`` is 0, even if ``x`` is infinite or NaN there.

    A rule that must give 0 for a cotangent of 0 (`sqrt`) multiplies by it. A ``where`` would do for
    one derivative, but has itself no derivative by the cotangent where that is 0; this is linear.
    """

    name = "mul_no_nan"
    arity = 2
    kinds = frozenset({"float", "complex"})
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * conj(y)`` and ``y_bar = conj(x) * ct``, 0 where the second factor is."""
        x, y = op.operands
        return b.mul_no_nan(cts[0], conj(b, y)), b.mul_no_nan(conj(b, x), cts[0])

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The same of complex numbers."""
        return pairs.mul_no_nan(b, *operands)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """A product and a selection."""
        x, y = (operand[i] for operand in operands)
        zero = k.constant(0, operands[1].type.dtype)
        return k.where(k.eq(y, zero), zero, k.mul(x, y))


class Div(Elementwise):
    """``x / y`` for floats and complex numbers."""

    name = "div"
    remedy = "add a small constant to the divisor, or use tapec.math.divide_no_nan"
    scalar = primitives.DIV

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct / conj(y)``, ``y_bar = -ct * conj((x / y) / y)``: no square overflows."""
        x, y = op.operands
        slope = conj(b, b.div(b.neg(b.div(x, y)), y))
        return b.div(cts[0], conj(b, y)), b.mul(cts[0], slope)


class Reciprocal(Composed):
    """``1 / x`` for floats and complex numbers."""

    name = "reciprocal"
    remedy = "add a small constant to the operand, or use tapec.math.reciprocal_no_nan"
    kinds = frozenset({"float", "complex"})

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = -ct * conj(y * y)``; 0 where the cotangent is 0, though ``y`` be infinite."""
        y = op.result
        return (b.mul_no_nan(conj(b, b.neg(b.mul(y, y))), cts[0]),)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The same of complex numbers."""
        return pairs.reciprocal(b, *operands)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """A division."""
        return k.div(k.constant(1, operands[0].type.dtype), operands[0][i])


class FloorDiv(Elementwise):
    """``floor(x / y)`` for floats and integers; an integer divided by 0 gives 0. No derivative."""

    name = "floordiv"
    scalar = primitives.FLOORDIV
    differentiable = False


class Mod(Elementwise):
    """``x - floor(x / y) * y``, which has the sign of ``y``; an integer modulo 0 gives 0."""

    name = "mod"
    scalar = primitives.MOD

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct``, ``y_bar = -ct * floor(x / y)``."""
        x, y = op.operands
        return cts[0], b.mul(cts[0], b.neg(b.floordiv(x, y)))

    def samples(self) -> Iterator[Sample]:
        """Quotients that stay between 2 and 3."""
        for shape in ((2, 3), (), (0, 3)):
            types = (TensorType(F64, shape),) * 2
            yield Sample(types, domain=((2.6, 2.9), (1.15, 1.28)), integers=((-9, 9), (1, 5)))


class Fma(Elementwise):
    """``x * y + z``, rounded once where the hardware can."""

    name = "fma"
    scalar = primitives.FMA
    spreads = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * y``, ``y_bar = ct * x``, ``z_bar = ct``."""
        x, y, _ = op.operands
        return b.mul(cts[0], y), b.mul(cts[0], x), cts[0]


class Neg(Elementwise):
    """``-x``."""

    name = "neg"
    scalar = primitives.NEG
    spreads = True
    stays_finite = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = -ct``."""
        return (b.neg(cts[0]),)


class Abs(Elementwise):
    """The absolute value; of a complex number the modulus, which is real."""

    name = "abs"
    scalar = primitives.ABS
    spreads = True
    stays_finite = True
    cheap = True

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The operand's type, with the dtype of its real part."""
        x = super().infer(*types)
        return x.with_dtype(x.dtype.real_dtype)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * sign(x)``: 0 at 0."""
        (x,) = op.operands
        ct = b.cast(cts[0], dtype=x.tensor.dtype) if x.tensor.dtype.is_complex else cts[0]
        return (b.mul(ct, b.sign(x)),)

    def samples(self) -> Iterator[Sample]:
        """Both sides of the kink."""
        yield from super().samples()
        yield Sample((TensorType(F64, (4,)),), domain=(-2.0, -0.3))


class Sign(Elementwise):
    """-1, 0 or 1, NaN for NaN; of a complex number ``x / |x|``, 0 at 0."""

    name = "sign"
    scalar = primitives.SIGN
    stays_finite = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = 0``: TensorFlow connects it, and so do we.

        The sign ``s`` of a complex number turns with it: ``x_bar = (ct - s Re(conj(s) ct)) / |x|``, 0 at 0.
        """
        (x,) = op.operands
        dtype = x.tensor.dtype
        if not dtype.is_complex:
            return (b.full_like(0, x),)
        s, (ct,), size = op.result, cts, b.abs(x)
        nonzero = b.ne(size, b.full_like(0, size))
        divisor = b.cast(b.where(nonzero, size, b.full_like(1, size)), dtype=dtype)
        along = b.cast(b.real(b.mul(b.conj(s), ct)), dtype=dtype)
        slope = b.div(b.sub(ct, b.mul(s, along)), divisor)
        return (b.where(nonzero, slope, b.full_like(0, slope)),)


class Floor(Elementwise):
    """The greatest integer not above ``x``. No derivative."""

    name = "floor"
    scalar = primitives.FLOOR
    spreads = True
    stays_finite = True
    differentiable = False
    cheap = True


class Ceil(Elementwise):
    """The smallest integer not below ``x``. No derivative."""

    name = "ceil"
    scalar = primitives.CEIL
    spreads = True
    stays_finite = True
    differentiable = False
    cheap = True


class Round(Elementwise):
    """The nearest integer, the even one of two as near. No derivative."""

    name = "round"
    scalar = primitives.ROUND
    spreads = True
    stays_finite = True
    differentiable = False
    cheap = True


class Max(Elementwise):
    """The larger of ``x`` and ``y``; NaN if either is."""

    name = "max"
    scalar = primitives.MAX
    stays_finite = True
    commutative = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The cotangent goes to the larger; all of it to ``x`` on a tie."""
        return split_by(b, b.ge(*op.operands), cts[0])


class Min(Elementwise):
    """The smaller of ``x`` and ``y``; NaN if either is."""

    name = "min"
    scalar = primitives.MIN
    stays_finite = True
    commutative = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The cotangent goes to the smaller; all of it to ``x`` on a tie."""
        return split_by(b, b.le(*op.operands), cts[0])


class Flat(Composed):
    """0, as a function of ``x``: whoever asks for its derivative gets 0, and not that there is none."""

    name = "flat"
    stays_finite = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = flat(x)``."""
        return (b.flat(op.operands[0]),)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """A constant; nothing is read."""
        return k.constant(0, operands[0].type.dtype)

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """Zeros."""
        return np.zeros_like(arrays[0])


class Relu(Composed):
    """``max(x, 0)``; NaN for NaN."""

    name = "relu"
    stays_finite = True
    cheap = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct`` where the result is above 0, else 0; its second derivative is 0."""
        y = op.result
        return (b.where(b.gt(y, b.full_like(0, y)), cts[0], b.flat(y)),)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The larger of both."""
        return k.max(k.constant(0, operands[0].type.dtype), operands[0][i])


def split_by(b: Builder, mask: Value, ct: Value) -> tuple[Value, Value]:
    """``ct`` where the mask holds and 0 elsewhere, and the other way round."""
    zero = b.full_like(0, ct)
    return b.where(mask, ct, zero), b.where(mask, zero, ct)
