"""Pooling: the maximum or the mean of each window of an image ``[batch, spatial axes..., channels]``.

Composed of shifted parts of the image, one axis after the other, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from tapec.functions.arithmetic import cast, divide, maximum, minimum, multiply, subtract
from tapec.functions.broadcasting import as_float, misfit
from tapec.functions.known import dim_tensor
from tapec.functions.rearrangement import part, reshape
from tapec.functions.windows import (
    Padding,
    as_batches,
    as_one_batch,
    layout,
    padded,
    paddings,
    per_axis,
    reach,
)
from tapec.ir.dims import DimLike
from tapec.ir.types import BF16, F16, F32, I32, TensorType
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
        if isinstance(places, int) and places < 1:
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
    if isinstance(n, int) and n < size:
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
