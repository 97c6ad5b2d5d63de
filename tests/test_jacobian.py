"""Jacobians and batch jacobians: rows of gradients, eager, compiled, and recorded by outer tapes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec

Net = Callable[[Any, Any], Any]


def tensors() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = tapec.constant(rng.normal(size=(2, 3)), tapec.float64)
    w = tapec.constant(rng.normal(size=(3, 4)), tapec.float64)
    return x, w


def dense(x: Any, w: Any) -> Any:
    return tapec.tanh(x @ w)


def softmax(x: Any, w: Any) -> Any:
    return tapec.nn.softmax(x @ w)


def indexed(x: Any, w: Any) -> Any:
    return tapec.gather(w, [2, 0, 2]) ** 2 * tapec.reduce_sum(x)


def scanned(x: Any, w: Any) -> Any:
    return tapec.cumsum(x @ w, axis=1)[:, ::2] / (1 + tapec.reduce_max(w * w, axis=0)[1:3])


NETS = [dense, softmax, indexed, scanned]


def jacobians(net: Net) -> Callable[[Any, Any], Any]:
    def both(x: Any, w: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch([x, w])
            y = net(x, w)
        return tape.jacobian(y, [x, w])

    return both


def by_loop(net: Net, x: Any, w: Any) -> list[Any]:
    """One gradient for each element of the target."""
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch([x, w])
        y = net(x, w)
    shape = tuple(y.shape)
    found: list[Any] = [np.zeros((*shape, *s.shape)) for s in (x, w)]
    for index in np.ndindex(*shape):
        seed = np.zeros(shape)
        seed[index] = 1.0
        for array, gradient in zip(found, tape.gradient(y, [x, w], seed), strict=True):
            array[index] = gradient.numpy()
    return found


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("net", NETS)
def test_rows_are_gradients(net: Net, compiled: bool) -> None:
    x, w = tensors()
    ask = jacobians(net)
    if compiled:
        ask = tapec.compile(ask)
    expected = by_loop(net, x, w)
    for _ in range(4):  # from the third on, native
        for array, jacobian in zip(expected, ask(x, w), strict=True):
            assert jacobian.dtype == tapec.float64
            np.testing.assert_allclose(jacobian, array, rtol=1e-12, atol=1e-14)


def penalty(x: Any, w: Any) -> Any:
    """The size of a jacobian, and its gradient: a second derivative through it."""
    with tapec.GradientTape() as outer:
        outer.watch(w)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = dense(x, w)
        size = tapec.reduce_sum(inner.batch_jacobian(y, x) ** 2)
    return size, outer.gradient(size, w)


@pytest.mark.parametrize("compiled", [False, True])
def test_outer_tapes_follow(compiled: bool) -> None:
    x, w = tensors()
    ask = tapec.compile(penalty) if compiled else penalty
    _, slope = ask(x, w)
    direction = tapec.constant(np.random.default_rng(1).normal(size=(3, 4)), tapec.float64)
    step = 1e-5
    ends = [float(ask(x, w + s * step * direction)[0]) for s in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(float(tapec.reduce_sum(slope * direction)), expected, rtol=1e-7)


def test_hessian_is_symmetric() -> None:
    x, w = tensors()

    @tapec.compile
    def hessian(w: Any) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(w)
            with tapec.GradientTape() as inner:
                inner.watch(w)
                loss = tapec.reduce_sum(softmax(x, w) ** 2)
            slope = inner.gradient(loss, w)
        return outer.jacobian(slope, w)

    found = hessian(w).numpy()
    assert found.shape == (3, 4, 3, 4)
    np.testing.assert_allclose(found, found.transpose(2, 3, 0, 1), rtol=1e-10, atol=1e-14)


def test_jacobian_of_a_jacobian() -> None:
    x = tapec.constant([1.0, 2.0])
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        jacobian = inner.jacobian(y, x)
    found = outer.jacobian(jacobian, x).numpy()
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0], expected[1, 1, 1] = 6.0, 12.0
    np.testing.assert_allclose(found, expected)


def test_batch_jacobian_is_the_diagonal() -> None:
    x, w = tensors()
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = dense(x, w)
    full = tape.jacobian(y, x).numpy()
    found = tape.batch_jacobian(y, x)
    assert found.shape == [2, 4, 3]
    np.testing.assert_allclose(found, full[np.arange(2), :, np.arange(2)], rtol=1e-12)


def test_batch_jacobian_of_scalars() -> None:
    x, _ = tensors()
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.reduce_sum(x * x, axis=1)
    np.testing.assert_allclose(tape.batch_jacobian(y, x), 2 * x.numpy())


def test_one_dtype_and_structure_per_source() -> None:
    a, b = tapec.Variable([1.0, 2.0]), tapec.Variable(3.0, dtype=tapec.float64)
    with tapec.GradientTape() as tape:
        y = a * tapec.cast(b, tapec.float32)
    found = tape.jacobian(y, {"a": a, "b": (b, b)})
    assert found["a"].dtype == tapec.float32
    assert found["b"][0].dtype == tapec.float64
    np.testing.assert_allclose(found["b"][1], [1.0, 2.0])


def test_nothing_in_nothing_out() -> None:
    x = tapec.constant(np.zeros((0, 3)))
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.reduce_sum(x, axis=1)
    assert tape.jacobian(y, x).shape == [0, 0, 3]


def test_unconnected() -> None:
    x, n = tapec.constant([1.0, 2.0]), tapec.constant([1, 2, 3])
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = tapec.constant([1.0]) * 2.0
    assert tape.jacobian(z, x) is None
    assert tape.jacobian(y, n) is None
    assert tape.jacobian(n, x) is None
    zeros = tape.jacobian(y, n, unconnected_gradients="zero")
    assert (zeros.shape, zeros.dtype) == ([2, 3], tapec.int32)


def test_a_tape_that_is_not_persistent_answers_once(caplog: pytest.LogCaptureFixture) -> None:
    x = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        y = x * x
    tape.jacobian(y, x)
    with pytest.raises(tapec.errors.RuntimeError, match="non-persistent"):
        tape.jacobian(y, x)
    with tapec.GradientTape(persistent=True) as tape:
        y = x * x
        with caplog.at_level(logging.WARNING):
            tape.jacobian(y, x)
    assert "less efficient" in caplog.text


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
@pytest.mark.parametrize("target", [[tapec.constant([[1.0]])], None, 3.0])
def test_one_target(method: str, target: Any) -> None:
    x = tapec.Variable([[1.0, 2.0]])
    with tapec.GradientTape() as tape:
        x * x
    with pytest.raises(tapec.errors.TypeError, match="target"):
        getattr(tape, method)(target, x)


@pytest.mark.parametrize(
    ("target", "source", "message"),
    [((1, 2), (2, 2), "Need first dimension"), ((2,), (2,), "at least 2"), ((), (2, 2), "rank")],
)
def test_no_batch(target: tuple[int, ...], source: tuple[int, ...], message: str) -> None:
    x, y = tapec.zeros(source), tapec.zeros(target)
    with tapec.GradientTape() as tape:
        tape.watch([x, y])
    with pytest.raises(tapec.errors.ValueError, match=message):
        tape.batch_jacobian(y, x)
