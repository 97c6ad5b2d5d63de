"""Slices of a known size at a place that only the run knows: ``x[i:i + 2]`` with a tensor ``i``.

How far the two bounds are apart is found in the program: see `tapec.functions.linear`.
"""

from __future__ import annotations

from typing import Any

from tapec.errors import NotImplementedError, TypeError
from tapec.frames import here
from tapec.functions.arithmetic import add, equal, less, multiply, where
from tapec.functions.assertions import require_inside
from tapec.functions.broadcasting import refuse_outside
from tapec.functions.known import dim_tensor, known_elements, static_integer
from tapec.functions.linear import Linear
from tapec.functions.logic import logical_and
from tapec.ir.dims import DimLike
from tapec.ir.types import TensorType
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

_REMEDY = (
    "a slice of known size may be anywhere, x[i:i + 2]; else compute with all entries and mask, as with "
    "tapec.where(tapec.range(n) < i, x, 0)"
)


def bound_of(value: Any, what: str) -> DimLike | Tensor | None:
    """A bound of a slice: a number, or a scalar integer Tensor whose value only the run knows.

    Raises:
        TypeError: it is no integer.
    """
    if value is None:
        return None
    if not (isinstance(value, Tensor) or hasattr(value, "read_value")):
        number: DimLike = static_integer(value, what)
        return number
    tensor = as_tensor(value)
    if known_elements(tensor) is not None:
        number = static_integer(tensor, what)
        return number
    if not tensor.dtype.is_integer or tensor.type.rank:
        raise TypeError(f"{what} must be an integer scalar, got {tensor.type}", location=here())
    return tensor


def slid(x: Tensor, axis: int, start: Any, stop: Any, step: DimLike | None) -> Tensor:
    """``x[start:stop:step]`` along an axis, where a bound is a tensor.

    Raises:
        InvalidArgumentError: when the program runs, the slice is not all inside of the axis.
        NotImplementedError: only the run knows how many entries there are.
    """
    length = None
    if isinstance(start, Tensor) and stop is not None:
        length = _distance(start, as_tensor(stop))
    stride = 1 if step is None else step
    if not isinstance(length, int) or not isinstance(stride, int) or length <= 0 or stride <= 0:
        raise unknown_size()
    size = -(-length // stride)
    return entries_from(x, axis, start, size, stride, end=stop)


def unknown_size() -> NotImplementedError:
    """What to raise where only the run knows how many entries a slice has."""
    return NotImplementedError(
        "how many entries a slice has must be known while a function is compiled, but a bound is a tensor",
        location=here(),
        hint=_REMEDY,
    )


def entries_from(
    x: Tensor,
    axis: int,
    start: Tensor,
    size: DimLike,
    stride: int = 1,
    end: TensorLike | None = None,
) -> Tensor:
    """``size`` entries of an axis from an index on that is data; ``end`` is the index behind, for which 0 is none.

    Raises:
        InvalidArgumentError: when the program runs, they are not all inside of the axis.
    """
    extent = x.type.shape[axis]
    last = (size - 1) * stride
    count = dim_tensor(extent, start.dtype)
    place = start
    if end is not None:
        empty = logical_and(
            less(start, 0), equal(end, 0)
        )  # as x[-2:0] is: it is not those up to the end
        place = where(less(start, 0), where(empty, count, add(start, count)), start)
    what = f"a slice of {size} entries, which a compiled function does not cut off at the end of an axis; its begin"
    require_inside(place, extent - last, what)
    numbers = apply("iota", axis=0, type=TensorType(start.dtype, (size,)))
    places = add(place, multiply(numbers, stride) if stride != 1 else numbers)
    refuse_outside(places, extent)
    result: Tensor = apply("gather", x, places, axis=axis, batch_dims=0)
    return result


def _distance(start: Tensor, stop: Tensor) -> DimLike | None:
    """How much greater one number is than another, whatever they are; None if that depends."""
    trace = current_trace()
    assert trace is not None
    between = Linear(trace)
    between.add(stop)
    between.add(start, -1)
    return None if between.terms else between.number
