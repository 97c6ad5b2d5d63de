"""Optimizers: three steps of each rule, with the values that Keras gives for them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from traced import traced_results

import tapec
from tapec import errors, optimizers
from tapec.optimizers import SGD, Adam, AdamW, schedules

START = [1.0, -2.0, 0.0]
GRADIENTS = [[0.1, -0.2, 0.0], [0.3, 0.1, 0.5], [-0.2, 0.4, 0.1]]

# Made with Keras 3 on TensorFlow.
RULES: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "SGD": (lambda: SGD(0.1), [0.98, -2.03, -0.06]),
    "SGD momentum": (lambda: SGD(0.1, momentum=0.9), [0.9359, -2.0048, -0.105]),
    "SGD nesterov": (lambda: SGD(0.1, momentum=0.9, nesterov=True), [0.92231, -2.03432, -0.1545]),
    "RMSprop": (lambda: optimizers.RMSprop(0.1), [0.5583, -2.11307, -0.38146]),
    "RMSprop centered": (
        lambda: optimizers.RMSprop(0.1, momentum=0.5, centered=True),
        [0.102693, -1.92909, -0.569884],
    ),
    "Adam": (lambda: Adam(0.1), [0.782437, -1.9191, -0.14335]),
    "Adam epsilon": (lambda: Adam(0.1, epsilon=0.1), [0.985864, -1.99808, -0.0197278]),
    "Adam amsgrad": (lambda: Adam(0.1, amsgrad=True), [0.782437, -1.9191, -0.14335]),
    "Adam decay": (lambda: Adam(0.1, weight_decay=0.05), [0.768969, -1.89038, -0.142978]),
    "AdamW": (lambda: AdamW(0.1, weight_decay=0.05), [0.768969, -1.89038, -0.142978]),
    "AdamW default": (lambda: AdamW(0.1), [0.781355, -1.91679, -0.14332]),
    "Adagrad": (lambda: optimizers.Adagrad(0.1), [0.943592, -2.04421, -0.101182]),
    "Adadelta": (lambda: optimizers.Adadelta(1.0), [0.998179, -2.00142, -0.00181622]),
    "Adamax": (lambda: optimizers.Adamax(0.1), [0.812987, -1.90918, -0.0932626]),
    "Nadam": (lambda: optimizers.Nadam(0.1), [0.842713, -2.02477, -0.131544]),
    "Ftrl": (lambda: optimizers.Ftrl(0.1), [-0.00987094, -0.353901, -0.101182]),
    "Ftrl regularised": (
        lambda: optimizers.Ftrl(
            0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.1
        ),
        [-0.00809552, -0.334604, -0.0962457],
    ),
    "Lion": (lambda: optimizers.Lion(0.1), [0.9, -2.1, -0.2]),
    "Adafactor": (lambda: optimizers.Adafactor(0.1), [0.844622, -2.11132, -0.180365]),
    "Lamb": (lambda: optimizers.Lamb(0.1), [0.631027, -1.89914, -0.27786]),
    "clipnorm": (lambda: SGD(1.0, clipnorm=0.1), [0.948213, -2.01475, -0.106337]),
    "clipvalue": (lambda: SGD(1.0, clipvalue=0.15), [0.9, -2.1, -0.25]),
    "global_clipnorm": (lambda: SGD(1.0, global_clipnorm=0.1), [0.948213, -2.01475, -0.106337]),
    "averages": (
        lambda: SGD(1.0, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
        [0.95, -2.25, -0.35],
    ),
    "accumulation": (lambda: SGD(1.0, gradient_accumulation_steps=2), [0.8, -1.95, -0.25]),
}


@pytest.mark.parametrize("name", RULES)
def test_three_steps(name: str) -> None:
    make, expected = RULES[name]
    optimizer = make()
    v = tapec.Variable(START)
    for g in GRADIENTS:
        optimizer.apply_gradients([(tapec.constant(g), v)])
    np.testing.assert_allclose(v.numpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", RULES)
def test_a_traced_step_equals_an_eager_one(name: str) -> None:
    """The second step, as one program over the state after the first."""
    optimizer = RULES[name][0]()
    v = tapec.Variable(START, name="weight")
    optimizer.apply_gradients([(tapec.constant(GRADIENTS[0]), v)])
    before = [x.numpy() for x in (v, *optimizer.variables)]

    def step(g: tapec.Tensor) -> tapec.Tensor:
        optimizer.apply_gradients([(g, v)])
        return v.read_value()

    gradient = np.array(GRADIENTS[1], np.float32)
    result, *_ = traced_results(step, [gradient])
    for variable, value in zip((v, *optimizer.variables), before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)  # tracing has run nothing
    step(tapec.constant(gradient))
    np.testing.assert_allclose(result, v.numpy(), rtol=1e-6)


def test_a_matrix_under_adafactor_keeps_rows_and_columns() -> None:
    v = tapec.Variable(np.ones((2, 3), np.float32), name="w")
    optimizer = optimizers.Adafactor(0.1)
    optimizer.apply_gradients([(tapec.constant([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), v)])
    assert [s.shape.as_list() for s in optimizer.variables[2:]] == [[2], [3]]
    g = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]) ** 2
    second = np.outer(g.mean(1) / g.mean(), g.mean(0))
    step = np.sqrt(g / second)
    expected = 1 - 0.1 * step / max(1, np.sqrt((step**2).mean()))
    np.testing.assert_allclose(v.numpy(), expected, rtol=1e-5)


# -- state


def test_iterations_count() -> None:
    v, optimizer = tapec.Variable(1.0), Adam()
    for _ in range(3):
        optimizer.apply_gradients([(tapec.constant(0.1), v)])
    assert optimizer.iterations.dtype == tapec.int64
    assert int(optimizer.iterations) == 3


def test_the_learning_rate_is_a_variable() -> None:
    v, optimizer = tapec.Variable(1.0), SGD(0.1)
    rate = optimizer.learning_rate
    optimizer.learning_rate = 0.5
    assert optimizer.learning_rate is rate
    optimizer.apply_gradients([(tapec.constant(1.0), v)])
    rate.assign(0.25)
    optimizer.apply_gradients([(tapec.constant(1.0), v)])
    assert v.numpy() == 0.25


def test_slots_are_made_lazily_and_listed() -> None:
    a, b = tapec.Variable([1.0], name="a"), tapec.Variable([[1.0]], name="b")
    optimizer = Adam(0.1)
    optimizer.apply_gradients([(tapec.constant([1.0]), a)])
    optimizer.apply_gradients([(tapec.constant([[1.0]]), b)])
    names = ["iteration", "learning_rate", "a_momentum", "a_velocity", "b_momentum", "b_velocity"]
    assert [v.name for v in optimizer.variables] == [f"{name}:0" for name in names]
    assert not any(v.trainable for v in optimizer.variables)
    built = Adam(0.1)
    built.build([a, b])
    assert len(built.variables) == len(optimizer.variables)


def test_dtypes() -> None:
    """State has the variable's dtype; a gradient of another float dtype is converted."""
    v = tapec.Variable([1.0, 2.0], dtype=tapec.float64)
    optimizer = Adam(0.1)
    optimizer.apply_gradients([(tapec.constant([1.0, 2.0]), v)])
    assert optimizer.variables[2].dtype == tapec.float64
    np.testing.assert_allclose(v.numpy(), [0.900001, 1.900001], atol=1e-6)
    w = tapec.Variable([1.0, 2.0])
    SGD(0.1).apply_gradients([(np.array([1.0, 2.0]), w)])
    np.testing.assert_allclose(w.numpy(), [0.9, 1.8])


