"""Calls during which a device fails, at every place where it can: Variables are whole, and the next call is right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from device_stand_in import StandIn

import tapec
from tapec.errors import InternalError, ResourceExhaustedError
from tapec.runtime.cuda.device import driver

#: What is asked of a device while a program is called.
ASKED = ("load", "allocate", "upload", "copy", "order", "launch", "record", "replay")
X = np.linspace(0, 1, 20, dtype=np.float32).reshape(5, 4)


class Failing(StandIn):
    """A device that fails when it has been asked for so many things; from then on it works again."""

    def __init__(self, error: Exception, **options: Any) -> None:
        """How it fails; not before `left` is set."""
        super().__init__(**options)
        self.error = error
        self.left: int | None = None
        self.is_proved = False

    def record(self, launches: Any, stream: int) -> Any:
        """None where one of the launches fails, as the driver has it."""
        try:
            return super().record(launches, stream)
        except InternalError:
            self._recording = None
            return None

    def replay(self, graph: Any, stream: int) -> None:
        """All of it or nothing."""
        left, self.left = self.left, None
        super().replay(graph, stream)
        self.left = left

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ASKED or self.left is None:
            return found
        if name == "launch" and not self.graphs and self.is_proved:
            return found  # what was launched before is launched again, by a device that is not lost
        if name != "allocate" and isinstance(self.error, MemoryError):
            return found
        self.left -= 1
        if self.left >= 0:
            return found
        self.left = None
        raise self.error


def trainer(target: Any) -> tuple[Any, list[tapec.Variable]]:
    """A step of several launches that updates Variables in several of them, and reads one."""
    w = tapec.Variable(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    b = tapec.Variable(np.zeros(3, np.float32))
    rate = tapec.Variable(0.5)

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.square(tapec.tanh(x @ w + b) - 0.5))
        for variable, gradient in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
            variable.assign_sub(rate * gradient)
        b.assign(tapec.sort(b * 2.0))
        return loss

    return tapec.compile(step, target=target), [w, b]


def assert_same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def is_done(device: Failing) -> bool:
    """Whether the device was asked for too little to fail."""
    return device.left is not None


ERRORS = {ResourceExhaustedError: MemoryError("none left"), InternalError: InternalError("failed")}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("calls", [0, 1])
def test_a_call_that_fails(
    monkeypatch: pytest.MonkeyPatch, error: Any, *, graphs: bool, calls: int
) -> None:
    """The first one, and one when Variables are on the device alone."""
    usual, expected = trainer("cpu")
    after = []
    for _ in range(3):
        usual(X)
        after.append([v.numpy() for v in expected])
    for asked in itertools.count():
        device = Failing(ERRORS[error], graphs=graphs)
        monkeypatch.setitem(driver.OPENED, 0, device)
        step, found = trainer("cuda")
        for _ in range(calls):
            step(X)
        before = after[calls - 1] if calls else [v.numpy() for v in found]
        device.is_proved = bool(calls)
        device.left = asked
        try:
            step(X)
        except error as raised:
            said = str(raised)
        else:
            # Where no graph can be made, kernels are launched one by one.
            assert_same([v.numpy() for v in found], after[calls])
            if is_done(device):
                break
            continue
        assert "test_cuda_failures.py" in said
        if asked % 2:  # reading them is not what makes them whole
            assert_same([v.numpy() for v in found], before)
        step(X)
        assert_same([v.numpy() for v in found], after[calls])
    assert asked > 0 or calls
