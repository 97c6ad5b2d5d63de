"""The incomplete gamma and beta functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb, inf, nan, pi
from typing import TYPE_CHECKING, Any

from tapec.ir.errors import ShapeError
from tapec.ir.op import Cotangents, Index, Sample
from tapec.ir.ops.formula import Number, Special
from tapec.ir.types import F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

#: The largest ``a`` of `Igamma`.
LARGEST = 1000.0
#: Terms of its series and fractions, enough up to there: of float32, and of float64.
_TERMS = (200, 300)
#: Steps of the beta function's fraction, for parameters up to some thousands.
_STEPS = 200

#: Stirling's series: ``B(2j) / (2j (2j - 1))``.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)

Jet = list[Number]


class Igamma(Special):
    """The regularised incomplete gamma function of ``a`` and ``x``, or a derivative of it by ``a``.

    That is the integral of ``exp(-t) t ** (a - 1) / gamma(a)`` from 0 to ``x``; to infinity if
    ``upper``. ``order`` is that of the derivative. For ``0 < a <= 1000`` and ``x >= 0``, else NaN.

    Up to ``x = max(a, 1)`` a power series is summed, beyond a continued fraction for the upper
    function. Derivatives by ``a`` go through the same loops, for the recurrences are linear.

    Source: NIST Digital Library of Mathematical Functions, 8.7.1 and 8.9.2.
    """

    name = "igamma"
    arity = 2

    def infer(self, *types: Any, order: int = 0, upper: bool = False) -> Any:
        """The operands' type."""
        if order < 0:
            raise ShapeError(f"igamma: the order must not be negative, got {order}")
        return super().infer(*types)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """By ``a``, the next order; by ``x``, the derivative of the density of that order."""
        a, x = op.operands
        order, upper = op.attrs["order"], op.attrs["upper"]
        by_a = b.igamma(a, x, order=order + 1, upper=upper)
        density = _density(b, a, x, order)
        by_x = b.neg(density) if upper else density
        return b.mul(cts[0], by_a), b.mul(cts[0], by_x)

    def formula(
        self, *operands: Number, order: int = 0, upper: bool = False, **attrs: Any
    ) -> Number:
        """Of the two ways, the one that fits; the other function is what is missing to 1."""
        a, x = operands
        by_series = x.choose(x > 1.0, x.choose(x > a, 0.0, 1.0), 1.0) > 0.5
        # The way that is not used gets operands for which it is defined.
        series = _lower_jet(a, x.choose(by_series, x, 1.0), order)[order]
        fraction = _upper_jet(a, x.choose(by_series, a.choose(a > 1.0, a, 1.0) + 1.0, x), order)[
            order
        ]
        whole = 1.0 if order == 0 else 0.0
        if upper:
            value = x.choose(by_series, whole - series, fraction)
        else:
            value = x.choose(by_series, series, whole - fraction)
        start, end = (whole, 0.0) if upper else (0.0, whole)
        value = x.choose(x.equals(0.0), start, x.choose(x.equals(inf), end, value))
        value = x.choose(x < 0.0, nan, value)
        return x.choose(a > 0.0, x.choose(a > LARGEST, nan, value), nan)

    def samples(self) -> Iterator[Sample]:
        """Both functions, in both regions; derivatives."""
        for order, upper, top in (
            (0, False, 2.0),
            (0, True, 2.0),
            (1, False, 2.0),
            (0, False, 9.0),
        ):
            domain = ((1.5, 3.0), (0.5, top) if top == 2.0 else (5.0, top))
            types = (TensorType(F64, (2, 3)),) * 2
            yield Sample(types, {"order": order, "upper": upper}, domain=domain)
        yield Sample((TensorType(F64, (0, 3)),) * 2, {"order": 0, "upper": False})


def _growth(a: Number, x: Number, order: int) -> Jet:
    """``x ** a exp(-x) / gamma(a + 1)`` and its derivatives by ``a``.

    For large ``a`` the exponent is a difference of large numbers, of which Stirling's series leaves
    ``a (log(1 + m) - m)`` with ``m = x / a - 1``.
    """
    large = a > 10.0
    b = a.choose(large, a, 10.0)
    m = (a.choose(large, x, 10.0) - b) / b
    inverse = 1.0 / b
    square = inverse * inverse
    correction = a.of(0.0)
    for coefficient in reversed(_STIRLING):
        correction = correction * square + coefficient
    near = b * (m.log1p() - m) - correction * inverse
    small = a.choose(large, 1.0, a)
    exponent = a.choose(large, near, small * x.log() - x - (small + 1.0).lgamma())
    jet = [exponent.exp() / a.choose(large, (b * (2 * pi)).sqrt(), 1.0)]
    slopes = [x.log() - (a + 1.0).digamma()]
    k = a.k
    for n in range(1, order):
        slopes.append(Number(k, k.neg(k.polygamma((a + 1.0).value, order=n)), a.dtype))
    for n in range(order):
        jet.append(_sum([comb(n, j) * (jet[j] * slopes[n - j]) for j in range(n + 1)]))
    return jet


