"""DQN temporal-difference step: Q network 4-64-64-2 tanh, batch 32, a target network, Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import Program

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import Weights, train_program

GAMMA = 0.99


def q_values(p: Weights, state: tapec.Tensor) -> tapec.Tensor:
    """Return the value of each action in each state."""
    h = tapec.tanh(state @ p["w1"] + p["b1"])
    h = tapec.tanh(h @ p["w2"] + p["b2"])
    return h @ p["w3"] + p["b3"]


def loss(
    p: Weights,
    s: tapec.Tensor,
    a: tapec.Tensor,
    r: tapec.Tensor,
    s2: tapec.Tensor,
    done: tapec.Tensor,
    **target: tapec.Tensor,
) -> tapec.Tensor:
    """Return the mean squared temporal difference; no gradient reaches the target network."""
    frozen = {name.removeprefix("t_"): array for name, array in target.items()}
    best = tapec.reduce_max(q_values(frozen, s2), axis=1)
    goal = tapec.stop_gradient(r + GAMMA * (1.0 - done) * best)
    chosen = tapec.gather(q_values(p, s), a, axis=1, batch_dims=1)
    return tapec.reduce_mean(tapec.square(chosen - goal))


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    return train_program(loss, data, learning_rate=1e-3)
