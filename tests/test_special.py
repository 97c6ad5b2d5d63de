"""Special functions against SciPy, eager and compiled, with the errors measured; derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as reference
from both_ways import Wrap, slope

import tapec
from tapec import errors, math
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(4)

ANY = np.concatenate([rng.uniform(-20, 20, 400), rng.uniform(-0.01, 0.01, 50), [0.0, 2.0, 8.0]])
POSITIVE = np.abs(ANY)
UNIT = np.concatenate([rng.uniform(0, 1, 200), 10 ** rng.uniform(-30, -1, 200), [0.0, 0.5, 1.0]])


def gamma_operands(low: float, high: float) -> tuple[Array, Array]:
    a = rng.uniform(low, high, 200)
    return a, a * rng.uniform(0.5, 1.6, 200)


# Ours, SciPy's, the operands, and the largest error found in units of float32's and float64's last
# place, of 1 where the value is smaller.
CASES: dict[str, tuple[Any, Any, tuple[Array, ...], float, float]] = {
    "bessel_i0": (math.bessel_i0, reference.i0, (ANY,), 6, 6),
    "bessel_i0e": (math.bessel_i0e, reference.i0e, (ANY,), 4, 4),
    "bessel_i1": (math.bessel_i1, reference.i1, (ANY,), 14, 6),
    "bessel_i1e": (math.bessel_i1e, reference.i1e, (ANY,), 2, 2),
    "bessel_j0": (math.special.bessel_j0, reference.j0, (ANY,), 8, 8),
    "bessel_j1": (math.special.bessel_j1, reference.j1, (ANY,), 8, 8),
    "bessel_k0": (math.special.bessel_k0, reference.k0, (POSITIVE,), 6, 6),
    "bessel_k0e": (math.special.bessel_k0e, reference.k0e, (POSITIVE,), 8, 8),
    "bessel_k1": (math.special.bessel_k1, reference.k1, (POSITIVE,), 6, 6),
    "bessel_k1e": (math.special.bessel_k1e, reference.k1e, (POSITIVE,), 6, 6),
    "bessel_y0": (math.special.bessel_y0, reference.y0, (POSITIVE,), 8, 8),
    "bessel_y1": (math.special.bessel_y1, reference.y1, (POSITIVE,), 8, 8),
    "dawsn": (math.special.dawsn, reference.dawsn, (ANY,), 2, 2),
    "expint": (math.special.expint, reference.expi, (POSITIVE,), 12, 90),  # SciPy's is 70 off
    "fresnel_cos": (math.special.fresnel_cos, lambda x: reference.fresnel(x)[1], (ANY,), 8, 8),
    "fresnel_sin": (math.special.fresnel_sin, lambda x: reference.fresnel(x)[0], (ANY,), 8, 8),
    "spence": (math.special.spence, reference.spence, (POSITIVE,), 4, 12),  # SciPy's is 8 off
    "erfinv": (math.erfinv, reference.erfinv, (2 * UNIT - 1,), 8, 8),
    "erfcinv": (math.erfcinv, reference.erfcinv, (UNIT,), 8, 16),
    "erfcinv above 1": (math.erfcinv, reference.erfcinv, (2 - UNIT[:200],), 8, 8),
    "ndtri": (math.ndtri, reference.ndtri, (UNIT,), 12, 16),
    "zeta": (math.zeta, reference.zeta, (1 + POSITIVE, 0.1 + POSITIVE[::-1]), 8, 8),
    "polygamma of any order": (
        math.polygamma,
        reference.polygamma,
        (np.arange(200.0) % 5, rng.uniform(0.3, 20, 200)),
        60,
        60,
    ),
    "igamma": (math.igamma, reference.gammainc, gamma_operands(0.01, 50), 16, 60),
    "igammac": (math.igammac, reference.gammaincc, gamma_operands(0.01, 50), 16, 60),
    "igamma of hundreds": (math.igamma, reference.gammainc, gamma_operands(50, 1000), 8, 8),
    "igamma of thousands": (math.igamma, reference.gammainc, gamma_operands(1e3, 1e5), 200, 200),
    "igammac of thousands": (math.igammac, reference.gammaincc, gamma_operands(1e3, 1e5), 200, 200),
    "betainc": (math.betainc, reference.betainc, (*gamma_operands(0.1, 50), UNIT[:200]), 120, 400),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, dtype: Any, wrap: Wrap) -> None:
    ours, theirs, arrays, single, double = CASES[name]
    operands = [x.astype(dtype) for x in arrays]
    found = wrap(lambda *xs: ours(*xs))(*map(tapec.constant, operands))
    expected = theirs(*(x.astype(np.float64) for x in operands))
    bound = (single if dtype == np.float32 else double) * np.finfo(dtype).eps
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found, expected.astype(dtype), rtol=bound, atol=bound)


NAN, INF = np.nan, np.inf
EDGES: list[Any] = [
    (math.igamma, ([0, 1, 2, -1, 1, 1e4], [1, 0, INF, 1, -1, 0]), [NAN, 0, 1, NAN, NAN, 0]),
    (math.igammac, ([0, 1, 2, -1, 1, 1e4], [1, 0, INF, 1, -1, INF]), [NAN, 1, 0, NAN, NAN, 0]),
    (math.igamma, ([1e4], [-1]), [NAN]),
    (math.betainc, ([1, 1, 1], [2, 2, 2], [0, 1, 1.5]), [0, 1, NAN]),
    (math.betainc, ([1, 0, 1], [2, 1, -1], [-1, 0.5, 0.5]), [NAN, NAN, NAN]),
    (math.zeta, ([1, 0.5, 2, 2.5, 2], [1, 1, 0, -1.5, -3]), [INF, NAN, INF, NAN, INF]),
    (math.polygamma, ([1.5, -1, 1], [1, 1, 0]), [NAN, NAN, INF]),
    (math.erfcinv, ([0, 1, 2, 3, -1],), [INF, 0, -INF, NAN, NAN]),
    (math.ndtri, ([0, 0.5, 1, 2],), [-INF, 0, INF, NAN]),
    (math.special.bessel_k0, ([0, INF, -1],), [INF, 0, NAN]),
    (math.special.bessel_y1, ([0, INF, -1],), [-INF, 0, NAN]),
    (math.special.expint, ([0, INF, -1],), [-INF, INF, NAN]),
    (math.special.spence, ([1, INF, -1],), [0, -INF, NAN]),
    (math.special.fresnel_sin, ([INF, -INF],), [0.5, -0.5]),
    (math.special.dawsn, ([INF, 0],), [0, 0]),
]


@pytest.mark.parametrize(("function", "operands", "expected"), EDGES)
def test_edges(function: Callable[..., Any], operands: Any, expected: Any, wrap: Wrap) -> None:
    found = wrap(function)(*(tapec.constant(x, tapec.float64) for x in operands))
    np.testing.assert_array_equal(np.asarray(found) + 0.0, expected)


BETA = np.array([[2.0, 5.0], [3.0, 0.7]])
ORDERS = np.array([0.0, 1.0, 3.0])
SMOOTH: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "igamma": (math.igamma, ([0.7, 3.0, 12.0], [1.3, 2.0, 15.0])),
    "igammac": (math.igammac, ([0.7, 3.0, 12.0], [1.3, 2.0, 15.0])),
    "igamma of thousands": (math.igamma, ([1500.0, 4000.0], [1520.0, 3800.0])),
    "betainc": (lambda x: math.betainc(BETA[0], BETA[1], x), ([0.3, 0.8],)),
    "zeta": (math.zeta, ([1.7, 4.0], [0.5, 3.0])),
    "polygamma of any order": (lambda x: math.polygamma(ORDERS, x), ([0.5, 2.0, 3.0],)),
    "erfcinv": (math.erfcinv, ([0.1, 0.3, 0.8, 1.3, 1.9],)),
    "ndtri": (math.ndtri, ([0.05, 0.3, 0.7, 0.95],)),
    "spence at 1": (math.special.spence, ([1.0, 0.99, 2.0],)),
    "bessel_i1 at 0": (math.bessel_i1, ([0.0, 1.0],)),
    "bessel_j1 at 0": (math.special.bessel_j1, ([0.0, 9.0],)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    function, arrays = SMOOTH[name]
    operands = [np.asarray(x, np.float64) for x in arrays]
    check_gradients(function, operands, rtol=1e-5, atol=1e-7)
    check_gradients(slope(function), operands, rtol=1e-4, atol=1e-6)


def test_no_gradient_flows_to_the_parameters_of_the_beta_function() -> None:
    a, b, x = (tapec.constant([v]) for v in (2.0, 3.0, 0.4))
    with tapec.GradientTape() as tape:
        tape.watch([a, b, x])
        y = math.betainc(a, b, x)
    by_a, by_b, by_x = tape.gradient(y, [a, b, x])
    assert by_a is None
    assert by_b is None
    assert by_x.numpy()[0] == pytest.approx(1.728, rel=1e-6)


def test_operands_broadcast(wrap: Wrap) -> None:
    a, x = np.array([[1.0], [2.0]]), np.array([0.5, 1.0, 3.0])
    found = wrap(math.igamma)(tapec.constant(a), tapec.constant(x))
    np.testing.assert_allclose(found, reference.gammainc(a, x), rtol=1e-14)
    assert math.betainc(1.0, 2.0, [0.0, 0.5]).numpy().tolist() == [0.0, 0.75]
    wide = math.igamma(2.0, tapec.constant(x))
    np.testing.assert_allclose(wide, reference.gammainc(2.0, x), rtol=1e-14)


def test_orders_without_bound() -> None:
    assert np.isfinite(math.polygamma(101, tapec.constant([3.0], tapec.float64)).numpy()).all()
    assert np.isnan(math.polygamma(1e30, [3.0]).numpy()).all()


@pytest.mark.parametrize("dtype", [tapec.float32, tapec.float64], ids=str)
def test_the_remainder_is_exact(wrap: Wrap, dtype: tapec.DType) -> None:
    x = tapec.constant([1.5, -1.5, 1e9, -5.5, 0.0, 7.0], dtype)
    y = tapec.constant([1e-7, 1e-7, -0.3, -2.0, 3.0, np.inf], dtype)
    with tapec.GradientTape() as tape:
        tape.watch([x, y])
        found = wrap(tapec.truncatemod)(x, y)
    np.testing.assert_array_equal(found, np.fmod(x.numpy(), y.numpy()))
    by_x, by_y = tape.gradient(found, [x, y])
    assert by_x.numpy().tolist() == [1.0] * 6
    assert by_y.numpy()[3:5].tolist() == [-2.0, 0.0]


def test_strings_are_refused() -> None:
    for function in (math.igamma, math.zeta, lambda a, x: math.betainc(a, x, 0.5)):
        with pytest.raises((InvalidArgumentError, errors.TypeError)):
            function("a", "b")
