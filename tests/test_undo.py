"""An eager update that fails half-way, wherever that is, changes nothing; the next one is as if it had not been."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import errors
from tapec.optimizers import SGD, Adagrad, Adam, LossScaleOptimizer, RMSprop

ROWS = tapec.IndexedSlices([[1.0, 2.0], [3.0, 4.0], [0.5, 0.5]], [0, 2, 0], (3, 2))
#: How optimizers change Variables: all at once or by rows, with slots, averages, means over calls, constraints.
MAKERS: dict[str, Callable[[], Any]] = {
    "momentum": lambda: SGD(0.1, momentum=0.9, weight_decay=0.1),
    "rows": lambda: SGD(0.1),
    "decayed rows": lambda: SGD(0.1, weight_decay=0.1),
    "averaged rows": lambda: SGD(0.1, use_ema=True, ema_overwrite_frequency=1),
    "adam": lambda: Adam(0.1, amsgrad=True, use_ema=True, ema_overwrite_frequency=2),
    "adagrad": lambda: Adagrad(0.1, clipnorm=1.0),
    "several calls": lambda: RMSprop(0.1, gradient_accumulation_steps=2),
    "scaled": lambda: LossScaleOptimizer(SGD(0.1, momentum=0.9), dynamic_growth_steps=2),
}


class Failing:
    """Lets some values be given to Variables, and then has no memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: float = np.inf
        for name in ("assign", "write"):
            monkeypatch.setattr(tapec.Variable, name, self._counted(getattr(tapec.Variable, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(variable: tapec.Variable, *args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                self.left = np.inf  # what is taken back needs none
                raise errors.ResourceExhaustedError("none left")
            return method(variable, *args, **options)

        return counted


def variables_and_gradients() -> tuple[list[tapec.Variable], list[Any]]:
    variables = [
        tapec.Variable([1.0, 2.0, 3.0]),
        tapec.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        tapec.Variable(0.3, constraint=lambda v: tapec.minimum(v, 0.25)),
    ]
    return variables, [tapec.constant([0.5, -1.0, 0.1]), ROWS, tapec.constant(0.2)]


def bits(variables: Any) -> list[bytes]:
    return [v.numpy().tobytes() for v in variables]


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_half_updated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each change in turn: it fails, and all changes before are taken back."""
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    failing = Failing(monkeypatch)
    variables, gradients = variables_and_gradients()
    twins, _ = variables_and_gradients()
    optimizer, twin = MAKERS[name](), MAKERS[name]()
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    twin.apply_gradients(zip(gradients, twins, strict=True))
    everything = [*variables, *optimizer.variables]
    before = bits(everything)
    for allowed in range(100):
        failing.left = allowed
        try:
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        except errors.ResourceExhaustedError:
            assert bits(everything) == before, allowed
        else:
            break
    assert allowed > len(variables)
    failing.left = np.inf
    twin.apply_gradients(zip(gradients, twins, strict=True))
    assert bits(everything) == bits([*twins, *twin.variables])


def test_averages_move_together_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = [tapec.Variable([1.0, 2.0]), tapec.Variable(3.0)]
    averages = tapec.train.ExponentialMovingAverage(0.5, zero_debias=True)
    averages.apply(variables)
    before = bits([averages.average(v) for v in variables])
    for v in variables:
        v.assign(2 * v)
    failing = Failing(monkeypatch)
    failing.left = 1  # `assign` of the first one's; numbers of steps are added to
    with pytest.raises(errors.ResourceExhaustedError):
        averages.apply(variables)
    assert bits([averages.average(v) for v in variables]) == before
    averages.apply(variables)
    average: Any = averages.average(variables[0])
    np.testing.assert_allclose(average, np.array([5 / 3, 10 / 3]), rtol=1e-6)


def test_a_refused_list_begins_nothing() -> None:
    """Neither averages nor slots, which would begin with other values the next time."""
    kept, refused = tapec.Variable([1.0, 2.0]), tapec.Variable([1, 2])
    averages = tapec.train.ExponentialMovingAverage(0.5, zero_debias=True)
    for more in (refused, 3):
        with pytest.raises((ValueError, TypeError)):
            averages.apply([kept, more])  # type: ignore[list-item]
        assert averages.average(kept) is None
    optimizer = Adam(0.1, use_ema=True)
    with pytest.raises(TypeError):
        optimizer.build([kept, 3])  # type: ignore[list-item]
    failing = tapec.Variable(1.0, constraint=lambda v: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        optimizer.apply_gradients([(tapec.ones([2]), kept), (tapec.ones([]), failing)])
    assert len(optimizer.variables) == 2  # the count and the rate
    assert bits([kept]) == bits([tapec.Variable([1.0, 2.0])])


@pytest.mark.parametrize("turn", ["0", "2"])
def test_updates_of_threads_follow_each_other(turn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One optimizer for all: each update counts, and one that fails takes back no other's."""
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", turn)
    optimizer = SGD(0.5, gradient_accumulation_steps=2)
    shared, failing = tapec.Variable([0.0]), tapec.Variable(0.0, constraint=lambda v: 1 // 0)
    optimizer.build([shared, failing])

    def update() -> None:
        for n in range(40):
            if n % 4:
                optimizer.apply_gradients([(tapec.ones([1]), shared)])
                continue
            with pytest.raises(ZeroDivisionError):
                optimizer.apply_gradients([(tapec.ones([1]), shared), (tapec.ones([]), failing)])

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(update) for _ in range(4)]:
                done.result()
    finally:
        sys.setswitchinterval(before)
    assert optimizer.variables[0].numpy() == 4 * 30
    np.testing.assert_allclose(shared, [-0.5 * 4 * 30 / 2])
    twin = copy.deepcopy(optimizer)
    assert twin.variables[0] is not optimizer.variables[0]
