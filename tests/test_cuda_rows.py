"""Which loops take one row at a time on a device: what is guessed before they are made has to be what is proved then.

Products of the loops that the guess takes are not made by tiles. Where the proof then fails, each turn launches slow
ones; and where it would have held without tiles, each turn launches kernels that one launch would do.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from benchmark_steps import BENCHMARKS

import tapec
from tapec.compiler import lowered_for
from tapec.ir.core import Operation
from tapec.ir.ops.repetition import Loop
from tapec.passes import schedule
from tapec.passes.device import enclose, rows

TIME, ROWS, WIDTH = 5, 64, 40


def gru(x: Any, w: Any, u: Any) -> Any:
    def turn(h: Any, now: Any) -> Any:
        z = tapec.sigmoid(h @ w + now)
        return h * z + tapec.tanh((h * z) @ u + now) * (1.0 - z)

    return tapec.foldl(turn, x, initializer=tapec.zeros([ROWS, WIDTH]))


def gates(x: Any, w: Any, u: Any) -> Any:
    """Parts of rows, and rows made of parts."""

    def turn(h: Any, now: Any) -> Any:
        parts = tapec.split(tapec.concat([h @ w, h @ u], 1) + tapec.concat([now, now], 1), 2, 1)
        return tapec.sigmoid(parts[0]) * tapec.tanh(parts[1])

    return tapec.foldl(turn, x, initializer=tapec.zeros([ROWS, WIDTH]))


def two_layers(x: Any, w: Any, u: Any) -> Any:
    def turn(state: Any, now: Any) -> Any:
        lower = tapec.tanh(state[0] @ w + now)
        return lower, tapec.tanh(tapec.matmul(lower, u, transpose_b=True) + state[1])

    return tapec.foldl(turn, x, initializer=(tapec.zeros([ROWS, WIDTH]),) * 2)[1]


def normed(axis: int) -> Callable[..., Any]:
    """By rows, or over all rows."""

    def run(x: Any, w: Any, u: Any) -> Any:
        def turn(h: Any, now: Any) -> Any:
            h = h @ w + now
            return h - tapec.reduce_mean(h, axis=axis, keepdims=True)

        return tapec.foldl(turn, x, initializer=tapec.zeros([ROWS, WIDTH]))

    return run


def attending(x: Any, w: Any, u: Any) -> Any:
    """Every row looks at every other one; all that a turn computes has as many rows."""

    def turn(h: Any, now: Any) -> Any:
        return tapec.nn.softmax(tapec.matmul(h, h, transpose_b=True)) @ now * 0.1 + h @ w

    return tapec.foldl(turn, x, initializer=tapec.ones([ROWS, WIDTH]))


def shifted(x: Any, w: Any, u: Any) -> Any:
    """Every row takes the place of the next."""
    return tapec.foldl(
        lambda h, now: tapec.roll(h, 1, 0) @ w + now, x, initializer=tapec.zeros([ROWS, WIDTH])
    )


def summed(x: Any, w: Any, u: Any) -> Any:
    """A number of all rows goes round as well."""

    def turn(state: Any, now: Any) -> Any:
        h = tapec.tanh(state[0] @ w + now)
        return h, state[1] + tapec.reduce_sum(h)

    initial = (tapec.zeros([ROWS, WIDTH]), tapec.constant(0.0))
    return tapec.foldl(turn, x, initializer=initial)[1]


def batched(x: Any, w: Any, u: Any) -> Any:
    """The first axis is not that of rows."""
    weights = tapec.stack([w, u])
    return tapec.foldl(
        lambda h, now: tapec.tanh(h @ weights + now),
        x,
        initializer=tapec.zeros([2, ROWS, WIDTH]),
    )


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loop, and the one back through it."""

    def run(x: Any, w: Any, u: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(w)
            loss = tapec.reduce_sum(tapec.square(function(x, w, u)))
        return tape.gradient(loss, w)

    return run


#: Loops, and whether rows go through each by themselves.
LOOPS: dict[str, tuple[Callable[..., Any], bool]] = {
    "gru": (gru, True),
    "gates": (gates, True),
    "two layers": (two_layers, True),
    "rows are normed": (normed(1), True),
    "columns are normed": (normed(0), False),
    "attending": (attending, False),
    "shifted": (shifted, False),
    "summed": (summed, False),
    "batched": (batched, False),
}


class Watched:
    """The loops with products that are guessed to go by rows, and those that are proved to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, guess: bool | None = None) -> None:
        """``guess`` takes the place of the real one, of products in loops."""
        self.guessed: list[Operation] = []
        self.proved = 0
        asked, found = rows.keeps_rows, enclose.enclosed

        def keeps_rows(kernel: Operation, problem: Any) -> bool:
            region = kernel.block.region if kernel.block is not None else None
            around = region.owner if region is not None else None
            if not isinstance(around, Operation) or not isinstance(around.defn, Loop):
                return asked(kernel, problem)
            keeps = asked(kernel, problem) if guess is None else guess
            if keeps and all(one is not around for one in self.guessed):
                self.guessed.append(around)
            return keeps

        def enclosed(*args: Any) -> Any:
            one = found(*args)
            self.proved += one is not None and one.rows > 0
            return one

        monkeypatch.setattr(schedule, "keeps_rows", keeps_rows)
        monkeypatch.setattr(enclose, "enclosed", enclosed)


def assert_as_proved(lower: Callable[[], Any]) -> int:
    """The loops that go by rows, which have to be those of the guess, and all there could be."""
    with pytest.MonkeyPatch.context() as patch:
        watched = Watched(patch)
        lower()
    with pytest.MonkeyPatch.context() as patch:
        most = Watched(patch, guess=True)
        lower()
    assert len(watched.guessed) == watched.proved == most.proved
    return watched.proved


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_the_guess_is_what_is_proved(name: str, *, backwards: bool) -> None:
    function, by_rows = LOOPS[name]
    shape = [TIME, 2, ROWS, WIDTH] if name == "batched" else [TIME, ROWS, WIDTH]
    specs = [tapec.TensorSpec(s) for s in (shape, [WIDTH, WIDTH], [WIDTH, WIDTH])]
    traced = tapec.compile(gradient(function) if backwards else function).trace(*specs)
    proved = assert_as_proved(lambda: lowered_for(traced, "cuda"))
    assert (proved > 0) == by_rows or backwards


@pytest.mark.parametrize(("name", "loops"), [("lstm_train", 2), ("vdp_scan", 0)])
def test_the_benchmarks_loops(name: str, loops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    gpu = importlib.import_module("gpu")
    assert assert_as_proved(lambda: gpu.text_of(name)) == loops
