"""Adversarial digits by the fast gradient sign method: a small step along the sign of the input's gradient.

Source: Goodfellow, Shlens, Szegedy, "Explaining and harnessing adversarial examples", 2015.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import tapec

images, labels = load_digits(return_X_y=True)
x = tapec.constant((images / 16.0).astype(np.float32))
y = tapec.constant(labels.astype(np.int32))
rng = np.random.default_rng(0)
w1 = tapec.Variable((0.15 * rng.standard_normal((64, 64))).astype(np.float32))
w2 = tapec.Variable((0.15 * rng.standard_normal((64, 10))).astype(np.float32))
optimizer = tapec.optimizers.Adam(0.01)


def loss_of(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Mean cross-entropy of a small network."""
    logits = tapec.nn.relu(x @ w1) @ w2
    return tapec.reduce_mean(
        tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    )


@tapec.compile
def train_step(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """One step on the whole data set."""
    with tapec.GradientTape() as tape:
        loss = loss_of(x, y)
    optimizer.apply_gradients(zip(tape.gradient(loss, [w1, w2]), [w1, w2], strict=True))
    return loss


@tapec.compile
def perturb(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """X + 0.1 sign(d loss / d x), kept within [0, 1]."""
    with tapec.GradientTape() as tape:
        tape.watch(x)
        loss = loss_of(x, y)
    return tapec.clip_by_value(x + 0.1 * tapec.sign(tape.gradient(loss, x)), 0.0, 1.0)


def accuracy(x: tapec.Tensor) -> float:
    """Share of right answers."""
    guesses = tapec.argmax(tapec.nn.relu(x @ w1) @ w2, axis=1).numpy()
    return float(np.mean(guesses == labels))


for _ in range(150):
    train_step(x, y)
adversarial = perturb(x, y)
print(f"largest change of a pixel {float(tapec.reduce_max(tapec.abs(adversarial - x))):.2f}")
print(
    f"accuracy {100 * accuracy(x):.1f} % -> {100 * accuracy(adversarial):.1f} % on adversarial images"
)
