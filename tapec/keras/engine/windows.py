"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import backend
from keras.src.backend.common.backend_utils import (
    check_conv_input_channels,
    check_conv_transpose_input_channels,
    compute_conv_transpose_output_shape,
    to_tuple_or_list,
)

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating, promoted
from tapec.keras.engine.ops.core import shape as sizes_of
from tapec.tensor import Tensor

_LETTERS = {3: "W", 4: "HW", 5: "DHW"}


def _layout(rank: int, data_format: str | None) -> str:
    """TensorFlow's name of a layout.

    Raises:
        ValueError: there are not one to three spatial axes.
    """
    if rank not in _LETTERS:
        raise ValueError(
            f"Pooling and convolution inputs must have one to three spatial axes, got {rank} axes."
        )
    first = backend.standardize_data_format(data_format) == "channels_first"
    return f"NC{_LETTERS[rank]}" if first else f"N{_LETTERS[rank]}C"


def _of_count(value: Any, count: int) -> list[int]:
    given = to_tuple_or_list(value)
    return list(given) * count if len(given) == 1 else list(given)


def max_pool(
    inputs: Any,
    pool_size: Any,
    strides: Any = None,
    padding: str = "valid",
    data_format: Any = None,
) -> Tensor:
    """The greatest of each window."""
    return _pooled(
        tapec.nn.max_pool, convert_to_tensor(inputs), pool_size, strides, padding, data_format
    )


def average_pool(
    inputs: Any,
    pool_size: Any,
    strides: Any = None,
    padding: str = "valid",
    data_format: Any = None,
) -> Tensor:
    """The mean of each window."""
    return _pooled(tapec.nn.avg_pool, floating(inputs), pool_size, strides, padding, data_format)


def _pooled(
    function: Callable[..., Tensor],
    x: Tensor,
    size: Any,
    strides: Any,
    padding: str,
    data_format: Any,
) -> Tensor:
    count = x.type.rank - 2
    sizes = _of_count(size, count)
    steps = sizes if strides is None else _of_count(strides, count)
    return function(x, sizes, steps, padding.upper(), _layout(x.type.rank, data_format))


