"""The namespace ``tapec.nn``: activations, losses, normalisations, convolutions, pooling.

Formulas that would overflow or cancel are written so that they do not, and so that derivatives of
any order are right. At kinks gradients are TensorFlow's.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any

from tapec import arguments
from tapec.absences.names import namespace
from tapec.eager.composite import composed
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    cast,
    conj,
    divide,
    greater,
    less,
    maximum,
    minimum,
    multiply,
    negative,
    real,
    squared_difference,
    where,
)
from tapec.functions.broadcasting import (
    as_float,
    axes_of,
    axis_of,
    like,
    may_equal,
    misfit,
)
from tapec.functions.clipping import clip_by_norm
from tapec.functions.elementary import erf, expm1, rsqrt
from tapec.functions.elementary import sigmoid as sigmoid
from tapec.functions.elementary import softplus as softplus
from tapec.functions.elementary import tanh as tanh
from tapec.functions.indexing import gather
from tapec.functions.losses import compute_average_loss as compute_average_loss
from tapec.functions.losses import l2_loss as l2_loss
from tapec.functions.losses import log_softmax as log_softmax
from tapec.functions.losses import scale_regularization_loss as scale_regularization_loss
from tapec.functions.losses import (
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
)
from tapec.functions.losses import softmax as softmax
from tapec.functions.losses import (
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
)
from tapec.functions.losses import (
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
)
from tapec.functions.losses import (
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from tapec.functions.rearrangement import concat, reshape
from tapec.functions.reductions import norm, reduce_mean, reduce_sum
from tapec.ir.dims import DimLike
from tapec.ir.types import BF16, F16, F32, I32, I64
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

if TYPE_CHECKING:  # what `_LATER` says, for type checkers and editors
    from tapec import nn_experimental
    from tapec.functions.counts import in_top_k as in_top_k
    from tapec.functions.counts import zero_fraction as zero_fraction
    from tapec.functions.ordering import approx_max_k as approx_max_k
    from tapec.functions.ordering import approx_min_k as approx_min_k
    from tapec.functions.ordering import top_k as top_k
    from tapec.functions.statistics import (
        batch_norm_with_global_normalization as batch_norm_with_global_normalization,
    )
    from tapec.functions.statistics import dropout as dropout
    from tapec.functions.statistics import (
        local_response_normalization as local_response_normalization,
    )
    from tapec.functions.statistics import log_poisson_loss as log_poisson_loss
    from tapec.functions.statistics import normalize_moments as normalize_moments
    from tapec.functions.statistics import sufficient_statistics as sufficient_statistics
    from tapec.functions.statistics import weighted_moments as weighted_moments
    from tapec.functions.windows.blocks import depth_to_space as depth_to_space
    from tapec.functions.windows.blocks import space_to_batch as space_to_batch
    from tapec.functions.windows.blocks import space_to_depth as space_to_depth
    from tapec.functions.windows.convolution import atrous_conv2d as atrous_conv2d
    from tapec.functions.windows.convolution import (
        atrous_conv2d_transpose as atrous_conv2d_transpose,
    )
    from tapec.functions.windows.convolution import conv1d as conv1d
    from tapec.functions.windows.convolution import conv1d_transpose as conv1d_transpose
    from tapec.functions.windows.convolution import conv2d as conv2d
    from tapec.functions.windows.convolution import conv2d_transpose as conv2d_transpose
    from tapec.functions.windows.convolution import conv3d as conv3d
    from tapec.functions.windows.convolution import conv3d_transpose as conv3d_transpose
    from tapec.functions.windows.convolution import conv_transpose as conv_transpose
    from tapec.functions.windows.convolution import convolution as convolution
    from tapec.functions.windows.convolution import depthwise_conv2d as depthwise_conv2d
    from tapec.functions.windows.convolution import separable_conv2d as separable_conv2d
    from tapec.functions.windows.morphology import dilation2d as dilation2d
    from tapec.functions.windows.morphology import erosion2d as erosion2d
    from tapec.functions.windows.pooling import avg_pool as avg_pool
    from tapec.functions.windows.pooling import avg_pool1d as avg_pool1d
    from tapec.functions.windows.pooling import avg_pool2d as avg_pool2d
    from tapec.functions.windows.pooling import avg_pool3d as avg_pool3d
    from tapec.functions.windows.pooling import max_pool as max_pool
    from tapec.functions.windows.pooling import max_pool1d as max_pool1d
    from tapec.functions.windows.pooling import max_pool2d as max_pool2d
    from tapec.functions.windows.pooling import max_pool3d as max_pool3d
    from tapec.functions.windows.pooling import max_pool_with_argmax as max_pool_with_argmax
    from tapec.functions.windows.pooling import pool as pool
    from tapec.functions.windows.transposition import (
        depthwise_conv2d_backprop_filter as depthwise_conv2d_backprop_filter,
    )
    from tapec.functions.windows.transposition import (
        depthwise_conv2d_backprop_input as depthwise_conv2d_backprop_input,
    )

    experimental = nn_experimental
    lrn = local_response_normalization

#: What most programs do without, by the module that it is loaded from when it is first used.
_LATER = {
    "nn_experimental": "experimental=",
    "functions.counts": "in_top_k zero_fraction",
    "functions.ordering": "approx_max_k approx_min_k top_k",
    "functions.statistics": """batch_norm_with_global_normalization dropout local_response_normalization
        log_poisson_loss normalize_moments sufficient_statistics weighted_moments
        lrn=local_response_normalization""",
    "functions.windows.blocks": "depth_to_space space_to_batch space_to_depth",
    "functions.windows.convolution": """atrous_conv2d atrous_conv2d_transpose conv1d conv1d_transpose conv2d
        conv2d_transpose conv3d conv3d_transpose conv_transpose convolution
        depthwise_conv2d separable_conv2d""",
    "functions.windows.morphology": "dilation2d erosion2d",
    "functions.windows.pooling": """avg_pool avg_pool1d avg_pool2d avg_pool3d max_pool max_pool1d max_pool2d
        max_pool3d max_pool_with_argmax pool""",
    "functions.windows.transposition": "depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input",
}

# -- activations


def relu(features: TensorLike, name: str | None = None) -> Tensor:
    """``max(x, 0)``; the gradient at 0 is 0, the second derivative is 0 everywhere."""
    x = as_tensor(features)
    return apply("relu", x) if x.type.dtype.is_floating else maximum(0, x)


def relu6(features: TensorLike, name: str | None = None) -> Tensor:
    """``min(max(x, 0), 6)``; the gradient at 0 and at 6 is 0."""
    return minimum(6, relu(features))


def crelu(features: TensorLike, axis: int = -1, name: str | None = None) -> Tensor:
    """`relu` of ``x`` and of ``-x``, one behind the other along an axis."""
    x = as_tensor(features)
    return relu(concat([x, negative(x)], axis))


def leaky_relu(features: TensorLike, alpha: TensorLike = 0.2, name: str | None = None) -> Tensor:
    """``x`` above 0, ``alpha * x`` elsewhere; the gradient at 0 is ``alpha``. Integers become float32."""
    x = as_tensor(features)
    x = cast(x, F32) if x.type.dtype.is_integer else x
    return where(greater(x, 0), x, multiply(x, alpha))


def elu(features: TensorLike, name: str | None = None) -> Tensor:
    """``x``, and ``e ** x - 1`` below 0; the gradient at 0 is 1.

    Source: Clevert, Unterthiner, Hochreiter, "Fast and accurate deep network learning by
    exponential linear units", 2015.
    """
    x = as_float(features)
    below = less(x, 0)
    return where(below, expm1(where(below, x, 0)), x)


def selu(features: TensorLike, name: str | None = None) -> Tensor:
    """``scale * x``, and ``scale * alpha * (e ** x - 1)`` below 0.

    Source: Klambauer, Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks", 2017.
    """
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    x = as_float(features)
    below = less(x, 0)
    return multiply(scale, where(below, multiply(alpha, expm1(where(below, x, 0))), x))


def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """``x`` times the normal distribution function of ``x``; ``approximate`` takes a tanh for it.

    Source: Hendrycks, Gimpel, "Gaussian error linear units", 2016.
    """
    approximate = arguments.flag(approximate, "approximate")
    return composed(_gelu, as_float(features), approximate=approximate)  # type: ignore[no-any-return]


def _gelu(x: Tensor, approximate: bool) -> Tensor:
    if approximate:
        inner = multiply(sqrt(2 / pi), add(x, multiply(0.044715, multiply(x, multiply(x, x)))))
        return multiply(multiply(0.5, x), add(1, tanh(inner)))
    return multiply(multiply(0.5, x), add(1, erf(multiply(x, 1 / sqrt(2)))))


def silu(features: TensorLike, beta: TensorLike = 1.0) -> Tensor:
    """``x * sigmoid(beta * x)``."""
    x = as_float(features)
    return multiply(x, sigmoid(multiply(x, beta)))


swish = silu


def softsign(features: TensorLike, name: str | None = None) -> Tensor:
    """``x / (1 + |x|)``."""
    x = as_float(features)
    return divide(x, add(1, absolute(x)))


# -- normalisation


def l2_normalize(
    x: TensorLike,
    axis: Any = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: Any = None,
) -> Tensor:
    """``x / sqrt(max(sum(|x| ** 2), epsilon))``, the sum over axes (all by default).

    ``dim`` is an older name of ``axis``.
    """
    axis = dim if axis is None else axis
    axis = tuple(axis) if isinstance(axis, list) else axis
    return composed(_l2_normalize, as_float(x), axis=axis, epsilon=epsilon)  # type: ignore[no-any-return]


def _l2_normalize(x: Tensor, axis: Any, epsilon: float) -> Tensor:
    squares = real(multiply(conj(x), x))
    total = reduce_sum(squares, axis, keepdims=True)
    return multiply(x, cast(rsqrt(maximum(total, epsilon)), x.type.dtype))


def normalize(
    tensor: TensorLike, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The tensor divided by its norm along an axis, and the norm; see `tapec.norm`."""
    x = as_float(tensor)
    size = norm(x, ord, axis, keepdims=True)
    return divide(x, size), size


