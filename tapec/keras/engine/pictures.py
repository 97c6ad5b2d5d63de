"""Images: colours, sizes, edges, blur."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras.src import backend

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating
from tapec.keras.engine.ops.core import shape as sizes_of
from tapec.tensor import Tensor

RESIZE_INTERPOLATIONS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic", "area")


def of_rank(images: Any) -> Tensor:
    """An image, or a batch of them.

    Raises:
        ValueError: neither.
    """
    x = convert_to_tensor(images)
    if x.type.rank not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={x.shape}"
        )
    return x


def channels_last(function: Callable[[Tensor], Tensor], x: Tensor, data_format: Any) -> Tensor:
    """A function of images whose channels come last, of others too."""
    if backend.standardize_data_format(data_format) == "channels_last":
        return function(x)
    lead = [0] if x.type.rank == 4 else []
    at = len(lead)
    moved = function(tapec.transpose(x, [*lead, at + 1, at + 2, at]))
    rest = range(at + 3, moved.type.rank)
    return tapec.transpose(moved, [*lead, at + 2, at, at + 1, *rest])


def as_batch(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A function of batches, of single images too."""
    return tapec.squeeze(function(x[None]), 0) if x.type.rank == 3 else function(x)


def rgb_to_grayscale(images: Any, data_format: Any = None) -> Tensor:
    """How bright images are, in one channel."""
    x = of_rank(images)
    first = backend.standardize_data_format(data_format) == "channels_first"
    axis = -3 if first else -1
    if x.shape[axis] not in (1, 3):
        raise ValueError(
            "Invalid channel size: expected 3 (RGB) or 1 (Grayscale). "
            f"Received input with shape: images.shape={x.shape}"
        )
    if x.shape[axis] == 1:
        return x
    parts = tapec.unstack(floating(x), axis=axis)
    gray = 0.2989 * parts[0] + 0.5870 * parts[1] + 0.1140 * parts[2]
    return tapec.cast(tapec.expand_dims(gray, axis), x.dtype)


