"""Images changed at random. The ``stateless_`` functions depend on ``seed``, two integers, alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import add, less, where
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import misfit
from tapec.functions.indexing import gather
from tapec.functions.known import as_shape
from tapec.functions.rearrangement import reshape
from tapec.image.colors import adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation
from tapec.image.cropping import flip_left_right, flip_up_down
from tapec.image.pictures import picture
from tapec.ir.dims import Dim
from tapec.ir.types import I32
from tapec.random import split, stateless_uniform, uniform
from tapec.tensor import Tensor, TensorLike, as_tensor

#: Draws a tensor of a shape, uniform between two bounds.
Draw = Callable[..., Tensor]


def _stream(seed: int | None) -> Draw:
    return lambda shape, low, high, dtype="float32": uniform(shape, low, high, dtype, seed)


def _key(seed: TensorLike) -> Draw:
    return lambda shape, low, high, dtype="float32": stateless_uniform(
        shape, seed, low, high, dtype
    )


def _factor(draw: Draw, lower: float, upper: float, what: str) -> Tensor:
    if arguments.number(upper, "upper") <= arguments.number(lower, "lower"):
        raise ValueError("upper must be > lower.", location=here())
    if lower < 0:
        raise ValueError(f"lower must be non-negative for {what}.", location=here())
    return draw([], lower, upper)


def _shift(draw: Draw, most: float, limit: float = float("inf")) -> Tensor:
    if not 0 <= arguments.number(most, "the greatest change") <= limit:
        raise ValueError(
            f"max_delta must be {'non-negative' if limit == float('inf') else f'in [0, {limit}]'}.",
            location=here(),
        )
    return draw([], -most, most)


def _flipped(image: TensorLike, flip: Callable[[TensorLike], Tensor], draw: Draw) -> Tensor:
    """Each image flipped or not, with equal chance."""
    x = picture(image)
    lead = x.type.shape[:-3]
    chosen = reshape(less(draw(lead, 0.0, 1.0), 0.5), (*lead, 1, 1, 1))
    return where(chosen, flip(x), x)


def _cropped(value: TensorLike, size: Any, offsets: Callable[[int, int], Tensor]) -> Tensor:
    """A part of each axis, from an offset that ``offsets(axis, bound)`` gives."""
    x, wanted = as_tensor(value), as_shape(size)
    if len(wanted) != x.type.rank:
        raise misfit(f"a size {list(wanted)} for a tensor of shape {x.shape}")
    for axis, (n, m) in enumerate(zip(x.type.shape, wanted, strict=True)):
        if isinstance(n, Dim) or isinstance(m, Dim):
            if n != m:
                raise misfit(
                    f"axis {axis} of a tensor of shape {x.shape} must be known to be cropped"
                )
        elif n < m:
            raise misfit(f"Need value.shape >= size, got {x.shape} and {list(wanted)}")
        elif n > m:
            x = gather(x, add(offsets(axis, n - m + 1), counting(I32, m)), axis=axis)
    return x


def random_brightness(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_brightness` by a number in ``[-max_delta, max_delta)``."""
    return adjust_brightness(image, _shift(_stream(seed), max_delta))


def stateless_random_brightness(image: TensorLike, max_delta: float, seed: TensorLike) -> Tensor:
    """`random_brightness` by a key."""
    return adjust_brightness(image, _shift(_key(seed), max_delta))


def random_contrast(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """`adjust_contrast` by a factor in ``[lower, upper)``."""
    return adjust_contrast(image, _factor(_stream(seed), lower, upper, "contrast"))


def stateless_random_contrast(
    image: TensorLike, lower: float, upper: float, seed: TensorLike
) -> Tensor:
    """`random_contrast` by a key."""
    return adjust_contrast(image, _factor(_key(seed), lower, upper, "contrast"))


def random_saturation(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """`adjust_saturation` by a factor in ``[lower, upper)``."""
    return adjust_saturation(image, _factor(_stream(seed), lower, upper, "saturation"))


def stateless_random_saturation(
    image: TensorLike, lower: float, upper: float, seed: TensorLike = None
) -> Tensor:
    """`random_saturation` by a key."""
    return adjust_saturation(image, _factor(_key(seed), lower, upper, "saturation"))


def random_hue(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """`adjust_hue` by a number in ``[-max_delta, max_delta)``, at most 0.5."""
    return adjust_hue(image, _shift(_stream(seed), max_delta, 0.5))


def stateless_random_hue(image: TensorLike, max_delta: float, seed: TensorLike) -> Tensor:
    """`random_hue` by a key."""
    return adjust_hue(image, _shift(_key(seed), max_delta, 0.5))


def random_flip_left_right(image: TensorLike, seed: int | None = None) -> Tensor:
    """Each image mirrored, or not."""
    return _flipped(image, flip_left_right, _stream(seed))


def stateless_random_flip_left_right(image: TensorLike, seed: TensorLike) -> Tensor:
    """`random_flip_left_right` by a key."""
    return _flipped(image, flip_left_right, _key(seed))


def random_flip_up_down(image: TensorLike, seed: int | None = None) -> Tensor:
    """Each image upside down, or not."""
    return _flipped(image, flip_up_down, _stream(seed))


def stateless_random_flip_up_down(image: TensorLike, seed: TensorLike) -> Tensor:
    """`random_flip_up_down` by a key."""
    return _flipped(image, flip_up_down, _key(seed))


def random_crop(
    value: TensorLike, size: Any, seed: int | None = None, name: str | None = None
) -> Tensor:
    """A part of a tensor, of a size, from anywhere.

    Args:
        value: the tensor.
        size: of each axis.
        seed: see `tapec.random.uniform`.

    Raises:
        InvalidArgumentError: the tensor is smaller (ValueError while a function is compiled).
    """
    draw = _stream(seed)
    return _cropped(value, size, lambda axis, bound: draw([], 0, bound, I32))


def stateless_random_crop(
    value: TensorLike, size: Any, seed: TensorLike, name: str | None = None
) -> Tensor:
    """`random_crop` by a key."""
    keys = split(seed, as_tensor(value).type.rank)
    return _cropped(value, size, lambda axis, bound: _key(keys[axis])([], 0, bound, I32))
