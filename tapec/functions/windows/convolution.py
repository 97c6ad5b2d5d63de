"""Convolutions of images ``[batch, spatial axes..., channels]``, and their transposes.

As in TensorFlow, filters are not mirrored, padding is zeros, and floats of every width and integers
are taken; sums of half precision are kept in single. Channels come last, or, if the format says so, behind the batch.
"""

from __future__ import annotations

from typing import Any

from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.broadcasting import converted, may_equal, misfit, shape_text
from tapec.functions.known import as_shape
from tapec.functions.products import matmul
from tapec.functions.rearrangement import part, reshape
from tapec.functions.windows.arguments import (
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
from tapec.ir.types import Shape
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def conv1d(
    input: TensorLike,
    filters: TensorLike,
    stride: Any,
    padding: Any,
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`conv2d` along one axis: ``[batch, W, C]`` and ``[I, C, O]`` give ``[batch, W', O]``."""
    return _convolved(1, input, filters, stride, padding, data_format, dilations)


def conv2d(
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Products of filters and the windows of an image, summed: a window's place is an output pixel.

    Args:
        input: ``[batch..., H, W, C]``.
        filters: ``[I, J, C, O]``; or ``[I, J, C / g, O]``, which is a convolution of ``g`` groups of
            channels, each with ``O / g`` filters.
        strides: distances between places: a number, a pair, or four with 1 first and last.
        padding: ``"VALID"``; ``"SAME"``, which makes ``ceil(H / stride)`` places; or a pair of
            numbers of zeros for each of the two axes, or of all four.
        data_format: None or ``"NHWC"``; ``"NCHW"`` has the channels behind the batch, here and in what is returned.
        dilations: distances between a window's entries, as ``strides``; 1 if None.

    Returns:
        ``[batch..., H', W', O]``, of the operands' dtype, with
        ``H' = (H + padding - (I - 1) dilation - 1) // stride + 1``.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit (ValueError while a function is compiled).
        ValueError: strides, padding or dilations that mean nothing.
        UnimplementedError: another data format.

    Source: Dumoulin, Visin, "A guide to convolution arithmetic for deep learning", 2016.
    """
    return _convolved(2, input, filters, strides, padding, data_format, dilations)


def conv3d(
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`conv2d` along three axes: ``[batch, D, H, W, C]`` and ``[I, J, K, C, O]``."""
    return _convolved(3, input, filters, strides, padding, data_format, dilations)


def convolution(
    input: TensorLike,
    filters: TensorLike,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`conv1d`, `conv2d` or `conv3d`, by the number of the filters' axes; strides are 1 if None."""
    x, w = converted(input, filters)
    count = w.type.rank - 2
    if not 1 <= count <= 3:
        raise misfit(f"expected filters with one to three axes and two of channels, got {w.shape}")
    return _convolved(count, x, w, strides, padding, data_format, dilations)


def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Each channel by filters of its own: ``[batch, H, W, C]``, ``[I, J, C, M]`` give ``[..., C * M]``.

    The arguments are `conv2d`'s; output ``c * M + m`` is channel ``c`` by filter ``m``.
    """
    x, w = converted(input, filter)
    order = layout(data_format, 2)
    x, lead = as_one_batch(order.moved(x), 2)
    _check_filters(w, 2, x)
    if not may_equal(x.type.shape[-1:], w.type.shape[2:3]):
        raise misfit(f"filters {w.shape} for an image {x.shape}: the channels differ")
    steps = per_axis(order.entries(strides), 2, "strides")
    gaps = per_axis(order.entries(dilations), 2, "dilations")
    x = _padded(x, w, order.entries(padding), steps, gaps)
    *taps, channels, multiplier = w.type.shape
    if multiplier == 1:
        w = reshape(w, (*taps, channels))
        y = _moved("nhwc", "ijc", "nhwc", x, w, steps, gaps)
    else:
        y = _moved("nhwc", "ijcm", "nhwcm", x, w, steps, gaps)
        y = reshape(y, (*y.type.shape[:-2], channels * multiplier))
    return order.back(as_batches(y, lead))


def separable_conv2d(
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`depthwise_conv2d`, then `conv2d` by filters ``[1, 1, C * M, O]``."""
    y = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(y, pointwise_filter, 1, "VALID", data_format)


def conv1d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`conv2d_transpose` along one axis."""
    return _transposed(1, input, filters, output_shape, strides, padding, data_format, dilations)


def conv2d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of `conv2d` as a linear map of images: its gradient by the input.

    Args:
        input: ``[batch, H', W', O]``, an image of the size that `conv2d` would give.
        filters: ``[I, J, C, O]``, as `conv2d` takes them.
        output_shape: ``[batch, H, W, C]``, the shape of what `conv2d` would take.
        strides: `conv2d`'s, as are the arguments that follow.
        padding: taken off here, where `conv2d` adds it.
        data_format: None, ``"NHWC"`` or ``"NCHW"``.
        dilations: distances between a window's entries.

    Returns:
        A tensor of ``output_shape``.

    Raises:
        InvalidArgumentError: `conv2d` of ``output_shape`` would not give the input's shape
            (ValueError while a function is compiled).
    """
    return _transposed(2, input, filters, output_shape, strides, padding, data_format, dilations)


def conv3d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`conv2d_transpose` along three axes."""
    return _transposed(3, input, filters, output_shape, strides, padding, data_format, dilations)


def _convolved(
    count: int,
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
) -> Tensor:
    x, w = converted(input, filters)
    order = layout(data_format, count)
    x, lead = as_one_batch(order.moved(x), count)
    _check_filters(w, count, x)
    steps = per_axis(order.entries(strides), count, "strides")
    gaps = per_axis(order.entries(dilations), count, "dilations")
    groups = _groups(x, w)
    x = _padded(x, w, order.entries(padding), steps, gaps)
    return order.back(as_batches(_by_windows(count, x, w, steps, gaps, groups), lead))


def _by_windows(
    count: int, x: Tensor, w: Tensor, steps: tuple[int, ...], gaps: tuple[int, ...], groups: int
) -> Tensor:
    """A convolution of an image with one batch axis that needs no more padding."""
    *taps, inner, outer = w.type.shape
    places, windows = "dhw"[-count:], "ijk"[:count]
    if groups == 1 and all(n == 1 for n in taps):
        return _pointwise(x, reshape(w, (inner, outer)), steps)
    if groups == 1:
        letters = f"n{places}c", f"{windows}co", f"n{places}o"
        return _moved(*letters, x, w, steps, gaps)
    x = reshape(x, (*x.type.shape[:-1], groups, inner))
    w = reshape(w, (*taps, inner, groups, outer // groups))
    y = _moved(f"n{places}gc", f"{windows}cgo", f"n{places}go", x, w, steps, gaps)
    return reshape(y, (*y.type.shape[:-2], outer))


def _pointwise(x: Tensor, w: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Windows of one entry: a product of matrices with a row for each pixel."""
    for axis, step in enumerate(strides, 1):
        x = part(x, axis, 0, (x.type.shape[axis] - 1) // step + 1, step)
    return matmul(x, w)


def _moved(
    left: str,
    right: str,
    result: str,
    x: Tensor,
    w: Tensor,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Tensor:
    """The operation ``conv``; see it for what the letters mean."""
    places = [c for c in "dhw" if c in left]
    found: Tensor = apply(
        "conv",
        x,
        w,
        left=left,
        right=right,
        result=result,
        windows=tuple(map("".join, zip(places, "ijk", strict=False))),
        strides=strides,
        dilations=dilations,
    )
    return found


def _check_filters(w: Tensor, count: int, x: Tensor) -> None:
    if w.type.rank != count + 2 or 0 in w.type.shape[:count]:
        raise misfit(
            f"expected filters with {count} axes and two of channels, got {w.shape} for {x.shape}"
        )


def _groups(x: Tensor, w: Tensor) -> int:
    """How many groups of channels there are.

    Raises:
        InvalidArgumentError: the channels of image and filters do not fit (ValueError while a
            function is compiled).
    """
    channels, inner, outer = x.type.shape[-1], w.type.shape[-2], w.type.shape[-1]
    if channels == inner or not (isinstance(channels, int) and isinstance(inner, int)):
        return 1
    groups = channels // inner if inner else 0
    if not groups or channels % inner or not isinstance(outer, int) or outer % groups:
        raise misfit(f"filters {w.shape} for an image {x.shape}: the channels do not fit")
    return groups


def _padded(
    x: Tensor, w: Tensor, padding: Any, strides: tuple[int, ...], dilations: tuple[int, ...]
) -> Tensor:
    reaches = [reach(n, gap) for n, gap in zip(w.type.shape, dilations, strict=False)]
    return padded(x, paddings(padding, x.type.shape[1:-1], reaches, strides))


def _transposed(
    count: int,
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
) -> Tensor:
    """Mirrored filters over the input, whose pixels stand strides apart amid zeros."""
    y, w = converted(input, filters)
    order = layout(data_format, count)
    y, _ = as_one_batch(order.moved(y), count)
    _check_filters(w, count, y)
    steps = per_axis(order.entries(strides), count, "strides")
    gaps = per_axis(order.entries(dilations), count, "dilations")
    shape = tuple(order.entries(as_shape(output_shape)))
    if len(shape) != count + 2:
        raise misfit(f"output_shape must have {count + 2} entries, got {shape_text(shape)}")
    reaches = [reach(n, gap) for n, gap in zip(w.type.shape, gaps, strict=False)]
    pairs = paddings(order.entries(padding), shape[1:-1], reaches, steps)
    _check_transposed(y, w, shape, pairs, steps, reaches)
    edges = [
        (far - 1 - before, n + before - (places - 1) * step - 1)
        for n, places, far, step, (before, _) in zip(
            shape[1:-1], y.type.shape[1:-1], reaches, steps, pairs, strict=True
        )
    ]
    low, high = ((0, *(_above(edge[i]) for edge in edges), 0) for i in (0, 1))
    interior = (0, *(step - 1 for step in steps), 0)
    wide = apply("pad", y, value=0.0, low=low, high=high, interior=interior)
    mirrored = apply("reverse", w, axes=tuple(range(count)))
    axes, windows = "dhw"[-count:], "ijk"[:count]
    letters = f"n{axes}o", f"{windows}co", f"n{axes}c"
    x = _moved(*letters, wide, mirrored, (1,) * count, gaps)
    for axis, edge in enumerate(edges, 1):
        x = part(x, axis, _above(-edge[0]), shape[axis])
    return order.back(x)


def _above(n: DimLike) -> DimLike:
    """The number, or 0 where it is negative; what is not known is taken to be none of those."""
    return max(n, 0) if isinstance(n, int) else n


def _check_transposed(
    y: Tensor,
    w: Tensor,
    shape: Shape,
    pairs: Padding,
    strides: tuple[int, ...],
    reaches: list[DimLike],
) -> None:
    """Hold the input to be of the shape that `conv2d` would make of ``shape``."""
    places = [
        (n + low + high - far) // step + 1
        for n, (low, high), far, step in zip(shape[1:-1], pairs, reaches, strides, strict=True)
    ]
    channels = (*shape[-1:], *w.type.shape[-1:])
    if not may_equal((*shape[:1], *places), y.type.shape[:-1]) or not may_equal(
        channels, (*w.type.shape[-2:-1], *y.type.shape[-1:])
    ):
        raise misfit(f"filters {w.shape} do not make an image {y.shape} of one {list(shape)}")


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
