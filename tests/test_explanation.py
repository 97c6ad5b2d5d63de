"""What explanations say, who passes them on, and what they cost in memory."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tapec
from tapec.explanations.trail import AFTERWARDS, CAPACITY
from tapec.recording import bystanders

# ---- what an explanation says


def test_whole_text() -> None:
    v = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        a = tapec.stop_gradient(v * v)
        loss = tapec.reduce_sum(a)
    found = tape.explain(loss, v)
    line = found.location.line if found.location else 0
    assert str(found) == (
        f"the gradient of loss with respect to v is None: the path v -> mul (line {line}) -> "
        f"stop_gradient (line {line}) is cut by stop_gradient at line {line}\n"
        f"  {__file__}:{line}   a = tapec.stop_gradient(v * v)\n"
        "  remedy: take stop_gradient away if a gradient is to flow here"
    )
    assert found.__rich__().startswith("[bold]the gradient of loss")


def test_names_in_containers() -> None:
    weights = [tapec.Variable(1.0), tapec.Variable(2.0)]
    model = {"bias": tapec.Variable(0.5)}
    with tapec.GradientTape() as tape:
        y = weights[0] * 2.0
    found = tape.explain(y, model["bias"])
    assert "respect to model['bias'] is None" in found.message
    assert "y depends on: weights[0]" in found.message


def test_several_cuts() -> None:
    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        a = tapec.round(v)
        b = tapec.stop_gradient(v)
        y = a * b
    found = tape.explain(y, v)
    assert found.location is not None
    assert found.cause == "no derivative"
    (other,) = found.further
    assert other.cause == "stop_gradient"
    assert other.location is not None
    assert other.location.line == found.location.line + 1
    assert other.message in str(found)


def test_what_a_function_stops_inside_is_not_blamed() -> None:
    v = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        a = tapec.nn.softmax(v)  # stops the gradient of the greatest element, and passes the others
        b = tapec.round(a)
        y = tapec.reduce_sum(b)
    found = tape.explain(y, v)
    assert found.cause == "no derivative"
    assert [operation.split()[0] for operation in found.path] == ["softmax", "round"]


def test_connected() -> None:
    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        y = v * float(v)
    found = tape.explain(y, v)
    assert found.cause == "connected"
    assert "float()" in found.message
    assert tape.gradient(y, v) is not None


def test_refused() -> None:
    with pytest.raises(tapec.errors.RuntimeError, match="never recorded"):
        tapec.GradientTape().explain(tapec.constant(1.0), tapec.constant(1.0))
    with tapec.GradientTape() as tape:
        pass
    with pytest.raises(tapec.errors.TypeError, match="source must be a Tensor or Variable"):
        tape.explain(tapec.constant(1.0), 1.0)


# ---- optimizers


def test_optimizer_warns_with_the_explanation() -> None:
    v, w = tapec.Variable(2.0, name="v"), tapec.Variable(1.0, name="w")
    optimizer = tapec.optimizers.SGD(0.1)

    def step() -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            loss = tapec.stop_gradient(v) * w
        gradients = tape.gradient(loss, [v, w])
        optimizer.apply_gradients(zip(gradients, [v, w], strict=True))
        return loss

    for run in (step, tapec.compile(step)):
        with pytest.warns(
            UserWarning, match=r"(?s)for variables \['v:0'\].*cut by stop_gradient at"
        ):
            run()


def test_optimizer_refuses_with_the_explanation() -> None:
    v = tapec.Variable(2.0, name="v")
    with tapec.GradientTape() as tape:
        loss = tapec.round(v) * 3.0
    gradient = tape.gradient(loss, v)
    with pytest.raises(tapec.errors.ValueError, match=r"cut by round at line \d+"):
        tapec.optimizers.SGD(0.1).apply_gradients([(gradient, v)])


def test_the_reason_outlives_the_tape() -> None:
    v = tapec.Variable(2.0, name="v")

    def gradient() -> tapec.Tensor | None:
        with tapec.GradientTape() as tape:
            loss = tapec.round(v) * 3.0
        found: tapec.Tensor | None = tape.gradient(loss, v)
        return found

    for run in (gradient, tapec.compile(gradient)):
        missing = run()
        gc.collect()
        for refuse in (
            lambda g: tapec.optimizers.SGD(0.1).apply_gradients([(g, v)]),
            lambda g: tapec.clip_by_norm(g, 1.0),
            lambda g: tapec.clip_by_value(g, -1.0, 1.0),
            lambda g: tapec.debugging.check_numerics(g, "gradient"),
            lambda g: tapec.convert_to_tensor(g),
            lambda g: v - 0.1 * v * g,
        ):
            with pytest.raises(tapec.errors.ValueError, match=r"loss .* v .*cut by round at line"):
                refuse(missing)


def test_a_none_that_is_no_gradient() -> None:
    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        y = v * v
    assert tape.gradient(y, v, unconnected_gradients="zero") is not None
    optimizer = tapec.optimizers.SGD(0.1)
    with pytest.raises(tapec.errors.ValueError, match=r"tape.explain.loss, variable. says why"):
        optimizer.apply_gradients([(None, v)])


# ---- memory


def test_nothing_keeps_arrays_or_tapes_alive() -> None:
    # What a function without assertions leaves behind: pytest's read the locals, and so keep them.
    def program() -> tuple[bool, bool]:
        v = tapec.Variable(np.ones(3, np.float32))
        with tapec.GradientTape() as tape:
            a = tapec.exp(v)
            loss = tapec.reduce_sum(tapec.stop_gradient(a) * 2.0) + tapec.reduce_sum(a * a)
        array, trail = weakref.ref(a.array), weakref.ref(tape.trail)
        gradient = tape.gradient(loss, tapec.constant(1.0))
        del a
        kept = array() is not None
        del tape
        return kept or gradient is not None, trail() is not None

    gc.disable()
    try:
        assert program() == (False, False)
    finally:
        gc.enable()


def test_a_tape_that_waits_listens_for_a_while() -> None:
    v = tapec.Variable(2.0)
    gc.collect()
    before = len(bystanders)
    with tapec.GradientTape(persistent=True) as tape:
        y = v * v
    assert len(bystanders) == before + 1
    z = y
    for _ in range(AFTERWARDS + 1):
        z = z * 1.0
    assert len(bystanders) == before
    g = tape.gradient(y, v)
    assert tape.explain(g, v).cause == "gradient outside the block"
    assert len(bystanders) == before + 1
    del tape
    gc.collect()


def test_a_tape_that_gave_its_gradient_listens_no_longer() -> None:
    v = tapec.Variable(2.0)
    gc.collect()
    before = len(bystanders)
    with tapec.GradientTape() as tape:
        y = v * v
    assert tape.gradient(y, v) is not None
    assert len(bystanders) == before


def test_many_steps_are_bounded() -> None:
    x = tapec.constant(2.0)
    with tapec.GradientTape() as tape:
        y = x
        for _ in range(CAPACITY + 10):
            y = y * 1.0
            y.numpy()
    assert len(tape.trail.steps) == len(tape.trail.departures) == CAPACITY
    assert tape.explain(y, x).cause in ("not used", "not watched", "left the tape")
