"""Elementwise functions of analysis: powers, logarithms, trigonometry, error and gamma functions.

The cotangent is multiplied by the conjugate of the derivative, as in TensorFlow.
"""

from __future__ import annotations

from math import isfinite, pi, sqrt
from typing import TYPE_CHECKING, Any

from tapec.ir import pairs
from tapec.ir import scalar as primitives
from tapec.ir.op import Cotangents, Elementwise
from tapec.ir.ops.arith import conj, scaled
from tapec.ir.ops.source import Constant

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Smooth(Elementwise):
    """A function of one variable, given by its `derivative`."""

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """The derivative at ``x``, where the value is ``y``."""
        raise NotImplementedError(f"{self.name} has no derivative")

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * conj(derivative)``."""
        slope = self.derivative(b, op.operands[0], op.result)
        return (b.mul(cts[0], conj(b, slope)),)


def one_plus(b: Builder, x: Value) -> Any:
    """``1 + x``."""
    return b.add(b.full_like(1, x), x)


def one_minus(b: Builder, x: Value) -> Any:
    """``1 - x``."""
    return b.sub(b.full_like(1, x), x)


class Sqrt(Elementwise):
    """The square root; NaN below 0."""

    name = "sqrt"
    remedy = "sqrt takes positive numbers, and its derivative is infinite at 0: add a small constant inside"
    scalar = primitives.SQRT
    spreads = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct / (2 conj(y))``; 0 where the cotangent is 0, even at 0."""
        slope = b.reciprocal(scaled(b, 2, op.result))
        return (b.mul_no_nan(conj(b, slope), cts[0]),)


class Rsqrt(Elementwise):
    """``1 / sqrt(x)``."""

    name = "rsqrt"
    remedy = "rsqrt takes positive numbers: add a small constant inside"
    scalar = primitives.RSQRT

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = -ct * conj(y) ** 3 / 2``; 0 where the cotangent is 0, even at 0."""
        y = op.result
        slope = scaled(b, -0.5, b.mul(y, b.mul(y, y)))
        return (b.mul_no_nan(conj(b, slope), cts[0]),)


class Exp(Smooth):
    """``e ** x``."""

    name = "exp"
    remedy = "exp grows fast: subtract the maximum first, as reduce_logsumexp and softmax do"
    scalar = primitives.EXP

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``y``."""
        return y


