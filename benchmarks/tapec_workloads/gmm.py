"""Gradient of ADBench's log-likelihood of a Gaussian mixture, and the objective alone."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from common import Program
from workloads.gmm import COLS, GAMMA, ROWS, D, K, M, N, constant

import tapec

os.environ["TAPEC_CACHE"] = "off"  # the first call is timed: nothing may be left from another run


def entries() -> np.ndarray[Any, Any]:
    """Where each entry of a factor stands: ``[K * D * D, 3]``, the diagonals behind what is below them."""
    rows, columns = np.append(ROWS, np.arange(D)), np.append(COLS, np.arange(D))
    places = [(k, i, j) for k in range(K) for i, j in zip(rows, columns, strict=True)]
    return np.array(places, np.int32)


def objective(
    alpha: tapec.Tensor, mu: tapec.Tensor, icf: tapec.Tensor, x: tapec.Tensor
) -> tapec.Tensor:
    """Return the log-likelihood of the points and the prior of the factors."""
    q, lower = icf[:, :D], icf[:, D:]
    values = tapec.reshape(tapec.concat([lower, tapec.exp(q)], axis=1), [-1])
    factor = tapec.scatter_nd(entries(), values, [K, D, D])
    centred = x - mu[:, None, :]
    projected = tapec.matmul(centred, factor, transpose_b=True)
    mahalanobis = tapec.reduce_sum(projected**2, axis=-1)
    weights = (alpha + tapec.reduce_sum(q, axis=1))[:, None]
    mixture = tapec.reduce_logsumexp(weights - 0.5 * mahalanobis, axis=0)
    prior = 0.5 * GAMMA**2 * tapec.reduce_sum(factor**2) - M * tapec.reduce_sum(q)
    likelihood: tapec.Tensor = tapec.reduce_sum(mixture) - N * tapec.reduce_logsumexp(alpha)
    return tapec.add(likelihood, prior + constant())


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""

    @tapec.compile
    def value_and_grad(
        alpha: tapec.Tensor, mu: tapec.Tensor, icf: tapec.Tensor, x: tapec.Tensor
    ) -> tuple[Any, list[Any]]:
        with tapec.GradientTape() as tape:
            tape.watch([alpha, mu, icf])
            value = objective(alpha, mu, icf, x)
        return value, tape.gradient(value, [alpha, mu, icf])

    value_only = tapec.compile(objective)
    arguments = [tapec.constant(a) for a in (*data["params"].values(), data["batch"]["x"])]
    gradients: list[Any] = []

    def step() -> Any:
        nonlocal gradients
        value, gradients = value_and_grad(*arguments)
        return value.numpy()

    def outputs() -> dict[str, Any]:
        return {k: g.numpy() for k, g in zip(data["params"], gradients, strict=True)}

    return Program(step, outputs, {"objective": lambda: value_only(*arguments).numpy()})
