"""Complex numbers as pairs of real values: arithmetic, and functions of analysis.

No machine has complex registers. The pass `tapec.passes.pairs` writes every complex value of a program as two real
ones, and what each operation does to them is told here, in formulas of real operations. They are written through
anything that has a method for each of these (`Arithmetic`): the Builder, for tensors, or a kernel, for elements.

Branch cuts are continuous from the side that the sign of a zero tells, as in C; overflow and cancellation are avoided
where NumPy avoids them. Sources: Kahan, "Branch cuts for complex elementary functions, or much ado about nothing's sign
bit", 1987, for roots and inverse functions; Smith, "Algorithm 116: complex division", 1962.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan, pi
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tapec.ir.core import Value


@dataclass(frozen=True)
class Pair:
    """A complex value: its real and its imaginary part, of one type."""

    re: Value
    im: Value


class Arithmetic(Protocol):
    """Where formulas are written: a method for each elementwise operation (``b.mul(x, y)``)."""

    def full_like(self, value: Any, like: Value) -> Value:
        """A number as a value of the type of another."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The operation of that name."""


# ---- arithmetic


def each(name: str) -> Callable[..., Pair]:
    """The formula of an operation that acts on both parts alike."""

    def formula(b: Arithmetic, *operands: Pair) -> Pair:
        apply = getattr(b, name)
        return Pair(apply(*(z.re for z in operands)), apply(*(z.im for z in operands)))

    return formula


add, sub, neg = each("add"), each("sub"), each("neg")


def conj(b: Arithmetic, z: Pair) -> Pair:
    """The conjugate."""
    return Pair(z.re, b.neg(z.im))


def mul(b: Arithmetic, z: Pair, w: Pair) -> Pair:
    """The product."""
    return Pair(
        b.sub(b.mul(z.re, w.re), b.mul(z.im, w.im)), b.add(b.mul(z.re, w.im), b.mul(z.im, w.re))
    )


def scaled(b: Arithmetic, factor: float, z: Pair) -> Pair:
    """The product with a number."""
    return Pair(*(b.mul(b.full_like(factor, x), x) for x in (z.re, z.im)))


def turned(b: Arithmetic, z: Pair) -> Pair:
    """The product with i."""
    return Pair(b.neg(z.im), z.re)


def turned_back(b: Arithmetic, z: Pair) -> Pair:
    """The product with -i."""
    return Pair(z.im, b.neg(z.re))


def div(b: Arithmetic, z: Pair, w: Pair) -> Pair:
    """The quotient, by Smith's method: no square of ``w`` overflows."""
    swap = b.lt(b.abs(w.re), b.abs(w.im))
    large, small = b.where(swap, w.im, w.re), b.where(swap, w.re, w.im)
    zero = b.full_like(0, large)
    # Division by 0 gives infinity by the signs of the numerator alone.
    nothing = b.and_(b.eq(large, zero), b.eq(small, zero))
    ratio = b.where(nothing, zero, b.div(small, large))
    scale = _inverse(b, b.where(nothing, zero, b.add(large, b.mul(small, ratio))))
    first, second = b.where(swap, z.im, z.re), b.where(swap, z.re, z.im)
    rest = b.where(nothing, second, b.sub(second, b.mul(first, ratio)))
    re = b.mul(b.where(nothing, first, b.add(first, b.mul(second, ratio))), scale)
    im = b.mul(b.where(swap, b.neg(rest), rest), scale)
    return Pair(re, im)


def reciprocal(b: Arithmetic, z: Pair) -> Pair:
    """``1 / z``."""
    return div(b, Pair(b.full_like(1, z.re), b.full_like(0, z.re)), z)


def eq(b: Arithmetic, z: Pair, w: Pair) -> Value:
    """Whether both parts are equal."""
    equal: Value = b.and_(b.eq(z.re, w.re), b.eq(z.im, w.im))
    return equal


def ne(b: Arithmetic, z: Pair, w: Pair) -> Value:
    """Whether a part differs."""
    differs: Value = b.or_(b.ne(z.re, w.re), b.ne(z.im, w.im))
    return differs


def where(b: Arithmetic, condition: Value, z: Pair, w: Pair) -> Pair:
    """One or the other."""
    return Pair(b.where(condition, z.re, w.re), b.where(condition, z.im, w.im))


