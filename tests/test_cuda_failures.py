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
    """A device that fails when it has been asked for so many things; from then on it works again.

    Ctrl-C comes when it has done what it was asked for.
    """

    asked: tuple[str, ...] = ASKED

    def __init__(self, error: BaseException, **options: Any) -> None:
        """How it fails; not before `left` is set."""
        super().__init__(**options)
        self.error = error
        self.left: int | None = None

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
        if name not in super().__getattribute__("asked") or self.left is None:
            return found
        if name != "allocate" and isinstance(self.error, MemoryError):
            return found
        self.left -= 1
        if self.left >= 0:
            return found
        self.left = None
        if isinstance(self.error, Exception):
            raise type(self.error)("failed")  # a new one, which no line is known of

        def interrupted(*args: Any) -> None:
            found(*args)
            raise KeyboardInterrupt

        return interrupted


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


ERRORS = {
    ResourceExhaustedError: MemoryError("none left"),
    InternalError: InternalError("failed"),
    KeyboardInterrupt: KeyboardInterrupt(),
}


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
        state = calls
        if error is not KeyboardInterrupt:
            assert "test_cuda_failures.py" in said
        elif np.allclose(found[0].numpy(), after[calls][0], rtol=1e-5, atol=1e-6):
            before, state = after[calls], calls + 1  # everything was launched
        if asked % 2:  # reading them is not what makes them whole
            assert_same([v.numpy() for v in found], before)
        step(X)
        assert_same([v.numpy() for v in found], after[state])
    # It failed at least once, but where a graph is replayed, which needs no more memory.
    needs_none = graphs and calls > 0 and error is ResourceExhaustedError
    assert (asked == 0) == needs_none


def solver(target: Any) -> tuple[Any, list[tapec.Variable]]:
    """A step that has as many turns as its numbers say, here two, and updates Variables in each of them and behind."""
    w = tapec.Variable(np.linspace(0, 1, 4, dtype=np.float32))
    count = tapec.Variable(0.0)

    def step(x: Any) -> Any:
        while tapec.reduce_sum(w) < x:
            w.assign(tapec.sort(w * 3.0, direction="DESCENDING"))
            count.assign_add(1.0)
        w.assign(w / x)
        return count * 2.0

    return tapec.compile(step, target=target), [w, count]


class FailingLaunches(Failing):
    """Fails in what is under way."""

    asked = ("launch", "download")


@pytest.mark.parametrize("error", [InternalError, KeyboardInterrupt])
def test_a_loop_that_fails_in_the_middle(monkeypatch: pytest.MonkeyPatch, error: Any) -> None:
    usual, expected = solver("cpu")
    after = []
    for _ in range(2):
        usual(9.0)
        after.append([v.numpy() for v in expected])
    for asked in itertools.count():
        device = FailingLaunches(ERRORS[error])
        monkeypatch.setitem(driver.OPENED, 0, device)
        step, found = solver("cuda")
        step(9.0)
        device.left = asked
        try:
            step(9.0)
        except error:
            assert_same([v.numpy() for v in found], after[0])
            step(9.0)
        else:
            device.left = None
            assert_same([v.numpy() for v in found], after[1])
            break
        assert_same([v.numpy() for v in found], after[1])
    assert asked > 9


def test_without_room_for_a_copy_the_host_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FailingLaunches(InternalError("failed"), graphs=False)
    monkeypatch.setitem(driver.OPENED, 0, device)
    step, found = trainer("cuda")
    step(X)
    step(X)
    before = [v.numpy() for v in found]
    step, found = trainer("cuda")
    step(X)
    step(X)
    device.room, device.left = 0, 3
    with pytest.raises(InternalError):
        step(X)
    assert_same([v.numpy() for v in found], before)


def test_reading_a_variable_of_a_device_that_failed_names_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However it is read."""
    for read in (
        lambda v: v.numpy(),
        lambda v: v + 1.0,
        np.asarray,
        repr,
        tapec.compile(lambda v: v + 1.0),
        lambda v: v.assign_add(v),
        lambda v: v[0].assign(1.0),
    ):
        device = FailingLaunches(InternalError("failed"))
        monkeypatch.setitem(driver.OPENED, 0, device)
        step, (w, _) = trainer("cuda")
        step(X)
        kept = w._array  # what somebody else has is copied before it is written to
        device.left = 0
        with pytest.raises(InternalError, match=r"test_cuda_failures\.py"):
            read(w)
        assert kept is w._array
        step(X)
