"""Means and variances from sums, losses of counts, normalisation by neighbouring channels, dropout by a key."""

from __future__ import annotations

from math import pi
from typing import Any

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    divide,
    divide_no_nan,
    greater_equal,
    less_equal,
    multiply,
    pow,
    reciprocal,
    square,
    subtract,
    where,
)
from tapec.functions.broadcasting import (
    as_float,
    axes_of,
    broadcast,
    common_shape,
    converted,
    like,
    misfit,
)
from tapec.functions.elementary import exp, log, rsqrt
from tapec.functions.known import as_shape, dim_tensor
from tapec.functions.logic import logical_and
from tapec.functions.rearrangement import pad, part, reshape
from tapec.functions.reductions import reduce_sum
from tapec.ir.dims import DimLike
from tapec.random import stateless_uniform, uniform
from tapec.tensor import Tensor, TensorLike, as_tensor


def sufficient_statistics(
    x: TensorLike,
    axes: Any,
    shift: TensorLike = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """What `normalize_moments` makes mean and variance of.

    Args:
        x: floats.
        axes: over which.
        shift: near the mean, for precision; None for 0.
        keepdims: whether the axes stay with size 1.

    Returns:
        The number of elements, their sum and the sum of their squares, both less the shift, and the shift.
    """
    values = as_float(x)
    count: DimLike = 1
    for axis in axes_of(axes, values.type.rank):
        count = count * values.type.shape[axis]
    moved = None if shift is None else like(shift, values.type.dtype)
    rest = values if moved is None else subtract(values, moved)
    sums = [reduce_sum(v, axes, keepdims) for v in (rest, square(rest))]
    return dim_tensor(count, values.type.dtype), sums[0], sums[1], moved


def normalize_moments(
    counts: TensorLike,
    mean_ss: TensorLike,
    variance_ss: TensorLike,
    shift: TensorLike,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance from `sufficient_statistics`."""
    total = as_float(mean_ss)
    share = reciprocal(like(counts, total.type.dtype))
    moved = multiply(total, share)
    mean = moved if shift is None else add(moved, like(shift, total.type.dtype))
    return mean, subtract(multiply(like(variance_ss, total.type.dtype), share), square(moved))


def weighted_moments(
    x: TensorLike,
    axes: Any,
    frequency_weights: TensorLike,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes, with weights that broadcast to ``x``; both are 0 where all weights are."""
    values = as_float(x)
    weights = like(frequency_weights, values.type.dtype)
    shape = common_shape(values.type.shape, weights.type.shape)
    values, weights = broadcast(values, shape), broadcast(weights, shape)
    whole = reduce_sum(weights, axes, keepdims=True)
    mean = divide_no_nan(reduce_sum(multiply(values, weights), axes, keepdims=True), whole)
    spread = multiply(square(subtract(values, mean)), weights)
    variance = divide_no_nan(reduce_sum(spread, axes, keepdims=True), whole)
    if arguments.flag(keepdims, "keepdims"):
        return mean, variance
    kept = reduce_sum(values, axes).type.shape
    return reshape(mean, kept), reshape(variance, kept)


def batch_norm_with_global_normalization(
    input: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    beta: TensorLike,
    gamma: TensorLike,
    variance_epsilon: float,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Tensor:
    """`tapec.nn.batch_normalization`; ``gamma`` counts only with ``scale_after_normalization``."""
    x = as_float(input)
    factor = rsqrt(add(as_tensor(variance), variance_epsilon))
    if arguments.flag(scale_after_normalization, "scale_after_normalization"):
        factor = multiply(factor, gamma)
    return add(multiply(subtract(x, mean), factor), beta)


def local_response_normalization(
    input: TensorLike,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """``x / (bias + alpha * sum(x ** 2)) ** beta``, the sum over ``depth_radius`` channels to both sides.

    Args:
        input: ``[batch, H, W, C]``.
        depth_radius: how far a neighbour is.
        bias: keeps the divisor away from 0.
        alpha: the weight of the sum.
        beta: the power.

    Source: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks", 2012.
    """
    x = as_float(input)
    if x.type.rank != 4:
        raise misfit(f"local_response_normalization: expected [batch, H, W, C], got {x.shape}")
    channels = x.type.shape[3]
    wide = pad(square(x), [[0, 0]] * 3 + [[depth_radius, depth_radius]])
    total = part(wide, 3, 0, channels)
    for start in range(1, 2 * depth_radius + 1):
        total = add(total, part(wide, 3, start, channels))
    return multiply(
        x,
        pow(
            add(bias, multiply(alpha, total)),
            as_tensor(-arguments.number(beta, "beta"), x.type.dtype),
        ),
    )


def log_poisson_loss(
    targets: TensorLike,
    log_input: TensorLike,
    compute_full_loss: bool = False,
    name: str | None = None,
) -> Tensor:
    """``e ** log_input - targets * log_input``: the negative log-likelihood of counts, without a constant.

    With ``compute_full_loss`` Stirling's formula for the constant is added, for targets above 1.
    """
    z, c = converted(targets, log_input)
    loss = subtract(exp(c), multiply(c, z))
    if not arguments.flag(compute_full_loss, "compute_full_loss"):
        return loss
    small = logical_and(greater_equal(z, 0), less_equal(z, 1))
    some = where(small, 1.0, z)
    stirling = add(
        subtract(multiply(some, log(some)), some), multiply(0.5, log(multiply(2 * pi, some)))
    )
    return add(loss, where(small, 0.0, stirling))


def dropout(
    x: TensorLike,
    rate: Any,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Elements set to 0 with probability ``rate``, the others divided by ``1 - rate``.

    Args:
        x: floats.
        rate: in ``[0, 1)``.
        noise_shape: the shape of the random choices, which broadcasts to that of ``x``.
        seed: makes the sequence of choices repeatable; see `tapec.random.uniform`.

    Raises:
        ValueError: ``rate`` is outside of ``[0, 1)``.
    """
    values = as_float(x)
    fixed = isinstance(rate, int | float)
    if fixed and not 0 <= rate < 1:
        raise ValueError(
            f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}",
            location=here(),
        )
    if fixed and rate == 0:
        return values
    shape = values.type.shape if noise_shape is None else as_shape(noise_shape)
    kept = less_equal(
        like(rate, values.type.dtype), uniform(shape, dtype=values.type.dtype, seed=seed)
    )
    return where(kept, divide(values, subtract(1, like(rate, values.type.dtype))), 0)


def general_dropout(
    x: TensorLike,
    rate: Any,
    uniform_sampler: Any,
    noise_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """`tapec.nn.dropout` with numbers from ``uniform_sampler(shape=…, dtype=…)``."""
    values = as_float(x)
    dtype = values.type.dtype
    shape = values.type.shape if noise_shape is None else as_shape(noise_shape)
    lost = like(rate, dtype)
    kept = less_equal(lost, uniform_sampler(shape=shape, dtype=dtype))
    return where(kept, divide(values, subtract(1, lost)), 0)


def stateless_dropout(
    x: TensorLike,
    rate: Any,
    seed: TensorLike,
    rng_alg: Any = None,
    noise_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """`tapec.nn.dropout` whose choices depend on ``seed``, two integers, alone."""
    return general_dropout(
        x, rate, lambda shape, dtype: stateless_uniform(shape, seed, dtype=dtype), noise_shape
    )
