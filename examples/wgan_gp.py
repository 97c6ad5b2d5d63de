"""Wasserstein GAN with gradient penalty on a ring of eight Gaussians: a tape inside a tape, both steps compiled."""

from __future__ import annotations

import itertools

import numpy as np

import tapec

BATCH, NOISE, HIDDEN, PENALTY = 128, 4, 64, 1.0
rng = np.random.default_rng(0)
centers = np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)


def dense(sizes: list[int]) -> list[tapec.Variable]:
    """Weights and biases of a perceptron."""
    found = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        kernel = rng.standard_normal((fan_in, fan_out)) * np.sqrt(2.0 / fan_in)
        found += [tapec.Variable(kernel.astype(np.float32)), tapec.Variable(tapec.zeros([fan_out]))]
    return found


generator, critic = dense([NOISE, HIDDEN, HIDDEN, 2]), dense([2, HIDDEN, HIDDEN, 1])
generator_optimizer = tapec.optimizers.Adam(1e-3, beta_1=0.5, beta_2=0.9)
critic_optimizer = tapec.optimizers.Adam(1e-3, beta_1=0.5, beta_2=0.9)


def perceptron(weights: list[tapec.Variable], x: tapec.Tensor) -> tapec.Tensor:
    """Leaky ReLU between the layers."""
    for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        x = tapec.nn.leaky_relu(x @ w + b, 0.2)
    return x @ weights[-2] + weights[-1]


@tapec.compile
def critic_step(real: tapec.Tensor, noise: tapec.Tensor, mix: tapec.Tensor) -> tapec.Tensor:
    """Separate real from made points; keep the critic's slope near 1 between them."""
    fake = perceptron(generator, noise)
    with tapec.GradientTape() as tape:
        between = mix * real + (1.0 - mix) * fake
        with tapec.GradientTape() as inner:
            inner.watch(between)
            scores = perceptron(critic, between)
        slopes = inner.gradient(scores, between)
        lengths = tapec.sqrt(tapec.reduce_sum(tapec.square(slopes), axis=1) + 1e-12)
        penalty = tapec.reduce_mean(tapec.square(lengths - 1.0))
        distance = tapec.reduce_mean(perceptron(critic, real)) - tapec.reduce_mean(
            perceptron(critic, fake)
        )
        loss = PENALTY * penalty - distance
    critic_optimizer.apply_gradients(zip(tape.gradient(loss, critic), critic, strict=True))
    return distance


@tapec.compile
def generator_step(noise: tapec.Tensor) -> None:
    """Move made points to where the critic takes them for real."""
    with tapec.GradientTape() as tape:
        loss = -tapec.reduce_mean(perceptron(critic, perceptron(generator, noise)))
    generator_optimizer.apply_gradients(zip(tape.gradient(loss, generator), generator, strict=True))


def normal(*shape: int) -> tapec.Tensor:
    """Standard normal numbers."""
    return tapec.constant(rng.standard_normal(shape).astype(np.float32))


def real_points() -> tapec.Tensor:
    """A batch from the ring."""
    points = centers[rng.integers(0, 8, BATCH)] + 0.05 * rng.standard_normal((BATCH, 2))
    return tapec.constant(points.astype(np.float32))


def spread() -> tuple[float, int]:
    """Mean distance of made points to their nearest center, and how many centers have some."""
    made = perceptron(generator, normal(512, NOISE)).numpy()
    distances = np.linalg.norm(made[:, None] - centers[None], axis=2)
    return float(distances.min(axis=1).mean()), len(set(distances.argmin(axis=1)))


print("before: mean distance {:.2f}, {} of 8 centers".format(*spread()))
for step in range(1200):
    for _ in range(3):
        mix = tapec.constant(rng.random((BATCH, 1)).astype(np.float32))
        distance = critic_step(real_points(), normal(BATCH, NOISE), mix)
    generator_step(normal(BATCH, NOISE))
    if step % 400 == 0:
        print(f"step {step:4}: Wasserstein estimate {float(distance):.3f}")
print("after: mean distance {:.2f}, {} of 8 centers".format(*spread()))
