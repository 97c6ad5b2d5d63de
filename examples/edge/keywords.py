"""A network that spots words, with convolutions, and its training step: what it takes on three machines.

The "words" are chirps of different slopes in noise, as 49 frames of 10 coefficients, the size that keyword spotters
use. All told (weights, optimizer, scratch memory, stack) a training step fits into 256 KB of RAM.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tapec
from tapec import aot

FRAMES, BANDS, WORDS, CHANNELS = 49, 10, 4, 16
TARGETS = ("cortex-m4f", "riscv32imfc", "aarch64")
rng = np.random.default_rng(0)


def filters(*shape: int) -> tapec.Variable:
    """Weights of a convolution."""
    fan = shape[0] * shape[1] * (shape[2] if shape[3] > 1 else 1)
    return tapec.Variable((rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32))


def offsets(size: int) -> tapec.Variable:
    """One number for each channel."""
    return tapec.Variable(np.zeros(size, np.float32))


first, first_b = filters(10, 4, 1, CHANNELS), offsets(CHANNELS)
blocks = [
    (
        filters(3, 3, CHANNELS, 1),
        offsets(CHANNELS),
        filters(1, 1, CHANNELS, CHANNELS),
        offsets(CHANNELS),
    )
    for _ in range(2)
]
last, last_b = filters(1, 1, CHANNELS, WORDS), offsets(WORDS)
weights = [first, first_b, *(w for block in blocks for w in block), last, last_b]
optimizer = tapec.optimizers.Adam(0.01)


def scores(x: Any) -> Any:
    """A number for each word."""
    x = tapec.nn.relu(tapec.nn.conv2d(x, first, 2, "SAME") + first_b)
    for depthwise, depthwise_b, pointwise, pointwise_b in blocks:
        x = tapec.nn.depthwise_conv2d(x, depthwise, [1, 1, 1, 1], "SAME")
        x = tapec.nn.relu(x + depthwise_b)
        x = tapec.nn.relu(tapec.nn.conv2d(x, pointwise, 1, "SAME") + pointwise_b)
    return tapec.reduce_mean(tapec.nn.conv2d(x, last, 1, "SAME") + last_b, axis=[1, 2])


@tapec.compile
def hear(x: Any) -> Any:
    """The probability of each word."""
    return tapec.nn.softmax(scores(x))


@tapec.compile
def learn(x: Any, y: Any) -> Any:
    """One step; the loss before it."""
    with tapec.GradientTape() as tape:
        losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores(x))
        loss = tapec.reduce_mean(losses)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


def spoken(count: int) -> tuple[Any, Any]:
    """So many words, each spoken differently."""
    words = rng.integers(0, WORDS, count).astype(np.int32)
    t, band = np.arange(FRAMES)[:, None], np.arange(BANDS)[None]
    place = BANDS / 2 + (words[:, None, None] - 1.5) * (t - FRAMES / 2) * 0.15
    place = place + rng.normal(size=(count, 1, 1))
    sound = np.exp(-((band - place) ** 2)) + 0.2 * rng.normal(size=(count, FRAMES, BANDS))
    return sound[..., None].astype(np.float32), words


for _ in range(150):
    learn(*spoken(16))
x, y = spoken(400)
share = np.mean(np.argmax(hear(x).numpy(), axis=1) == y)
print(f"heard right: {100 * share:.1f} %")

shape = f"f32[1,{FRAMES},{BANDS},1]"
for target in TARGETS:
    built = aot.build(
        {"hear": hear, "learn": learn},
        {"hear": shape, "learn": f"{shape} i32[1]"},
        target=target,
        name="keywords",
    )
    taken = built.state_bytes + built.arena_bytes + max(built.stack_bytes.values())
    print(
        f"{target:12} object {len(built.files['keywords.o']):7,} bytes, RAM {taken:7,}: state {built.state_bytes:,}, "
        f"arena {built.arena_bytes:,}, stack {max(built.stack_bytes.values()):,}"
    )
