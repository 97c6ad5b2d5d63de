"""The main job on real data: train a classifier of handwritten digits, eagerly and as one native step.

Prints a table of both runs: loss, accuracy on the test set, steps per second.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tapec

LAYERS, BATCH, EPOCHS = (64, 128, 10), 32, 20

images, labels = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(
    (images / 16.0).astype(np.float32), labels.astype(np.int32), test_size=0.2, random_state=0
)


class Classifier:
    """A multilayer perceptron with its optimizer."""

    def __init__(self) -> None:
        """Draw the weights; the same each time."""
        rng = np.random.default_rng(0)
        self.layers = []
        for fan_in, fan_out in itertools.pairwise(LAYERS):
            kernel = np.sqrt(2.0 / fan_in) * rng.standard_normal((fan_in, fan_out))
            self.layers.append(
                (
                    tapec.Variable(kernel.astype(np.float32), name="kernel"),
                    tapec.Variable(tapec.zeros([fan_out]), name="bias"),
                )
            )
        self.variables = [v for layer in self.layers for v in layer]
        self.optimizer = tapec.optimizers.Adam(2e-3)

    def logits(self, x: tapec.Tensor) -> tapec.Tensor:
        """One row of scores for each row of pixels."""
        *hidden, (kernel, bias) = self.layers
        for w, b in hidden:
            x = tapec.nn.relu(x @ w + b)
        return x @ kernel + bias

    def train_step(self, x: tapec.Tensor, y: tapec.Tensor) -> tuple[tapec.Tensor, tapec.Tensor]:
        """Forward, adjoint, clipping and update; the loss and the gradients' norm."""
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(
                tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=self.logits(x))
            )
        gradients = tape.gradient(loss, self.variables)
        gradients, norm = tapec.clip_by_global_norm(gradients, 1.0)
        self.optimizer.apply_gradients(zip(gradients, self.variables, strict=True))
        return loss, norm

    def accuracy(self) -> float:
        """The share of the test set that is classified rightly."""
        guesses = tapec.argmax(self.logits(tapec.constant(x_test)), axis=1)
        return float(np.mean(guesses.numpy() == y_test))


def train(
    name: str, wrap: Callable[..., Callable[..., tuple[tapec.Tensor, tapec.Tensor]]]
) -> tuple[str, ...]:
    """Train from the same start; return a row of the table."""
    model = Classifier()
    step = wrap(model.train_step)
    rng = np.random.default_rng(1)
    full = len(x_train) // BATCH * BATCH
    steps, seconds, first = 0, 0.0, 0.0
    with Progress(transient=True) as progress:
        for _ in progress.track(range(EPOCHS), description=name):
            losses = []
            for rows in rng.permutation(len(x_train))[:full].reshape(-1, BATCH):
                x, y = tapec.constant(x_train[rows]), tapec.constant(y_train[rows])
                start = time.perf_counter()
                loss, _ = step(x, y)
                took = time.perf_counter() - start
                if steps == 0:
                    first = took  # tracing and compiling are in here
                else:
                    seconds += took
                steps += 1
                losses.append(float(loss))
    return (
        name,
        f"{np.mean(losses):.4f}",
        f"{100 * model.accuracy():.1f} %",
        f"{(steps - 1) / seconds:,.0f}",
        f"{first:.2f} s",
    )


table = Table(
    "run", "loss", "test accuracy", "steps / s", "first step", title="Digits, 64-128-10, Adam"
)
table.add_row(*train("eager", lambda step: step))
table.add_row(*train("compiled", tapec.compile))
Console().print(table)
