"""More that moves windows over images: pools by name, dilated filters, greyscale morphology, where a maximum stood."""

from __future__ import annotations

from typing import Any, NamedTuple

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import add, cast, floordiv, floormod, maximum, multiply, negative
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import as_float, misfit
from tapec.functions.convolution import (
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d_transpose,
)
from tapec.functions.indexing import gather
from tapec.functions.pooling import avg_pool, dilated_pool, max_pool
from tapec.functions.rearrangement import expand_dims, pad, part, reshape, reverse, stack
from tapec.functions.reductions import argmax
from tapec.functions.windows import layout, paddings, per_axis, reach, require_channels_last
from tapec.ir.types import I64
from tapec.tensor import Tensor, TensorLike, as_tensor


def pool(
    input: TensorLike,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`tapec.nn.max_pool` or `tapec.nn.avg_pool`.

    Args:
        input: ``[batch, spatial axes..., channels]``, up to three spatial axes.
        window_shape: a number for each spatial axis.
        pooling_type: ``"MAX"`` or ``"AVG"``.
        strides: 1 if None.
        padding: ``"VALID"`` or ``"SAME"``.
        data_format: None, or one with the channels last or behind the batch.
        dilations: distances between a window's entries; other than 1 only without strides and padding.

    Raises:
        ValueError: another type of pooling, or strides or padding with dilations.
    """
    kinds = {"MAX": max_pool, "AVG": avg_pool}
    if arguments.text(pooling_type, "pooling_type") not in kinds:
        raise ValueError(f"pooling_type must be MAX or AVG, got {pooling_type!r}", location=here())
    count = as_tensor(input).type.rank - 2
    gaps = per_axis(dilations, count, "dilations")
    steps = [1] * count if strides is None else strides
    if gaps == (1,) * count:
        return kinds[pooling_type](input, window_shape, steps, padding, data_format)
    if per_axis(steps, count, "strides") != (1,) * count:
        message = "strides > 1 not supported in conjunction with dilations > 1"
        raise ValueError(message, location=here())
    if not isinstance(padding, str) or padding.upper() != "VALID":
        message = f"pooling with padding {padding!r} is not implemented for dilations > 1"
        raise ValueError(message, location=here())
    order = layout(data_format, count)
    x = order.moved(as_tensor(input))
    sizes = per_axis(window_shape, count, "window_shape")
    return order.back(dilated_pool(x, sizes, gaps, mean=pooling_type == "AVG"))


def conv_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`tapec.nn.conv2d_transpose` in one to three dimensions, by the rank of ``input``."""
    kinds = {3: conv1d_transpose, 4: conv2d_transpose, 5: conv3d_transpose}
    rank = as_tensor(input).type.rank
    if rank not in kinds:
        raise ValueError(
            f"`input` must have one to three spatial axes, got {rank} axes", location=here()
        )
    if data_format is None:
        return kinds[rank](input, filters, output_shape, strides, padding, dilations=dilations)
    return kinds[rank](input, filters, output_shape, strides, padding, data_format, dilations)


def atrous_conv2d(
    value: TensorLike, filters: TensorLike, rate: int, padding: Any, name: str | None = None
) -> Tensor:
    """`tapec.nn.conv2d` with ``rate`` as its dilation."""
    return conv2d(value, filters, 1, padding, dilations=rate)


def atrous_conv2d_transpose(
    value: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    rate: int,
    padding: Any,
    name: str | None = None,
) -> Tensor:
    """`tapec.nn.conv2d_transpose` with ``rate`` as its dilation."""
    return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=rate)


