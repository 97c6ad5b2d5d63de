"""Greyscale morphology of images."""

from __future__ import annotations

from typing import Any

from tapec.functions.arithmetic import add, maximum, negative
from tapec.functions.broadcasting import as_float, misfit
from tapec.functions.rearrangement import pad, part, reverse
from tapec.functions.windows.arguments import (
    paddings,
    per_axis,
    reach,
    require_channels_last,
)
from tapec.tensor import Tensor, TensorLike


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
