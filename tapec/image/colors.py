"""Colours and brightness of images: their last axis is red, green and blue, where a docstring says nothing else.

Integer images use the whole range of their dtype, floats ``[0, 1]``; `convert_image_dtype` goes from one to the other.
The ``adjust_`` functions compute in floats of 32 bits or more and give the dtype that they got, cut off at its bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    abs,
    add,
    cast,
    clip_by_value,
    divide,
    equal,
    floordiv,
    floormod,
    maximum,
    multiply,
    pow,
    saturate_cast,
    subtract,
    where,
)
from tapec.functions.broadcasting import as_float, misfit
from tapec.functions.elementary import rsqrt
from tapec.functions.known import dim_tensor
from tapec.functions.products import tensordot
from tapec.functions.rearrangement import expand_dims, stack, tile
from tapec.functions.reductions import reduce_max, reduce_mean, reduce_min, reduce_std
from tapec.image.pictures import picture
from tapec.ir.types import F16, F32, as_dtype
from tapec.tensor import Tensor, TensorLike, as_tensor


def convert_image_dtype(
    image: TensorLike, dtype: Any, saturate: bool = False, name: str | None = None
) -> Tensor:
    """An image in another dtype, its numbers scaled from the range of one to that of the other.

    Args:
        image: integers, or floats in ``[0, 1]``.
        dtype: an integer or float dtype.
        saturate: whether what is outside of the new range is cut off rather than wrapped around.

    Example: ``convert_image_dtype(tapec.constant([255, 51], tapec.uint8), tapec.float32)`` is ``[1.0, 0.2]``.
    """
    x, target = as_tensor(image), as_dtype(dtype)
    source = x.type.dtype
    convert: Callable[[Tensor, Any], Tensor] = (
        saturate_cast if arguments.flag(saturate, "saturate") else cast
    )
    if source == target:
        return x
    if source.is_integer and target.is_integer:
        if source.max > target.max:
            return convert(floordiv(x, (source.max + 1) // (target.max + 1)), target)
        scale = (target.max + 1) // (source.max + 1)
        return multiply(convert(x, target), as_tensor(scale, target))
    if source.is_floating and target.is_floating:
        return cast(x, target)
    if source.is_integer:
        return multiply(cast(x, target), 1.0 / source.max)
    # Half more than the maximum: the cast rounds down.
    return convert(multiply(x, target.max + 0.5), target)


def _in_floats(image: TensorLike, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of floats, of an image of any dtype."""
    x = as_tensor(image)
    dtype = x.type.dtype
    if dtype.is_floating and dtype.bits >= 32:
        return function(x)
    return convert_image_dtype(function(convert_image_dtype(x, F32)), dtype, saturate=True)


def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """``image + delta``, where 1 is the whole range."""
    return _in_floats(image, lambda x: add(x, cast(delta, x.type.dtype)))


def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Tensor:
    """``(x - mean) * factor + mean``, the mean over the pixels of each channel of each image."""

    def adjusted(x: Tensor) -> Tensor:
        mean = reduce_mean(x, [x.type.rank - 3, x.type.rank - 2], keepdims=True)
        return add(multiply(subtract(x, mean), cast(contrast_factor, x.type.dtype)), mean)

    return _in_floats(picture(images, "images"), adjusted)


def adjust_gamma(image: TensorLike, gamma: TensorLike = 1, gain: TensorLike = 1) -> Tensor:
    """``gain * image ** gamma``.

    Raises:
        ValueError: ``gamma`` is a negative number.
    """
    if isinstance(gamma, int | float) and gamma < 0:
        raise ValueError("Gamma should be a non-negative real number.", location=here())

    def adjusted(x: Tensor) -> Tensor:
        power = pow(x, cast(gamma, x.type.dtype))
        return multiply(cast(gain, x.type.dtype), power)

    return _in_floats(image, adjusted)


def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Tensor:
    """The colours turned by ``delta`` in ``[-1, 1]``, a part of the whole circle."""

    def adjusted(x: Tensor) -> Tensor:
        hue, saturation, value = _planes(rgb_to_hsv(x))
        turned = floormod(add(hue, cast(delta, x.type.dtype)), 1.0)
        return hsv_to_rgb(stack([turned, saturation, value], -1))

    return _in_floats(image, adjusted)


