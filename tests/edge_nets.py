"""Twenty small networks of different shapes, each with its training step: what devices are asked to train."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from edge_models import EdgeModel

import tapec

Layers = Callable[["Parameters", Any], Any]


class Parameters:
    """Gives a network its Variables, in the order in which it asks for them."""

    def __init__(self, made: Sequence[tapec.Variable] | None = None) -> None:
        """``made``: what there is; without it each one is made."""
        self.given = None if made is None else iter(made)
        self.made: list[tapec.Variable] = []
        self._rng = np.random.default_rng(11)

    def __call__(self, *shape: int, start: float | None = None) -> tapec.Variable:
        if self.given is not None:
            return next(self.given)
        fan = max(int(np.prod(shape[:-1])), 1)
        value = self._rng.normal(size=shape) / np.sqrt(fan)
        value = value if start is None else np.full(shape, start)
        name = f"w{len(self.made)}"
        self.made.append(tapec.Variable(value.astype(np.float32), name=name))
        return self.made[-1]

    def dense(self, x: Any, size: int) -> Any:
        """A layer of this many neurons."""
        return x @ self(x.shape[-1], size) + self(size, start=0.0)


@dataclass(frozen=True)
class Net:
    """A network: its layers, the shape of its input, how many classes it tells apart, or None for numbers."""

    layers: Layers
    shape: tuple[int, ...]
    classes: int | None
    optimizer: Callable[[], Any]

    def model(self) -> EdgeModel:
        """Its functions."""
        maker, optimizer = Parameters(), self.optimizer()
        self.layers(maker, tapec.zeros(self.shape))
        made = maker.made

        @tapec.compile
        def infer(x: Any) -> Any:
            return self.layers(Parameters(made), x)

        @tapec.compile
        def train(x: Any, y: Any) -> Any:
            with tapec.GradientTape() as tape:
                given = self.layers(Parameters(made), x)
                if self.classes is None:
                    loss = tapec.reduce_mean((given - y) ** 2)
                else:
                    losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(y, given)
                    loss = tapec.reduce_mean(losses)
            gradients = tape.gradient(loss, made)
            optimizer.apply_gradients(zip(gradients, made, strict=True))
            return loss

        sizes = ",".join(map(str, self.shape))
        label = f"f32[{self.shape[0]},1]" if self.classes is None else f"i32[{self.shape[0]}]"
        signatures = {"infer": f"f32[{sizes}]", "train": f"f32[{sizes}] {label}"}
        return EdgeModel({"infer": infer, "train": train}, signatures, made)

    def batches(self, count: int) -> list[tuple[Any, Any]]:
        """Arrays for training steps."""
        rng = np.random.default_rng(5)
        found = []
        for _ in range(count):
            x = rng.normal(size=self.shape).astype(np.float32)
            if self.classes is None:
                y: Any = rng.normal(size=(self.shape[0], 1)).astype(np.float32)
            else:
                y = rng.integers(0, self.classes, self.shape[0]).astype(np.int32)
            found.append((x, y))
        return found


def _sgd() -> Any:
    return tapec.optimizers.SGD(0.02)


def _momentum() -> Any:
    return tapec.optimizers.SGD(0.01, momentum=0.9)


def _adam() -> Any:
    return tapec.optimizers.Adam(0.005)


def _mlp(*sizes: int, activation: Any) -> Layers:
    def layers(p: Parameters, x: Any) -> Any:
        for size in sizes[:-1]:
            x = activation(p.dense(x, size))
        return p.dense(x, sizes[-1])

    return layers


def _conv(channels: int, kernel: int, stride: int, classes: int, *, pool: bool) -> Layers:
    def layers(p: Parameters, x: Any) -> Any:
        w = p(kernel, kernel, x.shape[-1], channels)
        x = tapec.nn.relu(tapec.nn.conv2d(x, w, stride, "SAME") + p(channels, start=0.0))
        if pool:
            x = tapec.nn.max_pool2d(x, 2, 2, "VALID")
        size = int(np.prod([int(d) for d in x.shape[1:]]))
        return p.dense(tapec.reshape(x, [x.shape[0], size]), classes)

    return layers


def _keywords(p: Parameters, x: Any) -> Any:
    """Depthwise and pointwise convolutions over time and frequency, and a mean."""
    x = tapec.nn.relu(tapec.nn.conv2d(x, p(3, 3, 1, 4), 2, "SAME") + p(4, start=0.0))
    depthwise = p(3, 3, 4, 1)
    x = tapec.nn.relu(
        tapec.nn.depthwise_conv2d(x, depthwise, [1, 1, 1, 1], "SAME") + p(4, start=0.0)
    )
    x = tapec.nn.relu(tapec.nn.conv2d(x, p(1, 1, 4, 6), 1, "SAME") + p(6, start=0.0))
    return p.dense(tapec.reduce_mean(x, axis=[1, 2]), 4)


def _recurrent(p: Parameters, x: Any) -> Any:
    """A simple recurrent network over the second axis."""
    hidden = tapec.zeros([x.shape[0], 6])
    w, u, b = p(x.shape[2], 6), p(6, 6), p(6, start=0.0)
    for t in range(x.shape[1]):
        hidden = tapec.tanh(x[:, t] @ w + hidden @ u + b)
    return p.dense(hidden, 3)


def _gated(p: Parameters, x: Any) -> Any:
    """A gated recurrent network."""
    hidden = tapec.zeros([x.shape[0], 5])
    w, u = p(x.shape[2], 15), p(5, 15)
    for t in range(x.shape[1]):
        a, b = x[:, t] @ w, hidden @ u
        update = tapec.sigmoid(a[:, :5] + b[:, :5])
        reset = tapec.sigmoid(a[:, 5:10] + b[:, 5:10])
        new = tapec.tanh(a[:, 10:] + reset * b[:, 10:])
        hidden = update * hidden + (1.0 - update) * new
    return p.dense(hidden, 1)


def _residual(p: Parameters, x: Any) -> Any:
    for _ in range(2):
        x = x + p.dense(tapec.nn.gelu(p.dense(x, 12)), x.shape[-1])
    return p.dense(x, 4)


def _normalised(p: Parameters, x: Any) -> Any:
    x = p.dense(x, 10)
    mean = tapec.reduce_mean(x, axis=-1, keepdims=True)
    spread = tapec.reduce_mean((x - mean) ** 2, axis=-1, keepdims=True)
    x = (x - mean) * tapec.math.rsqrt(spread + 1e-3) * p(10, start=1.0) + p(10, start=0.0)
    return p.dense(tapec.nn.relu(x), 3)


def _attention(p: Parameters, x: Any) -> Any:
    """One head over the second axis."""
    q, k, v = (x @ p(x.shape[2], 4) for _ in range(3))
    scores = tapec.nn.softmax(tapec.matmul(q, k, transpose_b=True) * 0.5)
    mixed = tapec.reduce_mean(tapec.matmul(scores, v), axis=1)
    return p.dense(mixed, 3)


def _autoencoder(p: Parameters, x: Any) -> Any:
    code = tapec.nn.relu(p.dense(x, 3))
    return tapec.reduce_mean((p.dense(code, x.shape[-1]) - x) ** 2, axis=1, keepdims=True)


_RELU, _TANH, _SIGMOID = tapec.nn.relu, tapec.tanh, tapec.sigmoid

NETS: Mapping[str, Net] = {
    # Of several examples: the squared error of one may come near zero, and relative differences grow without bound.
    "linear": Net(_mlp(1, activation=_RELU), (6, 4), None, _sgd),
    "logistic": Net(_mlp(3, activation=_RELU), (1, 6), 3, _sgd),
    "mlp_relu": Net(_mlp(8, 4, activation=_RELU), (1, 7), 4, _sgd),
    "mlp_tanh": Net(_mlp(9, 1, activation=_TANH), (2, 5), None, _momentum),
    "mlp_sigmoid": Net(_mlp(6, 5, activation=_SIGMOID), (3, 4), 5, _adam),
    "mlp_deep": Net(_mlp(8, 8, 8, 3, activation=_RELU), (1, 6), 3, _adam),
    "mlp_softplus": Net(_mlp(5, 2, activation=tapec.nn.softplus), (4, 3), 2, _sgd),
    "mlp_elu": Net(_mlp(7, 2, activation=tapec.nn.elu), (2, 3), 2, _momentum),
    "mlp_swish": Net(_mlp(6, 3, activation=tapec.nn.silu), (1, 5), 3, _adam),
    "mlp_odd": Net(_mlp(13, 11, activation=_RELU), (5, 17), 11, _sgd),
    "conv": Net(_conv(3, 3, 1, 4, pool=False), (1, 6, 6, 1), 4, _sgd),
    "conv_pool": Net(_conv(4, 3, 1, 3, pool=True), (1, 8, 8, 1), 3, _momentum),
    "conv_stride": Net(_conv(2, 5, 2, 3, pool=False), (2, 9, 9, 2), 3, _adam),
    "keywords": Net(_keywords, (1, 12, 10, 1), 4, _sgd),
    "recurrent": Net(_recurrent, (1, 5, 3), 3, _sgd),
    "gated": Net(_gated, (2, 4, 3), None, _adam),
    "residual": Net(_residual, (1, 6), 4, _sgd),
    "normalised": Net(_normalised, (2, 5), 3, _momentum),
    "attention": Net(_attention, (1, 5, 6), 3, _adam),
    "autoencoder": Net(_autoencoder, (2, 8), None, _sgd),
}
