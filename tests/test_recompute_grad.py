"""What `recompute_grad` wraps has the gradients of the function itself, whatever goes in and comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import errors

X = (0.3 * np.random.default_rng(0).normal(size=(4, 4))).astype(np.float32)

#: Wraps a function: nothing, or `tapec.recompute_grad`.
Wrap = Callable[[Any], Any]


def same_argument_twice(wrap: Wrap, w: Any, x: Any) -> Any:
    return wrap(lambda a, b: tapec.tanh(a @ w) * b)(x, x)


def dropout(wrap: Wrap, w: Any, x: Any) -> Any:
    block = wrap(lambda h: tapec.nn.dropout(tapec.tanh(h @ w), 0.4) + tapec.random.normal([4, 4]))
    return block(block(x))


def dropout_in_both(wrap: Wrap, w: Any, x: Any) -> Any:
    inner = wrap(lambda h: tapec.nn.dropout(tapec.tanh(h @ w), 0.4))
    return wrap(lambda h: tapec.nn.dropout(inner(inner(h)), 0.3))(x)


def structures(wrap: Wrap, w: Any, x: Any) -> Any:
    made = wrap(lambda d: {"a": tapec.tanh(d["x"] @ w), "b": [d["x"] * 2.0, None, 3]})({"x": x})
    assert made["b"][1] is None
    return made["a"] + made["b"][0] * tapec.cast(made["b"][2], tapec.float32)


def integers(wrap: Wrap, w: Any, x: Any) -> Any:
    return wrap(lambda h, rows: tapec.gather(h @ w, rows))(x, tapec.constant([1, 1, 3]))


def nothing(wrap: Wrap, w: Any, x: Any) -> Any:
    assert wrap(lambda h: None)(x) is None
    return wrap(lambda h: h)(x) @ w + wrap(lambda: tapec.ones([4]))()


@pytest.mark.parametrize("mode", [lambda f: f, tapec.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "f", [same_argument_twice, dropout, dropout_in_both, structures, integers, nothing]
)
def test_gradients_are_those_of_the_function(
    f: Callable[..., Any], mode: Any, recwarn: pytest.WarningsRecorder
) -> None:
    def found(wrap: Wrap, mode: Any) -> list[Any]:
        tapec.random.set_seed(5)
        w = tapec.Variable(X)

        def run(x: Any) -> Any:
            with tapec.GradientTape() as tape:
                tape.watch(x)
                y = f(wrap, w, x)
                loss = tapec.reduce_sum(y**2)
            return [loss, *tape.gradient(loss, [w, x]), tapec.random.normal([2])]

        return list(mode(run)(tapec.constant(X)))

    wanted, ours = found(lambda g: g, lambda g: g), found(tapec.recompute_grad, mode)
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert not recwarn.list


def test_why_a_gradient_is_none_beside_what_is_computed_again() -> None:
    """Who asks reads a tape's operations, not the marks that they have by then."""
    v, other = tapec.Variable(X), tapec.Variable(X)
    block: Any = tapec.recompute_grad(lambda h: (tapec.tanh(h @ v), tapec.stop_gradient(h @ other)))

    @tapec.compile
    def gradients(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            one, stopped = block(x)
            loss = tapec.reduce_sum(one * stopped)
        return tape.gradient(loss, [v, other])

    assert [g is None for g in gradients(X)] == [False, True]


def test_what_loops_draw_is_refused_in_a_compiled_function() -> None:
    def block(h: Any) -> Any:
        for _ in tapec.range(3):
            h = tapec.nn.dropout(tapec.tanh(h), 0.4)
        return h

    @tapec.compile
    def gradient(x):  # type: ignore[no-untyped-def]
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.recompute_grad(block)(x)
        return tape.gradient(y, x)

    with pytest.raises(errors.RuntimeError, match="cannot be drawn again") as caught:
        gradient(tapec.constant(X))
    assert "h = tapec.nn.dropout(tapec.tanh(h), 0.4)" in str(caught.value)
