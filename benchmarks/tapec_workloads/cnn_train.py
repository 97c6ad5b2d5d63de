"""Two convolutions with pools, two dense layers, batch 64 of 28x28x1, softmax cross-entropy, Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import Program

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import Weights, train_program


def conv_pool(x: tapec.Tensor, filters: Any, bias: Any) -> tapec.Tensor:
    """Return the greatest activations of each two by two pixels."""
    h = tapec.nn.relu(tapec.nn.conv2d(x, filters, 1, "SAME") + bias)
    return tapec.nn.max_pool2d(h, 2, 2, "VALID")


def loss(p: Weights, x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Return the mean cross-entropy of a batch."""
    h = conv_pool(conv_pool(x, p["k1"], p["c1"]), p["k2"], p["c2"])
    h = tapec.nn.relu(tapec.reshape(h, [x.shape[0], -1]) @ p["w1"] + p["b1"])
    logits = h @ p["w2"] + p["b2"]
    losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    return tapec.reduce_mean(losses)


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    return train_program(loss, data, learning_rate=1e-3)
