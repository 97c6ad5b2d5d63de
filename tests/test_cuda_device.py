"""Programs on a device that a stand-in plays: what is copied, what stays there, what fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_stand_in import StandIn

import tapec
from tapec.runtime.cuda import program


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The device that programs are made for."""
    found = StandIn()
    monkeypatch.setattr(program, "device", lambda: found)
    return found


def trainer(target: Any, **options: Any) -> tuple[Any, list[tapec.Variable]]:
    """A step of gradient descent, and what it trains."""
    w = tapec.Variable(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    b = tapec.Variable(np.zeros(3, np.float32))

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.square(tapec.tanh(x @ w + b) - 0.5))
        for variable, gradient in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
            variable.assign_sub(0.5 * gradient)
        return loss

    return tapec.compile(step, target=target, **options), [w, b]


def batch() -> Any:
    return np.linspace(0, 1, 20, dtype=np.float32).reshape(5, 4)


def test_variables_stay_on_the_device(device: StandIn) -> None:
    usual, expected = trainer("cpu")
    step, found = trainer("cuda")
    for _ in range(3):
        np.testing.assert_allclose(step(batch()).numpy(), usual(batch()).numpy(), rtol=1e-6)
    # Two Variables once, the argument each time; the loss each time.
    assert (device.counts["upload"], device.counts["download"]) == (5, 3)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-7)
    assert device.counts["download"] == 5
    found[0].numpy()
    assert device.counts["download"] == 5


def test_what_the_host_assigns_is_seen(device: StandIn) -> None:
    usual, expected = trainer("cpu")
    step, found = trainer("cuda")
    for one, variables in ((step, found), (usual, expected)):
        one(batch())
        variables[0].assign_add(np.full((4, 3), 0.25, np.float32))
        variables[1].assign(np.ones(3, np.float32))
        one(batch())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-7)


def test_programs_of_the_host_read_what_the_device_wrote(device: StandIn) -> None:
    step, (w, _) = trainer("cuda")
    total = tapec.compile(lambda: tapec.reduce_sum(w))
    for _ in range(2):
        step(batch())
        np.testing.assert_allclose(total().numpy(), w.numpy().sum(), rtol=1e-5)


def test_a_step_is_one_graph(device: StandIn) -> None:
    step, _ = trainer("cuda")
    for _ in range(3):
        step(batch())
    assert (device.counts["record"], device.counts["replay"]) == (1, 3)


def test_without_graphs_kernels_are_launched_one_by_one(device: StandIn) -> None:
    device.graphs = False
    step, _ = trainer("cuda")
    step(batch())
    assert device.counts["replay"] == 0
    assert device.counts["launch"] > 0


def test_no_memory_updates_nothing(device: StandIn) -> None:
    step, variables = trainer("cuda")
    before = [v.numpy().copy() for v in variables]
    device.room = 100
    with pytest.raises(tapec.errors.ResourceExhaustedError, match="no memory left"):
        step(batch())
    for variable, old in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)


def test_loops_that_depend_on_numbers(device: StandIn) -> None:
    @tapec.compile(target="cuda")
    def halve(x: Any) -> Any:
        while tapec.reduce_max(x) > 1.0:
            x = x / 2.0
        return x

    np.testing.assert_array_equal(halve(np.array([9.0, 4.0], np.float32)).numpy(), [0.5625, 0.25])


def test_no_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise tapec.errors.TargetError("there is no CUDA driver on this machine")

    monkeypatch.setattr(program, "device", missing)
    with pytest.raises(tapec.errors.TargetError, match="no CUDA driver"):
        tapec.compile(lambda x: x + 1.0, target="cuda")(np.ones(3, np.float32))


def test_targets_and_engines_are_named() -> None:
    with pytest.raises(ValueError, match="there is no target 'tpu'"):
        tapec.compile(lambda x: x, target="tpu")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="there is no engine 'simulator'"):
        tapec.compile(lambda x: x, engine="simulator")
