"""Blocks of pixels moved into the batch or the channels of an image ``[batch, H, W, C]``, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapec.functions.broadcasting import misfit
from tapec.functions.known import as_shape, get_static_value, static_integer
from tapec.functions.rearrangement import pad, part, reshape, transpose
from tapec.functions.windows.arguments import require_channels_last
from tapec.ir.dims import Dim
from tapec.ir.types import I32
from tapec.tensor import Tensor, TensorLike, as_tensor

Pairs = list[list[int]]


def space_to_batch(
    input: TensorLike, block_shape: Any, paddings: Any, name: str | None = None
) -> Tensor:
    """Every ``block_shape``-th pixel of an image becomes an image of its own in the batch.

    Args:
        input: ``[batch, spatial axes..., rest...]``.
        block_shape: one number for each spatial axis.
        paddings: zeros before and after each of them, which it then divides.

    Raises:
        InvalidArgumentError: the blocks do not fill the padded axes (ValueError while a function is compiled).
    """
    x, block, margins = _blocked(input, block_shape, paddings)
    count = len(block)
    x = pad(x, [[0, 0], *margins, *[[0, 0]] * (x.type.rank - count - 1)])
    batch, *spatial = x.type.shape[: count + 1]
    rest = x.type.shape[count + 1 :]
    for n, b in zip(spatial, block, strict=True):
        if not isinstance(n, Dim) and n % b:
            raise misfit(f"padded_shape={n} is not divisible by block_shape={b}")
    split = [m for n, b in zip(spatial, block, strict=True) for m in (n // b, b)]
    x = reshape(x, (batch, *split, *rest))
    inner, outer = list(range(2, 2 * count + 1, 2)), list(range(1, 2 * count + 1, 2))
    x = transpose(x, [*inner, 0, *outer, *range(2 * count + 1, x.type.rank)])
    return reshape(x, (batch * int(np.prod(block)), *split[::2], *rest))


def batch_to_space(
    input: TensorLike, block_shape: Any, crops: Any, name: str | None = None
) -> Tensor:
    """Undoes `space_to_batch`; ``crops`` is cut off before and after each spatial axis."""
    x, block, margins = _blocked(input, block_shape, crops)
    count, size = len(block), int(np.prod(block))
    batch, *spatial = x.type.shape[: count + 1]
    rest = x.type.shape[count + 1 :]
    if not isinstance(batch, Dim) and batch % size:
        raise misfit(f"the batch of {x.shape} is not divisible by the size {size} of the blocks")
    x = reshape(x, (*block, batch // size, *spatial, *rest))
    pairs = [a for i in range(count) for a in (count + 1 + i, i)]
    x = transpose(x, [count, *pairs, *range(2 * count + 1, x.type.rank)])
    whole = [n * b for n, b in zip(spatial, block, strict=True)]
    x = reshape(x, (batch // size, *whole, *rest))
    for axis, (n, (before, behind)) in enumerate(zip(whole, margins, strict=True), 1):
        x = part(x, axis, before, n - before - behind)
    return x


def _blocked(input: TensorLike, block_shape: Any, margins: Any) -> tuple[Tensor, list[int], Pairs]:
    """A tensor with an axis in front of those that are cut into blocks, and a pair of margins for each of these."""
    x, block, pairs = as_tensor(input), _block(block_shape), _pairs(margins)
    if len(pairs) != len(block) or x.type.rank <= len(block):
        raise misfit(
            f"{len(block)} sizes of blocks need as many pairs, got {len(pairs)}; and {len(block) + 1} axes or more, "
            f"got {x.shape}"
        )
    if min(block, default=1) < 1:
        raise misfit(f"sizes of blocks must be positive, got {block}")
    return x, block, pairs


def _block(block_shape: Any) -> list[int]:
    return [int(n) for n in as_shape(block_shape)]  # type: ignore[arg-type]


def _pairs(paddings: Any) -> Pairs:
    found = get_static_value(paddings)
    if found is None or found.ndim != 2 or found.shape[1] != 2:
        raise misfit(f"expected [[before, after], ...], known numbers, got {paddings}")
    pairs: Pairs = found.tolist()
    return pairs


class BlockPaddings(NamedTuple):
    """What `space_to_batch` and `batch_to_space` are called with."""

    paddings: Tensor
    crops: Tensor


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> BlockPaddings:
    """Zeros to add to spatial axes, so that blocks divide them, and what to cut off afterwards.

    Args:
        input_shape: the sizes of the spatial axes.
        block_shape: the sizes of the blocks.
        base_paddings: zeros that are wanted anyway.
    """
    sizes, block = _block(input_shape), _block(block_shape)
    base = [[0, 0]] * len(block) if base_paddings is None else _pairs(base_paddings)
    if not len(sizes) == len(block) == len(base):
        raise misfit(
            f"expected one size of blocks and one pair for each axis, got {len(sizes)} axes, {len(block)} sizes and "
            f"{len(base)} pairs"
        )
    if any(b < 1 for b in block):
        raise misfit(f"sizes of blocks must be positive, got {block}")
    more = [-(n + sum(p)) % b for n, b, p in zip(sizes, block, base, strict=True)]
    paddings = [[p[0], p[1] + extra] for p, extra in zip(base, more, strict=True)]
    return BlockPaddings(as_tensor(paddings, I32), as_tensor([[0, extra] for extra in more], I32))


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
