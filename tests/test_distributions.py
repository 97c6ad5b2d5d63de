"""What random numbers are distributed like, and their gradients; eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import Wrap
from scipy import special, stats

import tapec
from tapec import errors, random

COUNT = 4000
#: A true statement fails with this probability; seeds are fixed, so it does not from run to run.
LEVEL = 1e-3


def drawn(wrap: Wrap, draw: Callable[[], tapec.Tensor]) -> Any:
    return wrap(draw)().numpy()


@pytest.mark.parametrize("alpha", [0.05, 1.0, 2.5, 3000.0])
def test_gamma(alpha: float, wrap: Wrap) -> None:
    x = drawn(wrap, lambda: random.stateless_gamma([COUNT], [1, 2], alpha, 2.0, tapec.float64))
    assert stats.kstest(x, stats.gamma(alpha, scale=0.5).cdf).pvalue > LEVEL


@pytest.mark.parametrize("mean", [0.0, 9.9, 10.0, 1e4])
def test_poisson(mean: float, wrap: Wrap) -> None:
    x = drawn(wrap, lambda: random.stateless_poisson([COUNT], [3, 4], np.float64(mean)))
    assert fits(x, stats.poisson(mean))


@pytest.mark.parametrize(
    ("count", "probability"), [(5, 0.3), (1000, 0.005), (40, 0.9), (100000, 0.3)]
)
def test_binomial(count: int, probability: float, wrap: Wrap) -> None:
    x = drawn(wrap, lambda: random.stateless_binomial([COUNT], [5, 6], float(count), probability))
    assert x.min() >= 0
    assert x.max() <= count
    assert fits(x, stats.binom(count, probability))


def fits(x: Any, distribution: Any) -> bool:
    """Whether counts fall into the distribution's tenths as they should."""
    edges = np.unique(distribution.ppf(np.linspace(0.1, 0.9, 9)))
    below = distribution.cdf(edges)
    expected = np.diff([0.0, *below, 1.0]) * len(x)
    found = np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
    kept = expected > 1e-9
    assert not found[~kept].any()
    scale = expected[kept] * found[kept].sum() / expected[kept].sum()
    return kept.sum() == 1 or bool(stats.chisquare(found[kept], scale).pvalue > LEVEL)


@pytest.mark.parametrize("bounds", [(-2, 2), (1, np.inf), (-9, -8)])
def test_normal_between_bounds(bounds: tuple[float, float], wrap: Wrap) -> None:
    low, high = (3.0 + 2.0 * b for b in bounds)

    def draw() -> tapec.Tensor:
        mean = tapec.constant(3.0, tapec.float64)
        return random.stateless_parameterized_truncated_normal(
            [COUNT], [7, 8], mean, 2.0, low, high
        )

    x = drawn(wrap, draw)
    assert stats.kstest(x, stats.truncnorm(*bounds, loc=3, scale=2).cdf).pvalue > LEVEL


@pytest.mark.parametrize("dtype", [tapec.int32, tapec.int64, tapec.uint32, tapec.uint64])
def test_full_range_of_integers(dtype: Any) -> None:
    x = random.Generator.from_seed(3).uniform_full_int([COUNT], dtype).numpy().astype(float)
    assert (
        stats.kstest(x, stats.uniform(dtype.min, float(dtype.max) - dtype.min).cdf).pvalue > LEVEL
    )
    whole = random.stateless_uniform([COUNT], [1, 2], None, None, tapec.int32).numpy()
    assert whole.min() < -(2**30)
    with pytest.raises(errors.InvalidArgumentError, match="uint64"):
        random.Generator.from_seed(3).uniform_full_int([2], tapec.float32)