def mul_no_nan(b: Arithmetic, z: Pair, w: Pair) -> Pair:
    """The product; 0 wherever ``w`` is."""
    zero = b.full_like(0, w.re)
    return where(b, eq(b, w, Pair(zero, zero)), Pair(zero, zero), mul(b, z, w))


def absolute(b: Arithmetic, z: Pair) -> Value:
    """The modulus: no square overflows, and infinity beats NaN."""
    re, im = b.abs(z.re), b.abs(z.im)
    large, small = b.max(re, im), b.min(re, im)
    zero = b.full_like(0, re)
    ratio = b.where(b.eq(large, zero), zero, b.div(small, large))
    length = b.mul(large, b.sqrt(b.add(b.full_like(1, re), b.mul(ratio, ratio))))
    result: Value = b.where(_is_endless(b, z), b.full_like(inf, re), length)
    return result


def sign(b: Arithmetic, z: Pair) -> Pair:
    """``z / |z|``, and 0 at 0."""
    length = absolute(b, z)
    zero = b.full_like(0, length)
    nothing = b.eq(length, zero)
    return Pair(*(b.where(nothing, zero, b.div(x, length)) for x in (z.re, z.im)))


# ---- exponential and trigonometric functions


def exp(b: Arithmetic, z: Pair) -> Pair:
    """``e ** z``; a real ``z`` gives a real result, even if that is infinite."""
    size = b.exp(z.re)
    zero = b.full_like(0, size)
    vanishes = b.eq(z.re, b.full_like(-inf, size))
    power = Pair(b.mul(size, b.cos(z.im)), b.mul_no_nan(size, b.sin(z.im)))
    return where(b, vanishes, Pair(zero, zero), power)


def expm1(b: Arithmetic, z: Pair) -> Pair:
    """``e ** z - 1``, accurate near 0: ``cos y - 1`` is ``-2 sin(y / 2) ** 2``."""
    whole, one = exp(b, z), b.full_like(1, z.re)
    half = b.sin(b.mul(b.full_like(0.5, z.im), z.im))
    bend = b.mul(b.full_like(-2, half), b.mul(half, half))
    near = b.add(b.expm1(z.re), b.mul(b.exp(z.re), bend))
    return Pair(b.where(b.lt(b.abs(z.re), one), near, b.sub(whole.re, one)), whole.im)


def sin(b: Arithmetic, z: Pair) -> Pair:
    """The sine."""
    return Pair(
        b.mul_no_nan(b.cosh(z.im), b.sin(z.re)),
        b.mul(b.cos(z.re), b.sinh(z.im)),
    )


def cos(b: Arithmetic, z: Pair) -> Pair:
    """The cosine."""
    return Pair(
        b.mul(b.cos(z.re), b.cosh(z.im)),
        b.neg(b.mul_no_nan(b.sinh(z.im), b.sin(z.re))),
    )


def sinh(b: Arithmetic, z: Pair) -> Pair:
    """The hyperbolic sine: ``-i sin(i z)``."""
    return turned_back(b, sin(b, turned(b, z)))


def cosh(b: Arithmetic, z: Pair) -> Pair:
    """The hyperbolic cosine: ``cos(i z)``."""
    return cos(b, turned(b, z))


def tanh(b: Arithmetic, z: Pair) -> Pair:
    """The hyperbolic tangent; where the sine squared would overflow, its limit."""
    tangent, sine = b.tan(z.im), b.sinh(z.re)
    one = b.full_like(1, tangent)
    growth = b.add(one, b.mul(tangent, tangent))
    whole = b.add(one, b.mul(growth, b.mul(sine, sine)))
    re = b.div(b.mul(growth, b.mul(sine, b.sqrt(b.add(one, b.mul(sine, sine))))), whole)
    # Beyond 20 the real part is 1 in double precision, and 4 e ** -2x is what is left of 1 / sinh² x.
    far = b.gt(b.abs(z.re), b.full_like(20, z.re))
    decay = b.exp(b.mul(b.full_like(-2, z.re), b.abs(z.re)))
    rest = b.mul(b.mul(b.full_like(4, decay), b.mul(b.sin(z.im), b.cos(z.im))), decay)
    return Pair(b.where(far, b.sign(z.re), re), b.where(far, rest, b.div(tangent, whole)))


