"""How arguments describe windows that move over images: sizes, strides, dilations, padding.

An image is ``[batch, spatial axes..., channels]``: the channels come last. `Layout` brings others into that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tapec import arguments
from tapec.errors import NotImplementedError, UnimplementedError, ValueError
from tapec.frames import here
from tapec.functions.broadcasting import misfit
from tapec.functions.known import as_shape
from tapec.functions.rearrangement import pad, reshape, transpose
from tapec.ir.dims import DimLike, bounds
from tapec.ir.types import Shape
from tapec.tensor import Tensor

#: What TensorFlow calls images with channels last, by the number of their spatial axes.
FORMATS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}

#: Entries before and after each spatial axis.
Padding = list[tuple[DimLike, DimLike]]


def require_channels_last(data_format: str | None, count: int) -> None:
    """Refuse formats with the channels elsewhere.

    Raises:
        UnimplementedError: one of them.
    """
    if data_format is not None and arguments.text(data_format, "data_format") != FORMATS[count]:
        raise UnimplementedError(
            f"data_format {data_format!r} is not supported, only {FORMATS[count]!r}",
            location=here(),
            hint="move the channels to the last axis with tapec.transpose",
        )


@dataclass(frozen=True)
class Layout:
    """Where the channels of images with ``count`` spatial axes are: ``first`` behind the batch, or last."""

    count: int
    first: bool

    def moved(self, x: Tensor) -> Tensor:
        """An image with its channels last."""
        rank = x.type.rank
        at = rank - self.count - 1
        return transpose(x, (*range(at), *range(at + 1, rank), at)) if self.first and at > 0 else x

    def back(self, x: Tensor) -> Tensor:
        """Undo `moved`."""
        rank = x.type.rank
        at = rank - self.count - 1
        return transpose(x, (*range(at), rank - 1, *range(at, rank - 1))) if self.first else x

    def entries(self, values: Any) -> Any:
        """An argument that has an entry for each axis, in the order with the channels last; any other as it is."""
        whole = isinstance(values, list | tuple) and len(values) == self.count + 2
        return [values[0], *values[2:], values[1]] if self.first and whole else values


def layout(data_format: str | None, count: int) -> Layout:
    """The order of an image's axes.

    Raises:
        UnimplementedError: there is no such format.
    """
    last = FORMATS[count]
    first = f"NC{last[1:-1]}"
    if data_format is not None and arguments.text(data_format, "data_format") not in (last, first):
        message = f"data_format {data_format!r} is not supported, only {last!r} and {first!r}"
        raise UnimplementedError(message, location=here())
    return Layout(count, data_format == first)


def per_axis(value: Any, count: int, what: str) -> tuple[int, ...]:
    """A positive number for each spatial axis: from one number, one for each, or one for every axis.

    Raises:
        ValueError: another length, a number below 1, or not 1 for the batch or the channels.
    """
    given = as_shape(1 if value is None else value)
    numbers = {1: given * count, count: given, count + 2: given[1:-1]}.get(len(given))
    outer = (given[0], given[-1]) if len(given) == count + 2 else (1, 1)
    if numbers is None or outer != (1, 1) or not all(isinstance(n, int) and n > 0 for n in numbers):
        raise ValueError(
            f"{what} must be 1, {count} or {count + 2} positive numbers, those of batch and channels 1, "
            f"got {value!r}",
            location=here(),
        )
    return numbers  # type: ignore[return-value]


def reach(size: DimLike, dilation: int) -> DimLike:
    """Entries from the first of a window to its last."""
    return (size - 1) * dilation + 1


def paddings(
    padding: Any, sizes: Sequence[DimLike], reaches: Sequence[DimLike], strides: Sequence[int]
) -> Padding:
    """How much is padded before and after each spatial axis.

    ``"VALID"`` is nothing. ``"SAME"`` is what makes ``ceil(size / stride)`` places, the odd entry
    behind. Else a pair for each spatial axis, or for each axis, with zeros for batch and channels.

    Raises:
        ValueError: something else.
        NotImplementedError: ``"SAME"`` with a stride larger than the window, for a size that is not known.
    """
    if isinstance(padding, str):
        mode = padding.upper()
        if mode not in ("SAME", "VALID"):
            raise ValueError(
                f"padding must be SAME, VALID or pairs, got {padding!r}", location=here()
            )
        if mode == "VALID":
            return [(0, 0)] * len(sizes)
        return [_same(*each) for each in zip(sizes, reaches, strides, strict=True)]
    pairs = [as_shape(pair) for pair in arguments.items(padding, "padding")]
    if len(pairs) == len(sizes) + 2 and pairs[0] == pairs[-1] == (0, 0):
        pairs = pairs[1:-1]
    if len(pairs) != len(sizes) or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"expected a pair of paddings for each of {len(sizes)} axes, none for batch and "
            f"channels, got {padding!r}",
            location=here(),
        )
    return [(low, high) for low, high in pairs]


def _same(size: DimLike, reach: DimLike, stride: int) -> tuple[DimLike, DimLike]:
    # The last window starts where a whole number of strides ends; as many entries are left there.
    total = reach - ((size - 1) % stride + 1)
    least, most = bounds(total)
    if most is not None and most <= 0:
        return 0, 0
    if least is None or least < 0:
        raise NotImplementedError(
            f"SAME padding of windows of {reach} with stride {stride} of an axis whose size is not known",
            location=here(),
            hint="give the padding as numbers",
        )
    return total // 2, total - total // 2


def padded(x: Tensor, pairs: Padding, value: float = 0) -> Tensor:
    """An image with more entries along its spatial axes."""
    if all(pair == (0, 0) for pair in pairs):
        return x
    return pad(x, [(0, 0), *pairs, (0, 0)], constant_values=value)


def as_one_batch(x: Tensor, count: int) -> tuple[Tensor, Shape]:
    """An image with one batch axis, and the axes that were there instead.

    Raises:
        InvalidArgumentError: there are fewer axes (ValueError while a function is compiled).
    """
    shape = x.type.shape
    lead = shape[: len(shape) - count - 1]
    if not lead:
        raise misfit(
            f"expected [batch, {'size, ' * count}channels], got shape {x.shape}",
            "tapec.expand_dims makes a batch of one",
        )
    return (x if len(lead) == 1 else reshape(x, (prod(lead), *shape[len(lead) :]))), lead


def as_batches(x: Tensor, lead: Shape) -> Tensor:
    """Undo `as_one_batch`."""
    return x if len(lead) == 1 else reshape(x, (*lead, *x.type.shape[1:]))
