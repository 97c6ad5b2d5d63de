"""Parts of images, and images within larger ones; turned and mirrored images."""

from __future__ import annotations

from typing import Any

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.known import static_integer, static_value
from tapec.functions.rearrangement import pad, part, reverse
from tapec.functions.rearrangement import transpose as permuted
from tapec.image.pictures import extent, picture
from tapec.tensor import Tensor, TensorLike


def flip_left_right(image: TensorLike) -> Tensor:
    """The image mirrored: its columns in reverse."""
    x = picture(image)
    return reverse(x, [x.type.rank - 2])


def flip_up_down(image: TensorLike) -> Tensor:
    """The image upside down: its rows in reverse."""
    x = picture(image)
    return reverse(x, [x.type.rank - 3])


def transpose(image: TensorLike, name: str | None = None) -> Tensor:
    """Rows and columns exchanged."""
    x = picture(image)
    return permuted(x, [1, 0, 2] if x.type.rank == 3 else [0, 2, 1, 3])


def rot90(image: TensorLike, k: Any = 1, name: str | None = None) -> Tensor:
    """The image turned ``k`` times by a right angle, counter-clockwise."""
    turns = static_integer(k, "k") % 4
    if turns == 0:
        return picture(image)
    if turns == 1:
        return flip_up_down(transpose(image))
    if turns == 2:
        return flip_up_down(flip_left_right(image))
    return flip_left_right(transpose(image))


def crop_to_bounding_box(
    image: TensorLike,
    offset_height: Any,
    offset_width: Any,
    target_height: Any,
    target_width: Any,
) -> Tensor:
    """The part of a size that begins at an offset from the upper left corner.

    Raises:
        ValueError: it is not inside the image.
    """
    x = picture(image)
    (top, left), size = _box(offset_height, offset_width, target_height, target_width)
    for start, n, whole, what in zip(
        (top, left), size, extent(x), ("height", "width"), strict=True
    ):
        if start + n > whole:
            raise ValueError(
                f"image {what} must be >= target + offset: {whole} < {n} + {start}", location=here()
            )
    axis = x.type.rank - 3
    return part(part(x, axis, top, size[0]), axis + 1, left, size[1])


def pad_to_bounding_box(
    image: TensorLike,
    offset_height: Any,
    offset_width: Any,
    target_height: Any,
    target_width: Any,
) -> Tensor:
    """The image at an offset from the upper left corner of zeros of a size.

    Raises:
        ValueError: it does not fit.
    """
    x = picture(image)
    (top, left), size = _box(offset_height, offset_width, target_height, target_width)
    behind = [n - start - own for n, start, own in zip(size, (top, left), extent(x), strict=True)]
    if min(behind) < 0:
        raise ValueError(
            f"{'height' if behind[0] < 0 else 'width'} must be <= target - offset: an image of {extent(x)} at "
            f"{(top, left)} in {size}",
            location=here(),
        )
    spatial = [[top, behind[0]], [left, behind[1]]]
    return pad(x, [[0, 0]] * (x.type.rank - 3) + spatial + [[0, 0]])


def _box(*numbers: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """The offset and the size of a part."""
    top, left, height, width = (static_integer(n, "a size of an image") for n in numbers)
    if min(top, left) < 0:
        raise ValueError(f"offsets must be >= 0, got {(top, left)}", location=here())
    if min(height, width) <= 0:
        raise ValueError(f"sizes must be > 0, got {(height, width)}", location=here())
    return (top, left), (height, width)


def central_crop(image: TensorLike, central_fraction: float) -> Tensor:
    """The middle of the image, a fraction of its height and of its width.

    Raises:
        ValueError: a fraction that is not in ``(0, 1]``.
    """
    x = picture(image)
    fraction = arguments.number(
        static_value(central_fraction, "central_fraction"), "central_fraction"
    )
    if not 0 < fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]", location=here())
    if fraction == 1:
        return x
    starts = [int((n - n * fraction) / 2) for n in extent(x)]
    sizes = [n - 2 * start for n, start in zip(extent(x), starts, strict=True)]
    return crop_to_bounding_box(x, *starts, *sizes)


def resize_with_crop_or_pad(image: TensorLike, target_height: Any, target_width: Any) -> Tensor:
    """The middle of the image, or the image in the middle of zeros, for each axis.

    Raises:
        ValueError: a size that is not positive.
    """
    x = picture(image)
    _, wanted = _box(0, 0, target_height, target_width)
    own = extent(x)
    kept = [min(n, m) for n, m in zip(own, wanted, strict=True)]
    starts = [max((n - m) // 2, 0) for n, m in zip(own, wanted, strict=True)]
    margins = [max((m - n) // 2, 0) for n, m in zip(own, wanted, strict=True)]
    cropped = crop_to_bounding_box(x, starts[0], starts[1], *kept)
    return pad_to_bounding_box(cropped, margins[0], margins[1], wanted[0], wanted[1])
