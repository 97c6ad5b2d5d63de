"""Blocks of pixels moved into the channels of an image ``[batch, H, W, C]``, and back."""

from __future__ import annotations

from tapec.functions.broadcasting import misfit
from tapec.functions.known import static_integer
from tapec.functions.rearrangement import reshape, transpose
from tapec.functions.windows import require_channels_last
from tapec.ir.dims import Dim
from tapec.tensor import Tensor, TensorLike, as_tensor


def space_to_depth(
    input: TensorLike, block_size: int, data_format: str | None = "NHWC", name: str | None = None
) -> Tensor:
    """``[batch, H / b, W / b, b * b * C]``: each block of ``b`` by ``b`` pixels, row by row, is one.

    Raises:
        InvalidArgumentError: the blocks do not fill the image (ValueError while a function is
            compiled).
        UnimplementedError: another data format.
    """
    x, size = _image(input, block_size, data_format)
    batch, height, width, channels = x.type.shape
    for n in (height, width):
        if not isinstance(n, Dim) and n % size:
            raise misfit(f"blocks of {size} by {size} do not fill an image {x.shape}")
    x = reshape(x, (batch, height // size, size, width // size, size, channels))
    x = transpose(x, [0, 1, 3, 2, 4, 5])
    return reshape(x, (*x.type.shape[:3], size * size * channels))


def depth_to_space(
    input: TensorLike, block_size: int, data_format: str | None = "NHWC", name: str | None = None
) -> Tensor:
    """``[batch, H * b, W * b, C]`` from ``[batch, H, W, b * b * C]``; undoes `space_to_depth`.

    Raises:
        InvalidArgumentError: the channels do not make up blocks (ValueError while a function is
            compiled).
        UnimplementedError: another data format.
    """
    x, size = _image(input, block_size, data_format)
    batch, height, width, channels = x.type.shape
    if not isinstance(channels, Dim) and channels % size**2:
        raise misfit(f"the channels of {x.shape} do not make up blocks of {size} by {size}")
    x = reshape(x, (batch, height, width, size, size, channels // size**2))
    x = transpose(x, [0, 1, 3, 2, 4, 5])
    return reshape(x, (batch, height * size, width * size, x.type.shape[-1]))


def _image(input: TensorLike, block_size: int, data_format: str | None) -> tuple[Tensor, int]:
    require_channels_last(data_format, 2)
    x, size = as_tensor(input), static_integer(block_size, "block_size")
    if x.type.rank != 4 or size < 1:
        raise misfit(f"expected [batch, H, W, C] and a positive size, got {x.shape} and {size}")
    return x, size