def _of_colors(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def applied(images: Any, data_format: Any = None) -> Tensor:
        x = of_rank(images)
        if not x.dtype.is_floating:
            raise ValueError(
                f"Invalid images dtype: expected float dtype. Received: images.dtype={x.dtype.name}"
            )
        return channels_last(function, x, data_format)

    return applied


rgb_to_hsv = _of_colors(tapec.image.rgb_to_hsv)
hsv_to_rgb = _of_colors(tapec.image.hsv_to_rgb)


def resize(
    images: Any,
    size: Any,
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: Any = None,
) -> Tensor:
    """Images of another size; cropped or padded before, where their proportions are to stay.

    Raises:
        ValueError: an argument that means nothing.
    """
    if interpolation not in RESIZE_INTERPOLATIONS:
        raise ValueError(
            "Invalid value for argument `interpolation`. Expected of one "
            f"{RESIZE_INTERPOLATIONS}. Received: interpolation={interpolation}"
        )
    if fill_mode != "constant":
        raise ValueError(
            "Invalid value for argument `fill_mode`. Only `'constant'` is supported. "
            f"Received: fill_mode={fill_mode}"
        )
    if pad_to_aspect_ratio and crop_to_aspect_ratio:
        raise ValueError(
            "Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be `True`."
        )
    if len(size) != 2:
        raise ValueError(
            f"Argument `size` must be a tuple of two elements (height, width). Received: size={size}"
        )

    def resized(x: Tensor) -> Tensor:
        if crop_to_aspect_ratio:
            x = _cropped(x, size)
        elif pad_to_aspect_ratio:
            x = _padded(x, size, fill_value)
        return tapec.image.resize(x, list(size), method=interpolation, antialias=antialias)

    x = of_rank(images)
    found = channels_last(resized, x, data_format)
    if found.dtype == x.dtype:
        return found
    return (
        tapec.saturate_cast(tapec.round(found), x.dtype)
        if x.dtype.is_integer
        else tapec.cast(found, x.dtype)
    )


def _cropped(x: Tensor, size: Sequence[int]) -> Tensor:
    height, width = x.shape[-3], x.shape[-2]
    rows = max(min(height, int(width * size[0] / size[1])), 1)
    columns = max(min(width, int(height * size[1] / size[0])), 1)
    top, left = int((height - rows) / 2), int((width - columns) / 2)
    return x[..., top : top + rows, left : left + columns, :]


def _padded(x: Tensor, size: Sequence[int], value: float) -> Tensor:
    height, width = x.shape[-3], x.shape[-2]
    rows = max(height, int(width * size[0] / size[1]))
    columns = max(width, int(height * size[1] / size[0]))
    top, left = int((rows - height) / 2), int((columns - width) / 2)
    edges = [[top, top], [left, left], [0, 0]]
    return tapec.pad(x, [[0, 0]] * (x.type.rank - 3) + edges, constant_values=value)


def sobel_edges(images: Any, data_format: Any = None) -> Tensor:
    """The slopes along height and width, as a last axis."""
    return channels_last(tapec.image.sobel_edges, floating(images), data_format)


def gaussian_blur(
    images: Any,
    kernel_size: Sequence[Any] = (3, 3),
    sigma: Sequence[Any] = (1.0, 1.0),
    data_format: Any = None,
) -> Tensor:
    """Each pixel a mean of those around, weighted by a normal distribution."""
    x = of_rank(images)
    wide = floating(x)

    def blurred(batch: Tensor) -> Tensor:
        weights = [
            _bell(int(kernel_size[n]), convert_to_tensor(sigma[n], batch.dtype.name))
            for n in (0, 1)
        ]
        kernel = weights[1][:, None] * weights[0][None, :]
        shape = [*kernel.shape, batch.shape[-1], 1]
        filters = tapec.broadcast_to(kernel[:, :, None, None], shape)
        return tapec.nn.depthwise_conv2d(batch, filters, [1, 1, 1, 1], "SAME")

    def whole(batch: Tensor) -> Tensor:
        return channels_last(blurred, batch, data_format or "channels_last")

    return tapec.cast(as_batch(whole, wide), x.dtype)


def _bell(size: int, sigma: Tensor) -> Tensor:
    places = tapec.cast(tapec.range(size), sigma.dtype) - (size - 1) / 2
    found = tapec.exp(-0.5 * tapec.square(places / sigma))
    return found / tapec.reduce_sum(found)


# -- scale and translate

SCALE_AND_TRANSLATE_METHODS = {
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "cubic": "cubic",
    "bicubic": "cubic",
    "tricubic": "cubic",
    "lanczos3": "lanczos3",
    "lanczos5": "lanczos5",
}


def _triangle(x: Tensor) -> Tensor:
    return tapec.maximum(1.0 - x, 0.0)


def _cubic(x: Tensor) -> Tensor:
    """The kernel of Keys, 1981."""
    inner = ((1.5 * x - 2.5) * x) * x + 1.0
    outer = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return tapec.where(x >= 2.0, tapec.zeros_like(x), tapec.where(x >= 1.0, outer, inner))


def _lanczos(radius: float) -> Callable[[Tensor], Tensor]:
    def kernel(x: Tensor) -> Tensor:
        angle = 3.141592653589793 * x
        is_far = x > 1e-3
        below = tapec.where(is_far, tapec.square(angle), tapec.ones_like(x))
        found = radius * tapec.sin(angle) * tapec.sin(angle / radius) / below
        found = tapec.where(is_far, found, tapec.ones_like(x))
        return tapec.where(x > radius, tapec.zeros_like(x), found)

    return kernel


_KERNELS = {
    "linear": _triangle,
    "cubic": _cubic,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}


def scale_and_translate(
    images: Any,
    output_shape: Sequence[int],
    scale: Any,
    translation: Any,
    spatial_dims: Sequence[int],
    method: str,
    antialias: bool = True,
) -> Tensor:
    """Images, scaled and moved along axes, by weighted means of pixels.

    Raises:
        ValueError: an unknown method.
    """
    if method not in SCALE_AND_TRANSLATE_METHODS:
        raise ValueError(
            "Invalid value for argument `method`. Expected of one "
            f"{set(SCALE_AND_TRANSLATE_METHODS)}. Received: method={method}"
        )
    x = convert_to_tensor(images)
    kernel = _KERNELS[SCALE_AND_TRANSLATE_METHODS[method]]
    scales, moves = floating(scale), floating(translation)
    found = x if x.dtype.is_floating else tapec.cast(x, "float32")
    for i, axis in enumerate(n % x.type.rank for n in spatial_dims):
        weights = _weights(
            sizes_of(x)[axis], output_shape[axis], scales[i], moves[i], kernel, antialias
        )
        mixed = tapec.tensordot(found, tapec.cast(weights, found.dtype), [[axis], [0]])
        order = list(range(x.type.rank - 1))
        order.insert(axis, x.type.rank - 1)
        found = tapec.transpose(mixed, order)
    if x.dtype.is_floating:
        return found
    low, high = (tapec.cast(f(x), "float32") for f in (tapec.reduce_min, tapec.reduce_max))
    return tapec.cast(tapec.clip_by_value(tapec.round(found), low, high), x.dtype)


def _weights(
    size: Any, count: int, scale: Tensor, move: Tensor, kernel: Any, antialias: bool
) -> Tensor:
    """``[size, count]``: how much each pixel of the result takes of each that there is."""
    inverse = 1.0 / scale
    spread = tapec.maximum(inverse, 1.0) if antialias else 1.0
    places = (tapec.cast(tapec.range(count), scale.dtype) + 0.5) * inverse - move * inverse - 0.5
    rows = tapec.cast(tapec.range(size), scale.dtype)
    found = kernel(tapec.abs(places[None, :] - rows[:, None]) / spread)
    total = tapec.reduce_sum(found, 0, True)
    is_some = tapec.abs(total) > 1000.0 * 1.1920929e-07
    divisor = tapec.where(tapec.equal(total, 0.0), tapec.ones_like(total), total)
    found = tapec.where(is_some, found / divisor, tapec.zeros_like(found))
    end = tapec.cast(convert_to_tensor(size), scale.dtype) - 0.5
    inside = tapec.logical_and(places >= -0.5, places <= end)
    return tapec.where(inside[None, :], found, tapec.zeros_like(found))
