"""Kernels of a loop over time are shared by the same rows, and give the same bits for every number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_programs import run_native

import tapec
from tapec.ir.core import Module, clone_module
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.repetition import Loop
from tapec.ir.verifier import verify
from tapec.passes.contractions import tiling
from tapec.passes.loops import alike
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.recording import tracing
from tapec.structure import flatten
from tapec.tensor import type_of
from tapec.tracing import Trace

PIPELINE = (
    "inline,canonicalize,cse,dce,adjoint,prune,commit,pairs,hoist,canonicalize,cse,dce,fuse,"
    "schedule,plan,lower"
)
TURNS, BATCH, SIZE = 3, 32, 128


def data(batch: int = BATCH) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [(TURNS, batch, 4 * SIZE), (batch, SIZE), (batch, SIZE), (SIZE, 4 * SIZE)]
    return [0.1 * rng.normal(size=shape).astype(np.float32) for shape in shapes]


def gradients(x: Any, h: Any, c: Any, w: Any) -> Any:
    """Those of an LSTM's last state."""

    def cell(state: Any, x_t: Any) -> Any:
        h, c = state
        i, f, g, o = tapec.split(x_t + h @ w, 4, axis=1)
        c = tapec.sigmoid(f) * c + tapec.sigmoid(i) * tapec.tanh(g)
        return tapec.sigmoid(o) * tapec.tanh(c), c

    with tapec.GradientTape() as tape:
        tape.watch([x, h, c, w])
        last, _ = tapec.foldl(cell, x, initializer=(h, c))
        loss = tapec.reduce_sum(last * last)
    return (loss, *tape.gradient(loss, [x, h, c, w]))


def program(arrays: list[Any]) -> Module:
    """The training program of these arrays' shapes."""
    trace = Trace("program")
    with tracing(trace):
        arguments = (trace.input(type_of(a), None) for a in arrays)
        trace.finish(flatten(gradients(*arguments))[0])
    return Module([trace.function])


def scheduled(arrays: list[Any], options: str = "") -> tuple[Module, list[Any]]:
    """A program as it runs, and who shares the kernels of its loops' bodies, in order."""
    module = program(arrays)
    front, back = PIPELINE.split(",schedule")
    run_pipeline(module, parse_pipeline(f"{front},schedule{options}"))
    verify(module)
    loops = [op for op in module.walk() if isinstance(op.defn, Loop)]
    assert len(loops) == 2
    bodies = [op.regions[0].block.ops for op in loops]
    kernels = [op for body in bodies for op in body if isinstance(op.defn, KernelOp)]
    run_pipeline(module, parse_pipeline(back.removeprefix(",")))
    return module, [kernel.attrs["parallel"] for kernel in kernels]


def test_all_kernels_of_a_turn_have_the_same_rows() -> None:
    _, parallel = scheduled(data())
    assert parallel.count("rows") == 2  # the products with the weights: there, and back
    assert set(parallel) == {"rows", True}


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_bits_are_those_of_a_split_by_columns(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = data()
    module, _ = scheduled(arrays)
    found = run_native(module, arrays, threads=threads)
    monkeypatch.setattr(alike, "share", lambda op, by_rows: None)
    module, parallel = scheduled(arrays)
    assert "columns" in parallel
    assert True not in parallel
    for a, b in zip(found, run_native(clone_module(module), arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_few_rows_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one tile of rows, and no part of it for a second thread."""
    monkeypatch.setattr(tiling, "PARALLEL_WORK", 1)
    _, parallel = scheduled(data(batch=2))
    assert "columns" in parallel
    assert "rows" not in parallel
    assert True not in parallel


def test_small_kernels_stay_with_their_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "SHARED_BYTES", 1 << 30)
    _, parallel = scheduled(data())
    assert set(parallel) == {"rows", False}


def test_devices_share_otherwise() -> None:
    _, parallel = scheduled(data(), "{device=true}")
    assert True not in parallel
