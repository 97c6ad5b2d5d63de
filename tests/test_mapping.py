"""vectorized_map is a loop over rows, and forward accumulators are jacobians times directions."""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec

Step = Callable[..., Any]


def modes(step: Step) -> list[Step]:
    return [step, tapec.compile(step)]


def rows(shape: tuple[int, ...], seed: int = 0) -> Any:
    return tapec.constant(np.random.default_rng(seed).normal(size=shape))


W = rows((3, 2), 1)


def layer(row: Any) -> Any:
    return {
        "y": tapec.tanh(tapec.tensordot(row["x"], W, 1)) * row["s"],
        "none": None,
        "s": row["s"],
    }


def outer(row: Any) -> Any:
    return tapec.sort(row["x"]) * W[:, 0] + tapec.reduce_max(row["x"]), tapec.constant(2.0)


def constant(row: Any) -> Any:
    return tapec.exp(W), 1.0


@pytest.mark.parametrize("fn", [layer, outer, constant])
def test_is_a_loop(fn: Step) -> None:
    x, s = rows((4, 3)), rows((4,))
    each = [fn({"x": x[i], "s": s[i]}) for i in range(4)]
    for mode in modes(lambda x, s: tapec.vectorized_map(fn, {"x": x, "s": s})):
        found = mode(x, s)
        keys: Any = range(len(each[0])) if isinstance(each[0], tuple) else each[0]
        for key in keys:
            if each[0][key] is None:
                assert found[key] is None
            else:
                wanted = np.stack([np.asarray(row[key]) for row in each])
                np.testing.assert_allclose(found[key], wanted, rtol=1e-12)