def _adaptive(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Pooling to a size: window ``i`` of ``n`` goes from ``i * size // n`` to where the next begins, rounded up."""

    def pooled(inputs: Any, output_size: Any, data_format: Any = None) -> Tensor:
        x = floating(inputs)
        layout = _layout(x.type.rank, data_format)
        axes = [n for n, letter in enumerate(layout) if letter in "DHW"]
        for axis, count in zip(axes, _of_count(output_size, len(axes)), strict=True):
            x = _pooled_along(reduce, x, axis, count)
        return x

    return pooled


def _pooled_along(reduce: Callable[..., Tensor], x: Tensor, axis: int, count: int) -> Tensor:
    size = x.shape[axis]
    if size is None:
        raise ValueError("Input spatial dimensions must be statically known for adaptive pooling")
    lead = [slice(None)] * axis
    starts = [i * size // count for i in range(count)]
    ends = [-(-(i + 1) * size // count) for i in range(count)]
    parts = [reduce(x[(*lead, slice(a, b))], axis) for a, b in zip(starts, ends, strict=True)]
    return tapec.stack(parts, axis)


adaptive_average_pool = _adaptive(tapec.reduce_mean)
adaptive_max_pool = _adaptive(tapec.reduce_max)


def conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """Convolution, of groups of channels where the kernel takes a part of them.

    Raises:
        ValueError: the channels do not fit, or nothing is left.
    """
    x, w = promoted(inputs, kernel)
    count = x.type.rank - 2
    channels = x.shape[_layout(x.type.rank, data_format).index("C")]
    if channels is not None and channels % w.shape[-2]:
        raise ValueError(
            "The number of input channels must be evenly divisible by kernel's in_channels. Received input channels "
            f"{channels} and kernel in_channels {w.shape[-2]}."
        )
    found = tapec.nn.convolution(
        x,
        w,
        _of_count(strides, count),
        padding.upper(),
        _layout(x.type.rank, data_format),
        _of_count(dilation_rate, count),
    )
    if 0 in found.shape and 0 not in x.shape:
        raise ValueError(
            f"The convolution operation resulted in an empty output. Output shape: {found.shape}. This can happen "
            "if the input is too small for the given kernel size, strides, dilation rate, and padding mode. "
            "Please check the input shape and convolution parameters."
        )
    return found


def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """Each channel by filters of its own.

    Raises:
        ValueError: the channels do not fit, or there are more than two spatial axes.
    """
    x, w = promoted(inputs, kernel)
    count = x.type.rank - 2
    if count > 2:
        raise ValueError(
            f"`inputs` rank must be 3 (1D conv) or 4 (2D conv). Received: {x.type.rank}."
        )
    check_conv_input_channels(x, w, backend.standardize_data_format(data_format))
    layout = _layout(x.type.rank, data_format)
    steps, gaps = _of_count(strides, count), _of_count(dilation_rate, count)
    if count == 1:
        place = layout.index("W")
        steps, gaps = [1, *steps], [1, *gaps]
        x, w, layout = tapec.expand_dims(x, place), w[None], layout.replace("W", "HW")
    around = [1 if letter in "NC" else steps["HW".index(letter)] for letter in layout]
    found = tapec.nn.depthwise_conv2d(x, w, around, padding.upper(), layout, gaps)
    return tapec.squeeze(found, place) if count == 1 else found


def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """`depthwise_conv`, then a mixture of the channels."""
    y = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(y, pointwise_kernel, 1, "valid", data_format)


def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """The transposed map of a convolution: from what it makes to what it took.

    Raises:
        ValueError: the channels do not fit.
    """
    x, w = promoted(inputs, kernel)
    data_format = backend.standardize_data_format(data_format)
    check_conv_transpose_input_channels(x, w, data_format)
    count = x.type.rank - 2
    layout = _layout(x.type.rank, data_format)
    shape = compute_conv_transpose_output_shape(
        list(sizes_of(x)),
        tuple(w.shape)[:-2],
        w.shape[-2],
        strides,
        padding,
        output_padding,
        data_format,
        dilation_rate,
    )
    return tapec.nn.conv_transpose(
        x,
        w,
        shape,
        _of_count(strides, count),
        padding.upper(),
        layout,
        _of_count(dilation_rate, count),
    )


# -- blocks


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of an image ``[N, C, H, W]`` as columns: ``[N, C * kH * kW, windows]``."""
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(_pair, (kernel_size, dilation, padding, stride))
    x = tapec.pad(floating(input), [[0, 0], [0, 0], [ph, ph], [pw, pw]])
    batch, channels = sizes_of(x)[:2]
    rows = [slice(i * dh, x.shape[2] - (kh - 1 - i) * dh, sh) for i in range(kh)]
    columns = [slice(j * dw, x.shape[3] - (kw - 1 - j) * dw, sw) for j in range(kw)]
    parts = [x[:, :, r, c] for r in rows for c in columns]
    return tapec.reshape(tapec.stack(parts, 2), [batch, channels * kh * kw, -1])


def fold(
    x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The image of which `unfold` gives columns; where windows overlap, these are added."""
    x = floating(x)
    (oh, ow), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(
        _pair, (output_size, kernel_size, dilation, padding, stride)
    )
    height, width = oh + 2 * ph, ow + 2 * pw
    high, wide = (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    batch, depth = sizes_of(x)[:2]
    channels = depth // (kh * kw)
    grid = np.arange(height * width).reshape(height, width)
    places = [
        grid[i * dh :, j * dw :][: (high - 1) * sh + 1 : sh, : (wide - 1) * sw + 1 : sw].ravel()
        for i in range(kh)
        for j in range(kw)
    ]
    flat = tapec.reshape(x, [batch * channels, kh * kw * high * wide])
    found = tapec.math.unsorted_segment_sum(
        tapec.transpose(flat), tapec.constant(np.concatenate(places), "int32"), height * width
    )
    image = tapec.reshape(tapec.transpose(found), [batch, channels, height, width])
    return image[:, :, ph : height - ph, pw : width - pw]


def _block_moved(
    function: Callable[..., Tensor], x: Any, block_size: int, data_format: str
) -> Tensor:
    x = convert_to_tensor(x)
    if data_format == "channels_last":
        return function(x, block_size)
    moved = function(tapec.transpose(x, [0, 2, 3, 1]), block_size)
    return tapec.transpose(moved, [0, 3, 1, 2])


def depth_to_space(x: Any, block_size: int, data_format: str = "channels_last") -> Tensor:
    """Channels, arranged in blocks of the image."""
    return _block_moved(tapec.nn.depth_to_space, x, block_size, data_format)


def space_to_depth(x: Any, block_size: int, data_format: str = "channels_last") -> Tensor:
    """Blocks of the image, arranged in channels."""
    return _block_moved(tapec.nn.space_to_depth, x, block_size, data_format)
