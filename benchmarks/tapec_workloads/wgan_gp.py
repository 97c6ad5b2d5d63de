"""WGAN-GP critic step: MLP 64-256-256-1 leaky ReLU, batch 128, gradient penalty, Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import Program

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import Weights, train_program

PENALTY_WEIGHT = 10.0


def critic(p: Weights, x: tapec.Tensor) -> tapec.Tensor:
    """Return one score for each row."""
    for layer in "12":
        x = tapec.nn.leaky_relu(x @ p["w" + layer] + p["b" + layer], 0.2)
    return x @ p["w3"]


def loss(p: Weights, real: tapec.Tensor, fake: tapec.Tensor, mix: tapec.Tensor) -> tapec.Tensor:
    """Return the critic's loss; the slope at points between real and fake is held near one."""
    between = mix * real + (1.0 - mix) * fake
    with tapec.GradientTape() as tape:
        tape.watch(between)
        score = critic(p, between)
    slope = tape.gradient(score, between)
    steepness = tapec.sqrt(tapec.reduce_sum(tapec.square(slope), axis=1))
    penalty = tapec.reduce_mean(tapec.square(steepness - 1.0))
    gap = tapec.reduce_mean(critic(p, fake)) - tapec.reduce_mean(critic(p, real))
    return gap + PENALTY_WEIGHT * penalty


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    return train_program(loss, data, learning_rate=1e-4)
