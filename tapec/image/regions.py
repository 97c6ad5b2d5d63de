"""Regions of images by data: patches at every place, and boxes resized to one size."""

from __future__ import annotations

from typing import Any

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    clip_by_value,
    floor,
    greater_equal,
    less_equal,
    multiply,
    subtract,
    where,
)
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import misfit, shape_text
from tapec.functions.indexing import gather
from tapec.functions.known import as_shape
from tapec.functions.logic import logical_and
from tapec.functions.rearrangement import concat, expand_dims, pad, part, reshape
from tapec.functions.windows.arguments import per_axis
from tapec.image.pictures import extent
from tapec.ir.types import F32, I32
from tapec.tensor import Tensor, TensorLike, as_tensor


def extract_patches(
    images: TensorLike,
    sizes: Any,
    strides: Any,
    rates: Any,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """The pixels of each window of an image, in the channels.

    Args:
        images: ``[batch, H, W, C]``.
        sizes: of the windows: ``[1, rows, columns, 1]``.
        strides: from one window to the next: ``[1, rows, columns, 1]``.
        rates: from one pixel of a window to its next: ``[1, rows, columns, 1]``.
        padding: ``"VALID"``, or ``"SAME"`` with zeros around the image.

    Returns:
        ``[batch, windows down, windows across, rows * columns * C]``.

    Raises:
        ValueError: an argument of another form.
    """
    x = as_tensor(images)
    if x.type.rank != 4 or not arguments.is_one_of(padding, ("SAME", "VALID")):
        raise ValueError(
            f"expected [batch, H, W, C] and SAME or VALID, got {x.shape} and {padding!r}",
            location=here(),
        )
    size, step, rate = (
        per_axis(v, 2, what)
        for v, what in ((sizes, "sizes"), (strides, "strides"), (rates, "rates"))
    )
    counts, margins = [], []
    for n, k, s, r in zip(extent(x), size, step, rate, strict=True):
        reach = (k - 1) * r + 1
        count = -(-n // s) if padding == "SAME" else (n - reach) // s + 1
        missing = max((count - 1) * s + reach - n, 0) if padding == "SAME" else 0
        if count < 1:
            raise misfit(f"extract_patches: windows of {reach} do not fit into {n}")
        counts.append(count)
        margins.append([missing // 2, missing - missing // 2])
    x = pad(x, [[0, 0], *margins, [0, 0]])
    rows = [part(x, 1, i * rate[0], counts[0], step[0]) for i in range(size[0])]
    pixels = [part(row, 2, j * rate[1], counts[1], step[1]) for row in rows for j in range(size[1])]
    return concat(pixels, 3)


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_indices: TensorLike,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Boxes out of images, each sampled on a grid of one size.

    Args:
        image: ``[batch, H, W, C]``.
        boxes: ``[n, 4]`` floats ``y1, x1, y2, x2``; 0 is the centre of the first row or column, 1 that of the
            last. A box may be mirrored, or reach outside of its image.
        box_indices: ``[n]`` integers: which image each box is of.
        crop_size: height and width of the result.
        method: ``"bilinear"``, differentiable by image and boxes, or ``"nearest"``, by the image.
        extrapolation_value: of pixels outside of the image.

    Returns:
        ``[n, height, width, C]`` float32.

    Raises:
        InvalidArgumentError: eager, an index that is not in ``[0, batch)``; shapes that do not fit.
        ValueError: an unknown method.
    """
    x, places = cast(as_tensor(image), F32), as_tensor(boxes, F32)
    which = cast(as_tensor(box_indices), I32)
    if not arguments.is_one_of(method, ("bilinear", "nearest")):
        raise ValueError(f"method must be 'bilinear' or 'nearest', got {method!r}", location=here())
    if x.type.rank != 4 or places.type.rank != 2 or places.type.shape[1] != 4:
        raise misfit(f"crop_and_resize: an image of {x.shape} and boxes of {places.shape}")
    height, width = extent(x)
    crop = as_shape(crop_size)
    if len(crop) != 2:
        raise misfit(f"crop_size must be a height and a width, got {shape_text(crop)}")
    rows, columns = (int(n) for n in crop)  # type: ignore[arg-type]
    y = _grid(places[:, 0], places[:, 2], rows, height)  # [n, rows]
    z = _grid(places[:, 1], places[:, 3], columns, width)  # [n, columns]
    lines = reshape(x, (-1, x.type.shape[-1]))

    def at(row: Tensor, column: Tensor) -> Tensor:
        """Pixels ``[n, rows, columns, C]``."""
        line = add(
            multiply(expand_dims(which, -1), height), cast(clip_by_value(row, 0, height - 1), I32)
        )
        place = cast(clip_by_value(column, 0, width - 1), I32)
        return gather(lines, add(multiply(expand_dims(line, 2), width), expand_dims(place, 1)))

    if method == "nearest":
        found = at(_half_up(y), _half_up(z))
    else:
        top, left = floor(y), floor(z)
        down, across = _spread(subtract(y, top), 2), _spread(subtract(z, left), 1)
        upper = _mix(at(top, left), at(top, add(left, 1)), across)
        lower = _mix(at(add(top, 1), left), at(add(top, 1), add(left, 1)), across)
        found = _mix(upper, lower, down)
    inside = logical_and(_spread(_within(y, height), 2), _spread(_within(z, width), 1))
    return where(inside, found, as_tensor(extrapolation_value, F32))


def _grid(first: Tensor, last: Tensor, count: int, size: int) -> Tensor:
    """Positions from one to the other, in pixels; their middle if there is one alone."""
    start, end = (expand_dims(multiply(place, float(size - 1)), -1) for place in (first, last))
    if count == 1:
        return multiply(0.5, add(start, end))
    steps = expand_dims(multiply(counting(F32, count), 1 / (count - 1)), 0)
    return add(start, multiply(subtract(end, start), steps))


def _within(place: Tensor, size: int) -> Tensor:
    return logical_and(greater_equal(place, 0.0), less_equal(place, float(size - 1)))


def _half_up(x: Tensor) -> Tensor:
    return floor(add(x, 0.5))


def _spread(x: Tensor, axis: int) -> Tensor:
    """``[n, k]`` beside ``[n, rows, columns, C]``: with axes of size 1 for the others."""
    return expand_dims(expand_dims(x, axis), -1)


def _mix(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    return add(a, multiply(subtract(b, a), weight))
