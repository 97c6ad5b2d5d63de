"""A loss written with tapec -> its whole train step, with the update rule of the other frameworks.

The harness loads each workload by its path, from wherever it lies; a workload therefore puts its
own folder on the path before it imports this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from common import Program, update_norms

import tapec

os.environ["TAPEC_CACHE"] = "0"  # the first call is timed: nothing may be left from another run

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

Weights = Mapping[str, tapec.Variable | tapec.Tensor]


class Adam:
    """Adam as Kingma and Ba print it in Algorithm 1.

    `tapec.optimizers.Adam` follows Keras, which takes the short cut at the end of their Section 2:
    there epsilon is not scaled by the bias correction. The check steps would tell the two apart.
    """

    def __init__(self, params: Mapping[str, tapec.Variable], learning_rate: float) -> None:
        self.params = params
        self.learning_rate = learning_rate
        self.moment1 = {name: zeros_like(p) for name, p in params.items()}
        self.moment2 = {name: zeros_like(p) for name, p in params.items()}
        self.power1 = tapec.Variable(1.0, trainable=False)  # BETA1 and BETA2 to the number of steps
        self.power2 = tapec.Variable(1.0, trainable=False)

    def apply(self, gradients: Mapping[str, tapec.Tensor]) -> None:
        """Move each parameter against its gradient."""
        self.power1.assign(self.power1 * BETA1)
        self.power2.assign(self.power2 * BETA2)
        rate = self.learning_rate / (1.0 - self.power1)
        correction = 1.0 - self.power2
        for name, g in gradients.items():
            m, v = self.moment1[name], self.moment2[name]
            m.assign(BETA1 * m + (1.0 - BETA1) * g)
            v.assign(BETA2 * v + (1.0 - BETA2) * g * g)
            self.params[name].assign_sub(rate * m / (tapec.sqrt(v / correction) + EPSILON))


class ClippedSgd:
    """Steps against the gradient, which is shortened to norm 1 if it is longer."""

    CLIP = 1.0

    def __init__(self, params: Mapping[str, tapec.Variable], learning_rate: float) -> None:
        self.params = params
        self.learning_rate = learning_rate

    def apply(self, gradients: Mapping[str, tapec.Tensor]) -> None:
        """Move each parameter."""
        norm = tapec.sqrt(tapec.add_n([tapec.reduce_sum(g * g) for g in gradients.values()]))
        factor = self.learning_rate * tapec.minimum(1.0, self.CLIP / (norm + 1e-6))
        for name, g in gradients.items():
            self.params[name].assign_sub(factor * g)


def zeros_like(variable: tapec.Variable) -> tapec.Variable:
    """Return a variable of zeros with the shape and dtype of another."""
    return tapec.Variable(np.zeros_like(variable.numpy()), trainable=False)


def train_program(
    loss: Callable[..., tapec.Tensor],
    data: dict[str, Any],
    learning_rate: float,
    rule: type[Adam | ClippedSgd] = Adam,
) -> Program:
    """Compile one train step of ``loss(params, **batch)`` and return it as the harness wants it."""
    params = {name: tapec.Variable(array) for name, array in data["params"].items()}
    batch = [tapec.constant(array) for array in data["batch"].values()]
    names = list(data["batch"])
    optimizer = rule(params, learning_rate)

    @tapec.compile
    def train_step(*batch: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            value = loss(params, **dict(zip(names, batch, strict=True)))
        gradients = tape.gradient(value, list(params.values()))
        optimizer.apply(dict(zip(params, gradients, strict=True)))
        return value

    def outputs() -> dict[str, float]:
        after = {name: variable.numpy() for name, variable in params.items()}
        return dict(update_norms(data["params"], after))

    return Program(lambda: train_step(*batch), outputs)
