"""Language model of two pre-norm blocks: width 128, 4 heads, sequence 128, batch 8, vocabulary 256, Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import Program
from workloads.transformer_train import BATCH, BLOCKS, HEADS, TIME, WIDTH

import tapec

sys.path.insert(0, str(Path(__file__).parent))
from _train import Weights, train_program


def norm(x: tapec.Tensor, scale: Any, shift: Any) -> tapec.Tensor:
    """Return rows of mean 0 and variance 1, scaled and shifted."""
    mean = tapec.reduce_mean(x, axis=-1, keepdims=True)
    variance = tapec.reduce_mean((x - mean) ** 2, axis=-1, keepdims=True)
    return tapec.nn.batch_normalization(x, mean, variance, shift, scale, 1e-5)


def attention(x: tapec.Tensor, qkv: Any, out: Any) -> tapec.Tensor:
    """Return what each position takes from those before it."""
    parts = tapec.reshape(x @ qkv, [BATCH, TIME, 3 * HEADS, -1])
    q, k, v = tapec.split(parts, 3, axis=2)
    scores = tapec.einsum("bthd,bshd->bhts", q, k) * (WIDTH // HEADS) ** -0.5
    seen = np.tril(np.ones((TIME, TIME), bool))
    scores = tapec.where(seen, scores, -1e9)
    mixed = tapec.einsum("bhts,bshd->bthd", tapec.nn.softmax(scores), v)
    return tapec.matmul(tapec.reshape(mixed, [BATCH, TIME, WIDTH]), out)


def loss(p: Weights, x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Return the mean cross-entropy of the next tokens."""
    h = tapec.gather(p["emb"], x) + p["pos"]
    for i in range(BLOCKS):
        h += attention(norm(h, p[f"g{i}a"], p[f"b{i}a"]), p[f"qkv{i}"], p[f"out{i}"])
        m = norm(h, p[f"g{i}m"], p[f"b{i}m"])
        up = tapec.nn.gelu(m @ p[f"up{i}"] + p[f"ub{i}"], approximate=True)
        h = h + up @ p[f"down{i}"] + p[f"db{i}"]
    logits = norm(h, p["gf"], p["bf"]) @ p["head"]
    losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    return tapec.reduce_mean(losses)


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""
    return train_program(loss, data, learning_rate=3e-4)
