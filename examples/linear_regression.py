"""Where one starts: fit a line with a tape, eagerly first, then compiled with one decorator more."""

from __future__ import annotations

import numpy as np

import tapec

rng = np.random.default_rng(0)
x = rng.uniform(-1.0, 1.0, (200, 1)).astype(np.float32)
y = (3.0 * x - 2.0 + 0.1 * rng.standard_normal((200, 1))).astype(np.float32)

w = tapec.Variable([[0.0]], name="w")
b = tapec.Variable([0.0], name="b")


def train_step(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Record the loss, ask for its gradients, move against them."""
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_mean(tapec.square(x @ w + b - y))
    dw, db = tape.gradient(loss, [w, b])
    w.assign_sub(0.3 * dw)
    b.assign_sub(0.3 * db)
    return loss


def fit(step: object) -> tuple[float, float, float]:
    """Start from zero, run 100 steps, return the last loss and the line."""
    assert callable(step)
    w.assign([[0.0]])
    b.assign([0.0])
    for _ in range(100):
        loss = step(tapec.constant(x), tapec.constant(y))
    return float(loss), float(w[0, 0]), float(b[0])


eager = fit(train_step)
compiled = fit(tapec.compile(train_step))
print("           loss     w        b")
for name, (loss, slope, offset) in (("eager", eager), ("compiled", compiled)):
    print(f"{name:9}  {loss:.5f}  {slope:.5f}  {offset:.5f}")
print(f"largest difference {max(abs(p - q) for p, q in zip(eager, compiled, strict=True)):.1e}")
