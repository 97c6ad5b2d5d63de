"""Tapes over state that changes, nested tapes, and tapes around compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_ways import Wrap, value

import tapec

# ---- Variables that change


def test_reads_keep_their_values_and_are_one_source(wrap: Wrap) -> None:
    v = tapec.Variable(3.0)

    def f() -> Any:
        v.assign(3.0)
        with tapec.GradientTape() as tape:
            y = v * v
            v.assign(10.0)
            z = v * v
            total = y + z
        return tape.gradient(total, v)

    assert value(wrap(f)()) == 26.0
    assert value(v) == 10.0


def test_assignment_cuts_the_path(wrap: Wrap) -> None:
    a, b = tapec.Variable(3.0), tapec.Variable(0.0)

    def f() -> Any:
        with tapec.GradientTape() as tape:
            b.assign(a * 2.0)
            y = b * a
        return tape.gradient(y, [a, b])

    assert value(wrap(f)()) == [6.0, 3.0]


# ---- higher order


def test_nested_tapes(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as third:
            third.watch(x)
            with tapec.GradientTape() as second:
                second.watch(x)
                with tapec.GradientTape() as first:
                    first.watch(x)
                    y = x**5.0
                dy = first.gradient(y, x)
            ddy = second.gradient(dy, x)
        return dy, ddy, third.gradient(ddy, x)

    assert value(wrap(f)(tapec.constant(2.0))) == (80.0, 160.0, 240.0)


def test_gradient_inside_its_own_persistent_block(
    wrap: Wrap, caplog: pytest.LogCaptureFixture
) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**3.0
            dy = tape.gradient(y, x)
        return dy, tape.gradient(dy, x)

    assert value(wrap(f)(tapec.constant(3.0))) == (27.0, 18.0)
    assert "less efficient" in caplog.text


def test_gradient_taken_outside_of_the_outer_block(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**3.0
        dy = tape.gradient(y, x)
        return tape.gradient(dy, x)

    assert wrap(f)(tapec.constant(3.0)) is None


def test_second_derivative_of_something_linear_is_none(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                y = 3.0 * x
            dy = inner.gradient(y, x)
        return outer.gradient(dy, x)

    assert wrap(f)(tapec.constant(2.0)) is None


def test_hessian_vector_product_by_output_gradients(wrap: Wrap) -> None:
    def f(x: tapec.Tensor, v: tapec.Tensor) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                y = x[0] ** 2.0 * x[1] ** 3.0
            dy = inner.gradient(y, x)
        return outer.gradient(dy, x, output_gradients=v)

    x, v = tapec.constant([1.0, 2.0]), tapec.constant([1.0, -1.0])
    np.testing.assert_allclose(value(wrap(f)(x, v)), [16 - 24, 24 - 12])


def test_tape_around_a_compiled_function() -> None:
    v = tapec.Variable(3.0)
    cube = tapec.compile(lambda x: x * x * v)
    x = tapec.constant(2.0)
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = cube(x)
        dy = inner.gradient(y, x)
    assert value(outer.gradient(dy, [x, v])) == [6.0, 4.0]


def test_eager_gradients_become_native_and_stay_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "2")
    w = tapec.Variable([[0.5, -0.3], [0.1, 0.8]])

    def gradient(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            y = tapec.reduce_sum(tapec.tanh(x @ w) ** 2.0)
        return tape.gradient(y, w).numpy()

    x = tapec.constant([[0.3, 0.7], [1.5, -0.2], [0.4, 0.9]])
    first, second, third = (gradient(x) for _ in range(3))
    np.testing.assert_allclose(first, second, rtol=1e-5)
    np.testing.assert_array_equal(second, third)


def test_variable_inside_a_compiled_function_is_a_source() -> None:
    x = tapec.Variable(2.0)
    power = tapec.compile(lambda v: v**4.0)
    with tapec.GradientTape() as outer:
        with tapec.GradientTape() as inner:
            y = power(x)
        dy = inner.gradient(y, x)
    assert value([dy, outer.gradient(dy, x)]) == [32.0, 48.0]


def test_tape_inside_a_compiled_function_and_around_it() -> None:
    x = tapec.Variable(2.0)

    @tapec.compile
    def slope() -> Any:
        with tapec.GradientTape() as tape:
            y = x**4.0
        return tape.gradient(y, x)

    with tapec.GradientTape() as outer:
        dy = slope()
    assert value(outer.gradient(dy, x)) == 48.0


def test_what_has_no_native_code_stays_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated gradient goes on as it began where a target refuses its program."""

    def refuse(module: object, pipeline: str) -> None:
        raise tapec.errors.TargetError("no native code")

    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "1")
    monkeypatch.setattr("tapec.derivatives.eager_gradient.compile_module", refuse)
    x = tapec.constant([1.5, 3.0])
    for _ in range(2):
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.reduce_sum(x * x * x)
        np.testing.assert_allclose(value(tape.gradient(y, x)), [6.75, 27.0], rtol=1e-6)


