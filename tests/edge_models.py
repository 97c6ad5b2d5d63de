"""Models that the tests of `tapec.aot` build: functions, what they take, arrays to call them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tapec


@dataclass(frozen=True)
class EdgeModel:
    """Functions by name, the types that they take, and the Variables that they share."""

    functions: Mapping[str, Any]
    signatures: Mapping[str, str]
    variables: list[tapec.Variable]


def classifier(
    features: int = 12, hidden: int = 8, classes: int = 5, batch: str = "1", optimizer: Any = None
) -> EdgeModel:
    """A network of two layers, its inference and its training step."""
    rng = np.random.default_rng(7)

    def variable(*shape: int, name: str) -> tapec.Variable:
        return tapec.Variable(rng.normal(size=shape).astype(np.float32) * 0.3, name=name)

    w1, b1 = variable(features, hidden, name="w1"), variable(hidden, name="b1")
    w2, b2 = variable(hidden, classes, name="w2"), variable(classes, name="b2")
    variables = [w1, b1, w2, b2]
    update = tapec.optimizers.SGD(0.1) if optimizer is None else optimizer

    def logits_of(x: Any) -> Any:
        return tapec.nn.relu(x @ w1 + b1) @ w2 + b2

    @tapec.compile
    def infer(x: Any) -> Any:
        return tapec.nn.softmax(logits_of(x))

    @tapec.compile
    def train(x: Any, y: Any) -> Any:
        with tapec.GradientTape() as tape:
            losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(y, logits_of(x))
            loss = tapec.reduce_mean(losses)
        update.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    size = batch.partition("<=")[0]
    signatures = {
        "infer": f"f32[{batch},{features}]",
        "train": f"f32[{batch},{features}] i32[{size}]",
    }
    return EdgeModel({"infer": infer, "train": train}, signatures, variables)


def batches(features: int, classes: int, size: int, count: int) -> list[tuple[Any, Any]]:
    """Arrays for training steps, the same at each call."""
    rng = np.random.default_rng(3)
    return [
        (
            rng.random((size, features), dtype=np.float32),
            rng.integers(0, classes, size).astype(np.int32),
        )
        for _ in range(count)
    ]
