"""Derivatives that the user writes: eager, compiled, called compiled, mapped, of any order."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.ir.compare import difference
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.ir.verifier import verify

Step = Callable[..., Any]


@tapec.custom_gradient
def log1pexp(x: Any) -> Any:
    e = tapec.exp(x)
    return tapec.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))


@tapec.custom_gradient
def scaled(x: Any) -> Any:
    """A derivative that is none of the function's, to tell them apart."""
    return x * x, lambda upstream: upstream * 7.0 * x**3


@tapec.custom_gradient
def two(a: Any, b: Any) -> Any:
    def gradient(first: Any, second: Any) -> Any:
        return first * 10.0 + second, None

    return (a + b, {"product": a * b}), gradient


def modes(step: Step) -> list[Step]:
    return [step, tapec.compile(step)]


def slope(f: Step) -> Step:
    def of(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return of


def test_stable_where_the_formula_is_not() -> None:
    for step in modes(slope(log1pexp)):
        assert float(step(tapec.constant(100.0))) == 1.0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_any_order_follows_the_gradients_own_operations(order: int) -> None:
    expected = [7 * 2.0**3, 21 * 2.0**2, 42 * 2.0, 42.0][order - 1]
    f: Step = scaled
    for _ in range(order):
        f = slope(f)
    for step in modes(f):
        np.testing.assert_allclose(float(step(tapec.constant(2.0))), expected, rtol=1e-6)


def test_values_computed_forwards_are_followed() -> None:
    """The second derivative goes through ``e``, which the function computed and its gradient reads."""
    x = tapec.constant(0.3, tapec.float64)
    s = 1 / (1 + np.exp(-0.3))
    for step in modes(slope(slope(log1pexp))):
        np.testing.assert_allclose(float(step(x)), s * (1 - s), rtol=1e-12)


def test_structures_and_none() -> None:
    def step(a: Any, b: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch([a, b])
            total, rest = two(a, b)
            y = total + rest["product"]
        return tape.gradient(y, [a, b])

    for mode in modes(step):
        found = mode(tapec.constant(2.0), tapec.constant(3.0))
        assert float(found[0]) == 11.0
        assert found[1] is None


def test_one_of_two_outputs() -> None:
    def step(a: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(a)
            total, _ = two(a, a * 2.0)
        return tape.gradient(total, a)

    for mode in modes(step):
        assert float(mode(tapec.constant(2.0))) == 10.0


def test_between_other_operations() -> None:
    """Cotangents of a value that is read before, inside and after are added up."""

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            a = x * 2.0
            y = scaled(a) * a + scaled(a * x) + a
        return tape.gradient(y, [x, a])

    x = 1.5
    a, ax = 2 * x, 2 * x * x
    inner = 7 * a**3 * a + a**2 + 7 * ax**3 * x + 1
    for mode in modes(step):
        found = mode(tapec.constant(x, tapec.float64))
        np.testing.assert_allclose(float(found[1]), inner, rtol=1e-12)
        np.testing.assert_allclose(float(found[0]), 2 * inner + 7 * ax**3 * a, rtol=1e-12)


def test_compiled_call_on_a_tape() -> None:
    compiled = tapec.compile(lambda x: scaled(x) + 1.0)
    assert float(slope(compiled)(tapec.constant(2.0))) == 56.0
    assert float(slope(slope(compiled))(tapec.constant(2.0))) == 84.0


def test_programs_hold_the_gradient() -> None:
    step = tapec.compile(slope(scaled))
    step(tapec.constant(2.0))
    module = step.ir()
    text = print_module(module)
    assert "custom" in text
    verify(module)
    parsed = parse_module(text)
    assert difference(module, parsed) is None
    assert "custom" not in print_module(step.ir("prune"))


def test_jacobians_map_the_gradient() -> None:
    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = scaled(x) * tapec.reduce_sum(x)
        return tape.jacobian(y, x)

    x = np.array([1.0, 2.0])
    expected = np.diag(7 * x**3 * 3) + np.outer(x**2, np.ones(2))
    for mode in modes(step):
        np.testing.assert_allclose(mode(tapec.constant(x)), expected)


def reads_variable(w: Any) -> Step:
    @tapec.custom_gradient
    def f(x: Any) -> Any:
        def gradient(upstream: Any, variables: Any = None) -> Any:
            return upstream * w, [upstream * 1000.0 * v for v in variables]

        return x * w, gradient

    return f


def test_variables() -> None:
    w = tapec.Variable(3.0)
    f = reads_variable(w)

    def step(x: Any) -> Any:
        with tapec.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tapec.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            found = tape.gradient(y, [x, w])
        return found, outer.gradient(found[0], w), outer.gradient(found[1], w)

    for mode in modes(step):
        (to_x, to_w), mixed, second = mode(tapec.constant(2.0))
        assert [float(v) for v in (to_x, to_w, mixed, second)] == [3.0, 3000.0, 1.0, 1000.0]


def test_variables_want_the_keyword() -> None:
    w = tapec.Variable(3.0)

    @tapec.custom_gradient
    def f(x: Any) -> Any:
        return x * w, lambda upstream: upstream

    with pytest.raises(tapec.errors.TypeError, match="'variables'"):
        f(tapec.constant(1.0))


def test_a_variable_as_argument_is_an_argument() -> None:
    w = tapec.Variable(3.0)
    with tapec.GradientTape() as tape:
        y = scaled(w)
    assert float(tape.gradient(y, w)) == 7 * 27.0


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (lambda u: [u], "expected to return 2 gradients, but returned 1"),
        (lambda u: (u, u, u), "returned 3"),
        (lambda u: (u, tapec.reduce_sum(u)), "of shape"),
        (lambda u: (u, tapec.cast(u, tapec.float64)), "float32"),
    ],
)
def test_gradients_that_do_not_fit(gradient: Step, message: str) -> None:
    def add(a: Any, b: Any) -> Any:
        return a + b, gradient

    f = tapec.custom_gradient(add)
    a, b = tapec.constant([1.0, 2.0]), tapec.constant([3.0, 4.0])
    with tapec.GradientTape() as tape:
        tape.watch([a, b])
        y = f(a, b)
    with pytest.raises(tapec.errors.ValueError, match=message):
        tape.gradient(y, [a, b])


def test_no_gradient_function() -> None:
    with pytest.raises(tapec.errors.TypeError, match="must return"):
        tapec.custom_gradient(lambda a: a * 2.0)(tapec.constant(1.0))


def test_assignments_in_a_traced_gradient_are_refused() -> None:
    w = tapec.Variable(1.0)

    @tapec.custom_gradient
    def f(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            w.assign(2.0)
            return upstream

        return x, gradient

    with pytest.raises(tapec.errors.RuntimeError, match="assigned"):
        tapec.compile(f)(tapec.constant(1.0))


def test_pass_through() -> None:
    f = slope(lambda x: tapec.grad_pass_through(tapec.round)(x) * 3.0)
    for mode in modes(f):
        assert float(mode(tapec.constant(1.4))) == 3.0
    w = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        y = tapec.grad_pass_through(lambda x: x * w)(tapec.constant(1.0))
    assert tape.gradient(y, w) is None


def test_what_was_not_watched_is_explained() -> None:
    x = tapec.constant(2.0)
    with tapec.GradientTape() as tape:
        y = scaled(x) * 2.0
    assert tape.gradient(y, x) is None
    assert "never watched" in str(tape.explain(y, x))


# ---- recompute


def test_recomputed_gradients_are_the_gradients() -> None:
    w = tapec.Variable(2.0)

    def plain(x: Any) -> Any:
        return tapec.sin(x * w) * x

    recomputed = tapec.recompute_grad(plain)

    def step(f: Step) -> Step:
        def second(x: Any) -> Any:
            with tapec.GradientTape() as outer:
                outer.watch(x)
                with tapec.GradientTape() as tape:
                    tape.watch(x)
                    y = f(x)
                found = tape.gradient(y, [x, w])
                total = found[0] + 3.0 * found[1]
            return found, outer.gradient(total, [x, w])

        return second

    x = tapec.constant(1.5)
    expected = step(plain)(x)
    for mode in modes(step(recomputed)):
        for ours, wanted in zip(mode(x), expected, strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-5)


def test_recompute_runs_again_and_keeps_nothing() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        inside = tapec.exp(x)
        kept.append(weakref.ref(inside.array))
        return inside * inside

    x = tapec.constant(np.ones(3))
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.recompute_grad(f)(x)
    gc.collect()
    assert [r() is None for r in kept] == [True]
    np.testing.assert_allclose(tape.gradient(y, x), 2 * np.exp(2 * np.ones(3)))
    assert len(kept) == 2


# ---- gradients of compiled functions


def test_gradients_need_a_compiled_function() -> None:
    x = tapec.constant(1.0)
    with pytest.raises(tapec.errors.RuntimeError, match="GradientTape"):
        tapec.gradients(x * x, x)


def test_gradients() -> None:
    w = tapec.Variable([1.0, 2.0])

    @tapec.compile
    def f(x: Any) -> Any:
        h = x * w
        y = tapec.reduce_sum(h**2) + tapec.reduce_sum(w)
        first = tapec.gradients(y, [x, w, h])
        stopped = tapec.gradients(y, [x, w], stop_gradients=h)
        weighted = tapec.gradients(h, x, grad_ys=[tapec.constant([1.0, 10.0])])
        (second,) = tapec.gradients(first[0], x)
        none = tapec.gradients(w * 1.0, x)
        zero = tapec.gradients(w * 1.0, x, unconnected_gradients="zero")
        return first, stopped, weighted, second, none, zero

    first, stopped, weighted, second, none, zero = f(tapec.constant([3.0, 4.0]))
    np.testing.assert_allclose(first[0], [6.0, 32.0])
    np.testing.assert_allclose(first[1], [19.0, 65.0])
    np.testing.assert_allclose(first[2], [6.0, 16.0])
    assert stopped[0] is None
    np.testing.assert_allclose(stopped[1], [1.0, 1.0])
    np.testing.assert_allclose(weighted[0], [1.0, 20.0])
    np.testing.assert_allclose(second, [2.0, 8.0])
    assert none == [None]
    np.testing.assert_allclose(zero[0], [0.0, 0.0])


def test_gradients_of_what_is_no_tensor() -> None:
    with pytest.raises(tapec.errors.TypeError, match="xs"):
        tapec.compile(lambda x: tapec.gradients(x, 3.0))(tapec.constant(1.0))


@tapec.custom_gradient
def halved(a: Any) -> Any:
    """Twice the value, with a gradient that depends on it."""
    return a * 2.0, lambda upstream: upstream * 0.5 * a


def test_what_a_compiled_function_reads_of_what_it_assigned_is_a_source_behind_one() -> None:
    v, x = tapec.Variable(0.3), tapec.constant(0.7)

    def step(x: Any) -> Any:
        v.assign(v * 1.0)
        return x * 2.0 + v * v

    found = []
    for way in (step, tapec.compile(step)):
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = halved(way(x)) * way(x)
        found.append(np.array(tape.gradient(y, [x, v])))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_what_a_compiled_gradient_reads_of_what_it_assigned_is_a_source_to_any_order() -> None:
    v, x = tapec.Variable(0.3), tapec.constant(0.7)

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            v.assign(v * 1.0)
            y = tapec.tanh(halved(x))
        return tape.gradient(y, x) + v

    found = []
    for way in (step, tapec.compile(step)):
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                y = way(x)
            first = inner.gradient(y, [x, v])
            z = y + tapec.sin(first[0]) * v
        found.append(np.array([*first, *outer.gradient(z, [x, v])]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