def _lower_jet(a: Number, x: Number, order: int) -> Jet:
    """The lower function and its derivatives by ``a``.

    ``1 + x / (a + 1) (1 + x / (a + 2) (1 + …))``, from the last term to the first.
    """
    k, dtype = a.k, a.dtype
    count = _TERMS[dtype == F64]

    def step(index: Index, carried: Sequence[Any]) -> Sequence[Any]:
        divisor = a + (count - Number(k, k.number(index[0], dtype), dtype))
        jet: Jet = []
        for n, v in enumerate(carried):
            value = x * Number(k, v, dtype)
            jet.append((value - n * jet[n - 1] if n else value) / divisor)
        return [(jet[0] + 1.0).value, *(v.value for v in jet[1:])]

    init = [a.of(0.0 if n else 1.0).value for n in range(order + 1)]
    total = [Number(k, v, dtype) for v in k.fold((count,), init, step)]
    return _product(_growth(a, x, order), total)


def _upper_jet(a: Number, x: Number, order: int) -> Jet:
    """The upper function and its derivatives by ``a``.

    ``1 / (z[0] - 1 (1 - a) / (z[1] - 2 (2 - a) / (z[2] - …)))`` with ``z[n] = x + 2 n + 1 - a``, from
    the last term to the first.
    """
    k, dtype = a.k, a.dtype
    count = _TERMS[dtype == F64]
    zeros = [a.of(0.0)] * order

    def term(n: Number | float) -> Jet:
        return [x - a + 2.0 * n + 1.0, *[a.of(-1.0), *zeros][:order]]

    def step(index: Index, carried: Sequence[Any]) -> Sequence[Any]:
        n = count - Number(k, k.number(index[0], dtype), dtype)
        numerator = [n * (n - a), *[-n, *zeros][:order]]
        ratio = _ratio(numerator, [Number(k, v, dtype) for v in carried])
        return [(z - r).value for z, r in zip(term(n - 1.0), ratio, strict=True)]

    ends = k.fold((count,), [v.value for v in term(float(count))], step)
    growth = _product([a, *[a.of(1.0), *zeros][:order]], _growth(a, x, order))
    return _ratio(growth, [Number(k, v, dtype) for v in ends])


def _ratio(f: Jet, g: Jet) -> Jet:
    """The derivatives of a quotient."""
    result: Jet = []
    for n, value in enumerate(f):
        for j in range(n):
            value = value - comb(n, j) * (result[j] * g[n - j])
        result.append(value / g[0])
    return result


def _sum(terms: Sequence[Number]) -> Number:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _product(f: Jet, g: Jet) -> Jet:
    """The derivatives of a product (Leibniz)."""
    return [_sum([comb(n, j) * (f[j] * g[n - j]) for j in range(n + 1)]) for n in range(len(f))]


def _density(b: Builder, a: Value, x: Value, order: int) -> Value:
    """``x ** (a - 1) exp(-x) / gamma(a)`` differentiated ``order`` times by ``a``."""
    one = b.full_like(1, a)
    logarithm = b.log(x)
    exponent = b.sub(b.sub(b.mul(b.sub(a, one), logarithm), x), b.lgamma(a))
    jet = [b.exp(exponent)]
    slopes = [b.sub(logarithm, b.digamma(a))] if order else []
    slopes += [b.neg(b.polygamma(a, order=n)) for n in range(1, order)]
    for n in range(order):
        total = None
        for j in range(n + 1):
            term = b.mul(b.mul(jet[j], slopes[n - j]), b.full_like(comb(n, j), a))
            total = term if total is None else b.add(total, term)
        jet.append(total)
    result: Value = jet[order]
    return result


class Betainc(Special):
    """The regularised incomplete beta function of ``a``, ``b`` and ``x``, for ``0 <= x <= 1``; else NaN.

    That is the integral of ``t ** (a - 1) (1 - t) ** (b - 1)`` from 0 to ``x``, divided by the one
    to 1. Its derivative is the public function's.

    Source: NIST Digital Library of Mathematical Functions, 8.17.4 and 8.17.22.
    """

    name = "betainc"
    arity = 3
    differentiable = False
    domain = (0.2, 0.9)

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """A continued fraction, on the side of the mean where it converges fast."""
        a, b, x = operands
        turned = x > (a + 1.0) / (a + b + 2.0)
        one, other, y = (x.choose(turned, p, q) for p, q in ((b, a), (a, b), (1.0 - x, x)))
        front = one * y.log() + other * (-y).log1p() - one.lgamma() - other.lgamma()
        front = (front + (one + other).lgamma()).exp() / one
        value = front * _beta_fraction(one, other, y)
        value = x.choose(y.equals(0.0), 0.0, value)
        value = x.choose(turned, 1.0 - value, value)
        value = x.choose(x < 0.0, nan, x.choose(x > 1.0, nan, value))
        return x.choose(a > 0.0, x.choose(b > 0.0, value, nan), nan)


def _beta_fraction(a: Number, b: Number, x: Number) -> Number:
    """``1 / (1 + d[1] / (1 + d[2] / …))``, from the last term to the first."""
    k, dtype = a.k, a.dtype

    def step(index: Index, carried: Sequence[Any]) -> Sequence[Any]:
        m = _STEPS - Number(k, k.number(index[0], dtype), dtype)
        twice = a + (m + m)
        even = (m * (b - m) * x) / ((twice - 1.0) * twice)
        m, twice = m - 1.0, twice - 2.0
        odd = -((a + m) * (a + b + m) * x) / (twice * (twice + 1.0))
        value = Number(k, carried[0], dtype)
        return [(1.0 + odd / (1.0 + even / value)).value]

    return 1.0 / Number(k, k.fold((_STEPS,), [a.of(1.0).value], step)[0], dtype)
