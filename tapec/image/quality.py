"""How alike two images are, and how rough one is."""

from __future__ import annotations

from collections.abc import Sequence
from math import log as number_log
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import InvalidArgumentError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    abs,
    add,
    divide,
    multiply,
    pow,
    square,
    squared_difference,
    subtract,
)
from tapec.functions.broadcasting import as_float, may_equal, misfit
from tapec.functions.elementary import log
from tapec.functions.rearrangement import pad, part, reshape, stack, tile
from tapec.functions.reductions import reduce_mean, reduce_prod, reduce_sum
from tapec.functions.windows.convolution import depthwise_conv2d
from tapec.functions.windows.pooling import avg_pool2d
from tapec.image.colors import convert_image_dtype
from tapec.image.pictures import extent, picture
from tapec.ir.types import F32
from tapec.nn import relu
from tapec.tensor import Array, Tensor, TensorLike, as_tensor


def total_variation(images: TensorLike, name: str | None = None) -> Tensor:
    """The sum of the absolute differences of neighbouring pixels, for each image.

    Returns:
        A scalar for ``[H, W, C]``, ``[batch]`` for ``[batch, H, W, C]``.

    Raises:
        ValueError: no image.
    """
    x = picture(images, "images")
    axes = [-1, -2, -3]
    down, across = (reduce_sum(abs(_differences(x, x.type.rank - a)), axes) for a in (3, 2))
    return add(down, across)


def _differences(x: Tensor, axis: int) -> Tensor:
    """Each entry of an axis less the one before it."""
    n = x.type.shape[axis]
    return subtract(part(x, axis, 1, n - 1), part(x, axis, 0, n - 1))


def image_gradients(image: TensorLike) -> tuple[Tensor, Tensor]:
    """Differences to the next pixel downwards, and to the right; 0 in the last row and column.

    Raises:
        ValueError: not a batch of images.
    """
    x = as_tensor(image)
    if x.type.rank != 4:
        raise ValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {x.shape}.",
            location=here(),
        )
    below = pad(_differences(x, 1), [[0, 0], [0, 1], [0, 0], [0, 0]])
    right = pad(_differences(x, 2), [[0, 0], [0, 0], [0, 1], [0, 0]])
    return below, right


def sobel_edges(image: TensorLike) -> Tensor:
    """Smoothed differences downwards and to the right: ``[batch, H, W, C, 2]``; the border is mirrored."""
    x = as_float(image)
    if x.type.rank != 4:
        raise misfit(f"sobel_edges: expected [batch, H, W, C], got {x.shape}")
    down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
    filters = as_tensor(np.stack([down, down.T], -1)[:, :, None, :], x.type.dtype)
    channels = x.type.shape[-1]
    mirrored = pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    found = depthwise_conv2d(mirrored, tile(filters, [1, 1, channels, 1]), [1, 1, 1, 1], "VALID")
    return reshape(found, (*x.type.shape, 2))


def psnr(a: TensorLike, b: TensorLike, max_val: TensorLike, name: str | None = None) -> Tensor:
    """The peak signal-to-noise ratio in decibels, ``10 log10(max_val ** 2 / mean((a - b) ** 2))``, for each image.

    Args:
        a: images ``[..., H, W, C]``.
        b: images of the same shape.
        max_val: the greatest value that there may be, in the images' dtype: 1.0 or 255.
    """
    x, y, most = _pair(a, b, max_val)
    error = reduce_mean(squared_difference(x, y), [-3, -2, -1])
    decibel = 10 / number_log(10)
    return subtract(multiply(2 * decibel, log(most)), multiply(decibel, log(error)))


