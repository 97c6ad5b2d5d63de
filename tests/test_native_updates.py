"""Optimizers in eager loops: an update that repeats itself runs as a native program, and its values are as before."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import optimizers
from tapec.compiled import function
from tapec.compiled.function import CompiledFunction
from tapec.optimizers import native

SHAPES = ((3, 4), (4,))


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many kinds of updates were met, and how often native programs made them."""
    found: Counter[str] = Counter()
    compile = function.compile

    def compiled(update: Callable[..., Any], **options: Any) -> Any:
        found["kinds"] += 1
        program: CompiledFunction[Any, Any] = compile(update, **options)

        def run(*tensors: Any) -> None:
            found["native"] += 1
            program(*tensors)

        return run

    monkeypatch.setattr(native, "compile", compiled)
    # Tapes of other tests, which may still wait for their gradient, would hear each assignment.
    monkeypatch.setattr(native, "bystanders", {})
    return found


def trained(optimizer: Any, steps: int = 5) -> list[Any]:
    """What variables and all state are after some updates."""
    rng = np.random.default_rng(0)
    variables = [tapec.Variable(rng.random(shape, np.float32)) for shape in SHAPES]
    for _ in range(steps):
        gradients = [tapec.constant(rng.standard_normal(s).astype(np.float32)) for s in SHAPES]
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return [v.numpy() for v in (*variables, *optimizer.variables)]


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    **{
        name: getattr(optimizers, name)
        for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam")
    },
    "momentum": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "clipped": lambda: optimizers.Adam(0.1, global_clipnorm=0.5),
    "averaged": lambda: optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2),
    "accumulated": lambda: optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "scheduled": lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "steps of rates": lambda: optimizers.SGD(
        optimizers.schedules.PiecewiseConstantDecay([1, 3], [0.1, 0.2, 0.3])
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_values_are_as_before(
    name: str, runs: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = trained(OPTIMIZERS[name]())
    assert runs == {"kinds": 1, "native": 4}
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    for value, wanted in zip(found, trained(OPTIMIZERS[name]()), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-7)
    assert runs["native"] == 4


def test_rates_are_no_kind_of_update_and_settings_are(runs: Counter[str]) -> None:
    w = tapec.Variable([1.0])
    optimizer = optimizers.SGD(0.5, momentum=0.0)
    for rate in (0.5, 0.25, 0.125):
        optimizer.learning_rate = rate
        optimizer.apply_gradients([(tapec.constant([1.0]), w)])
    assert w.numpy().tolist() == [0.125]
    assert runs == {"kinds": 1, "native": 2}
    optimizer.clipvalue = 0.5
    for _ in range(2):
        optimizer.apply_gradients([(tapec.constant([1.0]), w)])
    assert w.numpy().tolist() == [0.0]
    assert runs == {"kinds": 2, "native": 3}


def test_a_schedule_that_is_changed_is_heeded() -> None:
    schedule = optimizers.schedules.ExponentialDecay(0.5, 1, 1.0)
    optimizer, w = optimizers.SGD(schedule), tapec.Variable([1.0])
    for _ in range(3):
        optimizer.apply_gradients([(tapec.constant([0.5]), w)])
    schedule.initial_learning_rate = 1.0
    optimizer.apply_gradients([(tapec.constant([0.5]), w)])
    assert w.numpy().tolist() == [-0.25]


def test_slices_are_updated_natively_too(runs: Counter[str]) -> None:
    table = tapec.Variable(np.ones((5, 2), np.float32))
    optimizer = optimizers.SGD(0.5)
    for row in (1, 3, 3):
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(tapec.gather(table, [row, row]))
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        del tape
    assert table.numpy()[:, 0].tolist() == [1, 0, 1, -1, 1]
    assert runs == {"kinds": 1, "native": 2}


def test_what_may_do_anything_stays_python(runs: Counter[str]) -> None:
    class Counting(optimizers.SGD):
        calls = 0

        def update(self, *args: Any) -> None:
            Counting.calls += 1
            super().update(*args)

    trained(Counting(0.1))
    assert Counting.calls == 5 * len(SHAPES)
    trained(optimizers.SGD(lambda: 0.1))
    assert not runs


def test_a_tape_hears_every_assignment(runs: Counter[str]) -> None:
    with tapec.GradientTape():
        trained(optimizers.SGD(0.1))
    assert not runs["native"]


def test_a_gradient_that_shares_the_variable_s_memory_is_not_overwritten() -> None:
    w, optimizer = tapec.Variable([1.0, 2.0]), optimizers.SGD(0.5)
    for wanted in ([0.5, 1.0], [0.25, 0.5], [0.125, 0.25]):
        before = w.read_value()
        optimizer.apply_gradients([(before, w)])
        assert w.numpy().tolist() == wanted
        assert before.numpy().tolist() == [2 * x for x in wanted]


def test_optimizers_and_variables_go() -> None:
    optimizer = optimizers.Adam()
    trained(optimizer)
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None


def test_kinds_of_updates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_CAPACITY", 2)
    optimizer = optimizers.SGD(0.1)
    for size in range(1, 6):
        w = tapec.Variable(np.ones(size, np.float32))
        for _ in range(2):
            optimizer.apply_gradients([(tapec.ones([size]), w)])
    assert len(native._known[optimizer]) == 2
