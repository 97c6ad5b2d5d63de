"""What it costs to leave the batch's size open: train steps with fixed and with open sizes, in one process.

    PYTHON benchmarks/open_sizes.py [BATCH ...] [--seconds 4]

prints a table with, for each batch, the median processor time of a step of either kind, taken in turns, and their
ratio. `mlp` is the workload ``mlp_train``: 784-512-512-10 with Adam; `small` is ``mlp_small``: 64-128-10.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("TAPEC_NUM_THREADS", "1")

import numpy as np

import tapec

NETS = {"mlp": (784, 512, 512, 10), "small": (64, 128, 10)}


def step_of(widths: tuple[int, ...], batch: int, **options: Any) -> Callable[[], Any]:
    """A train step of a classifier on one batch, compiled with these options."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.pairwise(widths))
    weights = [tapec.Variable((rng.normal(size=p) / p[0] ** 0.5).astype(np.float32)) for p in pairs]
    biases = [tapec.Variable(np.zeros(n, np.float32)) for n in widths[1:]]
    optimizer = tapec.optimizers.Adam(1e-3)

    @tapec.compile(**options)
    def step(x: Any, y: Any) -> Any:
        with tapec.GradientTape() as tape:
            h = x
            for w, b in zip(weights[:-1], biases[:-1], strict=True):
                h = tapec.nn.relu(h @ w + b)
            logits = h @ weights[-1] + biases[-1]
            losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tapec.reduce_mean(losses)
        sources = weights + biases
        optimizer.apply_gradients(zip(tape.gradient(loss, sources), sources, strict=True))
        return loss

    x = tapec.constant(rng.normal(size=(batch, widths[0])).astype(np.float32))
    y = tapec.constant(rng.integers(0, widths[-1], batch).astype(np.int32))
    return lambda: step(x, y)


def medians(steps: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """The median processor time of each, taken in turns."""
    times: list[list[float]] = [[] for _ in steps]
    for step in [*steps] * 3:
        step()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for step, taken in zip(steps, times, strict=True):
            start = time.thread_time()
            step()
            taken.append(time.thread_time() - start)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    """Print a line for each net and batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("batches", nargs="*", type=int, default=[128, 100, 7])
    parser.add_argument("--seconds", type=float, default=4.0, help="for each net and batch")
    args = parser.parse_args()
    print("| net | batch | fixed size | any size | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for name, widths in NETS.items():
        for batch in args.batches:
            declared = {"x": ("N", widths[0]), "y": ("N",)}
            steps = step_of(widths, batch, dynamic=False), step_of(widths, batch, dims=declared)
            fixed, opened = medians(steps, args.seconds)
            times = f"{1e3 * fixed:.3f} ms | {1e3 * opened:.3f} ms | {opened / fixed:.2f}"
            print(f"| {name} | {batch} | {times} |", flush=True)


if __name__ == "__main__":
    main()