def tan(b: Arithmetic, z: Pair) -> Pair:
    """The tangent: ``-i tanh(i z)``."""
    return turned_back(b, tanh(b, turned(b, z)))


def sigmoid(b: Arithmetic, z: Pair) -> Pair:
    """``1 / (1 + e ** -z)``."""
    return reciprocal(b, _one_plus(b, exp(b, neg(b, z))))


# ---- roots, logarithms, powers


def sqrt(b: Arithmetic, z: Pair) -> Pair:
    """The square root whose real part is not negative."""
    half = b.full_like(0.5, z.re)
    length = absolute(b, z)
    root = b.sqrt(b.add(b.mul(half, b.abs(z.re)), b.mul(half, length)))
    zero, infinity = b.full_like(0, z.re), b.full_like(inf, z.re)
    size = b.abs(z.im)
    rest = b.where(b.eq(root, zero), size, b.div(b.mul(half, size), root))
    left = _is_negative(b, z.re)
    endless = b.eq(size, infinity)
    re = b.where(endless, infinity, b.where(left, rest, root))
    im = b.where(endless, infinity, b.where(left, root, rest))
    return Pair(re, b.where(_is_negative(b, z.im), b.neg(im), im))


def rsqrt(b: Arithmetic, z: Pair) -> Pair:
    """``1 / sqrt(z)``."""
    return reciprocal(b, sqrt(b, z))


def log(b: Arithmetic, z: Pair) -> Pair:
    """The logarithm whose imaginary part is the angle."""
    return Pair(_log_absolute(b, z), b.atan2(z.im, z.re))


def log1p(b: Arithmetic, z: Pair) -> Pair:
    """``log(1 + z)``, accurate near 0: there ``|1 + z|² - 1`` is ``x (2 + x) + y²``."""
    near = b.lt(b.max(b.abs(z.re), b.abs(z.im)), b.full_like(0.5, z.re))
    above = b.add(b.mul(z.re, b.add(b.full_like(2, z.re), z.re)), b.mul(z.im, z.im))
    small = b.mul(b.full_like(0.5, above), b.log1p(b.where(near, above, b.full_like(0, above))))
    moved = _one_plus(b, z)
    return Pair(
        b.where(near, small, _log_absolute(b, moved)),
        b.atan2(moved.im, moved.re),
    )


def _log_absolute(b: Arithmetic, z: Pair) -> Value:
    """``log |z|``: no square overflows, and near 1 ``|z|² - 1`` is found without cancellation of its terms' digits."""
    re, im = b.abs(z.re), b.abs(z.im)
    large, small = b.max(re, im), b.min(re, im)
    zero, half, one = (b.full_like(v, large) for v in (0, 0.5, 1))
    infinity = b.full_like(inf, large)
    plain = b.and_(b.gt(large, zero), b.lt(large, infinity))
    ratio = b.div(small, b.where(plain, large, one))
    ratio = b.where(b.lt(large, infinity), ratio, zero)
    far = b.add(b.log(large), b.mul(half, b.log1p(b.mul(ratio, ratio))))
    near = b.and_(b.gt(large, half), b.lt(large, b.full_like(2, large)))
    above = b.add(b.mul(b.sub(large, one), b.add(large, one)), b.mul(small, small))
    far = b.where(_is_endless(b, z), infinity, far)
    result: Value = b.where(near, b.mul(half, b.log1p(b.where(near, above, zero))), far)
    return result


def pow(b: Arithmetic, z: Pair, w: Pair) -> Pair:
    """``e ** (w log z)``; 1 for ``w`` 0, and 0 for ``z`` 0 where the real part of ``w`` is positive."""
    zero, one = b.full_like(0, z.re), b.full_like(1, z.re)
    nothing, unit = Pair(zero, zero), Pair(one, zero)
    at_zero = eq(b, z, nothing)
    power = exp(b, mul(b, w, log(b, where(b, at_zero, unit, z))))
    pole = Pair(*(b.full_like(nan, z.re),) * 2)
    power = where(b, at_zero, where(b, b.gt(w.re, zero), nothing, pole), power)
    return where(b, eq(b, w, nothing), unit, power)


def whole_power(b: Arithmetic, z: Pair, exponent: int) -> Pair:
    """``z ** exponent`` by products."""
    result, square, left = None, z, abs(exponent)
    while left:
        if left % 2:
            result = square if result is None else mul(b, result, square)
        left //= 2
        square = mul(b, square, square) if left else square
    if result is None:
        return Pair(b.full_like(1, z.re), b.full_like(0, z.re))
    return result if exponent > 0 else reciprocal(b, result)


