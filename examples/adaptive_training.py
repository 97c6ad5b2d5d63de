"""A whole training run as one compiled function, with control flow that depends on what it finds.

Ordinary Python: a `while` over epochs that stops when nothing gets better, a `for` over batches, an `if` that undoes a
bad epoch and halves the learning rate, and a backtracking line search inside of each step. `tapec.compile` makes
branches and loops of the program of it, so a run is one call of native code; without the decorator the same code runs
eagerly, operation by operation, and finds the same.

    python examples/adaptive_training.py
"""

from __future__ import annotations

import time

import numpy as np

import tapec

CENTRES, BATCHES, BATCH = 6, 8, 32

rng = np.random.default_rng(0)
points = rng.uniform(-3.0, 3.0, (BATCHES, BATCH)).astype(np.float32)
xs = tapec.constant(points)
ys = tapec.constant(np.sin(2.0 * points) * np.exp(-0.1 * points**2))

centres = tapec.Variable(np.linspace(-3.0, 3.0, CENTRES, dtype=np.float32))
widths = tapec.Variable(tapec.ones([CENTRES]))
heights = tapec.Variable(tapec.zeros([CENTRES]))
weights = [centres, widths, heights]


def error(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """The mean squared error of a sum of bells: ``x`` and ``y`` are f32[BATCH]."""
    bells = tapec.exp(-tapec.square((tapec.expand_dims(x, 1) - centres) * widths))
    return tapec.reduce_mean(tapec.square(tapec.linalg.matvec(bells, heights) - y))


def step(x: tapec.Tensor, y: tapec.Tensor, rate: tapec.Tensor) -> tapec.Tensor:
    """Go down along the gradient, half as far as long as that is too far; the error before."""
    with tapec.GradientTape() as tape:
        loss = error(x, y)
    gradients = tape.gradient(loss, weights)
    slope = sum(tapec.reduce_sum(tapec.square(g)) for g in gradients)
    before = [w.read_value() for w in weights]
    tried = 0
    while tried < 12:
        for w, b, g in zip(weights, before, gradients, strict=True):  # Python's loop over a list
            w.assign(b - rate * g)
        if error(x, y) <= loss - 0.3 * rate * slope:
            break
        rate = rate * 0.5
        tried += 1
    return loss


def train(xs: tapec.Tensor, ys: tapec.Tensor) -> tuple[tapec.Tensor, int]:
    """Train until ten epochs bring nothing; the best error and the number of epochs."""
    best, rate = tapec.constant(1e9), tapec.constant(1.0)
    patience, epochs = 10, 0
    while patience > 0 and epochs < 60:
        total = tapec.constant(0.0)
        for x, y in zip(xs, ys, strict=True):  # the program's loop, over rows
            total = total + step(x, y, rate)
        mean = total / float(BATCHES)
        if mean < best * 0.999:
            best, patience = mean, 10
        else:
            patience -= 1
            rate = rate * 0.7
        epochs += 1
    return best, epochs


def main() -> None:
    """Train compiled and eagerly from the same start, and compare."""
    start = [w.read_value() for w in weights]
    found = {}
    for name, run in (("compiled", tapec.compile(train)), ("eager", train)):
        for w, value in zip(weights, start, strict=True):
            w.assign(value)
        if name == "compiled":
            run(xs, ys)
            for w, value in zip(weights, start, strict=True):
                w.assign(value)
        began = time.perf_counter()
        best, epochs = run(xs, ys)
        seconds = time.perf_counter() - began
        found[name] = float(best)
        print(f"{name:9} error {float(best):.6f} after {int(epochs):3} epochs, {seconds:.3f} s")


if __name__ == "__main__":
    main()
