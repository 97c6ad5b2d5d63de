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
    """``e ** z``; a real ``z`` gives a real result, even if that is infinite.

    An infinite ``z`` without a direction gives infinity or 0, by its real part.
    """
    size, wave = b.exp(z.re), b.cos(z.im)
    lost = b.and_(_is_infinite(b, z.re), b.is_nan(wave))
    nothing = b.and_(lost, b.lt(z.re, b.full_like(0, size)))
    re = b.where(lost, size, b.mul(size, wave))
    im = b.where(b.is_nan(wave), wave, _product(b, size, b.sin(z.im)))
    return Pair(re, b.where(nothing, size, im))


def _product(b: Arithmetic, x: Value, y: Value) -> Value:
    """``x y``, and where one is 0 a zero of the product's sign, even beside infinity or NaN."""
    zero, one = b.full_like(0, x), b.full_like(1, x)
    flat = b.or_(b.eq(x, zero), b.eq(y, zero))
    # Beside a zero, only the sign of the other matters.
    x, y = (b.where(b.and_(flat, b.not_(b.le(b.abs(v), one))), _direction(b, v), v) for v in (x, y))
    result: Value = b.mul(x, y)
    return result


def _direction(b: Arithmetic, x: Value) -> Value:
    """-1 for a negative number, 1 for another and for NaN."""
    one = b.full_like(1, x)
    result: Value = b.where(b.lt(x, b.full_like(0, x)), b.neg(one), one)
    return result


def expm1(b: Arithmetic, z: Pair) -> Pair:
    """``e ** z - 1``, accurate near 0: ``cos y - 1`` is ``-2 sin(y / 2) ** 2``."""
    whole, one = exp(b, z), b.full_like(1, z.re)
    half = b.sin(b.mul(b.full_like(0.5, z.im), z.im))
    bend = b.mul(b.full_like(-2, half), b.mul(half, half))
    near = b.add(b.expm1(z.re), b.mul(b.exp(z.re), bend))
    return Pair(b.where(b.lt(b.abs(z.re), one), near, b.sub(whole.re, one)), whole.im)


def sin(b: Arithmetic, z: Pair) -> Pair:
    """The sine."""
    wave, size = b.cos(z.re), b.sinh(z.im)
    return Pair(_product(b, b.cosh(z.im), b.sin(z.re)), _undirected(b, z.im, size, wave))


def cos(b: Arithmetic, z: Pair) -> Pair:
    """The cosine."""
    wave, size = b.cos(z.re), b.cosh(z.im)
    im = b.neg(_product(b, b.sinh(z.im), b.sin(z.re)))
    return Pair(_undirected(b, z.im, size, wave), im)


def _undirected(b: Arithmetic, height: Value, size: Value, wave: Value) -> Value:
    """``size wave``; where ``height`` is infinite and there is no direction, infinity."""
    lost = b.and_(_is_infinite(b, height), b.is_nan(wave))
    result: Value = b.where(lost, size, _product(b, size, wave))
    return result


def sinh(b: Arithmetic, z: Pair) -> Pair:
    """The hyperbolic sine: ``-i sin(i z)``."""
    return turned_back(b, sin(b, turned(b, z)))


def cosh(b: Arithmetic, z: Pair) -> Pair:
    """The hyperbolic cosine: ``cos(i z)``."""
    return cos(b, turned(b, z))


def tanh(b: Arithmetic, z: Pair) -> Pair:
    """The hyperbolic tangent; where the sine squared would overflow, its limit."""
    tangent, sine = b.tan(z.im), b.sinh(z.re)
    lost = b.is_nan(tangent)
    one = b.full_like(1, tangent)
    growth = b.add(one, b.mul(tangent, tangent))
    whole = b.add(one, b.mul(growth, b.mul(sine, sine)))
    re = b.div(b.mul(growth, b.mul(sine, b.sqrt(b.add(one, b.mul(sine, sine))))), whole)
    # Beyond 20 the real part is 1 in double precision, and 4 e ** -2x is what is left of 1 / sinh² x.
    far = b.gt(b.abs(z.re), b.full_like(20, z.re))
    decay = b.exp(b.mul(b.full_like(-2, z.re), b.abs(z.re)))
    rest = b.mul(b.mul(b.full_like(4, decay), b.mul(b.sin(z.im), b.cos(z.im))), decay)
    re = b.where(b.and_(far, b.not_(lost)), b.sign(z.re), re)
    im = b.where(far, rest, b.div(tangent, whole))
    # A direction is needed where the real part is finite and not 0 only.
    zero = b.full_like(0, z.re)
    endless = _is_infinite(b, z.re)
    re = b.where(endless, b.sign(z.re), b.where(b.eq(z.re, zero), z.re, re))
    im = b.where(b.and_(endless, lost), zero, b.where(b.eq(z.im, zero), z.im, im))
    return Pair(re, im)


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
    re = b.where(b.eq(z.re, b.full_like(0, z.re)), z.re, b.atan2(z.re, height))
    return Pair(re, _far(b, z, b.asinh(mul(b, conj(b, below), above).im)))


def acos(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the cosine, cut outside of [-1, 1]."""
    below, above = sqrt(b, _one_minus(b, z)), sqrt(b, _one_plus(b, z))
    half = Pair(above.re, below.re)
    angle = _double_angle(b, half, Pair(z.re, b.abs(z.im)))
    return Pair(
        _right_angle(b, z, angle),
        _far(b, z, b.asinh(mul(b, conj(b, above), below).im)),
    )


def acosh(b: Arithmetic, z: Pair) -> Pair:
    """The inverse of the hyperbolic cosine, cut below 1."""
    one = b.full_like(1, z.re)
    below, above = sqrt(b, Pair(b.sub(z.re, one), z.im)), sqrt(b, _one_plus(b, z))
    half = Pair(above.re, below.im)
    size = _far(b, z, b.asinh(mul(b, conj(b, below), above).re))
    return Pair(size, _right_angle(b, z, _double_angle(b, half, z)))


def _far(b: Arithmetic, z: Pair, size: Value) -> Value:
    """``size``, and infinity where ``z`` is infinite without a direction."""
    lost = b.and_(_is_endless(b, z), b.is_nan(size))
    result: Value = b.where(lost, b.full_like(inf, size), size)
    return result


def _right_angle(b: Arithmetic, z: Pair, angle: Value) -> Value:
    """``angle``, which is a right one on the imaginary axis, however far along."""
    lost = b.and_(b.eq(z.re, b.full_like(0, angle)), b.is_nan(z.im))
    result: Value = b.where(lost, b.full_like(pi / 2, angle), angle)
    return result


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
    re = b.where(
        b.or_(endless, b.eq(x, b.full_like(0, x))), b.full_like(0, x), b.where(near, beside, far)
    )
    quarter = b.where(b.is_nan(z.im), z.im, b.full_like(pi / 2, x))
    im = b.where(endless, quarter, b.mul(b.full_like(0.5, x), b.abs(angle)))
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
    result: Value = b.or_(_is_infinite(b, z.re), _is_infinite(b, z.im))
    return result


def _is_infinite(b: Arithmetic, x: Value) -> Value:
    result: Value = b.eq(b.abs(x), b.full_like(inf, x))
    return result