# ---- inverse functions


def asin(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the sine, cut outside of [-1, 1]."""
    below, above = sqrt(b, _one_minus(b, z)), sqrt(b, _one_plus(b, z))
    height = b.where(_is_endless(b, z), b.abs(z.im), mul(b, below, above).re)
    return Pair(b.atan2(z.re, height), b.asinh(mul(b, conj(b, below), above).im))


def acos(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the cosine, cut outside of [-1, 1]."""
    below, above = sqrt(b, _one_minus(b, z)), sqrt(b, _one_plus(b, z))
    half = Pair(above.re, below.re)
    return Pair(
        _double_angle(b, half, Pair(z.re, b.abs(z.im))),
        b.asinh(mul(b, conj(b, above), below).im),
    )


def acosh(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the hyperbolic cosine, cut below 1."""
    one = b.full_like(1, z.re)
    below, above = sqrt(b, Pair(b.sub(z.re, one), z.im)), sqrt(b, _one_plus(b, z))
    half = Pair(above.re, below.im)
    return Pair(b.asinh(mul(b, conj(b, below), above).re), _double_angle(b, half, z))


def _double_angle(b: Arithmetic, half: Pair, whole: Pair) -> Value:
    """Twice the angle of ``half``; where ``whole`` is infinite, the angle of that."""
    endless = _is_endless(b, whole)
    angle = b.atan2(b.where(endless, whole.im, half.im), b.where(endless, whole.re, half.re))
    result: Value = b.where(endless, angle, b.add(angle, angle))
    return result


def asinh(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the hyperbolic sine: ``-i asin(i z)``."""
    return turned_back(b, asin(b, turned(b, z)))


def atanh(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the hyperbolic tangent, cut outside of [-1, 1]."""
    one, square = b.full_like(1, z.re), b.mul(z.im, z.im)
    angle = b.atan2(b.add(z.im, z.im), b.sub(b.mul(b.sub(one, z.re), b.add(one, z.re)), square))
    # The real part is odd in x: the formulas are for a positive one.
    x = b.abs(z.re)
    below = b.sub(one, x)
    quotient = b.div(b.mul(b.full_like(4, x), x), b.add(b.mul(below, below), square))
    far = b.mul(b.full_like(0.25, x), b.log1p(quotient))
    # Beside the pole the squares would be lost.
    near = b.lt(b.max(b.abs(below), b.abs(z.im)), b.full_like(1e-3, x))
    ends = (_log_absolute(b, Pair(end, z.im)) for end in (b.add(one, x), below))
    beside = b.mul(b.full_like(0.5, x), b.sub(*ends))
    endless = _is_endless(b, z)
    re = b.where(endless, b.full_like(0, x), b.where(near, beside, far))
    im = b.where(endless, b.full_like(pi / 2, x), b.mul(b.full_like(0.5, x), b.abs(angle)))
    return Pair(
        b.where(_is_negative(b, z.re), b.neg(re), re), b.where(_is_negative(b, z.im), b.neg(im), im)
    )


def atan(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the tangent: ``-i atanh(i z)``."""
    return turned_back(b, atanh(b, turned(b, z)))


def _inverse(b: Arithmetic, x: Value) -> Value:
    result: Value = b.div(b.full_like(1, x), x)
    return result


def _one_plus(b: Arithmetic, z: Pair) -> Pair:
    return Pair(b.add(b.full_like(1, z.re), z.re), z.im)


def _one_minus(b: Arithmetic, z: Pair) -> Pair:
    return Pair(b.sub(b.full_like(1, z.re), z.re), b.neg(z.im))


def _is_negative(b: Arithmetic, x: Value) -> Value:
    """Whether the sign bit is set: also of -0, whose reciprocal is negative."""
    zero = b.full_like(0, x)
    result: Value = b.lt(b.where(b.eq(x, zero), _inverse(b, x), x), zero)
    return result


def _is_endless(b: Arithmetic, z: Pair) -> Value:
    """Whether a part is infinite."""
    infinity = b.full_like(inf, z.re)
    result: Value = b.or_(b.eq(b.abs(z.re), infinity), b.eq(b.abs(z.im), infinity))
    return result