def dilation2d(
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: str,
    data_format: str | None,
    dilations: Any,
    name: str | None = None,
) -> Tensor:
    """The greatest of ``input + filters`` in each window, for each channel.

    Args:
        input: ``[batch, H, W, C]``.
        filters: ``[rows, columns, C]``.
        strides: ``[1, down, across, 1]``.
        padding: ``"VALID"`` or ``"SAME"``; what is padded is never the greatest.
        data_format: ``"NHWC"``.
        dilations: ``[1, down, across, 1]``, from one pixel of a window to the next.
    """
    require_channels_last(data_format, 2)
    x, w = as_float(input), as_float(filters)
    if x.type.rank != 4 or w.type.rank != 3:
        raise misfit(f"dilation2d: filters of {w.shape} for an image of {x.shape}")
    steps, gaps = per_axis(strides, 2, "strides"), per_axis(dilations, 2, "dilations")
    size = w.type.shape[:2]
    reaches = [reach(k, gap) for k, gap in zip(size, gaps, strict=True)]
    margins = paddings(padding, x.type.shape[1:3], reaches, steps)
    x = pad(x, [[0, 0], *map(list, margins), [0, 0]], constant_values=x.dtype.min)
    counts = [
        (n - extent) // step + 1
        for n, extent, step in zip(x.type.shape[1:3], reaches, steps, strict=True)
    ]
    found: Tensor | None = None
    for i in range(int(size[0])):  # type: ignore[arg-type]
        rows = part(x, 1, i * gaps[0], counts[0], steps[0])
        for j in range(int(size[1])):  # type: ignore[arg-type]
            shifted = add(part(rows, 2, j * gaps[1], counts[1], steps[1]), w[i, j])
            found = shifted if found is None else maximum(found, shifted)
    if found is None:
        raise misfit(f"dilation2d: filters of shape {w.shape} have no pixels")
    return found


def erosion2d(
    value: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: str,
    data_format: str | None,
    dilations: Any,
    name: str | None = None,
) -> Tensor:
    """The least of ``value - filters`` in each window, the filters turned by half a circle; see `dilation2d`."""
    turned = reverse(as_float(filters), [0, 1])
    opposite = negative(as_float(value))
    return negative(dilation2d(opposite, turned, strides, padding, data_format, dilations))


class MaxPoolWithArgmax(NamedTuple):
    """The greatest entries of windows and where they stand."""

    output: Tensor
    argmax: Tensor


def max_pool_with_argmax(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    output_dtype: Any = I64,
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> MaxPoolWithArgmax:
    """The greatest entry of each window, and its position ``(row * W + column) * C + channel`` in its image.

    Args:
        input: ``[batch, H, W, C]``.
        ksize: the size of a window.
        strides: distances between windows.
        padding: ``"VALID"`` or ``"SAME"``.
        data_format: ``"NHWC"``.
        output_dtype: of the positions: int32 or int64.
        include_batch_in_index: whether positions count from the first image on.
    """
    require_channels_last(data_format, 2)
    x = as_tensor(input)
    if x.type.rank != 4:
        raise misfit(f"max_pool_with_argmax: expected [batch, H, W, C], got {x.shape}")
    size, steps = per_axis(ksize, 2, "ksize"), per_axis(strides, 2, "strides")
    batch, height, width, channels = x.type.shape
    margins = paddings(padding, (height, width), size, steps)
    wide = pad(x, [[0, 0], *map(list, margins), [0, 0]], constant_values=x.dtype.min)
    counts = [(n - k) // s + 1 for n, k, s in zip(wide.type.shape[1:3], size, steps, strict=True)]
    shifted = [
        part(part(wide, 1, i, counts[0], steps[0]), 2, j, counts[1], steps[1])
        for i in range(size[0])
        for j in range(size[1])
    ]
    entries = stack(shifted, -1)
    which = argmax(entries, -1)
    rank = entries.type.rank - 1
    greatest = reshape(
        gather(entries, expand_dims(which, -1), axis=rank, batch_dims=rank), which.type.shape
    )

    def line(count: Any, step: int, before: Any, inner: Tensor, axis: int) -> Tensor:
        first = add(multiply(counting(I64, count), step), -before)
        shape = [1, 1, 1, 1]
        shape[axis] = count
        return add(reshape(first, shape), inner)

    row = line(counts[0], steps[0], margins[0][0], floordiv(which, size[1]), 1)
    column = line(counts[1], steps[1], margins[1][0], floormod(which, size[1]), 2)
    place = add(multiply(add(multiply(row, width), column), channels), counting(I64, channels))
    if include_batch_in_index:
        images = reshape(counting(I64, batch), (batch, 1, 1, 1))
        place = add(place, multiply(images, height * width * channels))
    return MaxPoolWithArgmax(greatest, cast(place, output_dtype))
