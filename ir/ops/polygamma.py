"""The derivatives of digamma."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import factorial, pi, prod
from typing import TYPE_CHECKING, Any

from tapec.ir.composed import Composed
from tapec.ir.errors import ShapeError
from tapec.ir.op import Cotangents, Index, Kernel, Sample
from tapec.ir.types import F32, DType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Polygamma(Composed):
    """The derivative of order ``order >= 1`` of `digamma`.

    Source: Euler-Maclaurin summation of the Hurwitz zeta function, and its reflection; NIST Digital
    Library of Mathematical Functions, 5.15.1, 5.15.6 and 25.11.28.
    """

    name = "polygamma"
    domain = (0.5, 3.0)

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The operand's type."""
        if attrs["order"] < 1:
            raise ShapeError(f"polygamma: the order must be positive, got {attrs['order']}")
        return super().infer(*types)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * polygamma(x, order + 1)``."""
        slope = b.polygamma(op.operands[0], order=op.attrs["order"] + 1)
        return (b.mul(cts[0], slope),)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """``(-1) ** (n + 1) * n! * zeta(n + 1, x)``; half precision is computed in single."""
        order = attrs["order"]
        x, dtype = operands[0][i], operands[0].type.dtype
        working = F32 if dtype.bits == 16 else dtype
        if dtype != working:
            x = k.cast(x, dtype=working)
        far = k.lt(x, k.constant(_FAR, working))
        place = k.where(far, k.sub(k.constant(1, working), x), x)
        value = _zeta(k, order + 1, place, working)
        mirrored = (k.sub if order % 2 else k.add)(_over_all(k, order, x, working), value)
        sign = 1 if order % 2 else -1
        size = k.constant(sign * factorial(order), working)
        value = k.mul(size, k.where(far, mirrored, value))
        return value if dtype == working else k.cast(value, dtype=dtype)

    def samples(self) -> Iterator[Sample]:
        """The first orders."""
        for sample in super().samples():
            for order in (1, 2):
                yield Sample(sample.types, {"order": order}, domain=self.domain)


#: ``B(2j) / (2j)!``, j = 1, 2, ….
_BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
)
#: Terms that are summed before the tail is approximated.
_SUMMED = 14
#: Below, too many of these terms are of negative bases.
_FAR = -6


def _zeta(k: Kernel, s: int, x: Value, dtype: DType) -> Value:
    """The Hurwitz zeta function: the sum over ``n >= 0`` of ``(x + n) ** -s``, ``s >= 2``.

    The smallest terms are added first, so that little is lost of them.
    """
    one = k.constant(1, dtype)

    def power(base: Value, exponent: int) -> Value:
        result = base
        for _ in range(exponent - 1):
            result = k.mul(result, base)
        return result

    # The tail from w = x + 14 on, as w ** (1 - s) * (1/(s-1) + 1/(2w) + a polynomial in 1/w²).
    r = k.div(one, k.add(x, k.constant(_SUMMED, dtype)))
    square = k.mul(r, r)
    correction = k.constant(0, dtype)
    for j in reversed(range(len(_BERNOULLI))):
        rising = prod(range(s, s + 2 * j + 1))
        correction = k.mul(square, k.add(k.constant(_BERNOULLI[j] * rising, dtype), correction))
    tail = k.add(k.constant(1 / (s - 1), dtype), k.mul(k.constant(0.5, dtype), r))
    total = k.mul(power(r, s - 1), k.add(tail, correction))
    for n in reversed(range(_SUMMED)):
        term = k.div(one, power(k.add(x, k.constant(n, dtype)), s))
        total = k.add(total, term)
    return total


def _over_all(k: Kernel, order: int, x: Value, dtype: DType) -> Value:
    """The sum over all whole ``n`` of ``(x + n) ** -(order + 1)``.

    It is ``(-1) ** order / order!`` times that derivative of ``pi cot(pi x)``.
    """
    place = k.sub(x, k.round(x))
    size = k.abs(place)
    # The cosine as a sine, which is exact where it is small.
    angles = k.sub(k.constant(0.5, dtype), size), size
    cosine, sine = (k.sin(k.mul(k.constant(pi, dtype), angle)) for angle in angles)
    cotangent = k.div(cosine, sine)
    square = k.mul(cotangent, cotangent)
    scale = (-1) ** order * pi ** (order + 1)
    first, *others = [c / factorial(order) * scale for c in reversed(_cotangent(order))][::2]
    total = k.constant(first, dtype)
    for coefficient in others:
        total = k.add(k.mul(total, square), k.constant(coefficient, dtype))
    if order % 2:
        return total
    left = k.lt(place, k.constant(0, dtype))
    return k.mul(total, k.where(left, k.neg(cotangent), cotangent))


def _cotangent(order: int) -> Sequence[int]:
    """That derivative of the cotangent, as a polynomial in it: ``c' = -(1 + c²)``."""
    coefficients = [0, 1]
    for _ in range(order):
        slope = [power * c for power, c in enumerate(coefficients)][1:]
        coefficients = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return coefficients