def test_gradients_of_each_example() -> None:
    x, w = rows((4, 3)), tapec.Variable(W)

    def one(example: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(tapec.tanh(tapec.tensordot(example, w, 1)) ** 2)
        return tape.gradient(loss, w)

    expected = np.stack([one(x[i]).numpy() for i in range(4)])
    for mode in modes(lambda x: tapec.vectorized_map(one, x)):
        np.testing.assert_allclose(mode(x), expected, rtol=1e-10)


def test_tapes_follow_and_cuts_stay() -> None:
    w = tapec.Variable(2.0, dtype=tapec.float64)

    @tapec.custom_gradient
    def scaled(v: Any) -> Any:
        return v, lambda upstream: upstream * 10.0

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.vectorized_map(
                lambda row: scaled(row * w) + tapec.stop_gradient(row * w) + row, x
            )
        return tape.gradient(y, [x, w])

    x = tapec.constant(np.array([[1.0, 2.0], [3.0, 4.0]]))
    for mode in modes(step):
        to_x, to_w = mode(x)
        np.testing.assert_allclose(to_x, np.full((2, 2), 21.0))
        assert float(to_w) == 100.0


def test_nested() -> None:
    x, y = rows((2, 3)), rows((4, 3), 1)

    def pairs(x: Any, y: Any) -> Any:
        return tapec.vectorized_map(
            lambda a: tapec.vectorized_map(lambda b: tapec.reduce_sum(a * b), y), x
        )

    for mode in modes(pairs):
        np.testing.assert_allclose(mode(x, y), x.numpy() @ y.numpy().T)


@pytest.mark.parametrize("elems", [[], 1.0, [np.ones(2), np.ones(3)]])
def test_no_common_axis(elems: Any) -> None:
    with pytest.raises(tapec.errors.ValueError, match="leading axis"):
        tapec.vectorized_map(lambda row: row, elems)


def test_state_is_refused() -> None:
    w = tapec.Variable(0.0)
    with pytest.raises(tapec.errors.RuntimeError, match="assigned"):
        tapec.vectorized_map(lambda row: w.assign_add(row), tapec.ones([3]))
    with pytest.raises(tapec.errors.RuntimeError, match="made"):
        tapec.vectorized_map(lambda row: row * tapec.Variable(1.0), tapec.ones([3]))


# ---- forward


def residual(x: Any, w: Any) -> Any:
    return tapec.nn.softmax(tapec.tanh(x @ w))


def test_products_of_jacobians() -> None:
    x, w, dx, dw = rows((2, 3)), W, rows((2, 3), 2), rows((3, 2), 3)

    def step(x: Any, w: Any) -> Any:
        with tapec.autodiff.ForwardAccumulator([x, w], [dx, dw]) as accumulator:
            y = residual(x, w)
            inside = accumulator.jvp(y)
        return inside, accumulator.jvp({"y": y, "x": x})

    with tapec.GradientTape() as tape:
        tape.watch([x, w])
        y = residual(x, w)
    to_x, to_w = (j.numpy() for j in tape.jacobian(y, [x, w]))
    expected = np.tensordot(to_x, dx.numpy(), 2) + np.tensordot(to_w, dw.numpy(), 2)
    for mode in modes(step):
        inside, after = mode(x, w)
        np.testing.assert_allclose(inside, expected, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(after["y"], expected, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(after["x"], dx)


def test_forward_over_reverse_and_reverse_over_forward() -> None:
    v = tapec.constant([1.0, -1.0])

    def forward_over_reverse(x: Any) -> Any:
        with tapec.autodiff.ForwardAccumulator(x, v) as accumulator:
            with tapec.GradientTape() as tape:
                tape.watch(x)
                y = tapec.reduce_sum(x**4) + x[0] * x[1]
            slope = tape.gradient(y, x)
        return accumulator.jvp(slope)

    def reverse_over_forward(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            with tapec.autodiff.ForwardAccumulator(x, v) as accumulator:
                y = tapec.reduce_sum(x**4) + x[0] * x[1]
            change = accumulator.jvp(y)
        return tape.gradient(change, x)

    def forward_over_forward(x: Any) -> Any:
        with tapec.autodiff.ForwardAccumulator(x, v) as outer:
            with tapec.autodiff.ForwardAccumulator(x, v) as inner:
                y = tapec.reduce_sum(x**4) + x[0] * x[1]
            change = inner.jvp(y)
        return outer.jvp(change)

    x = tapec.constant([1.0, 2.0])
    for step in (forward_over_reverse, reverse_over_forward):
        for mode in modes(step):
            np.testing.assert_allclose(mode(x), [11.0, -47.0])
    for mode in modes(forward_over_forward):
        assert float(mode(x)) == 58.0


def test_unconnected_and_integers() -> None:
    x = tapec.constant(1.0)
    accumulator = tapec.autodiff.ForwardAccumulator(x, tapec.constant(1.0))
    with pytest.raises(tapec.errors.RuntimeError, match="never recorded"):
        accumulator.jvp(x)
    with accumulator:
        y = tapec.constant(2.0) * 3.0
        n = tapec.cast(x, tapec.int32)
        with pytest.raises(tapec.errors.ValueError, match="already"), accumulator:
            pass
    assert accumulator.jvp(y) is None
    assert accumulator.jvp(n) is None
    assert float(accumulator.jvp(y, unconnected_gradients="zero")) == 0.0


@pytest.mark.parametrize(
    ("primals", "tangents", "kind"),
    [
        ([3.0], [1.0], "TypeError"),
        ([tapec.constant([1.0])], [tapec.constant(1.0)], "ValueError"),
        ([tapec.constant(1.0)], [], "ValueError"),
    ],
)
def test_tangents_that_do_not_fit(primals: Any, tangents: Any, kind: str) -> None:
    with pytest.raises(getattr(tapec.errors, kind)):
        tapec.autodiff.ForwardAccumulator(primals, tangents)


def test_a_profiler_in_c_may_be_running() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        doubled = tapec.vectorized_map(lambda row: tapec.reduce_sum(2 * row), tapec.ones([2, 3]))
        still: Any = sys.getprofile()
    finally:
        profiler.disable()
    assert doubled.numpy().tolist() == [6, 6]
    assert sys.version_info >= (3, 12) or still is profiler