# ---- compiled functions that change what they read, in tapes


@pytest.fixture(params=["eager", "compiled"])
def inner(request: pytest.FixtureRequest) -> Wrap:
    """The function that the tapes are around, as it is or compiled; the tapes are eager."""
    return tapec.compile if request.param == "compiled" else lambda f: f


def test_variable_updated_and_read_again_is_a_source_of_second_derivatives(inner: Wrap) -> None:
    w = tapec.Variable(2.0)

    def f(x: tapec.Tensor) -> Any:
        y = w * x * x
        w.assign_add(y)
        return y * w

    f, x = inner(f), tapec.constant(3.0)
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
            z = f(x) * y
        g = tape.gradient(z, x)
    # The reads are 2, 20, 20 and 200: z = 2 x² 20 · 20 x² 200, and each read is one factor.
    assert value(outer.gradient(g, [x, w])) == [12 * 160000 * 9.0, 4 * 160000 * 27 * 0.605]


def test_several_variables_read_between_assignments_to_third_order(inner: Wrap) -> None:
    a = tapec.Variable(1.5, dtype=tapec.float64)
    b = tapec.Variable(0.5, dtype=tapec.float64)

    def f(x: tapec.Tensor) -> Any:
        y = a * x * b
        b.assign(y)
        a.assign_add(x)
        z = b * a * y
        a.assign(b)
        return z * a

    f, x = inner(f), tapec.constant(2.0, tapec.float64)
    with tapec.GradientTape() as third:
        third.watch(x)
        with tapec.GradientTape() as second:
            second.watch(x)
            with tapec.GradientTape() as first:
                first.watch([x, a])
                y = f(x) * f(x)
            dx, da = first.gradient(y, [x, a])
        ddx, ddb = second.gradient([dx, da], [x, b])
    dddx = third.gradient([ddx, ddb], x)
    # y = p x² where p is the product of all reads, each of which is a source.
    reads_a, reads_b = np.array([1.5, 3.5, 1.5, 1.5, 3.5, 4.5]), np.array([0.5, 1.5, 1.5, 4.5])
    p = reads_a.prod() * reads_b.prod()
    by_a, by_b = p * (1 / reads_a).sum(), p * (1 / reads_b).sum()
    by_both = by_a * (1 / reads_b).sum()
    wanted = [4 * p, 4 * by_a, 2 * p + 4 * by_a, 4 * by_b + 4 * by_both]
    assert value([dx, da, ddx, ddb]) == pytest.approx(wanted)
    assert value(dddx) == pytest.approx(2 * by_a + 2 * by_b + 4 * by_both)


def test_derivative_of_the_users_own_lasts_to_third_order(inner: Wrap) -> None:
    """The second derivative follows the rule's operations, not those of the function that it belongs to."""

    @tapec.custom_gradient
    def odd(x: tapec.Tensor) -> Any:
        return x**3.0, lambda upstream: upstream * 7.0 * x**2.0

    f, x = inner(lambda x: odd(x) * x), tapec.constant(3.0)
    with tapec.GradientTape() as third:
        third.watch(x)
        with tapec.GradientTape() as second:
            second.watch(x)
            with tapec.GradientTape() as first:
                first.watch(x)
                y = f(x)
            dy = first.gradient(y, x)
        ddy = second.gradient(dy, x)
    assert value([dy, ddy, third.gradient(ddy, x)]) == [8 * 27.0, 28 * 9.0, 56 * 3.0]


def test_gradient_inside_a_function_is_of_that_function_alone(inner: Wrap) -> None:
    def f(a: tapec.Tensor, b: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(a)
            y = a * b
        return tape.gradient(y, a)  # b, though it comes from a outside

    x = tapec.constant(0.5)
    with tapec.GradientTape() as tape:
        tape.watch(x)
        z = inner(f)(x, tapec.exp(x))
    np.testing.assert_allclose(value([z, tape.gradient(z, x)]), np.exp([0.5, 0.5]), rtol=1e-6)


def test_a_gradient_that_is_an_array_of_constants() -> None:
    """The adjoint of a constant matrix folds into one constant, which the outer tape hears of."""
    x = tapec.Variable([[1.0, 2.0], [2.0, 4.0]])
    with tapec.GradientTape() as outer:
        with tapec.GradientTape() as inner:
            y = tapec.linalg.det(x)
        gradient = inner.gradient(y, x)
    np.testing.assert_allclose(gradient.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-6)
    assert outer.gradient(gradient, x).shape == (2, 2)
