"""Train a classifier of handwritten digits in one compiled step, and print how well it does."""

from __future__ import annotations

import itertools
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tapec

LAYERS, BATCH, EPOCHS = (64, 128, 10), 64, 20

rng = np.random.default_rng(0)
images, labels = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(
    (images / 16.0).astype(np.float32), labels.astype(np.int32), test_size=0.2, random_state=0
)

weights, biases = [], []
for fan_in, fan_out in itertools.pairwise(LAYERS):
    scale = np.sqrt(2.0 / fan_in)
    weights.append(tapec.Variable((scale * rng.standard_normal((fan_in, fan_out))).astype("f4")))
    biases.append(tapec.Variable(np.zeros(fan_out, np.float32)))
variables = [*weights, *biases]
optimizer = tapec.optimizers.Adam(1e-3)


def classify(x: tapec.Tensor) -> tapec.Tensor:
    """Return the logits of each row."""
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        x = tapec.nn.relu(x @ w + b)
    return x @ weights[-1] + biases[-1]


@tapec.compile
def train_step(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Forward, adjoint, clipping and update: one native call."""
    with tapec.GradientTape() as tape:
        losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=classify(x))
        loss = tapec.reduce_mean(losses)
    gradients = tape.gradient(loss, variables)
    gradients, _ = tapec.clip_by_global_norm(gradients, 1.0)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return loss


def accuracy() -> float:
    """Return the share of the test set that is classified rightly."""
    guesses = classify(tapec.constant(x_test)).numpy().argmax(axis=1)
    return float(np.mean(guesses == y_test))


table = Table("epoch", "loss", "test accuracy", "ms", title="Digits, 64-128-10, Adam")
for epoch in range(1, EPOCHS + 1):
    start = time.perf_counter()
    order = rng.permutation(len(x_train))
    losses = [
        float(train_step(tapec.constant(x_train[rows]), tapec.constant(y_train[rows])))
        for rows in np.array_split(order, len(order) // BATCH)
    ]
    milliseconds = 1e3 * (time.perf_counter() - start)
    if epoch == 1 or epoch % 5 == 0:
        row = (str(epoch), f"{np.mean(losses):.4f}", f"{accuracy():.3f}", f"{milliseconds:.1f}")
        table.add_row(*row)
Console().print(table)
