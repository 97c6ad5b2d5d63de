"""Eager loops that repeat themselves: their gradients are differentiated once, compiled once, and keep their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.compiler import compile_module
from tapec.derivatives import eager_gradient
from tapec.derivatives.eager_gradient import GradientProgram
from tapec.eager import signatures
from tapec.ir.core import Module


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many programs were made, how many compiled, and how often those ran; from empty caches on."""
    found: Counter[str] = Counter()
    make = GradientProgram.__init__

    def made(self: GradientProgram, *args: Any, **kwargs: Any) -> None:
        found["made"] += 1
        make(self, *args, **kwargs)

    def compiled(module: Module, pipeline: str) -> Any:
        found["compiled"] += 1
        executable = compile_module(module, pipeline)
        run = executable.call_raw

        def counted(*arrays: Any) -> Any:
            found["native"] += 1
            return run(*arrays)

        executable.call_raw = counted
        return executable

    monkeypatch.setattr(GradientProgram, "__init__", made)
    monkeypatch.setattr(eager_gradient, "compile_module", compiled)
    monkeypatch.setattr(eager_gradient, "_programs", eager_gradient._programs.__class__())
    monkeypatch.setattr(eager_gradient, "_known", eager_gradient._known.__class__())
    return found


def forget(counts: Counter[str]) -> None:
    """Empty the caches, and count anew."""
    counts.clear()
    eager_gradient._programs.clear()
    eager_gradient._known.clear()


def batch(rows: int = 4) -> Any:
    rng = np.random.default_rng(rows)
    return tapec.constant(rng.standard_normal((rows, 3)).astype(np.float32))


W = tapec.Variable(np.array([[0.5, -0.3], [0.1, 0.8], [-0.6, 0.2]], np.float32))


def gradient(x: Any, scale: Any = 0.7, seed: Any = None) -> Any:
    with tapec.GradientTape() as tape:
        y = tapec.reduce_mean(tapec.tanh(x @ W * scale) ** 2.0 + scale, axis=1)
    return tape.gradient(y, W, output_gradients=seed).numpy()


def evaluated(monkeypatch: pytest.MonkeyPatch, turns: Sequence[Callable[[], Any]]) -> list[Any]:
    """The same by NumPy."""
    with monkeypatch.context() as patch:
        patch.setenv("TAPEC_EAGER_NATIVE", "0")
        return [turn() for turn in turns]


def test_native_from_the_second_turn_on(
    counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [partial(gradient, batch())] * 5
    wanted = evaluated(monkeypatch, turns)
    forget(counts)
    seen = []
    for turn, value in zip(turns, wanted, strict=True):
        np.testing.assert_allclose(turn(), value, rtol=3e-6)  # some ulps
        seen.append((counts["made"], counts["compiled"], counts["native"]))
    assert seen == [(1, 0, 0), (1, 1, 1), (1, 1, 2), (1, 1, 3), (1, 1, 4)]


def test_the_turn_does_not_depend_on_what_is_on_disk(
    counts: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("TAPEC_CACHE", str(tmp_path))
    for _ in range(2):
        forget(counts)
        first, second = gradient(batch()), gradient(batch())
        assert (counts["compiled"], counts["native"]) == (1, 1)
    np.testing.assert_allclose(first, second, rtol=3e-6)


def test_numbers_seeds_and_weights_are_no_structure(
    counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = np.random.default_rng(0).random((6, 4), np.float32)
    turns = [partial(gradient, batch(), 0.1 * i, seed) for i, seed in enumerate(seeds, 1)]
    wanted = evaluated(monkeypatch, turns)
    forget(counts)
    for turn, value in zip(turns, wanted, strict=True):
        np.testing.assert_allclose(turn(), value, rtol=3e-6)
    assert counts == {"made": 1, "compiled": 1, "native": 5}


def test_learning_rates_and_updates_are_no_structure(counts: Counter[str]) -> None:
    w = tapec.Variable([1.0, 2.0])
    for rate in (0.1, 0.05, 0.2, 0.01):
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(w * w)
        w.assign_sub(rate * tape.gradient(loss, w))
    factor = 0.8 * 0.9 * 0.6 * 0.98
    np.testing.assert_allclose(w.numpy(), [factor, 2 * factor], rtol=1e-6)
    assert counts == {"made": 1, "compiled": 1, "native": 3}


def test_a_last_batch_has_its_own_program(counts: Counter[str]) -> None:
    for _ in range(3):
        for rows in (8, 8, 3):
            gradient(batch(rows))
    assert counts == {"made": 2, "compiled": 2, "native": 5 + 2}


def test_what_the_target_does_not_need_is_no_structure(counts: Counter[str]) -> None:
    for turn in range(4):
        with tapec.GradientTape() as tape:
            y = W * 2.0
            if turn % 2:
                tapec.reduce_max(tapec.exp(y))  # looked at now and then
            loss = tapec.reduce_sum(y * y)
        tape.gradient(loss, W)
    assert counts == {"made": 1, "compiled": 1, "native": 3}


def test_sizes_that_never_come_again_are_not_compiled(
    counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eager_gradient, "_CAPACITY", 4)
    for rows in range(1, 11):
        gradient(batch(rows))
    assert counts == {"made": 10}
    assert len(eager_gradient._programs) == len(eager_gradient._known) == 4


def test_signs_of_zeros_are_structure() -> None:
    x = tapec.constant([2.0])
    for zero in (0.0, -0.0, 0.0):
        padded = tapec.pad(x, [[1, 0]], constant_values=zero)
        assert np.signbit(padded.numpy()[0]) == np.signbit(zero)


def test_second_derivatives_repeat_too(counts: Counter[str]) -> None:
    x = tapec.constant([0.3, 0.7])
    found = []
    for _ in range(3):
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                y = tapec.reduce_sum(tapec.sin(x) * x)
            slope = inner.gradient(y, x)
        found.append(outer.gradient(slope, x).numpy())
    wanted = 2 * np.cos([0.3, 0.7]) - np.array([0.3, 0.7]) * np.sin([0.3, 0.7])
    np.testing.assert_allclose(found, [wanted] * 3, rtol=1e-6)
    assert counts == {"made": 2, "compiled": 1, "native": 2}


def test_calls_of_compiled_functions_repeat_too(counts: Counter[str]) -> None:
    square = tapec.compile(lambda x: x * x * W[0, 0])
    x = tapec.constant([0.3, 0.7])
    for _ in range(3):
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = square(x) + x
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), [1.3, 1.7], rtol=1e-6)
    assert counts == {"made": 1, "compiled": 1, "native": 2}


def test_long_programs_stay_with_numpy(
    counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To compile thousands of operations as one kernel takes longer than anybody waits."""
    v = tapec.Variable(2.0)

    def slope(length: int) -> Any:
        with tapec.GradientTape() as tape:
            y = v * 1.0
            for _ in range(length):
                y = y * v
        return tape.gradient(y, v).numpy()

    monkeypatch.setattr(eager_gradient, "_LONGEST", 30)
    assert [slope(3) for _ in range(3)] == [32.0] * 3
    assert counts["compiled"] == 1
    assert [slope(20) for _ in range(3)] == [21 * 2.0**20] * 3
    assert counts["compiled"] == 1


def test_what_is_known_of_operations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "_CAPACITY", 4)
    signatures._signatures.clear()
    for rows in range(1, 20):
        x = tapec.ones([rows, 2])
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.reduce_sum(x * x + x)
        assert tape.gradient(y, x).numpy().tolist() == [[3.0, 3.0]] * rows
        assert len(signatures._signatures) <= 4
