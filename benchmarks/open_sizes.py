"""What it costs to leave the batch's size open: train steps with fixed and with open sizes, in one process.

    PYTHON benchmarks/open_sizes.py [BATCH ...]

prints, for each batch, the median processor time of a step of either kind, taken in turns, and their ratio. `mlp` is
the workload ``mlp_train``: 784-512-512-10 with Adam; `small` is ``mlp_small``: 64-128-10.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TAPEC_NUM_THREADS", "1")

import numpy as np

import tapec

NETS = {"mlp": (784, 512, 512, 10), "small": (64, 128, 10)}
_SECONDS = 4.0


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


def main() -> None:
    """Print a line for each net and batch."""
    batches = [int(n) for n in sys.argv[1:]] or [128, 100, 7]
    print(f"{'net':6} {'batch':>5} {'fixed ms':>9} {'open ms':>9}  ratio")
    for name, widths in NETS.items():
        for batch in batches:
            declared = {"x": ("N", widths[0]), "y": ("N",)}
            steps = (
                step_of(widths, batch, dynamic=False),
                step_of(widths, batch, dims=declared),
            )
            times: tuple[list[float], list[float]] = ([], [])
            for step in steps * 3:
                step()
            end = time.perf_counter() + _SECONDS
            while time.perf_counter() < end:
                for step, taken in zip(steps, times, strict=True):
                    start = time.thread_time()
                    step()
                    taken.append(time.thread_time() - start)
            fixed, opened = map(statistics.median, times)
            print(
                f"{name:6} {batch:5} {1e3 * fixed:9.3f} {1e3 * opened:9.3f}  {opened / fixed:.3f}"
            )


if __name__ == "__main__":
    main()
