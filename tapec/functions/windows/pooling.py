"""Pooling: the maximum or the mean of each window of an image ``[batch, spatial axes..., channels]``.

Composed of shifted parts of the image, one axis after the other, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    divide,
    floordiv,
    floormod,
    maximum,
    minimum,
    multiply,
    subtract,
)
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import as_float, misfit
from tapec.functions.indexing import gather
from tapec.functions.known import dim_tensor, is_less
from tapec.functions.rearrangement import expand_dims, pad, part, reshape, stack
from tapec.functions.reductions import argmax
from tapec.functions.windows.arguments import (
    Padding,
    as_batches,
    as_one_batch,
    layout,
    padded,
    paddings,
    per_axis,
    reach,
    require_channels_last,
)
from tapec.ir.dims import DimLike
from tapec.ir.types import BF16, F16, F32, I32, I64, TensorType
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def max_pool1d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NWC",
    name: str | None = None,
) -> Tensor:
    """`max_pool2d` along one axis."""
    return _greatest(1, input, ksize, strides, padding, data_format)


def max_pool2d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
) -> Tensor:
    """The greatest entry of each window; the gradient goes to the first of those that are greatest.

    Args:
        input: ``[batch..., H, W, C]``.
        ksize: the size of a window: a number, a pair, or four with 1 first and last.
        strides: distances between windows, in the same forms.
        padding: ``"VALID"``; ``"SAME"``, which makes ``ceil(H / stride)`` windows; or a pair of
            numbers for each of the two axes, or of all four. What is padded is never the greatest.
        data_format: None or ``"NHWC"``; ``"NCHW"`` has the channels behind the batch, here and in what is returned.

    Returns:
        ``[batch..., H', W', C]`` with ``H' = (H + padding - ksize) // stride + 1``.

    Raises:
        InvalidArgumentError: no window fits (ValueError while a function is compiled).
        ValueError: a size, strides or padding that mean nothing.
        UnimplementedError: another data format.
    """
    return _greatest(2, input, ksize, strides, padding, data_format)


def max_pool3d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """`max_pool2d` along three axes."""
    return _greatest(3, input, ksize, strides, padding, data_format)


def avg_pool1d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NWC",
    name: str | None = None,
) -> Tensor:
    """`avg_pool2d` along one axis."""
    return _mean(1, input, ksize, strides, padding, data_format)


def avg_pool2d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of floats, of the entries that are not padding.

    The arguments are those of `max_pool2d`. Half precision is summed in float32.
    """
    return _mean(2, input, ksize, strides, padding, data_format)


def avg_pool3d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """`avg_pool2d` along three axes."""
    return _mean(3, input, ksize, strides, padding, data_format)


def max_pool(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`max_pool1d`, `max_pool2d` or `max_pool3d`, by the number of axes."""
    x = as_tensor(input)
    return _greatest(_spatial(x), x, ksize, strides, padding, data_format)


def avg_pool(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`avg_pool1d`, `avg_pool2d` or `avg_pool3d`, by the number of axes."""
    x = as_tensor(input)
    return _mean(_spatial(x), x, ksize, strides, padding, data_format)


def dilated_pool(x: Tensor, sizes: Sequence[int], gaps: Sequence[int], *, mean: bool) -> Tensor:
    """The maximum or the mean of windows whose entries are ``gaps`` apart, at every place, without padding."""
    for axis, (size, gap) in enumerate(zip(sizes, gaps, strict=True), 1):
        far = reach(size, gap)
        places = x.type.shape[axis] - far + 1
        if is_less(places, 1):
            raise misfit(f"a window of {far} entries does not fit along axis {axis} of {x.shape}")
        parts = [part(x, axis, start * gap, places) for start in range(size)]
        x = reduce(lambda a, b: apply("add" if mean else "max", a, b), parts)
    return divide(x, prod(sizes)) if mean else x


def _spatial(x: Tensor) -> int:
    count = x.type.rank - 2
    if not 1 <= count <= 3:
        raise misfit(f"expected [batch, one to three sizes, channels], got shape {x.shape}")
    return count


def _greatest(
    count: int, input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str | None
) -> Tensor:
    order = layout(data_format, count)
    x, lead = as_one_batch(order.moved(as_tensor(input)), count)
    sizes = per_axis(order.entries(ksize), count, "ksize")
    steps = per_axis(order.entries(strides), count, "strides")
    dtype = x.type.dtype
    least = float("-inf") if dtype.is_floating else dtype.min
    x = padded(x, paddings(order.entries(padding), x.type.shape[1:-1], sizes, steps), least)
    # The last axis first, and of equal entries the first: that is the first of the whole window.
    for axis in range(count, 0, -1):
        parts = _parts(x, axis, sizes[axis - 1], steps[axis - 1])
        x = reduce(lambda a, b: apply("max", a, b), parts)
    return order.back(as_batches(x, lead))


def _mean(
    count: int, input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str | None
) -> Tensor:
    order = layout(data_format, count)
    x, lead = as_one_batch(order.moved(as_float(input)), count)
    sizes = per_axis(order.entries(ksize), count, "ksize")
    steps = per_axis(order.entries(strides), count, "strides")
    dtype, spatial = x.type.dtype, x.type.shape[1:-1]
    pairs = paddings(order.entries(padding), spatial, sizes, steps)
    total = padded(cast(x, F32) if dtype in (F16, BF16) else x, pairs)
    for axis in range(count, 0, -1):
        parts = _parts(total, axis, sizes[axis - 1], steps[axis - 1])
        total = reduce(lambda a, b: apply("add", a, b), parts)
    mean = divide(total, _counts(total, spatial, sizes, steps, pairs))
    return order.back(as_batches(cast(mean, dtype), lead))


def _parts(x: Tensor, axis: int, size: int, stride: int) -> list[Tensor]:
    """The first entries of all windows along an axis, the second entries, and so on.

    Raises:
        InvalidArgumentError: no window fits (ValueError while a function is compiled).
    """
    n = x.type.shape[axis]
    if is_less(n, size):
        raise misfit(f"a window of {size} entries does not fit into {n} along axis {axis}")
    return [part(x, axis, start, (n - size) // stride + 1, stride) for start in range(size)]


def _counts(
    total: Tensor,
    spatial: Sequence[DimLike],
    sizes: Sequence[int],
    strides: Sequence[int],
    pairs: Padding,
) -> TensorLike:
    """How many entries of each window are not padding."""
    if all(pair == (0, 0) for pair in pairs):
        return prod(sizes)
    counts: TensorLike = 1
    for n, (extent, size, stride, (low, _)) in enumerate(
        zip(spatial, sizes, strides, pairs, strict=True)
    ):
        places = total.type.shape[n + 1]
        start = subtract(multiply(_range(places), stride), dim_tensor(low, I32))
        end = minimum(start + size, dim_tensor(extent, I32))
        inside = reshape(subtract(end, maximum(start, 0)), (places, *(1,) * (len(sizes) - n)))
        counts = multiply(counts, cast(inside, total.type.dtype))
    return counts


def _range(n: DimLike) -> Tensor:
    result: Tensor = apply("iota", axis=0, type=TensorType(I32, (n,)))
    return result


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
    if arguments.flag(include_batch_in_index, "include_batch_in_index"):
        images = reshape(counting(I64, batch), (batch, 1, 1, 1))
        place = add(place, multiply(images, height * width * channels))
    return MaxPoolWithArgmax(greatest, cast(place, output_dtype))