def test_constraints_hold_after_the_update() -> None:
    v = tapec.Variable(0.05, constraint=lambda x: tapec.maximum(x, 0.0))
    SGD(0.1).apply_gradients([(tapec.constant(1.0), v)])
    assert v.numpy() == 0.0


def test_excluded_variables_do_not_decay() -> None:
    a, b = tapec.Variable(1.0), tapec.Variable(1.0)
    optimizer = SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay([b])
    zero = tapec.constant(0.0)
    optimizer.apply_gradients([(zero, a), (zero, b)])
    np.testing.assert_allclose([a.numpy(), b.numpy()], [0.95, 1.0])


def test_a_variable_that_is_not_trainable_is_updated_if_passed() -> None:
    v = tapec.Variable(1.0, trainable=False)
    SGD(0.1).apply_gradients([(tapec.constant(1.0), v)])
    assert v.numpy() == np.float32(0.9)


def test_from_config() -> None:
    copy = Adam.from_config(Adam(0.25, beta_1=0.5, clipnorm=1.0).get_config())
    assert isinstance(copy, Adam)
    assert (float(copy.learning_rate), copy.beta_1, copy.clipnorm) == (0.25, 0.5, 1.0)
    assert type(optimizers.get("rmsprop", rho=0.5)) is optimizers.RMSprop


# -- gradients that are missing or do not fit


