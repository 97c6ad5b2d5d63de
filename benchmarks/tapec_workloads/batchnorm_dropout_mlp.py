"""256-1024-1024-10 classifier with batch norm and dropout, batch 256, Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import Program
from workloads.batchnorm_dropout_mlp import EPS, KEEP, MOMENTUM, statistics

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import Weights, train_program


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    state = {name: tapec.Variable(a, trainable=False) for name, a in data["state"].items()}

    def move(name: str, value: tapec.Tensor) -> None:
        state[name].assign(MOMENTUM * state[name] + (1 - MOMENTUM) * value)

    def loss(p: Weights, x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
        for i in "12":
            h = x @ p["w" + i]
            mean, variance = tapec.nn.moments(h, axes=[0])
            move("mean" + i, mean)
            move("var" + i, variance)
            h = tapec.nn.batch_normalization(h, mean, variance, p["s" + i], p["g" + i], EPS)
            x = tapec.nn.dropout(tapec.nn.relu(h), rate=1 - KEEP)
        logits = x @ p["w3"] + p["b3"]
        losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return tapec.reduce_mean(losses)

    program = train_program(loss, data, learning_rate=1e-3)

    def outputs() -> dict[str, Any]:
        return dict(statistics({name: variable.numpy() for name, variable in state.items()}))

    return program._replace(outputs=outputs)