def test_shapes_and_dtypes() -> None:
    assert random.gamma([4, 2], [[1.0], [2.0]], [1.0, 2.0, 3.0]).shape == (4, 2, 2, 3)
    assert random.poisson([4], [1.0, 50.0]).shape == (4, 2)
    assert random.stateless_gamma([4, 2], [1, 2], [1.0, 2.0]).shape == (4, 2)
    assert random.gamma([0], 1.0).shape == (0,)
    half = random.gamma([1000], 3.0, dtype=tapec.float16)
    assert half.dtype == tapec.float16
    assert half.numpy().astype(float).mean() == pytest.approx(3.0, abs=0.3)
    assert random.poisson([2], 3.0, tapec.int32).dtype == tapec.int32
    assert random.Generator.from_seed(1).binomial([3], 10.0, 0.5).dtype == tapec.int32
    assert np.isnan(random.gamma([2], -1.0).numpy()).all()
    assert random.poisson([2], -1.0).numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("alpha", [0.2, 1.5, 200.0, 5000.0])
def test_gamma_numbers_move_along_the_distribution_function(
    alpha: float, wrap: Wrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")

    def slopes(a: tapec.Tensor) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(a)
            with tapec.GradientTape() as tape:
                tape.watch(a)
                x = random.stateless_gamma([5], [2, 9], a, dtype=tapec.float64)
            first = tape.gradient(x, a)
        return x, first, outer.gradient(first, a)

    x, first, second = wrap(slopes)(tapec.fill([5], tapec.constant(alpha, tapec.float64)))
    x = x.numpy()
    lower = x < alpha
    place = np.where(lower, special.gammainc(alpha, x), special.gammaincc(alpha, x))

    def moved(a: float) -> Any:
        return np.where(lower, special.gammaincinv(a, place), special.gammainccinv(a, place))

    h = 1e-4 * alpha
    slope = (moved(alpha + h) - moved(alpha - h)) / (2 * h)
    bend = (moved(alpha + h) - 2 * moved(alpha) + moved(alpha - h)) / h**2
    np.testing.assert_allclose(first, slope, rtol=1e-5, atol=1e-7)
    if alpha < 1000:  # beyond, the bend is that of an approximation, and nearly 0
        np.testing.assert_allclose(second, bend, rtol=1e-3, atol=1e-4)


def test_gradients_of_rate_and_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    parameters = [tapec.constant(v, tapec.float64) for v in (0.5, 2.0, -1.0, 3.0)]

    def bounded(mean: Any, spread: Any, low: Any, high: Any) -> tapec.Tensor:
        return random.stateless_parameterized_truncated_normal([4], [1, 2], mean, spread, low, high)

    tapec.debugging.check_gradients(bounded, parameters, rtol=1e-6, atol=1e-7)
    rate = tapec.constant(2.0, tapec.float64)
    tapec.debugging.check_gradients(
        lambda b: random.stateless_gamma([4], [1, 2], 1.5, b, tapec.float64), [rate], rtol=1e-6
    )


def test_states_of_generators() -> None:
    a = random.Generator.from_seed(5)
    a.normal([2])
    copies = [
        random.Generator(copy_from=a),
        random.Generator.from_state(a.state, "philox"),
        random.Generator.from_key_counter(a.key, [1, 0], random.Algorithm.PHILOX),
        random.Generator(state=a.state, alg=1),
    ]
    expected = a.normal([3]).numpy()
    for copy in copies:
        np.testing.assert_array_equal(copy.normal([3]), expected)
    copies[0].reset_from_key_counter(a.key, 1)
    np.testing.assert_array_equal(copies[0].normal([3]), expected)
    fresh = random.Generator(state=random.create_rng_state(5, "philox"), alg="philox")
    np.testing.assert_array_equal(fresh.state, random.Generator.from_seed(5).state)
    assert a.algorithm == random.Algorithm.PHILOX


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: random.Generator(), errors.ValueError, "either"),
        (lambda: random.Generator.from_state([1, 2, 3], 1), errors.ValueError, "two integers"),
        (lambda: random.Generator.from_key_counter(1, [1, 1], 1), errors.ValueError, "below"),
        (lambda: random.Generator.from_seed(1.5), errors.TypeError, "an integer"),
        (lambda: random.Generator.from_seed([1, 2]), errors.TypeError, "an integer"),
        (lambda: random.gamma([-1], 1.0), errors.InvalidArgumentError, "not negative"),
        (lambda: random.normal([-1]), errors.InvalidArgumentError, "not negative"),
    ],
)
def test_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
