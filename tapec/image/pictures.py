"""What functions on images share: ``[H, W, C]``, or ``[batch, H, W, C]``."""

from __future__ import annotations

from collections.abc import Callable

from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.broadcasting import misfit
from tapec.functions.rearrangement import expand_dims, squeeze
from tapec.ir.dims import Dim
from tapec.tensor import Tensor, TensorLike, as_tensor


def picture(image: TensorLike, what: str = "image") -> Tensor:
    """An image or a batch of them.

    Raises:
        ValueError: another number of axes.
    """
    x = as_tensor(image)
    if x.type.rank not in (3, 4):
        raise ValueError(
            f"'{what}' (shape {x.shape}) must have either 3 or 4 dimensions.",
            location=here(),
            hint="[height, width, channels], or [batch, height, width, channels]",
        )
    return x


def each(image: TensorLike, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of a batch, of a batch or of one image."""
    x = picture(image)
    return function(x) if x.type.rank == 4 else squeeze(function(expand_dims(x, 0)), [0])


def extent(x: Tensor) -> tuple[int, int]:
    """Height and width, which must be known.

    Raises:
        InvalidArgumentError: they are not (ValueError while a function is compiled).
    """
    height, width = x.type.shape[-3:-1]
    if isinstance(height, Dim) or isinstance(width, Dim):
        raise misfit(f"the height and width of an image must be known here, got {x.shape}")
    return height, width
