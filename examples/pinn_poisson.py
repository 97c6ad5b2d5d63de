"""A physics-informed network solves u'' = -pi^2 sin(pi x), u(0) = u(1) = 0: the second derivative is in the loss.

The exact solution is sin(pi x).
"""

from __future__ import annotations

import itertools

import numpy as np

import tapec

SIZES, POINTS = (1, 32, 32, 1), 64
rng = np.random.default_rng(0)
layers = [
    (
        tapec.Variable((rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32)),
        tapec.Variable(tapec.zeros([n])),
    )
    for m, n in itertools.pairwise(SIZES)
]
weights = [v for layer in layers for v in layer]
rate = tapec.Variable(3e-3, trainable=False)
optimizer = tapec.optimizers.Adam(rate)
points = tapec.constant(np.linspace(0, 1, POINTS, dtype=np.float32)[:, None])
ends = tapec.constant([[0.0], [1.0]])


def solution(x: tapec.Tensor) -> tapec.Tensor:
    """The network u(x)."""
    *hidden, (w, b) = layers
    for v, c in hidden:
        x = tapec.tanh(x @ v + c)
    return x @ w + b


@tapec.compile
def train_step(x: tapec.Tensor) -> tapec.Tensor:
    """Residual of the equation plus the boundary, differentiated three times in all."""
    with tapec.GradientTape() as tape:
        with tapec.GradientTape() as second:
            second.watch(x)
            with tapec.GradientTape() as first:
                first.watch(x)
                u = solution(x)
            du = first.gradient(u, x)
        ddu = second.gradient(du, x)
        residual = ddu + np.pi**2 * tapec.sin(np.pi * x)
        boundary = tapec.reduce_sum(tapec.square(solution(ends)))
        loss = tapec.reduce_mean(tapec.square(residual)) + 50.0 * boundary
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


for step in range(3000):
    loss = train_step(points)
    if step % 1000 == 0:
        print(f"step {step:4}: loss {float(loss):.4f}")
    if step == 2000:
        optimizer.learning_rate = 5e-4
error = np.abs(solution(points).numpy() - np.sin(np.pi * points.numpy())).max()
print(f"largest error of u: {error:.4f}")
