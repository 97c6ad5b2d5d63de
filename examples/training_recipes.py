"""Recipes of custom training loops: each compiled, each checked against what it should do."""

from __future__ import annotations

import numpy as np

import tapec

rng = np.random.default_rng(0)
x = tapec.constant(rng.standard_normal((64, 5)).astype(np.float32))
y = tapec.constant(rng.standard_normal((64, 1)).astype(np.float32))


def model() -> list[tapec.Variable]:
    """Two layers, the same start each time."""
    fixed = np.random.default_rng(1)
    shapes = ((5, 8), (8,), (8, 1), (1,))
    return [tapec.Variable((0.5 * fixed.standard_normal(s)).astype(np.float32)) for s in shapes]


def loss_of(w: list[tapec.Variable], x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Mean squared error."""
    return tapec.reduce_mean(tapec.square(tapec.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - y))


def distance(a: list[tapec.Variable], b: list[tapec.Variable]) -> float:
    """The largest difference between two sets of weights."""
    return max(float(tapec.reduce_max(tapec.abs(p - q))) for p, q in zip(a, b, strict=True))


def gradient_accumulation() -> None:
    """Four small batches, one update: the same as one large batch."""
    small, large = model(), model()
    sums = [tapec.Variable(tapec.zeros_like(v), trainable=False) for v in small]

    @tapec.compile
    def accumulate(x: tapec.Tensor, y: tapec.Tensor) -> None:
        with tapec.GradientTape() as tape:
            loss = loss_of(small, x, y) / 4.0
        for total, g in zip(sums, tape.gradient(loss, small), strict=True):
            total.assign_add(g)

    @tapec.compile
    def update() -> None:
        for v, total in zip(small, sums, strict=True):
            v.assign_sub(0.1 * total)
            total.assign(tapec.zeros_like(total))

    for i in range(4):
        accumulate(x[16 * i : 16 * (i + 1)], y[16 * i : 16 * (i + 1)])
    update()
    with tapec.GradientTape() as tape:
        loss = loss_of(large, x, y)
    for v, g in zip(large, tape.gradient(loss, large), strict=True):
        v.assign_sub(0.1 * g)
    print(f"gradient accumulation: differs from the large batch by {distance(small, large):.1e}")


def layer_wise_rates() -> None:
    """An optimizer for each group of Variables: the first layer learns ten times slower."""
    w = model()
    before = [tapec.Variable(v) for v in w]
    slow, fast = tapec.optimizers.SGD(0.01), tapec.optimizers.SGD(0.1)

    @tapec.compile
    def step(x: tapec.Tensor, y: tapec.Tensor) -> list[tapec.Tensor]:
        with tapec.GradientTape() as tape:
            loss = loss_of(w, x, y)
        gradients: list[tapec.Tensor] = tape.gradient(loss, w)
        slow.apply_gradients(zip(gradients[:2], w[:2], strict=True))
        fast.apply_gradients(zip(gradients[2:], w[2:], strict=True))
        return gradients

    gradients = step(x, y)
    rates = [
        float(tapec.reduce_mean((old - new) / g))
        for old, new, g in zip(before, w, gradients, strict=True)
    ]
    print("layer-wise rates: ", ", ".join(f"{rate:.3f}" for rate in rates))


def frozen_layers_and_masks() -> None:
    """A frozen layer is not passed to the tape; a mask keeps single weights at zero."""
    w = model()
    mask = tapec.constant((rng.random((8, 1)) < 0.5).astype(np.float32))
    w[2].assign(w[2] * mask)
    start = [tapec.Variable(v) for v in w]
    optimizer = tapec.optimizers.Adam(0.01)

    @tapec.compile
    def step(x: tapec.Tensor, y: tapec.Tensor) -> None:
        with tapec.GradientTape() as tape:
            loss = loss_of(w, x, y)
        kernel, bias = tape.gradient(loss, w[2:])
        optimizer.apply_gradients([(kernel * mask, w[2]), (bias, w[3])])

    for _ in range(20):
        step(x, y)
    off = float(tapec.reduce_sum(tapec.abs(w[2] * (1.0 - mask))))
    print(
        f"frozen layer moved by {distance(w[:2], start[:2]):.1f}, trained by {distance(w[2:], start[2:]):.3f}, "
        f"masked weights sum to {off:.1f}"
    )


def soft_target_update() -> None:
    """A slow copy of the weights: distance shrinks by 1 - tau in each step."""
    fast, slow = model(), [tapec.Variable(tapec.zeros_like(v)) for v in model()]

    @tapec.compile
    def follow(tau: tapec.Tensor) -> None:
        for s, f in zip(slow, fast, strict=True):
            s.assign(tau * f + (1.0 - tau) * s)

    first = distance(fast, slow)
    for _ in range(10):
        follow(tapec.constant(0.1))
    print(f"soft target update: ratio {distance(fast, slow) / first:.4f}, 0.9^10 = {0.9**10:.4f}")


def loss_scaling() -> None:
    """float16 gradients that would vanish survive when the loss is scaled up and the gradient down."""
    w = tapec.Variable(1e-3, dtype=tapec.float16)

    def gradient(scale: float) -> float:
        with tapec.GradientTape() as tape:
            loss = tapec.square(w * tapec.constant(1e-3, tapec.float16)) * tapec.constant(
                scale, tapec.float16
            )
        return float(tapec.cast(tape.gradient(loss, w), tapec.float32)) / scale

    print(
        f"loss scaling: gradient {gradient(1.0):.1e} without, {gradient(1024.0):.1e} with; exact 2.0e-09"
    )


gradient_accumulation()
layer_wise_rates()
frozen_layers_and_masks()
soft_target_update()
loss_scaling()
