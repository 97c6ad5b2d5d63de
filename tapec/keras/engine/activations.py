"""Activations, and softmax."""

from __future__ import annotations

from typing import Any

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating
from tapec.keras.engine.elementwise import of_floats
from tapec.tensor import Tensor

relu = of_floats(tapec.nn.relu)
relu6 = of_floats(tapec.nn.relu6)
sigmoid = of_floats(tapec.sigmoid)
tanh = of_floats(tapec.tanh)
softplus = of_floats(tapec.nn.softplus)
softsign = of_floats(tapec.nn.softsign)
silu = of_floats(tapec.nn.silu)
log_sigmoid = of_floats(tapec.math.log_sigmoid)
selu = of_floats(tapec.nn.selu)


def _zero(x: Tensor) -> Tensor:
    return tapec.zeros_like(x)


def sparse_sigmoid(x: Any) -> Tensor:
    """A straight line from 0 at -1 to 1 at 1."""
    x = floating(x)
    return tapec.clip_by_value(0.5 * (x + 1.0), 0.0, 1.0)


def tanh_shrink(x: Any) -> Tensor:
    """``x - tanh(x)``."""
    x = floating(x)
    return x - tapec.tanh(x)


def soft_shrink(x: Any, threshold: float = 0.5) -> Tensor:
    """Nearer to 0 by ``threshold``, and 0 within it."""
    x = floating(x)
    below = tapec.where(x < -threshold, x + threshold, _zero(x))
    return tapec.where(x > threshold, x - threshold, below)


def hard_shrink(x: Any, threshold: float = 0.5) -> Tensor:
    """0 within ``threshold`` of 0."""
    x = floating(x)
    return tapec.where(tapec.abs(x) > threshold, x, _zero(x))


def threshold(x: Any, threshold: float, default_value: float) -> Tensor:
    """``default_value`` where ``x`` does not exceed ``threshold``."""
    x = floating(x)
    return tapec.where(x > threshold, x, tapec.constant(default_value, x.dtype))


def sparse_plus(x: Any) -> Tensor:
    """0 below -1, ``x`` above 1, a parabola between."""
    x = floating(x)
    between = tapec.where(x < 1.0, 0.25 * tapec.square(x + 1.0), x)
    return tapec.where(x <= -1.0, _zero(x), between)


def squareplus(x: Any, b: float = 4) -> Tensor:
    """``(x + sqrt(x**2 + b)) / 2``."""
    x = floating(x)
    return (x + tapec.sqrt(tapec.square(x) + float(b))) / 2.0


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Tensor:
    """``x`` above 0, a part of it below."""
    return tapec.nn.leaky_relu(floating(x), alpha=negative_slope)


def hard_sigmoid(x: Any) -> Tensor:
    """``relu6(x + 3) / 6``."""
    return tapec.nn.relu6(floating(x) + 3.0) / 6.0


def hard_silu(x: Any) -> Tensor:
    """``x * hard_sigmoid(x)``."""
    x = floating(x)
    return x * hard_sigmoid(x)


def hard_tanh(x: Any) -> Tensor:
    """``x`` held between -1 and 1."""
    return tapec.clip_by_value(floating(x), -1.0, 1.0)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    x = floating(x)
    below = tapec.nn.elu(x)
    return below if alpha == 1 else tapec.where(x > 0.0, below, alpha * below)


def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` below."""
    x = floating(x)
    return tapec.maximum(x, 0.0) + alpha * tapec.math.expm1(tapec.minimum(x, 0.0) / alpha)


def gelu(x: Any, approximate: bool = True) -> Tensor:
    """``x`` times the normal distribution function, or what is near to it."""
    return tapec.nn.gelu(floating(x), approximate=bool(approximate))


def glu(x: Any, axis: int = -1) -> Tensor:
    """One half times the sigmoid of the other.

    Raises:
        ValueError: the axis has no halves.
    """
    x = floating(x)
    if x.shape[axis] % 2 != 0:
        raise ValueError(
            f"axis size must be divisible by 2. Received: x.shape={x.shape} with axis={axis}"
        )
    one, other = tapec.split(x, 2, axis)
    return one * tapec.sigmoid(other)


def _along(function: Any, x: Any, axis: Any) -> Tensor:
    """A function along an axis, or along several or all as if they were one."""
    x = floating(x)
    if isinstance(axis, int):
        return function(x, axis)
    if axis is None:
        return tapec.reshape(function(tapec.reshape(x, [-1]), -1), tapec.shape(x))
    inside = [n % x.type.rank for n in axis]
    outside = [n for n in range(x.type.rank) if n not in inside]
    order = [*outside, *inside]
    rows = tapec.transpose(x, order)
    shape = tapec.shape(rows)
    flat = tapec.reshape(rows, [*(shape[n] for n in range(len(outside))), -1])
    found = tapec.reshape(function(flat, -1), shape)
    return tapec.transpose(found, [order.index(n) for n in range(x.type.rank)])


def softmax(x: Any, axis: Any = -1) -> Tensor:
    """Shares of the exponentials."""
    return _along(tapec.nn.softmax, x, axis)


def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """The logarithm of `softmax`."""
    return _along(tapec.nn.log_softmax, x, axis)


def sparsemax(x: Any, axis: int = -1) -> Tensor:
    """The nearest distribution to ``x``; zeros where `softmax` would have little.

    Source: Martins and Astudillo, "From Softmax to Sparsemax", 2016.
    """
    x = floating(x)
    place = axis % x.type.rank
    rows = tapec.sort(x, place, "DESCENDING")
    sums = tapec.cumsum(rows, place)
    shape = [-1 if n == place else 1 for n in range(x.type.rank)]
    counts = tapec.reshape(tapec.range(1, tapec.shape(x)[place] + 1), shape)
    counts = tapec.cast(counts, x.dtype)
    is_kept = rows - (sums - 1.0) / counts > 0.0
    count = tapec.reduce_sum(tapec.cast(is_kept, x.dtype), place, True)
    total = tapec.reduce_sum(tapec.where(is_kept, rows, _zero(rows)), place, True)
    return tapec.maximum(x - (total - 1.0) / count, 0.0)


def one_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """A new axis with 1 at the index that each element is.

    Raises:
        ValueError: a sparse result is asked for.
    """
    _refuse_sparse(sparse)
    x = convert_to_tensor(x)
    indices = x if x.dtype.name in ("int32", "int64") else tapec.cast(x, "int32")
    rank = indices.type.rank + 1
    kind = "float32" if dtype is None else dtype
    wide = "float32" if kind == "bool" else kind
    found = tapec.one_hot(indices, num_classes, axis=axis % rank, dtype=tapec.as_dtype(wide))
    return tapec.cast(found, kind)


def _refuse_sparse(sparse: bool) -> None:
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with tapec backend")


def multi_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """For each row, 1 at all indices in it."""
    x = convert_to_tensor(x)
    over = 1 if x.type.rank > 1 else 0
    found = one_hot(x, num_classes, axis, dtype, sparse)
    if found.dtype.name == "bool":
        return tapec.reduce_any(found, over)
    return tapec.reduce_max(found, over)
