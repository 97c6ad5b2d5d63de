"""LSTM classifier: a loop over the sequence, with both products of the cell in each turn; `hoist` takes one out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import Program
from workloads.lstm_train import BATCH, HIDDEN

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import ClippedSgd, train_program


def loss(p: Any, x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """The mean cross-entropy of the classes that the last state gives."""

    def cell(state: Any, x_t: tapec.Tensor) -> Any:
        h, c = state
        i, f, g, o = tapec.split(x_t @ p["wx"] + p["b"] + h @ p["wh"], 4, axis=1)
        c = tapec.sigmoid(f) * c + tapec.sigmoid(i) * tapec.tanh(g)
        return tapec.sigmoid(o) * tapec.tanh(c), c

    zero = tapec.zeros([BATCH, HIDDEN])
    h, _ = tapec.foldl(cell, x, initializer=(zero, zero))
    logits = h @ p["w"] + p["c"]
    losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    return tapec.reduce_mean(losses)


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    return train_program(loss, data, 0.1, ClippedSgd)