def _pair(a: TensorLike, b: TensorLike, max_val: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    """Two images of one shape in float32, with the greatest value on the same scale."""
    x, y = as_tensor(a), as_tensor(b)
    if x.type.rank < 3 or not may_equal(x.type.shape, y.type.shape):
        raise ValueError(
            f"expected two images [..., H, W, C] of one shape, got {x.shape} and {y.shape}",
            location=here(),
        )
    most = convert_image_dtype(as_tensor(max_val, x.type.dtype), F32)
    return convert_image_dtype(x, F32), convert_image_dtype(y, F32), most


def ssim(
    img1: TensorLike,
    img2: TensorLike,
    max_val: TensorLike,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """The structural similarity of images, 1 for equal ones.

    Args:
        img1: images ``[..., H, W, C]``.
        img2: images of the same shape.
        max_val: the greatest value that there may be, in the images' dtype.
        filter_size: of the windows that are compared, at most the size of the image.
        filter_sigma: the standard deviation of the weights in a window.
        k1: keeps the quotient of means away from 0 / 0.
        k2: the same for variances.
        return_index_map: whether to give the similarity of each window instead of their mean.

    Returns:
        Float32, ``[...]``; with ``return_index_map`` ``[..., H - filter_size + 1, W - filter_size + 1]``.

    Source: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural
    similarity", 2004.
    """
    x, y, most = _pair(img1, img2, max_val)
    window = _window(filter_size, filter_sigma)
    luminance, contrast = _similarity(x, y, most, window, k1, k2)
    found = reduce_mean(multiply(luminance, contrast), -1)
    return (
        found
        if arguments.flag(return_index_map, "return_index_map")
        else reduce_mean(found, [-2, -1])
    )


def _window(size: int, sigma: float) -> Array:
    """Weights of a window, which sum to 1."""
    size, sigma = arguments.integer(size, "filter_size"), arguments.number(sigma, "filter_sigma")
    if size < 1 or not sigma > 0:
        raise ValueError(
            f"filter_size and filter_sigma must be positive, got {size} and {sigma}",
            location=here(),
        )
    line = np.exp(-0.5 * (np.arange(size) - (size - 1) / 2) ** 2 / sigma**2)
    weights: Array = np.outer(line, line)
    return weights / float(weights.sum())


def _similarity(
    x: Tensor, y: Tensor, most: Tensor, window: Array, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """Luminance times contrast and structure, and the latter alone, of each window and channel."""
    for n in extent(x):
        if n < len(window):
            raise InvalidArgumentError(
                f"images of shape {x.shape} are smaller than the filter of size {len(window)}",
                location=here(),
            )

    def mean(t: Tensor) -> Tensor:
        *lead, height, width, channels = t.type.shape
        flat = reshape(t, (-1, height, width, channels))
        weights = as_tensor(window[:, :, None, None], F32)
        found = depthwise_conv2d(flat, tile(weights, [1, 1, channels, 1]), [1, 1, 1, 1], "VALID")
        return reshape(found, (*lead, *found.type.shape[1:]))

    c1, c2 = square(multiply(k1, most)), square(multiply(k2, most))
    mean_x, mean_y = mean(x), mean(y)
    product = multiply(2.0, multiply(mean_x, mean_y))
    squares = add(square(mean_x), square(mean_y))
    luminance = divide(add(product, c1), add(squares, c1))
    both = multiply(2.0, mean(multiply(x, y)))
    own = mean(add(square(x), square(y)))
    contrast = divide(add(subtract(both, product), c2), add(subtract(own, squares), c2))
    return luminance, contrast


_POWERS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def ssim_multiscale(
    img1: TensorLike,
    img2: TensorLike,
    max_val: TensorLike,
    power_factors: Sequence[float] = _POWERS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """`ssim` at several scales, each half of the one before, multiplied with powers.

    Source: Wang, Simoncelli, Bovik, "Multiscale structural similarity for image quality assessment", 2003.

    Raises:
        InvalidArgumentError: the images are too small for so many scales.
    """
    x, y, most = _pair(img1, img2, max_val)
    window = _window(filter_size, filter_sigma)
    lead = x.type.shape[:-3]
    x, y = (reshape(t, (-1, *t.type.shape[-3:])) for t in (x, y))
    power_factors = arguments.items(power_factors, "power_factors")
    factors: list[Tensor] = []
    for scale in range(len(power_factors)):
        if scale:
            x, y = _halved(x), _halved(y)
        luminance, contrast = _similarity(x, y, most, window, k1, k2)
        last = scale == len(power_factors) - 1
        found = multiply(luminance, contrast) if last else contrast
        factors.append(relu(reduce_mean(found, [1, 2])))
    powers = pow(stack(factors, -1), as_tensor(list(power_factors), F32))
    return reshape(reduce_mean(reduce_prod(powers, -1), -1), lead)


def _halved(x: Tensor) -> Tensor:
    """Means of two by two pixels; an odd row or column stands twice."""
    odd: Any = [n % 2 for n in extent(x)]
    if any(odd):
        x = pad(x, [[0, 0], [0, odd[0]], [0, odd[1]], [0, 0]], "SYMMETRIC")
    return avg_pool2d(x, 2, 2, "VALID")
