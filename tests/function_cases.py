"""Differentiable public functions with what NumPy gives, and operands to run them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapec
from tapec import nn

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(0)


def random(*shape: int) -> Array:
    """Float64 numbers away from 0."""
    return np.asarray(rng.uniform(0.3, 1.7, shape) * rng.choice([-1, 1], shape))


def positive(*shape: int) -> Array:
    return np.abs(random(*shape))


def inside(*shape: int) -> Array:
    """Between -1 and 1."""
    return random(*shape) / 2


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def log_softmax(x: Array) -> Array:
    return np.asarray(np.log(softmax(x)))


def cross_entropy(x: Array) -> Array:
    return np.asarray(-log_softmax(x)[np.arange(len(LABELS)), LABELS])


def replaced(x: Array, u: Array) -> Array:
    """Rows 2 and 0 of x replaced."""
    y = x.copy()
    y[[2, 0]] = u
    return y


LABELS = [2, 0]
ORDER = [[0, 1], [2, 0]]

# Ours, NumPy's, and the operands. Each is run eagerly, traced, and traced with a symbolic size.
SMOOTH: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Array, ...]]] = {
    "add broadcasts": (tapec.add, np.add, (random(2, 3), random(3))),
    "subtract broadcasts both": (tapec.subtract, np.subtract, (random(2, 1), random(1, 3))),
    "multiply": (tapec.multiply, np.multiply, (random(2, 3), random(2, 3))),
    "divide": (tapec.divide, np.divide, (random(2, 3), random(2, 1))),
    "pow": (tapec.pow, np.power, (positive(2, 3), random(3))),
    "mod": (tapec.floormod, np.mod, (np.array([5.3, -5.3]), np.array([2.1, 2.1]))),
    "abs": (tapec.abs, np.abs, (random(3),)),
    "maximum": (tapec.maximum, np.maximum, (random(2, 3), random(3))),
    "squared_difference": (
        tapec.math.squared_difference,
        lambda a, b: (a - b) ** 2,
        (random(3), random(3)),
    ),
    "reciprocal": (tapec.math.reciprocal, np.reciprocal, (random(3),)),
    "sqrt": (tapec.sqrt, np.sqrt, (positive(3),)),
    "rsqrt": (tapec.math.rsqrt, lambda x: 1 / np.sqrt(x), (positive(3),)),
    "exp": (tapec.exp, np.exp, (random(3),)),
    "expm1": (tapec.math.expm1, np.expm1, (random(3),)),
    "log": (tapec.math.log, np.log, (positive(3),)),
    "log1p": (tapec.math.log1p, np.log1p, (positive(3),)),
    "sin": (tapec.sin, np.sin, (random(3),)),
    "tan": (tapec.tan, np.tan, (inside(3),)),
    "asin": (tapec.asin, np.arcsin, (inside(3),)),
    "atan2": (tapec.math.atan2, np.arctan2, (random(3), random(3))),
    "acosh": (tapec.acosh, np.arccosh, (positive(3) + 1,)),
    "tanh": (tapec.tanh, np.tanh, (random(3),)),
    "softplus": (tapec.math.softplus, lambda x: np.logaddexp(x, 0), (random(3),)),
    "softplus at 0": (tapec.math.softplus, lambda x: np.logaddexp(x, 0), (np.zeros(2),)),
    "log_sigmoid": (tapec.math.log_sigmoid, lambda x: -np.logaddexp(-x, 0), (random(3),)),
    "logaddexp": (tapec.math.logaddexp, np.logaddexp, (random(3), random(3))),
    "logaddexp of equals": (tapec.math.logaddexp, np.logaddexp, (np.ones(2), np.ones(2))),
    "polyval": (
        lambda x: tapec.math.polyval([2.0, -1.0, 0.5], x),
        lambda x: np.polyval([2.0, -1.0, 0.5], x),
        (random(3),),
    ),
    "xlogy": (tapec.math.xlogy, lambda x, y: x * np.log(y), (random(3), positive(3))),
    "matmul": (tapec.matmul, np.matmul, (random(2, 3), random(3, 4))),
    "matmul transposed": (
        lambda a, b: tapec.matmul(a, b, transpose_a=True, transpose_b=True),
        lambda a, b: a.T @ b.T,
        (random(3, 2), random(4, 3)),
    ),
    "matmul of a batch and a matrix": (tapec.matmul, np.matmul, (random(2, 2, 3), random(3, 2))),
    "matmul of a matrix and a batch": (tapec.matmul, np.matmul, (random(2, 3), random(2, 3, 2))),
    "matmul broadcasts": (tapec.matmul, np.matmul, (random(2, 1, 2, 3), random(3, 3, 2))),
    "matvec": (tapec.linalg.matvec, lambda a, v: a @ v, (random(2, 3), random(3))),
    "tensordot": (
        lambda a, b: tapec.tensordot(a, b, [[1, 2], [0, 1]]),
        lambda a, b: np.tensordot(a, b, ((1, 2), (0, 1))),
        (random(2, 3, 2), random(3, 2, 4)),
    ),
    "einsum of a batch": (
        lambda a, b: tapec.einsum("bij,bkj->bik", a, b),
        lambda a, b: np.einsum("bij,bkj->bik", a, b),
        (random(2, 3, 2), random(2, 4, 2)),
    ),
    "einsum of a trace": (
        lambda a: tapec.einsum("...ii->...", a),
        lambda a: np.einsum("...ii->...", a),
        (random(2, 3, 3),),
    ),
    "einsum of three": (
        lambda a, b, c: tapec.einsum("i,ij,jk->ki", a, b, c),
        lambda a, b, c: np.einsum("i,ij,jk->ki", a, b, c),
        (random(2), random(2, 3), random(3, 2)),
    ),
    "einsum with an ellipsis": (
        lambda a, b: tapec.einsum("...ij,jk->...ik", a, b),
        lambda a, b: np.einsum("...ij,jk->...ik", a, b),
        (random(2, 2, 3), random(3, 2)),
    ),
    "einsum without a result": (
        lambda a, b: tapec.einsum("ij,jk", a, b),
        lambda a, b: np.einsum("ij,jk", a, b),
        (random(2, 3), random(3, 2)),
    ),
    "reshape": (lambda x: tapec.reshape(x, [-1, 2]), lambda x: x.reshape(-1, 2), (random(2, 4),)),
    "reshape by shape": (
        lambda x: tapec.reshape(x, [tapec.shape(x)[0] * 2, -1]),
        lambda x: x.reshape(len(x) * 2, -1),
        (random(2, 4),),
    ),
    "transpose": (
        lambda x: tapec.transpose(x, [1, 2, 0]),
        lambda x: x.transpose(1, 2, 0),
        (random(2, 3, 4),),
    ),
    "concat": (
        lambda a, b: tapec.concat([a, b], -1),
        lambda a, b: np.concatenate([a, b], -1),
        (random(2, 1), random(2, 3)),
    ),
    "stack": (
        lambda a, b: tapec.stack([a, b], 1),
        lambda a, b: np.stack([a, b], 1),
        (random(2, 3), random(2, 3)),
    ),
    "split": (
        lambda x: tapec.split(x, [1, -1], axis=1)[1],
        lambda x: x[:, 1:],
        (random(2, 3),),
    ),
    "unstack": (lambda x: tapec.unstack(x, axis=1)[2], lambda x: x[:, 2], (random(2, 3),)),
    "tile": (lambda x: tapec.tile(x, [2, 1]), lambda x: np.tile(x, [2, 1]), (random(2, 3),)),
    "repeat": (lambda x: tapec.repeat(x, 2, 0), lambda x: np.repeat(x, 2, 0), (random(2, 3),)),
    "pad": (
        lambda x: tapec.pad(x, [[1, 0], [0, 2]], constant_values=3.0),
        lambda x: np.pad(x, [[1, 0], [0, 2]], constant_values=3.0),
        (random(2, 3),),
    ),
    "pad with a mirror": (
        lambda x: tapec.pad(x, [[0, 0], [2, 1]], "REFLECT"),
        lambda x: np.pad(x, [[0, 0], [2, 1]], "reflect"),
        (random(2, 3),),
    ),
    "pad with the edge": (
        lambda x: tapec.pad(x, [[0, 0], [2, 1]], "SYMMETRIC"),
        lambda x: np.pad(x, [[0, 0], [2, 1]], "symmetric"),
        (random(2, 3),),
    ),
    "reverse": (lambda x: tapec.reverse(x, [0]), lambda x: x[::-1], (random(2, 3),)),
    "roll": (lambda x: tapec.roll(x, -1, 1), lambda x: np.roll(x, -1, 1), (random(2, 3),)),
    "getitem": (
        lambda x: x[:, 1:, None, ..., -1],
        lambda x: x[:, 1:, None, ..., -1],
        (random(2, 3, 2),),
    ),
    "getitem with steps": (lambda x: x[..., ::-2], lambda x: x[..., ::-2], (random(2, 4),)),
    "getitem from the end": (lambda x: x[:-1], lambda x: x[:-1], (random(3, 2),)),
    "gather": (
        lambda x: tapec.gather(x, ORDER, axis=1),
        lambda x: np.take(x, ORDER, 1),
        (random(2, 3),),
    ),
    "gather of a batch": (
        lambda x: tapec.gather(x, LABELS, axis=1, batch_dims=1),
        lambda x: x[[0, 1], LABELS],
        (random(2, 3),),
    ),
    "gather_nd": (
        lambda x: tapec.gather_nd(x, [[0, 1], [1, 0]]),
        lambda x: x[[0, 1], [1, 0]],
        (random(2, 3),),
    ),
    "scatter_nd": (
        lambda u: tapec.scatter_nd([[1], [1]], u, [3, 2]),
        lambda u: np.array([0 * u[0], u.sum(0), 0 * u[0]]),
        (random(2, 2),),
    ),
    "tensor_scatter_nd_update": (
        lambda x, u: tapec.tensor_scatter_nd_update(x, [[2], [0]], u),
        replaced,
        (random(3, 2), random(2, 2)),
    ),
    "tensor_scatter_nd_add": (
        lambda x, u: tapec.tensor_scatter_nd_add(x, [[1, 0], [1, 0]], u),
        lambda x, u: x + np.array([[0, 0], [u.sum(), 0]]),
        (random(2, 2), random(2)),
    ),
    "tensor_scatter_nd_max": (
        lambda x, u: tapec.tensor_scatter_nd_max(x, [[1], [1]], u),
        lambda x, u: np.array([x[0], np.maximum(x[1], u.max(0))]),
        (random(2, 2), random(2, 2)),
    ),
    "tensor_scatter_nd_min": (
        lambda x, u: tapec.tensor_scatter_nd_min(x, [[1], [1]], u),
        lambda x, u: np.array([x[0], np.minimum(x[1], u.min(0))]),
        (random(2, 2), random(2, 2)),
    ),
    "where": (
        lambda x, y: tapec.where(x > y, x, 2.0 * y),
        lambda x, y: np.where(x > y, x, 2.0 * y),
        (random(2, 3), random(3)),
    ),
    "clip_by_value": (
        lambda x: tapec.clip_by_value(x, -0.9, 0.8),
        lambda x: np.clip(x, -0.9, 0.8),
        (random(4),),
    ),
    "linspace": (
        lambda a, b: tapec.linspace(a, b, 4),
        lambda a, b: np.linspace(a, b, 4),
        (random(2), random(2)),
    ),
    "reduce_sum": (
        lambda x: tapec.reduce_sum(x, [0, -1]),
        lambda x: x.sum((0, 2)),
        (random(2, 3, 2),),
    ),
    "reduce_mean keeps": (
        lambda x: tapec.reduce_mean(x, 0, keepdims=True),
        lambda x: x.mean(0, keepdims=True),
        (random(2, 3),),
    ),
    "reduce_max": (lambda x: tapec.reduce_max(x, 1), lambda x: x.max(1), (random(2, 3),)),
    "reduce_prod": (lambda x: tapec.reduce_prod(x, 0), lambda x: x.prod(0), (random(2, 3),)),
    "reduce_std": (lambda x: tapec.math.reduce_std(x, 0), lambda x: x.std(0), (random(3, 2),)),
    "reduce_variance": (tapec.math.reduce_variance, np.var, (random(2, 3),)),
    "reduce_logsumexp": (
        lambda x: tapec.reduce_logsumexp(x, 1),
        lambda x: np.log(np.exp(x).sum(1)),
        (random(2, 3),),
    ),
    "norm": (lambda x: tapec.norm(x, axis=1), lambda x: np.linalg.norm(x, axis=1), (random(2, 3),)),
    "norm 3": (
        lambda x: tapec.norm(x, 3, axis=1),
        lambda x: np.linalg.norm(x, 3, axis=1),
        (random(2, 3),),
    ),
    "cumsum": (lambda x: tapec.cumsum(x, 1), lambda x: np.cumsum(x, 1), (random(2, 3),)),
    "cumprod": (lambda x: tapec.math.cumprod(x, 1), lambda x: np.cumprod(x, 1), (random(2, 3),)),
    "cumulative_logsumexp": (
        lambda x: tapec.math.cumulative_logsumexp(x, 1),
        lambda x: np.logaddexp.accumulate(x, 1),
        (random(2, 3),),
    ),
    "sort": (tapec.sort, np.sort, (random(2, 5),)),
    "sort down an axis": (
        lambda x: tapec.sort(x, 0, "DESCENDING"),
        lambda x: -np.sort(-x, 0),
        (random(4, 2),),
    ),
    "top_k": (
        lambda x: tapec.math.top_k(x, 2).values,
        lambda x: -np.sort(-x)[:, :2],
        (random(2, 4),),
    ),
    "diag": (
        tapec.linalg.diag,
        lambda x: np.stack([np.diag(row) for row in x]),
        (random(2, 3),),
    ),
    "diag_part": (tapec.linalg.diag_part, np.diagonal, (random(2, 3),)),
    "set_diag": (
        tapec.linalg.set_diag,
        lambda x, d: np.where(np.eye(2, 3) > 0, d[:, None], x),
        (random(2, 3), random(2)),
    ),
    "band_part": (lambda x: tapec.linalg.band_part(x, -1, 0), np.tril, (random(2, 3),)),
    "cross": (tapec.linalg.cross, np.cross, (random(2, 3), random(2, 3))),
    "unsorted_segment_sum": (
        lambda x: tapec.math.unsorted_segment_sum(x, [1, -1, 1], 3),
        lambda x: np.array([0 * x[0], x[0] + x[2], 0 * x[0]]),
        (random(3, 2),),
    ),
    "unsorted_segment_mean": (
        lambda x: tapec.math.unsorted_segment_mean(x, [1, 0, 1], 2),
        lambda x: np.array([x[1], (x[0] + x[2]) / 2]),
        (random(3, 2),),
    ),
    "relu": (nn.relu, lambda x: np.maximum(x, 0), (random(4),)),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x > 0, x, 0.2 * x), (random(4),)),
    "elu": (nn.elu, lambda x: np.where(x > 0, x, np.expm1(x)), (random(4),)),
    "silu": (nn.silu, lambda x: x / (1 + np.exp(-x)), (random(4),)),
    "softmax": (nn.softmax, softmax, (random(2, 3),)),
    "softmax down an axis": (lambda x: nn.softmax(x, 0), lambda x: softmax(x, 0), (random(2, 3),)),
    "log_softmax": (nn.log_softmax, log_softmax, (random(2, 3),)),
    "sparse cross-entropy": (
        lambda x: nn.sparse_softmax_cross_entropy_with_logits(LABELS, x),
        cross_entropy,
        (random(2, 3),),
    ),
    "cross-entropy": (
        nn.softmax_cross_entropy_with_logits,
        lambda p, x: -(p * log_softmax(x)).sum(-1),
        (positive(2, 3), random(2, 3)),
    ),
    "sigmoid cross-entropy": (
        nn.sigmoid_cross_entropy_with_logits,
        lambda z, x: np.logaddexp(0, x) - z * x,
        (inside(4), random(4)),
    ),
    "weighted cross-entropy": (
        lambda z, x: nn.weighted_cross_entropy_with_logits(z, x, 3.0),
        lambda z, x: (1 - z) * x + (1 + 2 * z) * np.logaddexp(0, -x),
        (inside(4), random(4)),
    ),
    "l2_normalize": (
        lambda x: nn.l2_normalize(x, 1),
        lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
        (random(2, 3),),
    ),
    "moments": (lambda x: nn.moments(x, [0])[1], lambda x: x.var(0), (random(3, 2),)),
    "bias_add": (
        lambda x, b: nn.bias_add(x, b, "NCHW"),
        lambda x, b: x + b[:, None, None],
        (random(2, 3, 1, 2), random(3)),
    ),
    "batch_normalization": (
        lambda x, m, v: nn.batch_normalization(x, m, v, 0.5, 2.0, 0.1),
        lambda x, m, v: (x - m) / np.sqrt(v + 0.1) * 2 + 0.5,
        (random(2, 3), random(3), positive(3)),
    ),
    "cond": (
        lambda x: tapec.cond(x[0] > 5, lambda: x, lambda: x * x),
        np.square,
        (random(3),),
    ),
    "while_loop": (
        lambda x: tapec.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * x), (0, x))[1],
        lambda x: x**3,
        (random(3),),
    ),
    "scan": (
        lambda x, a: tapec.scan(lambda s, e: s * e, x, a),
        lambda x, a: a * np.cumprod(x, 0),
        (random(3, 2), random(2)),
    ),
    "foldr": (
        lambda x: tapec.foldr(lambda s, e: s * e, x),
        lambda x: x.prod(0),
        (random(3, 2),),
    ),
    "map_fn": (
        lambda x, w: tapec.map_fn(lambda e: tapec.linalg.matvec(w, e), x),
        lambda x, w: x @ w.T,
        (random(3, 2), random(2, 2)),
    ),
}