class Expm1(Smooth):
    """``e ** x - 1``, accurate near 0."""

    name = "expm1"
    remedy = "expm1 grows fast: clip its operand"
    scalar = primitives.EXPM1
    domain = (-1.0, 1.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``e ** x``: ``y + 1`` would lose it for large negative ``x``."""
        return b.exp(x)


class Log(Elementwise):
    """The natural logarithm."""

    name = "log"
    remedy = "log takes positive numbers: clip its operand, or add a small constant to it"
    scalar = primitives.LOG
    spreads = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct / conj(x)``."""
        return (b.div(cts[0], conj(b, op.operands[0])),)


class Log1p(Elementwise):
    """``log(1 + x)``, accurate near 0."""

    name = "log1p"
    remedy = "log1p takes numbers above -1: clip its operand"
    scalar = primitives.LOG1P
    spreads = True
    domain = (-0.5, 1.0)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct / conj(1 + x)``."""
        return (b.div(cts[0], conj(b, one_plus(b, op.operands[0]))),)


class Sin(Smooth):
    """The sine."""

    name = "sin"
    scalar = primitives.SIN
    spreads = True
    stays_finite = True
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``cos(x)``."""
        return b.cos(x)


class Cos(Smooth):
    """The cosine."""

    name = "cos"
    scalar = primitives.COS
    spreads = True
    stays_finite = True
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``-sin(x)``."""
        return b.neg(b.sin(x))


class Tan(Smooth):
    """The tangent."""

    name = "tan"
    scalar = primitives.TAN
    domain = (-1.0, 1.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 + y * y``."""
        return one_plus(b, b.mul(y, y))


class Asin(Smooth):
    """The angle in ``[-pi/2, pi/2]`` whose sine is ``x``."""

    name = "asin"
    remedy = "asin takes numbers in [-1, 1], and its derivative is infinite at both ends: clip its operand"
    scalar = primitives.ASIN
    domain = (-0.7, 0.7)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 / sqrt(1 - x * x)``."""
        return b.rsqrt(one_minus(b, b.mul(x, x)))


class Acos(Smooth):
    """The angle in ``[0, pi]`` whose cosine is ``x``."""

    name = "acos"
    remedy = "acos takes numbers in [-1, 1], and its derivative is infinite at both ends: clip its operand"
    scalar = primitives.ACOS
    domain = (-0.7, 0.7)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``-1 / sqrt(1 - x * x)``."""
        return b.neg(b.rsqrt(one_minus(b, b.mul(x, x))))


class Atan(Smooth):
    """The angle in ``[-pi/2, pi/2]`` whose tangent is ``x``."""

    name = "atan"
    scalar = primitives.ATAN
    stays_finite = True
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 / (1 + x * x)``."""
        return b.reciprocal(one_plus(b, b.mul(x, x)))


class Sinh(Smooth):
    """The hyperbolic sine."""

    name = "sinh"
    scalar = primitives.SINH
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``cosh(x)``."""
        return b.cosh(x)


class Cosh(Smooth):
    """The hyperbolic cosine."""

    name = "cosh"
    scalar = primitives.COSH
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``sinh(x)``."""
        return b.sinh(x)


class Tanh(Smooth):
    """The hyperbolic tangent."""

    name = "tanh"
    scalar = primitives.TANH
    stays_finite = True
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 - y * y``."""
        return one_minus(b, b.mul(y, y))


class Asinh(Smooth):
    """The inverse of the hyperbolic sine."""

    name = "asinh"
    scalar = primitives.ASINH
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 / cosh(y)``: ``x * x`` would overflow where this does not."""
        return b.reciprocal(b.cosh(y))


class Acosh(Smooth):
    """The inverse of the hyperbolic cosine, not negative; NaN below 1."""

    name = "acosh"
    remedy = "acosh takes numbers from 1 on, and its derivative is infinite at 1: clip its operand"
    scalar = primitives.ACOSH
    domain = (1.5, 3.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 / sinh(y)``."""
        return b.reciprocal(b.sinh(y))


class Atanh(Smooth):
    """The inverse of the hyperbolic tangent."""

    name = "atanh"
    remedy = "atanh takes numbers in (-1, 1): clip its operand"
    scalar = primitives.ATANH
    domain = (-0.7, 0.7)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``1 / (1 - x * x)``."""
        return b.reciprocal(one_minus(b, b.mul(x, x)))


class Sigmoid(Smooth):
    """``1 / (1 + e ** -x)``."""

    name = "sigmoid"
    scalar = primitives.SIGMOID
    stays_finite = True
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``y * (1 - y)``."""
        return b.mul(y, one_minus(b, y))


class Erf(Smooth):
    """The error function."""

    name = "erf"
    scalar = primitives.ERF
    stays_finite = True
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``2 / sqrt(pi) * e ** (-x * x)``."""
        return scaled(b, 2 / sqrt(pi), b.exp(b.neg(b.mul(x, x))))


class Erfc(Smooth):
    """``1 - erf(x)``, accurate where it is small."""

    name = "erfc"
    scalar = primitives.ERFC
    stays_finite = True
    domain = (-2.0, 2.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``-2 / sqrt(pi) * e ** (-x * x)``."""
        return scaled(b, -2 / sqrt(pi), b.exp(b.neg(b.mul(x, x))))


class Lgamma(Smooth):
    """The logarithm of the absolute value of the gamma function."""

    name = "lgamma"
    scalar = primitives.LGAMMA
    domain = (0.5, 3.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``digamma(x)``."""
        return b.digamma(x)


class Digamma(Smooth):
    """The derivative of `lgamma`."""

    name = "digamma"
    scalar = primitives.DIGAMMA
    domain = (0.5, 3.0)

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """``polygamma(x, order=1)``."""
        return b.polygamma(x, order=1)


class Atan2(Elementwise):
    """The angle of the point ``(y, x)``: ``atan(x / y)`` in all four quadrants."""

    name = "atan2"
    scalar = primitives.ATAN2

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = y * ct / (x² + y²)``, ``y_bar = -x * ct / (x² + y²)``: NaN at the origin."""
        x, y = op.operands
        part = b.div(cts[0], b.add(b.mul(x, x), b.mul(y, y)))
        return b.mul(y, part), b.mul(b.neg(x), part)


#: The greatest power of complex numbers that is written as products; NumPy's, too.
_MOST_PRODUCTS = 100


class Pow(Elementwise):
    """``x ** y``; NaN for a negative ``x`` unless ``y`` is whole.

    Of integers it wraps around, and a negative power is the whole part of the fraction.
    """

    name = "pow"
    remedy = "powers of 0 and of negative numbers, and their derivatives, are not always finite: clip the base"
    scalar = primitives.POW

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """By logarithms; a power that is known to be a small whole number by products."""
        z, w = operands
        exponent = _number(w.re)
        whole = exponent is not None and exponent == round(exponent) and _number(w.im) == 0
        if whole and abs(exponent) <= _MOST_PRODUCTS:
            return pairs.whole_power(b, z, int(exponent))
        return pairs.pow(b, z, w)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * y * x ** (y - 1)``, ``y_bar = ct * z * log(x)``.

        The second is 0 where ``x`` is not positive (complex: where it is 0), and `log` never sees
        such an ``x``.
        """
        x, y = (conj(b, v) for v in op.operands)
        one, zero = b.full_like(1, x), b.full_like(0, x)
        x_bar = b.mul(b.mul(cts[0], y), b.pow(x, b.sub(y, one)))
        usable = b.ne(x, zero) if x.tensor.dtype.is_complex else b.gt(x, zero)
        log = b.where(usable, b.log(b.where(usable, x, one)), zero)
        return x_bar, b.mul(b.mul(cts[0], conj(b, op.result)), log)


def _number(value: Value) -> Any:
    """The finite number that all elements of a constant are, or None."""
    number = value.op.attrs["value"] if value.op and isinstance(value.op.defn, Constant) else None
    return number if isinstance(number, int | float) and isfinite(number) else None
