"""The contract of GradientTape, eager and traced alike."""

from __future__ import annotations

import collections
import logging
import threading
from typing import Any

import numpy as np
import pytest
from both_ways import Wrap, value

import tapec

# ---- watching


def test_watched_constant(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x)

    assert value(wrap(f)(tapec.constant(3.0))) == 6.0


def test_unwatched_constant_gives_none(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            y = x * x
        return tape.gradient(y, x)

    assert wrap(f)(tapec.constant(3.0)) is None


def test_unwatched_factor_of_a_watched_value(wrap: Wrap) -> None:
    w = tapec.Variable(1.5)

    def f(x: tapec.Tensor, watch: bool) -> Any:
        with tapec.GradientTape() as tape:
            if watch:
                tape.watch(x)
            y = tapec.square(x * w)
        return tape.gradient(y, [x, w])

    run = wrap(f)
    assert value(run(tapec.constant(2.0), True)) == [9.0, 12.0]
    assert value(run(tapec.constant(2.0), False)) == [None, 12.0]


def test_variables_are_watched_when_read(wrap: Wrap) -> None:
    v, frozen = tapec.Variable(3.0), tapec.Variable(2.0, trainable=False)

    def f() -> Any:
        with tapec.GradientTape() as tape:
            y = v * v * frozen
        return tape.gradient(y, [v, frozen])

    assert value(wrap(f)()) == [12.0, None]


def test_watch_after_the_operation(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            y = x * x
            tape.watch(x)
            z = x * y
        return tape.gradient(z, x)

    assert value(wrap(f)(tapec.constant(3.0))) == 9.0


def test_read_before_the_block_is_no_source(wrap: Wrap) -> None:
    v = tapec.Variable(3.0)

    def f() -> Any:
        early = v.read_value()
        with tapec.GradientTape() as tape:
            y = early * early
            z = early * v
        return tape.gradient(y, v) if tape.watched_variables() == () else tape.gradient(z, v)

    assert value(wrap(f)()) == 3.0


def test_intermediate_source_stops_nothing(wrap: Wrap) -> None:
    v = tapec.Variable(2.0)

    def f() -> Any:
        with tapec.GradientTape() as tape:
            a = v * v
            y = a * a * v
        return tape.gradient(y, [a, v])

    assert value(wrap(f)()) == [16.0, 80.0]


def test_value_made_outside_and_watched_is_a_source_and_an_end(wrap: Wrap) -> None:
    v = tapec.Variable(3.0)

    def f() -> Any:
        a = v * 2.0
        with tapec.GradientTape() as tape:
            tape.watch(a)
            y = a * v
        return tape.gradient(y, [a, v])

    assert value(wrap(f)()) == [3.0, 6.0]  # the path v -> a was not recorded


def test_equal_computations_stay_apart_as_sources(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            a = x * x
            b = x * x
            y = a * 3.0 + b * 5.0
        return tape.gradient(y, a), tape.gradient(y, b), tape.gradient(y, x)

    assert value(wrap(f)(tapec.constant(2.0))) == (3.0, 5.0, 32.0)


def test_watched_variables_in_order_of_creation() -> None:
    a, b = tapec.Variable(1.0, name="a"), tapec.Variable(2.0, name="b")
    with tapec.GradientTape() as tape:
        _ = b * a * b
    assert [v.name for v in tape.watched_variables()] == ["a:0", "b:0"]
    tape.gradient(_, a)
    assert len(tape.watched_variables()) == 2


def test_watch_refuses_what_is_no_tensor() -> None:
    with tapec.GradientTape() as tape, pytest.raises(ValueError, match=r"Passed in object 3\.0"):
        tape.watch(3.0)
    with pytest.raises(tapec.errors.RuntimeError, match="enter the tape first"):
        tapec.GradientTape().watch(tapec.constant(1.0))


def test_watch_of_integers_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tapec"), tapec.GradientTape() as tape:
        tape.watch(tapec.constant(3))
    assert "must be floating" in caplog.text


# ---- the life of a tape


def test_second_gradient_is_refused_unless_persistent(wrap: Wrap) -> None:
    def once(x: tapec.Tensor, persistent: bool) -> Any:
        with tapec.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x), tape.gradient(y, x)

    assert value(wrap(once)(tapec.constant(2.0), True)) == (4.0, 4.0)
    with pytest.raises(RuntimeError, match="can only be used to compute one set of gradients"):
        wrap(once)(tapec.constant(2.0), False)


def test_gradient_before_any_block() -> None:
    with pytest.raises(RuntimeError, match="never recorded"):
        tapec.GradientTape().gradient(tapec.constant(1.0), tapec.constant(1.0))


def test_reentry() -> None:
    x = tapec.constant(3.0)
    tape = tapec.GradientTape()
    for _ in range(2):  # a plain tape starts anew after gradient()
        with tape:
            tape.watch(x)
            y = x * x
        assert value(tape.gradient(y, x)) == 6.0
    with tapec.GradientTape(persistent=True) as kept:
        kept.watch(x)
        y = x * x
    with kept:
        z = y * x
    assert value(kept.gradient(z, x)) == 27.0
    with kept, pytest.raises(ValueError, match="still recording"), kept:
        pass


def test_reset_and_stop_recording(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            with tape.stop_recording():
                hidden = x * x
            z = hidden * x
            half = tape.gradient(z, x)
            tape.reset()
            tape.watch(x)
            w = y * x
        return half, tape.gradient(w, x)

    assert value(wrap(f)(tapec.constant(3.0))) == (9.0, 9.0)
    with pytest.raises(ValueError, match="not recording"):
        tapec.GradientTape().reset()
    with pytest.raises(RuntimeError, match="not recording"), tapec.GradientTape().stop_recording():
        pass


def test_an_exception_leaves_no_tape_behind() -> None:
    from tapec.recording import active_tapes

    with pytest.raises(ZeroDivisionError), tapec.GradientTape():
        raise ZeroDivisionError
    assert active_tapes() == ()


def test_another_thread_is_not_recorded() -> None:
    v = tapec.Variable(3.0)
    found: list[tapec.Tensor] = []
    with tapec.GradientTape() as tape:
        worker = threading.Thread(target=lambda: found.append(v * v))
        worker.start()
        worker.join()
    assert tape.gradient(found[0], v) is None


# ---- gradient()


def test_structures() -> None:
    Pair = collections.namedtuple("Pair", "w b")
    w, b = tapec.Variable(3.0), tapec.Variable(2.0)
    with tapec.GradientTape(persistent=True) as tape:
        y = w * b
    assert value(tape.gradient(y, [w, b])) == [2.0, 3.0]
    assert value(tape.gradient(y, (w, b))) == (2.0, 3.0)
    assert {k: value(g) for k, g in tape.gradient(y, {"w": w, "b": b}).items()} == {
        "w": 2.0,
        "b": 3.0,
    }
    found = tape.gradient(y, Pair(w, b))
    assert isinstance(found, Pair)
    assert value(found.w) == 2.0
    assert value(tape.gradient(y, {"l": [w, (b,)]})["l"][1][0]) == 3.0
    with pytest.warns(UserWarning, match="no sources"):
        assert tape.gradient(y, []) == []
    assert value(tape.gradient(y, [w, w])) == [2.0, 2.0]


def test_targets_add_up(wrap: Wrap) -> None:
    x = tapec.constant([1.0, 2.0, 3.0])

    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, z = x * x, 3.0 * x
        return tape.gradient(y, x), tape.gradient([y, z], x), tape.gradient({"a": y, "b": z}, x)

    vector, both, mapped = value(wrap(f)(x))
    np.testing.assert_array_equal(vector, [2, 4, 6])
    np.testing.assert_array_equal(both, [5, 7, 9])
    np.testing.assert_array_equal(mapped, [5, 7, 9])


def test_target_that_is_the_source(wrap: Wrap) -> None:
    v = tapec.Variable(2.0)

    def f(c: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(c)
            y = c * 1.0
        return tape.gradient(c, c), tape.gradient([y, c], c), tape.gradient(v, v)

    assert value(wrap(f)(tapec.constant(5.0))) == (1.0, 2.0, 1.0)


def test_output_gradients(wrap: Wrap) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        weights = tapec.constant([10.0, 100.0])
        return (
            tape.gradient(y, x, output_gradients=weights),
            tape.gradient([y, y], x, output_gradients=[weights, None]),
        )

    weighted, mixed = value(wrap(f)(tapec.constant([1.0, 2.0])))
    np.testing.assert_array_equal(weighted, [20, 400])
    np.testing.assert_array_equal(mixed, [22, 404])


def test_output_gradients_that_do_not_fit() -> None:
    x = tapec.constant([1.0, 2.0])
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(
        ValueError, match=r"output_gradients\[0\] has shape \(3,\), target has \(2,\)"
    ):
        tape.gradient(y, x, output_gradients=tapec.ones([3]))
    with pytest.raises(ValueError, match="2 targets, but 1"):
        tape.gradient([y, y], x, output_gradients=[tapec.ones([2])])


def test_unconnected_gradients(wrap: Wrap) -> None:
    v, other = tapec.Variable(2.0), tapec.Variable([1.0, 2.0])

    def f(mode: Any) -> Any:
        with tapec.GradientTape() as tape:
            y = v * v + 0.0 * other[0]
            z = v * 3.0
        del y
        return tape.gradient(z, [v, other], unconnected_gradients=mode)

    assert value(wrap(f)("none")) == [3.0, None]
    np.testing.assert_array_equal(value(wrap(f)(tapec.UnconnectedGradients.ZERO))[1], [0, 0])
    with pytest.raises(ValueError, match=r"(?s)gradients: 'nonsense'.*hint: \"none\" or"):
        f("nonsense")


@pytest.mark.parametrize("target", [3.0, None, np.float32(1.0)])
def test_target_must_be_a_tensor(target: Any) -> None:
    v = tapec.Variable(1.0)
    with tapec.GradientTape(persistent=True) as tape:
        y = v * v
    with pytest.raises(TypeError, match=r"target (is None; it )?must be a Tensor"):
        tape.gradient(target, v)
    with pytest.raises(TypeError, match=r"sources\[1\] (is None; it )?must be a Tensor"):
        tape.gradient(y, [v, target])


def test_integers_have_no_gradient(wrap: Wrap) -> None:
    i = tapec.Variable(3)

    def f() -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            y = tapec.cast(i, tapec.float32) ** 2.0
            z = i * i
        return tape.gradient(y, i), tape.gradient(z, i)

    assert wrap(f)() == (None, None)


def test_stop_gradient_cuts_one_path(wrap: Wrap) -> None:
    x = tapec.Variable(2.0)

    def f() -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            y = x * tapec.stop_gradient(x * x)
            z = tapec.stop_gradient(x)
        return tape.gradient(y, x), tape.gradient(z, x)

    assert value(wrap(f)()) == (4.0, None)


def test_stop_recording_around_the_gradient(wrap: Wrap) -> None:
    """A tape whose gradient was taken inside of its block starts anew after it."""
    x = tapec.Variable(3.0)

    def function() -> Any:
        with tapec.GradientTape() as tape:
            y = x * x
            with tape.stop_recording():
                gradient = tape.gradient(y, x)
            z = x * gradient
        return gradient, tape.gradient(z, x)

    assert [float(v) for v in wrap(function)()] == [6.0, 6.0]


def test_a_tape_of_before_is_asked_inside_of_a_compiled_function() -> None:
    x = tapec.Variable(3.0)
    with tapec.GradientTape(persistent=True) as tape:
        y = x**3
    function = tapec.compile(lambda scale: scale * tape.gradient(y, x))
    assert float(function(tapec.constant(2.0))) == 54.0


def test_a_tape_that_left_its_compiled_function_is_refused() -> None:
    x = tapec.Variable(3.0)
    tape = tapec.GradientTape(persistent=True)

    @tapec.compile
    def function() -> tapec.Tensor:
        with tape:
            return x * x

    y = function()
    with pytest.raises(tapec.errors.RuntimeError, match="taken out of it"):
        tape.gradient(y, x)


def test_second_derivatives_of_a_compiled_function_with_a_cut() -> None:
    """Its values are computed again for the outer tape, which must not pass a `stop_gradient` then."""
    function = tapec.compile(lambda x: tapec.stop_gradient(x) * x * x)
    x = tapec.constant(3.0)
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        gradient = inner.gradient(y, x)
    assert float(gradient) == 18.0
    assert float(outer.gradient(gradient, x)) == 6.0


def test_a_compiled_function_that_returns_its_argument() -> None:
    function = tapec.compile(lambda a, b: (a, a * b))
    x = tapec.constant(3.0)
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch(x)
        same, product = function(x, x)
    assert float(tape.gradient(same, x)) == 1.0
    assert float(tape.gradient([same, product], x)) == 7.0


def test_an_assigned_argument_is_read_from_the_variable(wrap: Wrap) -> None:
    v, x = tapec.Variable(2.0), tapec.constant(3.0)

    def function(x: tapec.Tensor) -> tapec.Tensor:
        v.assign(x)
        return v * v

    run = wrap(function)
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = run(x)
    assert tape.gradient(y, x) is None
    assert float(tape.gradient(y, v)) == 6.0


def test_variables_read_after_they_were_assigned(wrap: Wrap) -> None:
    """Each read is a source; an assignment alone is no read."""
    v, only_written = tapec.Variable(2.0, name="v"), tapec.Variable(0.0)

    def function(x: tapec.Tensor) -> tapec.Tensor:
        before = v * x
        v.assign_add(1.0)
        only_written.assign_add(x)
        return before * v

    run = wrap(function)
    with tapec.GradientTape() as tape:
        y = run(tapec.constant(3.0))
    assert float(tape.gradient(y, v)) == 15.0
    assert [variable.name for variable in tape.watched_variables()] == ["v:0"]
