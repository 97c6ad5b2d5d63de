"""One train step of a residual network in less and less memory: what has no room is computed again.

Prints, for several budgets, the scratch memory of a step, how long it takes, and that the weights are the same to the
bit. Pictures of that memory:

    tapec mem examples/memory_budget.py:plain --svg plain.svg
    tapec mem examples/memory_budget.py:frugal --svg frugal.svg
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import tapec

DEPTH, WIDTH, ROWS, CLASSES = 10, 64, 256, 10


class Network:
    """Blocks of two layers that add to what they get, and a classifier behind them."""

    def __init__(self) -> None:
        """Draw the weights; the same each time."""
        rng = np.random.default_rng(0)
        shapes = [(WIDTH, WIDTH)] * (2 * DEPTH) + [(WIDTH, CLASSES)]
        self.kernels = [
            tapec.Variable((rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32))
            for s in shapes
        ]
        self.optimizer = tapec.optimizers.SGD(0.05)

    def loss(self, x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
        """The mean cross-entropy of some rows."""
        for first, second in zip(self.kernels[:-1:2], self.kernels[1::2], strict=True):
            x = x + 0.1 * tapec.nn.gelu(x @ first) @ second
        logits = x @ self.kernels[-1]
        losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return tapec.reduce_mean(losses)


def train_step(network: Network, memory_budget: float | None = None) -> Any:
    """A compiled step of a network that keeps to a budget."""

    @tapec.compile(memory_budget=memory_budget)
    def step(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            loss = network.loss(x, y)
        gradients = tape.gradient(loss, network.kernels)
        network.optimizer.apply_gradients(zip(gradients, network.kernels, strict=True))
        return loss

    return step


plain = train_step(Network())
frugal = train_step(Network(), memory_budget=0.4)


def main() -> None:
    """Train under each budget."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    y = rng.integers(0, CLASSES, ROWS).astype(np.int32)
    plain(x, y)
    frugal(x, y)
    wanted = None
    print("budget      scratch   a step   weights")
    for budget in (None, 0.7, 0.4, 0.25):
        network = Network()
        step = train_step(network, budget)
        times = []
        for _ in range(20):
            start = time.perf_counter()
            step(x, y)
            times.append(time.perf_counter() - start)
        weights = [kernel.numpy().tobytes() for kernel in network.kernels]
        wanted = wanted or weights
        same = "the same" if weights == wanted else "others"
        arena = step.memory().arena
        print(f"{budget or 'none'!s:6}  {arena:9,} B  {min(times) * 1e3:5.2f} ms  {same}")


if __name__ == "__main__":
    main()