def test_one_gradient_is_none() -> None:
    a, b = tapec.Variable(1.0, name="a"), tapec.Variable(1.0, name="b")
    with pytest.warns(UserWarning, match=r"Gradients do not exist for variables \['b:0'\]"):
        AdamW(0.1, weight_decay=0.5).apply_gradients([(tapec.constant(1.0), a), (None, b)])
    assert a.numpy() == pytest.approx(0.850001, abs=1e-6)
    assert b.numpy() == 1.0


@pytest.mark.parametrize(
    ("pairs", "kind", "message"),
    [
        (lambda v: [(None, v)], errors.ValueError, "No gradients provided for any variable"),
        (lambda v: [], errors.ValueError, "no .gradient, variable. pairs"),
        (lambda v: [(tapec.ones([3]), v)], errors.InvalidArgumentError, "'w:0' with shape .2."),
        (lambda v: [(tapec.ones([]), v)], errors.InvalidArgumentError, "shapes must be equal"),
        (lambda v: [(v, tapec.ones([2]))], errors.AttributeError, "pairs are .gradient, variable."),
    ],
    ids=["all None", "no pairs", "another shape", "a scalar", "swapped"],
)
def test_refused(pairs: Any, kind: type[Exception], message: str) -> None:
    v = tapec.Variable([1.0, 2.0], name="w")
    with pytest.raises(kind, match=message):
        SGD(0.1).apply_gradients(pairs(v))


def test_arguments_are_checked() -> None:
    with pytest.raises(errors.ValueError, match="Only one of `clipnorm`, `clipvalue`"):
        SGD(1.0, clipnorm=0.1, clipvalue=0.1)
    with pytest.raises(errors.ValueError, match="`momentum` must be"):
        SGD(0.1, momentum=2.0)
    with pytest.raises(errors.ValueError, match=">= 2"):
        SGD(0.1, gradient_accumulation_steps=1)


def test_a_gradient_that_is_not_finite_is_applied() -> None:
    v = tapec.Variable(1.0)
    SGD(0.1).apply_gradients([(tapec.constant(float("nan")), v)])
    assert np.isnan(v.numpy())


def test_loss_scale() -> None:
    """A step that overflows is left out and halves the scale; good steps double it."""
    v = tapec.Variable(1.0)
    inner = SGD(0.1)
    optimizer = optimizers.LossScaleOptimizer(inner, initial_scale=1024.0, dynamic_growth_steps=2)
    seen = []
    for g in (1.0, float("inf"), 1.0, 1.0):
        optimizer.apply_gradients([(optimizer.scale_loss(g), v)])
        seen.append((round(float(v), 6), float(optimizer.dynamic_scale)))
    assert seen == [(0.9, 1024.0), (0.9, 512.0), (0.8, 512.0), (0.7, 1024.0)]
    assert int(inner.iterations) == 3


def test_minimize() -> None:
    """Of a function, of a tensor with its tape, scaled, and compiled: the same step."""
    start = [1.0, -2.0]

    def loss() -> Any:
        return tapec.reduce_sum(w * w * w)

    def of_a_tensor(optimizer: Any) -> None:
        with tapec.GradientTape() as tape:
            value = loss()
        optimizer.minimize(value, [w], tape=tape)

    w = tapec.Variable(start)
    steps: list[Any] = [
        lambda o: o.minimize(loss, [w]),
        lambda o: o.minimize(loss, lambda: [w], tape=tapec.GradientTape(persistent=True)),
        of_a_tensor,
        lambda o: tapec.compile(lambda: o.minimize(loss, [w]))(),
    ]
    for step in steps:
        for optimizer in (SGD(0.1), optimizers.LossScaleOptimizer(SGD(0.1))):
            w.assign(start)
            step(optimizer)
            np.testing.assert_allclose(w.numpy(), [0.7, -3.2], rtol=1e-6)
            assert int(optimizer.iterations) == 1
    with pytest.raises(tapec.errors.ValueError, match="`tape` is required"):
        SGD(0.1).minimize(loss(), [w])


def test_attributes_that_optimizers_lack() -> None:
    with pytest.raises(AttributeError, match=r"use the Variables in opt\.variables"):
        SGD(0.1).get_weights()
    with pytest.raises(AttributeError, match=r"did you mean .*CosineDecay"):
        optimizers.schedules.CosineDecays  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(copy.copy(SGD(0.1)), "anything")


