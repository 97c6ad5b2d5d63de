"""784-512-512-10 ReLU classifier, batch 128, softmax cross-entropy, Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import Program

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import Weights, train_program


def loss(p: Weights, x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Return the mean cross-entropy of a batch."""
    h = tapec.nn.relu(x @ p["w1"] + p["b1"])
    h = tapec.nn.relu(h @ p["w2"] + p["b2"])
    logits = h @ p["w3"] + p["b3"]
    losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    return tapec.reduce_mean(losses)


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    return train_program(loss, data, learning_rate=1e-3)