def moments(
    x: TensorLike, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes; half precision is computed in float32.

    Args:
        x: floats, complex numbers, int32 or int64.
        axes: a number or a list of them.
        shift: ignored, as in TensorFlow.
        keepdims: whether the axes stay with size 1.
    """
    x = as_tensor(x)
    x = x if x.type.dtype in (I32, I64) else as_float(x)
    axes = tuple(axes) if isinstance(axes, list) else axes
    keepdims = arguments.flag(keepdims, "keepdims")
    mean, variance = composed(_moments, x, axes=axes, keepdims=keepdims)
    return mean, variance


def _moments(x: Tensor, axes: Any, keepdims: bool) -> list[Tensor]:
    dtype = x.type.dtype
    y = cast(x, F32) if dtype in (F16, BF16) else x
    mean = reduce_mean(y, axes, keepdims=True)
    variance = reduce_mean(squared_difference(y, mean), axes, keepdims=True)
    gone = () if keepdims else axes_of(axes, y.type.rank)
    shape = tuple([n for a, n in enumerate(mean.type.shape) if a not in gone])
    return [cast(reshape(mean, shape), dtype), cast(reshape(variance, shape), dtype)]


def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike,
    scale: TensorLike,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset``; None skips a step.

    Source: Ioffe, Szegedy, "Batch normalization", 2015.
    """
    x = as_float(x)
    factor = rsqrt(add(variance, variance_epsilon))
    if scale is not None:
        factor = multiply(factor, scale)
    shift = multiply(negative(as_tensor(mean)), factor)
    if offset is not None:
        shift = add(shift, offset)
    return add(multiply(x, factor), shift)


# -- the rest


def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """``value + bias`` for a vector of biases along the channels.

    Args:
        value: ``[..., channels]``, or ``[batch, channels, ...]`` if ``data_format`` begins with NC.
        bias: ``[channels]``.
        data_format: None, ``"N...C"`` or ``"NC..."``.

    Raises:
        ValueError: an unknown data format.
        InvalidArgumentError: the bias is no vector of that size.
    """
    x = as_tensor(value)
    b = like(bias, x.type.dtype)
    if data_format is not None and not (
        arguments.text(data_format, "data_format").startswith("NC")
        or (data_format[:1] == "N" and data_format.endswith("C"))
    ):
        raise ValueError(
            f"`data_format` must be N...C or NC..., got {data_format}", location=here()
        )
    first = data_format is not None and data_format.startswith("NC")
    place = axis_of(1 if first else -1, x.type.rank)
    if not may_equal(b.type.shape, x.type.shape[place : place + 1]):
        raise misfit(f"bias_add: a bias of shape {b.shape} for axis {place} of {x.shape}")
    shape: list[DimLike] = [1] * (x.type.rank - place)
    shape[0] = b.type.shape[0]
    return add(x, reshape(b, shape))


def embedding_lookup(
    params: TensorLike, ids: TensorLike, max_norm: float | None = None, name: str | None = None
) -> Tensor:
    """The rows of ``params`` at ``ids``, shortened to ``max_norm`` if given.

    A list of ``params`` has the parts of a table, which stand one behind the other.

    Raises:
        InvalidArgumentError: eager, an id out of range.
    """
    table = concat(params, 0) if isinstance(params, list | tuple) else params
    rows = gather(table, ids)
    if max_norm is None:
        return rows
    lead = as_tensor(ids).type.rank
    return clip_by_norm(rows, max_norm, axes=list(range(lead, rows.type.rank)))


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("nn", _LATER)