# -- schedules


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        (schedules.PiecewiseConstantDecay([2, 4], [1.0, 0.5, 0.1]), 2, 1.0),
        (schedules.PiecewiseConstantDecay([2, 4], [1.0, 0.5, 0.1]), 3, 0.5),
        (schedules.PiecewiseConstantDecay([2, 4], [1.0, 0.5, 0.1]), 5, 0.1),
        (schedules.CosineDecay(1.0, 10), 5, 0.5),
        (schedules.CosineDecay(1.0, 10, alpha=0.1), 99, 0.1),
        (schedules.CosineDecay(0.0, 10, warmup_target=1.0, warmup_steps=4), 2, 0.5),
        (schedules.CosineDecay(0.0, 10, warmup_target=1.0, warmup_steps=4), 9, 0.5),
        (schedules.PolynomialDecay(1.0, 10, 0.1), 5, 0.55),
        (schedules.PolynomialDecay(1.0, 10, 0.0, power=2.0, cycle=True), 15, 0.0625),
        (schedules.InverseTimeDecay(1.0, 2, 0.5), 4, 0.5),
        (schedules.ExponentialDecay(1.0, 2, 0.5), 3, 0.5**1.5),
        (schedules.ExponentialDecay(1.0, 2, 0.5, staircase=True), 3, 0.5),
    ],
)
def test_schedule(schedule: Any, step: int, rate: float) -> None:
    value = schedule(tapec.constant(step, tapec.int64))
    assert value.dtype == tapec.float32
    assert value.numpy() == pytest.approx(rate, rel=1e-6)
    (traced,) = traced_results(schedule, [np.array(step)])
    assert traced == pytest.approx(rate, rel=1e-6)


def test_an_optimizer_follows_its_schedule() -> None:
    v = tapec.Variable(1.0)
    optimizer = SGD(schedules.ExponentialDecay(0.1, 2, 0.5))
    for _ in range(3):
        optimizer.apply_gradients([(tapec.constant(1.0), v)])
    assert v.numpy() == pytest.approx(0.779289, rel=1e-6)
    assert optimizer.learning_rate.numpy() == pytest.approx(0.0353553, rel=1e-5)


def test_schedules_check_their_arguments() -> None:
    with pytest.raises(errors.ValueError, match="decay_steps"):
        schedules.CosineDecay(1.0, 0)
    with pytest.raises(errors.ValueError, match="2 boundaries need 3 values"):
        schedules.PiecewiseConstantDecay([1, 2], [0.1, 0.2])


def test_copies_of_an_optimizer_follow_copies_of_the_variables() -> None:
    v = tapec.Variable([1.0, 2.0])
    optimizer = Adam(0.1, weight_decay=0.1)
    optimizer.exclude_from_weight_decay([v])
    one = tapec.ones(2)
    optimizer.apply_gradients([(one, v)])
    copies = [copy.deepcopy((v, optimizer)), pickle.loads(pickle.dumps((v, optimizer)))]
    optimizer.apply_gradients([(-one, v)])
    for w, copied in copies:
        copied.apply_gradients([(-one, w)])
        assert len(copied.variables) == len(optimizer.variables)
        np.testing.assert_array_equal(w.numpy(), v.numpy())


def test_the_warning_names_the_users_line() -> None:
    v, w = tapec.Variable(1.0), tapec.Variable(1.0)
    with pytest.warns(UserWarning, match="Gradients do not exist") as caught:
        SGD(0.1).apply_gradients([(tapec.constant(1.0), v), (None, w)])
    assert caught[0].filename == __file__


def test_slots_take_no_second_trace() -> None:
    """They are there for the next call as if `build` had made them, also where a branch is the first to need them."""
    w, v = tapec.Variable([1.0, 2.0]), tapec.Variable(3.0)
    optimizer, runs = tapec.optimizers.Adam(0.1), []

    @tapec.compile
    def step(x: tapec.Tensor) -> tapec.Tensor:
        runs.append(x)
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(w * w) * v
        gradients = tape.gradient(loss, [w, v])
        if x > 0.0:
            optimizer.apply_gradients(zip(gradients, [w, v], strict=True))
        else:
            optimizer.apply_gradients([(gradients[0], w)])
        return loss

    losses = [float(step(tapec.constant(x))) for x in (1.0, -1.0, 1.0)]
    assert len(runs) == 1
    assert losses[0] == 15
    assert losses == sorted(losses, reverse=True)
    assert int(optimizer.iterations) == 3
    assert len(optimizer.variables) == 6


def test_they_show_what_they_were_made_with() -> None:
    schedule = tapec.optimizers.schedules.CosineDecay(0.5, 10)
    optimizer = tapec.optimizers.SGD(schedule, momentum=0.9, clipnorm=1.0)
    shown = eval(repr(optimizer), {**vars(tapec.optimizers), **vars(tapec.optimizers.schedules)})
    assert repr(shown) == repr(optimizer)
    assert shown.momentum == 0.9
    assert repr(tapec.optimizers.Adam(0.25)).startswith("Adam(learning_rate=0.25, beta_1=0.9,")
