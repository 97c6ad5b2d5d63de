"""Physics-informed net: MLP 1-64-64-64-1 tanh on 1024 points, u'' by nested tapes, Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import Program

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import Weights, train_program


def u(p: Weights, x: tapec.Tensor) -> tapec.Tensor:
    """Return the net's value at each point."""
    for layer in "123":
        x = tapec.tanh(x @ p["w" + layer] + p["b" + layer])
    return x @ p["w4"] + p["b4"]


def loss(p: Weights, x: tapec.Tensor, f: tapec.Tensor, ends: tapec.Tensor) -> tapec.Tensor:
    """Return the mean squared residual of u'' = -f, and of u = 0 at both ends."""
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = u(p, x)
        du = inner.gradient(y, x)
    d2u = outer.gradient(du, x)
    residual = tapec.reduce_mean(tapec.square(d2u + f))
    return residual + tapec.reduce_sum(tapec.square(u(p, ends)))


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    return train_program(loss, data, learning_rate=1e-3)
