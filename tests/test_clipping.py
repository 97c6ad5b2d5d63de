"""Clipping: values as TensorFlow gives them, for every kind of gradient list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from traced import traced_results

import tapec
from tapec import errors
from tapec.debugging import check_gradients

A, B = tapec.constant([3.0]), tapec.constant([4.0])
NAN, INF = float("nan"), float("inf")


def numbers(tensors: list[tapec.Tensor | None]) -> list[Any]:
    return [None if t is None else t.numpy().tolist() for t in tensors]


@pytest.mark.parametrize(
    ("gradients", "limit", "clipped", "norm"),
    [
        ([A, B], 1.0, [[0.6], [0.8]], 5.0),
        ([A, B], 10.0, [[3.0], [4.0]], 5.0),
        ([A, None, B], 1.0, [[0.6], None, [0.8]], 5.0),
        ([None, None], 1.0, [None, None], 0.0),
        ([], 1.0, [], 0.0),
        ([tapec.zeros([2])], 1.0, [[0.0, 0.0]], 0.0),
        ([A], 0.0, [[0.0]], 3.0),
    ],
    ids=["above", "below", "None", "all None", "empty", "zeros", "limit 0"],
)
def test_clip_by_global_norm(
    gradients: list[tapec.Tensor | None], limit: float, clipped: list[Any], norm: float
) -> None:
    result, total = tapec.clip_by_global_norm(gradients, limit)
    assert total.numpy() == norm
    assert len(result) == len(clipped)
    for got, expected in zip(numbers(result), clipped, strict=True):
        assert got == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("value", [NAN, INF])
def test_one_element_that_is_not_finite_spoils_all(value: float) -> None:
    result, norm = tapec.clip_by_global_norm([tapec.constant([3.0, value]), B], 1.0)
    assert all(np.isnan(t.numpy()).all() for t in result if t is not None)
    np.testing.assert_equal(norm.numpy(), np.float32(value))


def test_below_the_limit_not_a_bit_changes() -> None:
    x = tapec.constant(np.random.default_rng(0).normal(size=100).astype(np.float32))
    (same,), _ = tapec.clip_by_global_norm([x], 12.3)
    assert same is not None
    np.testing.assert_array_equal(same.numpy(), x.numpy())


def test_use_norm() -> None:
    (clipped,), norm = tapec.clip_by_global_norm([A], 1.0, use_norm=tapec.constant(6.0))
    assert clipped is not None
    assert (clipped.numpy().tolist(), norm.numpy()) == ([0.5], 6.0)


@pytest.mark.parametrize("wrong", [A, iter([A])], ids=["tensor", "iterator"])
def test_only_sequences(wrong: Any) -> None:
    with pytest.raises(errors.TypeError, match="should be a sequence"):
        tapec.clip_by_global_norm(wrong, 1.0)


def test_dtypes_do_not_mix() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="dtypes differ"):
        tapec.clip_by_global_norm([A, tapec.constant([4.0], tapec.float64)], 1.0)


def test_global_norm() -> None:
    assert tapec.linalg.global_norm([A, None, B]).numpy() == 5.0


@pytest.mark.parametrize(
    ("x", "axes", "clipped"),
    [
        ([3.0, 4.0], None, [0.6, 0.8]),
        ([0.3, 0.4], None, [0.3, 0.4]),
        ([0.0, 0.0], None, [0.0, 0.0]),
        ([[3.0, 4.0], [0.3, 0.4]], [1], [[0.6, 0.8], [0.3, 0.4]]),
    ],
    ids=["above", "below", "zeros", "rows"],
)
def test_clip_by_norm(x: Any, axes: list[int] | None, clipped: Any) -> None:
    result = tapec.clip_by_norm(tapec.constant(x), 1.0, axes)
    np.testing.assert_allclose(result.numpy(), clipped, rtol=1e-6)


def test_none_is_refused() -> None:
    with pytest.raises(errors.ValueError, match="None"):
        tapec.clip_by_norm(None, 1.0)
    with pytest.raises(errors.ValueError, match="None"):
        tapec.clip_by_value(None, -1.0, 1.0)


@pytest.mark.parametrize(
    ("x", "low", "high", "clipped"),
    [
        ([-2.0, 0.5, 3.0], -1.0, 1.0, [-1.0, 0.5, 1.0]),
        ([[1.0, 9.0]], [2.0, 2.0], [3.0, 3.0], [[2.0, 3.0]]),
        ([1.0], 3.0, 2.0, [3.0]),
        ([NAN], -1.0, 1.0, [NAN]),
        ([1, 9], 2, 5, [2, 5]),
    ],
    ids=["numbers", "tensors", "crossed", "NaN", "integers"],
)
def test_clip_by_value(x: Any, low: Any, high: Any, clipped: Any) -> None:
    np.testing.assert_equal(tapec.clip_by_value(x, low, high).numpy(), np.array(clipped))


def test_clip_by_value_refuses_what_does_not_fit() -> None:
    with pytest.raises(errors.ValueError, match="incompatible"):
        tapec.clip_by_value(tapec.ones([2]), tapec.zeros([2, 2]), 3.0)
    with pytest.raises(errors.TypeError, match="int32"):
        tapec.clip_by_value(tapec.constant([1, 9]), 2.0, 5.0)


def test_gradient_at_the_bounds() -> None:
    x = tapec.constant([-1.0, -0.5, 1.0, 2.0])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.clip_by_value(x, -1.0, 1.0)
    assert tape.gradient(y, x).numpy().tolist() == [1.0, 1.0, 1.0, 0.0]


def test_gradients() -> None:
    def scaled(a: tapec.Tensor, b: tapec.Tensor) -> tapec.Tensor:
        (first, _), _ = tapec.clip_by_global_norm([a, b], 1.0)
        assert first is not None
        return first

    check_gradients(scaled, [np.array([3.0]), np.array([4.0])], rtol=1e-6)
    check_gradients(lambda x: tapec.clip_by_norm(x, 1.0), [np.array([3.0, 4.0])], rtol=1e-6)


def test_traced() -> None:
    def both(a: tapec.Tensor, b: tapec.Tensor) -> Any:
        return tapec.clip_by_global_norm([a, None, b], 1.0)[1], tapec.clip_by_norm(b, 2.0)

    norm, clipped = traced_results(both, [A.numpy(), B.numpy()])
    assert float(norm) == 5.0
    assert clipped.tolist() == [2.0]
