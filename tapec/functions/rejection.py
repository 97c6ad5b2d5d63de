"""Random tensors as functions of a key: of distributions whose numbers are drawn by rejection."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from tapec.control.loops import while_loop
from tapec.derivatives.custom import custom_gradient
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    cast,
    divide,
    floor,
    greater,
    greater_equal,
    is_finite,
    is_nan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    stop_gradient,
    subtract,
    where,
)
from tapec.functions.arithmetic import pow as power
from tapec.functions.broadcasting import broadcast, broadcast_pair, like
from tapec.functions.elementary import exp, lgamma, log, log1p, sqrt
from tapec.functions.rearrangement import part, reshape, stack
from tapec.functions.reductions import reduce_all
from tapec.functions.special import igamma
from tapec.ir.dims import DimLike
from tapec.ir.ops.incomplete import LARGEST
from tapec.ir.types import F32, F64, U64, TensorType, as_dtype
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

Sizes = tuple[DimLike, ...]

#: Tries, at most. Each number is accepted with a probability of 0.8 or more, so that all fail in 1e-44 of the cases.
_MOST_TRIES = 64
#: Means from which counts are drawn by rejection; below, the distribution function is inverted.
_LARGE_MEAN = 10.0
#: Terms of the distribution function for smaller means: what is left out is less than 1e-20.
_TERMS = 60


def parameters(alpha: TensorLike, beta: TensorLike, dtype: Any) -> tuple[Tensor, Tensor]:
    """Two tensors of one shape; what is no tensor takes the dtype."""
    target = as_dtype(dtype)
    return broadcast_pair(like(alpha, target), like(beta, target))


def wide(value: TensorLike) -> Tensor:
    """A tensor as float64."""
    return cast(as_tensor(value), F64)


def _keys(key: Tensor, count: int) -> list[Tensor]:
    """Keys that are as good as independent."""
    bits = apply("random_bits", key, type=TensorType(U64, (count, 2)))
    return [reshape(part(bits, 0, n, 1), (2,)) for n in builtins.range(count)]


def _accepted(
    key: Tensor, start: Tensor, draw: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Tensor:
    """The first good numbers that ``draw`` gives, for one key after the other.

    ``draw`` returns numbers and whether each is good; of ``start``, NaN stays. It is called until all
    numbers are good.
    """

    def missing(turn: Tensor, numbers: Tensor, done: Tensor) -> Tensor:
        return logical_not(reduce_all(done))

    def once(turn: Tensor, numbers: Tensor, done: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fresh, good = draw(add(key, stack([as_tensor(0, U64), turn])))
        taken = where(logical_or(done, logical_not(good)), numbers, fresh)
        return add(turn, as_tensor(1, U64)), taken, logical_or(done, good)

    state = (as_tensor(0, U64), start, is_nan(start))
    _, numbers, _ = while_loop(
        missing, once, state, back_prop=False, maximum_iterations=_MOST_TRIES
    )
    result: Tensor = numbers
    return result


# -- gamma


def gamma(key: Tensor, sizes: Sizes, alpha: Tensor) -> Tensor:
    """Numbers of the gamma distribution of rate 1; ``alpha`` broadcasts to the sizes.

    Gradients flow to ``alpha``, to second order: the number stays at its place of the distribution
    function, so that its slope is ``-(d igamma / d alpha) / density``. Beyond ``alpha = 1000`` it is the
    slope of the transformed normal number, of which nearly all are accepted.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; Figurnov,
    Mohamed and Mnih, "Implicit reparameterization gradients", 2018.
    """
    a = broadcast(alpha, sizes)
    dtype = a.type.dtype
    if dtype.bits < F32.bits:
        return cast(gamma(key, sizes, cast(alpha, F32)), dtype)
    result: Any = _moving(a, _standard_gamma(key, stop_gradient(a)))
    return result  # type: ignore[no-any-return]


def _standard_gamma(key: Tensor, alpha: Tensor) -> Tensor:
    kind = alpha.type
    first, second = _keys(key, 2)
    small = less(alpha, 1)
    d = subtract(where(small, add(alpha, 1), alpha), 1 / 3)
    c = divide(1 / 3, sqrt(d))

    def draw(key: Tensor) -> tuple[Tensor, Tensor]:
        one, other = _keys(key, 2)
        x = apply("random_normal", one, type=kind)
        u = apply("random_uniform", other, type=kind)
        root = add(multiply(c, x), 1)
        cube = multiply(multiply(root, root), root)
        positive = greater(cube, 0)
        v = where(positive, cube, 1)
        bound = add(multiply(multiply(x, x), 0.5), multiply(d, add(subtract(1, v), log(v))))
        return multiply(d, v), logical_and(positive, less(log(subtract(1, u)), bound))

    number = _accepted(first, where(greater(alpha, 0), d, float("nan")), draw)
    # gamma(a) is gamma(a + 1) times u ** (1 / a), which is drawn for small a
    u = apply("random_uniform", second, type=kind)
    factor = exp(divide(log(subtract(1, u)), where(small, alpha, 1)))
    return where(small, multiply(number, factor), number)


@custom_gradient
def _moving(alpha: Tensor, number: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """The number, whose derivative by ``alpha`` is that at a fixed place of the distribution function."""

    def gradient(upstream: Tensor) -> tuple[Tensor, None]:
        # Newton's step moves nothing, but has that derivative: so the slope at its end has the right one.
        place = igamma(alpha, number)
        density = stop_gradient(_density(alpha, number))
        step = _share(subtract(place, stop_gradient(place)), density)
        return multiply(upstream, _slope(alpha, subtract(number, step))), None

    return add(number, 0), gradient


def _density(alpha: Tensor, x: Tensor) -> Tensor:
    """Of the gamma distribution; 0 at 0."""
    usable = greater(x, 0)
    y = where(usable, x, 1)
    exponent = subtract(multiply(subtract(alpha, 1), log(y)), add(y, lgamma(alpha)))
    return where(usable, exp(exponent), 0)


def _share(x: Tensor, y: Tensor) -> Tensor:
    """``x / y``, and 0 where ``y`` is 0 or infinite."""
    usable = logical_and(greater(y, 0), is_finite(y))
    return where(usable, divide(x, where(usable, y, 1)), 0)


def _slope(alpha: Tensor, x: Tensor) -> Tensor:
    """The derivative of a number by ``alpha``."""
    large = greater(alpha, LARGEST)
    a, y = where(large, 1, alpha), where(large, 1, x)
    by_alpha = apply("igamma", a, y, order=1, upper=False)
    usual = _share(negative(by_alpha), _density(a, y))
    ratio = divide(where(large, x, 1), subtract(where(large, alpha, 2), 1 / 3))
    far = subtract(multiply(1.5, power(ratio, 2 / 3)), multiply(0.5, ratio))
    return where(large, far, usual)


# -- counts


def poisson(key: Tensor, sizes: Sizes, mean: Tensor, dtype: Any) -> Tensor:
    """Numbers of the Poisson distribution; ``mean``, float64, broadcasts to the sizes.

    Source: Hörmann, "The transformed rejection method for generating Poisson random variables", 1993.
    """
    m = broadcast(stop_gradient(mean), sizes)
    first, second = _keys(key, 2)
    large = greater_equal(m, _LARGE_MEAN)

    def inverted() -> Tensor:
        low = where(large, 0, maximum(m, 0))
        return _inverted(first, exp(negative(low)), lambda n: divide(low, n + 1))

    def rejected() -> Tensor:
        high = where(large, m, _LARGE_MEAN)
        logarithm = log(high)

        def weight(k: Tensor) -> Tensor:
            return subtract(multiply(k, logarithm), add(high, lgamma(add(k, 1))))

        spread = add(0.931, multiply(2.53, sqrt(high)))
        alpha = add(1.1239, divide(1.1328, subtract(spread, 3.4)))
        a = subtract(multiply(0.02483, spread), 0.059)
        sure = subtract(0.9277, divide(3.6224, subtract(spread, 2)))
        shape = (a, spread, add(high, 0.43), negative(log(alpha)), sure)
        return _transformed(second, shape, weight, high)

    return cast(_either(large, rejected, inverted), as_dtype(dtype))


def binomial(
    key: Tensor, sizes: Sizes, counts: TensorLike, probs: TensorLike, dtype: Any
) -> Tensor:
    """Numbers of the binomial distribution; the parameters broadcast to the sizes.

    Source: Hörmann, "The generation of binomial random variates", 1993.
    """
    n, p = (broadcast(stop_gradient(wide(x)), sizes) for x in (counts, probs))
    first, second = _keys(key, 2)
    rare = less_equal(p, 0.5)
    q = where(rare, p, subtract(1, p))
    large = greater_equal(multiply(n, q), _LARGE_MEAN)

    def inverted() -> Tensor:
        few, odds = where(large, 0, n), divide(q, subtract(1, q))
        start = exp(multiply(few, log1p(negative(q))))
        return _inverted(
            first, start, lambda k: multiply(divide(maximum(subtract(few, k), 0), k + 1), odds)
        )

    def rejected() -> Tensor:
        # where it is not large, any numbers for which all is defined
        many, r = where(large, n, 4 * _LARGE_MEAN), where(large, q, 0.5)
        mean = multiply(many, r)
        deviation = sqrt(multiply(mean, subtract(1, r)))
        odds = log(divide(r, subtract(1, r)))
        mode = floor(multiply(add(many, 1), r))

        def weight(k: Tensor) -> Tensor:
            ways = add(lgamma(add(k, 1)), lgamma(add(subtract(many, k), 1)))
            return subtract(multiply(k, odds), ways)

        spread = add(1.15, multiply(2.53, deviation))
        a = add(multiply(0.0248, spread), subtract(multiply(0.01, r), 0.0873))
        alpha = multiply(add(2.83, divide(5.1, spread)), deviation)
        sure = subtract(0.92, divide(4.2, spread))
        level = subtract(negative(log(alpha)), weight(mode))
        shape = (a, spread, add(mean, 0.5), level, sure)
        return _transformed(second, shape, weight, mode, most=many)

    count = _either(large, rejected, inverted)
    return cast(where(rare, count, subtract(n, count)), as_dtype(dtype))


def _either(large: Tensor, one: Callable[[], Tensor], other: Callable[[], Tensor]) -> Tensor:
    """One where it is large, the other elsewhere; eagerly only what is needed."""
    known = large._array
    if known is not None and known.size and known.all():
        return one()
    if known is not None and not known.any():
        return other()
    return where(large, one(), other())


def _inverted(key: Tensor, start: Tensor, ratio: Callable[[int], Tensor]) -> Tensor:
    """How many partial sums a uniform number exceeds, of probabilities with known ratios."""
    u = apply("random_uniform", key, type=start.type)
    probability = total = start
    count = cast(greater_equal(u, total), F64)
    for n in builtins.range(_TERMS):
        probability = multiply(probability, ratio(n))
        total = add(total, probability)
        count = add(count, cast(greater_equal(u, total), F64))
    return count


def _transformed(
    key: Tensor,
    shape: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    weight: Callable[[Tensor], Tensor],
    start: Tensor,
    most: Tensor | None = None,
) -> Tensor:
    """Counts by Hörmann's transformed rejection; ``start`` is anything that is not NaN.

    A pair of uniform numbers ``u, v`` gives ``k = floor((2 a / (1/2 - |u|) + b) u + c)``, which is good
    if ``log(v) - level <= weight(k) + log(a / (1/2 - |u|)² + b)``, where ``-level`` is the logarithm of
    the hat's constant and ``shape`` is ``a, b, c, level, sure``. In the middle it is good without that
    test if ``v <= sure``.
    """
    a, b, c, level, sure = shape

    def draw(key: Tensor) -> tuple[Tensor, Tensor]:
        one, other = (apply("random_uniform", k, type=a.type) for k in _keys(key, 2))
        u, v = subtract(one, 0.5), subtract(1, other)
        edge = maximum(subtract(0.5, absolute(u)), 1e-300)
        k = floor(add(multiply(add(divide(multiply(2, a), edge), b), u), c))
        inside = greater_equal(k, 0)
        held = maximum(k, 0)
        if most is not None:
            inside, held = logical_and(inside, less_equal(k, most)), minimum(held, most)
        hat = log(add(divide(a, multiply(edge, edge)), b))
        tested = less_equal(subtract(subtract(log(v), level), hat), weight(held))
        quick = logical_and(greater_equal(edge, 0.07), less_equal(v, sure))
        return k, logical_or(quick, logical_and(tested, inside))

    return _accepted(key, start, draw)
