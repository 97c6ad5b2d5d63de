"""Images in other sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast
from tapec.functions.indexing import gather
from tapec.functions.known import as_shape
from tapec.functions.products import einsum
from tapec.image import weights
from tapec.image.cropping import pad_to_bounding_box
from tapec.image.pictures import each, extent, picture
from tapec.ir.types import F32
from tapec.tensor import Array, Tensor, TensorLike, as_tensor


class ResizeMethod:
    """Names of the methods of `resize`."""

    AREA = "area"
    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    GAUSSIAN = "gaussian"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    MITCHELLCUBIC = "mitchellcubic"
    NEAREST_NEIGHBOR = "nearest"


_PLAIN: dict[str, Callable[[int, int], Array]] = {
    "area": weights.area,
    "bicubic": weights.cubic,
    "bilinear": weights.linear,
    "nearest": weights.nearest,
}
_KERNELS = {
    "bilinear": "triangle",
    "bicubic": "keyscubic",
    "gaussian": "gaussian",
    "lanczos3": "lanczos3",
    "lanczos5": "lanczos5",
    "mitchellcubic": "mitchellcubic",
}


def resize(
    images: TensorLike,
    size: Any,
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """Images in another size.

    Args:
        images: ``[H, W, C]`` or ``[batch, H, W, C]``, numbers.
        size: the new height and width.
        method: ``bilinear``, ``bicubic``, ``nearest``, ``area``, ``lanczos3``, ``lanczos5``, ``gaussian`` or
            ``mitchellcubic``; see `ResizeMethod`.
        preserve_aspect_ratio: whether ``size`` is a box that the image is made to fit into, undistorted.
        antialias: whether all old pixels below a new one count where the image shrinks; no difference for
            ``nearest`` and ``area``.

    Returns:
        float32; of the images' dtype for ``nearest``, or if a method that keeps pixels as they are has nothing to
        do. All but ``nearest`` of integers are differentiable.

    Raises:
        ValueError: an unknown method, no image, a size that is not two positive numbers.
    """
    x = picture(images, "images")
    height, width = extent(x)
    wanted = as_shape(size)
    if len(wanted) != 2 or not all(isinstance(n, int) and n > 0 for n in wanted):
        raise ValueError(
            f"'size' must be a 1-D int32 Tensor of 2 positive elements, got {size}", location=here()
        )
    new = int(wanted[0]), int(wanted[1])  # type: ignore[arg-type]
    if arguments.flag(preserve_aspect_ratio, "preserve_aspect_ratio"):
        scale = min(new[0] / height, new[1] / width)
        new = max(round(height * scale), 1), max(round(width * scale), 1)
    table = _table(method, antialias)
    if new == (height, width) and method in _PLAIN:
        return x
    rows, columns = table(new[0], height), table(new[1], width)
    if method == ResizeMethod.NEAREST_NEIGHBOR:
        rank = x.type.rank
        return gather(gather(x, as_tensor(rows), axis=rank - 3), as_tensor(columns), axis=rank - 2)
    return each(cast(x, F32), lambda batch: _weighted(batch, rows, columns))


def _table(method: str, antialias: bool) -> Callable[[int, int], Array]:
    """What makes the weights of a method; see `weights`."""
    antialias = arguments.flag(antialias, "antialias")
    known = sorted({*_PLAIN, *_KERNELS})
    if arguments.is_one_of(method, _KERNELS) and (antialias or method not in _PLAIN):
        return partial(weights.sampled, _KERNELS[method], antialias)
    if not arguments.is_one_of(method, _PLAIN):
        raise ValueError(
            f"Resize method is not implemented: {method}. It must be one of {', '.join(known)}",
            location=here(),
        )
    return _PLAIN[method]


def _weighted(x: Tensor, rows: Array, columns: Array) -> Tensor:
    """A product with a matrix for each axis."""
    x = einsum("ij,bjwc->biwc", as_tensor(rows.astype("f4")), x)
    return einsum("ij,bhjc->bhic", as_tensor(columns.astype("f4")), x)


def resize_with_pad(
    image: TensorLike,
    target_height: int,
    target_width: int,
    method: str = "bilinear",
    antialias: bool = False,
) -> Tensor:
    """The image as large as fits undistorted, in the middle of zeros.

    Raises:
        ValueError: a size that is not positive.
    """
    x = picture(image)
    height, width = extent(x)
    target_height = arguments.integer(target_height, "target_height")
    target_width = arguments.integer(target_width, "target_width")
    if min(target_height, target_width) < 1:
        raise ValueError(f"sizes must be > 0, got {(target_height, target_width)}", location=here())
    ratio = max(width / target_width, height / target_height)
    fitted = height / ratio, width / ratio
    top, left = int((target_height - fitted[0]) / 2), int((target_width - fitted[1]) / 2)
    resized = resize(x, [int(n) for n in fitted], method, antialias=antialias)
    return pad_to_bounding_box(resized, top, left, target_height, target_width)