def adjust_saturation(
    image: TensorLike, saturation_factor: TensorLike, name: str | None = None
) -> Tensor:
    """The colours' saturation times a factor, at most 1."""

    def adjusted(x: Tensor) -> Tensor:
        hue, saturation, value = _planes(rgb_to_hsv(x))
        scaled = clip_by_value(multiply(saturation, cast(saturation_factor, x.type.dtype)), 0, 1)
        return hsv_to_rgb(stack([hue, scaled, value], -1))

    return _in_floats(image, adjusted)


def per_image_standardization(image: TensorLike) -> Tensor:
    """Each image less its mean and divided by its standard deviation, which counts as ``1 / sqrt(size)`` at least."""
    x = picture(image)
    x = x if x.type.dtype in (F16, F32) else cast(x, F32)
    axes = [-1, -2, -3]
    size = cast(
        dim_tensor(x.type.shape[-1] * x.type.shape[-2] * x.type.shape[-3], F32), x.type.dtype
    )
    deviation = maximum(reduce_std(x, axes, keepdims=True), rsqrt(size))
    return divide(subtract(x, reduce_mean(x, axes, keepdims=True)), deviation)


# -- other coordinates of colours


def _planes(x: TensorLike) -> list[Tensor]:
    tensor = as_float(x)
    if not tensor.type.rank or tensor.type.shape[-1] != 3:
        raise misfit(f"input must have 3 channels in its last axis, got shape {tensor.shape}")
    return [tensor[..., i] for i in range(3)]


def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Hue, saturation and value, each in ``[0, 1]``, of floats in ``[0, 1]``.

    Source: Smith, "Color gamut transform pairs", 1978.
    """
    x = as_float(images)
    red, green, blue = _planes(x)
    value, least = reduce_max(x, -1), reduce_min(x, -1)
    spread = subtract(value, least)
    gray = equal(spread, 0)
    some = where(gray, 1.0, spread)
    saturation = divide(where(equal(value, 0), 0.0, spread), where(equal(value, 0), 1.0, value))
    # Which channel is greatest says in which third of the circle the hue lies.
    sixth = where(
        equal(red, value),
        divide(subtract(green, blue), some),
        where(
            equal(green, value),
            add(2.0, divide(subtract(blue, red), some)),
            add(4.0, divide(subtract(red, green), some)),
        ),
    )
    hue = where(gray, 0.0, floormod(divide(sixth, 6.0), 1.0))
    return stack([hue, saturation, value], -1)


def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Red, green and blue of hue, saturation and value; see `rgb_to_hsv`."""
    hue, saturation, value = _planes(images)
    place = multiply(hue, 6.0)
    tents = [
        subtract(abs(subtract(place, 3.0)), 1.0),
        subtract(2.0, abs(subtract(place, 2.0))),
        subtract(2.0, abs(subtract(place, 4.0))),
    ]
    colors = [clip_by_value(t, 0.0, 1.0) for t in tents]
    mixed = [add(subtract(1.0, saturation), multiply(saturation, c)) for c in colors]
    return stack([multiply(value, c) for c in mixed], -1)


_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_FROM_YIQ = [
    [1, 1, 1],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]
_YUV = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_FROM_YUV = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]
_GRAY = [0.2989, 0.5870, 0.1140]


def _mixed(images: TensorLike, matrix: Any) -> Tensor:
    """The channels times a matrix."""
    x = as_float(images)
    if not x.type.rank or x.type.shape[-1] != 3:
        raise misfit(f"input must have 3 channels in its last axis, got shape {x.shape}")
    return tensordot(x, as_tensor(np.asarray(matrix), x.type.dtype), 1)


def rgb_to_yiq(images: TensorLike) -> Tensor:
    """Luma and the two colour differences of NTSC television."""
    return _mixed(images, _YIQ)


def yiq_to_rgb(images: TensorLike) -> Tensor:
    """The inverse of `rgb_to_yiq`."""
    return _mixed(images, _FROM_YIQ)


def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Luma and the two colour differences of PAL television."""
    return _mixed(images, _YUV)


def yuv_to_rgb(images: TensorLike) -> Tensor:
    """The inverse of `rgb_to_yuv`."""
    return _mixed(images, _FROM_YUV)


def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """One channel: the luma, in the dtype that was given."""
    return _in_floats(images, lambda x: expand_dims(_mixed(x, _GRAY), -1))


def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Three equal channels from one.

    Raises:
        InvalidArgumentError: the last axis is not of size 1 (ValueError while a function is compiled).
    """
    x = as_tensor(images)
    if not x.type.rank or x.type.shape[-1] != 1:
        raise misfit(f"Last dimension of a grayscale image should be size 1, got shape {x.shape}")
    return tile(x, [1] * (x.type.rank - 1) + [3])
