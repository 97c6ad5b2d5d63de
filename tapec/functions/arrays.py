"""Tensors from nothing or from Python objects, and what is known of a tensor: shape, size, rank.

A shape argument is a sequence of numbers, a TensorShape or an integer tensor. While a function is
compiled, a shape must be known: what comes from `shape` and `size` is (see `tapec.functions.known`).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.eager.composite import composed
from tapec.errors import TypeError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    divide,
    equal,
    identity,
    less,
    multiply,
    subtract,
    where,
)
from tapec.functions.broadcasting import (
    axis_of,
    broadcast,
    common_shape,
    has_dtype,
    like,
    misfit,
    refuse_in_trace,
    wrong_dtype,
)
from tapec.functions.known import (
    as_dim,
    as_shape,
    dim_tensor,
    dims_tensor,
    static_integer,
    static_value,
)
from tapec.functions.rearrangement import (
    broadcast_to,
    expand_dims,
    reshape,
)
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import BOOL, F32, F64, I32, I64, STRING, DType, Shape, TensorType, as_dtype
from tapec.tensor import Tensor, TensorLike, apply, as_array, as_tensor
from tapec.tensors.tensor_shape import TensorShape


def convert_to_tensor(
    value: TensorLike, dtype: Any = None, dtype_hint: Any = None, name: str | None = None
) -> Tensor:
    """A Tensor from a Tensor, Variable, array, number or nested list.

    Python floats become float32, integers int32 (int64 if they need it), lists are packed.

    Args:
        value: what to convert; lists may hold tensors, whose gradients are kept.
        dtype: the wanted dtype.
        dtype_hint: the dtype to take if ``value`` has none of its own and fits.

    Raises:
        ValueError: ``value`` is None or ragged, or a Tensor of another dtype.
        TypeError: ``dtype`` cannot hold the number (``1.5`` as int32).
    """
    if dtype is None and dtype_hint is not None:
        return like(value, as_dtype(dtype_hint), strict=False)
    return as_tensor(value, as_dtype(dtype) if dtype is not None else None)


def constant(
    value: TensorLike, dtype: Any = None, shape: Any = None, name: str | None = None
) -> Tensor:
    """A Tensor from a number, array or nested list; one element fills a larger ``shape``.

    Example: ``constant(0.5, shape=[2])`` is ``[0.5, 0.5]``.

    Raises:
        ValueError, TypeError: see `convert_to_tensor`; the elements do not fill ``shape``.
    """
    result = as_tensor(value, as_dtype(dtype) if dtype is not None else None)
    if shape is None:
        return result
    wanted = as_shape(shape)
    if result.type.size == 1 and result.type.shape != wanted:
        return broadcast_to(reshape(result, ()), wanted)
    if result.type.shape != wanted and result.type.size != TensorType(F32, wanted).size:
        raise TypeError(
            f"Eager execution of tapec.constant with unsupported shape: {result.type.size} elements "
            f"do not fill {list(wanted)}",
            location=here(),
        )
    return reshape(result, wanted)


def is_tensor(x: object) -> bool:
    """Whether an object is a Tensor or a Variable."""
    return has_dtype(x)


def full(value: Any, dtype: DType, shape: Shape) -> Tensor:
    """A tensor whose every element is ``value``, a Python number; of strings, the empty one for 0.

    Raises:
        InvalidArgumentError: another string.
    """
    if dtype == STRING:
        if value != 0:
            raise wrong_dtype(dtype, "numbers")
        return as_tensor(np.full(shape, b"", object))
    result: Tensor = apply("constant", value=value, type=TensorType(dtype, shape))
    return result


def zeros(shape: Any, dtype: Any = F32, name: str | None = None, layout: None = None) -> Tensor:
    """A tensor of zeros.

    Example: ``zeros([2, 3])`` is a float32 matrix.
    """
    return full(0, as_dtype(dtype), as_shape(shape))


def ones(shape: Any, dtype: Any = F32, name: str | None = None, layout: None = None) -> Tensor:
    """A tensor of ones."""
    return full(1, as_dtype(dtype), as_shape(shape))


def zeros_like(
    input: TensorLike, dtype: Any = None, name: str | None = None, layout: None = None
) -> Tensor:
    """Zeros in the shape of ``input``, and in its dtype unless another is given."""
    type = as_tensor(input).type
    return full(0, as_dtype(dtype) if dtype is not None else type.dtype, type.shape)


def ones_like(
    input: TensorLike, dtype: Any = None, name: str | None = None, layout: None = None
) -> Tensor:
    """Ones in the shape of ``input``, and in its dtype unless another is given."""
    type = as_tensor(input).type
    return full(1, as_dtype(dtype) if dtype is not None else type.dtype, type.shape)


def fill(dims: Any, value: TensorLike, name: str | None = None, layout: None = None) -> Tensor:
    """A tensor whose every element is the scalar ``value``, in its dtype.

    Raises:
        InvalidArgumentError: ``value`` is no scalar.
    """
    scalar = as_tensor(value)
    if scalar.type.rank:
        raise misfit(f"fill: value must be a scalar, got shape {scalar.shape}")
    return broadcast(scalar, as_shape(dims))


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = F32,
    name: str | None = None,
) -> Tensor:
    """The identity matrix ``[num_rows, num_columns]``, repeated over ``batch_shape``."""
    rows = as_dim(num_rows)
    shape = (rows, rows if num_columns is None else as_dim(num_columns))
    lines = [apply("iota", axis=axis, type=TensorType(I32, shape)) for axis in (0, 1)]
    matrix = cast(equal(*lines), dtype)
    return matrix if batch_shape is None else broadcast(matrix, (*as_shape(batch_shape), *shape))


def range(
    start: TensorLike,
    limit: TensorLike = None,
    delta: TensorLike = 1,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from ``start`` up to and without ``limit``, ``delta`` apart.

    With one argument it is the limit, and the numbers start at 0. int32 unless an argument is a
    float.

    Example: ``range(3, 0, -1)`` is ``[3, 2, 1]``.

    Raises:
        InvalidArgumentError: ``delta`` is 0 or the wrong way round.
        TypeError: a bound is not known while a function is compiled.
    """
    if limit is None:
        start, limit = 0, start
    target = as_dtype(dtype) if dtype is not None else range_dtype(start, limit, delta)
    bounds = [static_value(v, "a bound of range") for v in (start, limit, delta)]
    if isinstance(bounds[1], Dim) and bounds[0] == 0 and bounds[2] == 1:
        return counting(target, bounds[1])
    # Converted first, so that float32 bounds step as float32 numbers do.
    numbers: list[Any] = [
        as_array(arguments.number(v, "a bound of range"), target)[()] for v in bounds
    ]
    first, last, step = numbers
    if step == 0:
        raise misfit(f"Requires delta != 0: {step}")
    if not all(math.isfinite(n) for n in numbers):
        raise misfit(f"range takes finite numbers, got {numbers}")
    if first != last and (last > first) != (step > 0):
        order = "start <= limit when delta > 0" if step > 0 else "start >= limit when delta < 0"
        raise misfit(f"Requires {order}: {first}/{last}")
    if target.is_integer:
        count = len(builtins.range(*map(int, numbers)))
    else:
        count = builtins.max(0, math.ceil((last - first) / step))
    line = counting(target, count)
    if step != 1:
        line = multiply(line, step)
    return add(line, first) if first else line


def counting(dtype: DType, count: DimLike) -> Tensor:
    """0, 1, 2, … ``count - 1``."""
    result: Tensor = apply("iota", axis=0, type=TensorType(dtype, (count,)))
    return result


def range_dtype(*values: TensorLike) -> DType:
    """The widest dtype among the arguments of `range`."""
    dtypes = [as_tensor(v).type.dtype for v in values]
    order = (I32, I64, F32, F64)
    return builtins.max(dtypes, key=lambda d: order.index(d) if d in order else -1)


def linspace(
    start: TensorLike, stop: TensorLike, num: Any, name: str | None = None, axis: int = 0
) -> Tensor:
    """``num`` numbers from ``start`` to ``stop``, both included, as far from each other.

    ``start`` and ``stop`` are floats of one shape; the numbers lie along the new ``axis``.
    Differentiable by both.

    Raises:
        InvalidArgumentError: ``num`` is negative.
    """
    first = as_tensor(start)
    if not first.type.dtype.is_differentiable:
        first = cast(first, F64 if first.type.dtype.bits > 16 else F32)
    last = like(stop, first.type.dtype)
    last = last if last.type.dtype == first.type.dtype else cast(last, first.type.dtype)
    count = static_integer(num, "the number of linspace")
    if count < 0:
        raise misfit(f"Requires num >= 0: {count}")
    common = common_shape(first.type.shape, last.type.shape)
    first, last = broadcast(first, common), broadcast(last, common)
    place = axis_of(axis, first.type.rank + 1)
    line = [1] * (first.type.rank + 1)
    line[place] = count
    # Weights of the ends rather than start + i * step, so that the last number is `stop` itself.
    dtype = first.type.dtype
    weight = reshape(divide(counting(dtype, count), builtins.max(count - 1, 1)), line)
    return add(
        multiply(expand_dims(first, place), subtract(1, weight)),
        multiply(expand_dims(last, place), weight),
    )


def one_hot(
    indices: TensorLike,
    depth: Any,
    on_value: TensorLike = None,
    off_value: TensorLike = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """``on_value`` at each index along a new axis of size ``depth``, the last by default; ``off_value`` elsewhere.

    An index outside of ``[0, depth)`` makes a row of ``off_value``. float32 unless a dtype or a
    value says otherwise. No gradient flows to the indices.

    Example: ``one_hot([0, 2], 3)`` is ``[[1, 0, 0], [0, 0, 1]]``.
    """
    positions = as_tensor(indices)
    if positions.type.dtype.is_bool:
        positions = cast(positions, I32)
    if not positions.type.dtype.is_integer:
        raise wrong_dtype(positions.type.dtype, "integers")
    rank = positions.type.rank + 1
    place = axis_of(-1 if axis is None else axis, rank)
    size = as_dim(depth)
    if on_value is None and off_value is None:
        wanted = F32 if dtype is None else as_dtype(dtype)
        return composed(_ones_at, positions, place=place, size=size, dtype=wanted)  # type: ignore[no-any-return]
    hit = _is_at(positions, place, size)
    target = (
        as_dtype(dtype)
        if dtype is not None
        else as_tensor(off_value if on_value is None else on_value).type.dtype
    )
    return where(
        hit,
        as_tensor(1 if on_value is None else on_value, target),
        as_tensor(0 if off_value is None else off_value, target),
    )


def _ones_at(positions: Tensor, place: int, size: DimLike, dtype: DType) -> Tensor:
    return cast(_is_at(positions, place, size), dtype)


def _is_at(positions: Tensor, place: int, size: DimLike) -> Tensor:
    """Whether a number along a new axis is the one that is given there."""
    line: list[DimLike] = [1] * (positions.type.rank + 1)
    line[place] = size
    classes = apply("iota", axis=place, type=TensorType(positions.type.dtype, tuple(line)))
    return equal(expand_dims(positions, place), classes)


def sequence_mask(
    lengths: TensorLike, maxlen: Any = None, dtype: Any = BOOL, name: str | None = None
) -> Tensor:
    """``[..., maxlen]``: true at the first ``lengths`` places of each row.

    Without ``maxlen`` the greatest length; a compiled function needs it given.

    Raises:
        NotImplementedError: a function is compiled, and ``maxlen`` is not given.
    """
    if maxlen is None:
        refuse_in_trace("sequence_mask without maxlen", "pass maxlen")
    sizes = as_tensor(lengths)
    if not sizes.type.dtype.is_integer:
        raise wrong_dtype(sizes.type.dtype, "integer lengths")
    count = int(sizes.array.max(initial=0)) if maxlen is None else as_dim(maxlen)
    return cast(less(counting(sizes.type.dtype, count), expand_dims(sizes, -1)), dtype)


# -- what is known of a tensor


def shape(input: TensorLike, out_type: Any = None, name: str | None = None) -> Tensor:
    """The shape as an integer tensor, int32 by default; its elements may be used as shapes of others."""
    return dims_tensor(as_tensor(input).type.shape, I32 if out_type is None else as_dtype(out_type))


def size(input: TensorLike, out_type: Any = None, name: str | None = None) -> Tensor:
    """The number of elements as an integer scalar, int32 by default."""
    return dim_tensor(as_tensor(input).type.size, I32 if out_type is None else as_dtype(out_type))


def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """The number of axes as an int32 scalar."""
    return dim_tensor(as_tensor(input).type.rank, I32)


def identity_n(input: Sequence[TensorLike], name: str | None = None) -> list[Tensor]:
    """`tapec.identity` of each."""
    return [identity(x) for x in arguments.items(input, "input")]


def shape_n(
    input: Sequence[TensorLike], out_type: Any = I32, name: str | None = None
) -> list[Tensor]:
    """`tapec.shape` of each."""
    return [shape(x, out_type) for x in arguments.items(input, "input")]


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The shape that two shapes broadcast to; a size that is not known stays unknown beside 1 and itself.

    Raises:
        InvalidArgumentError: they do not broadcast (ValueError while a function is compiled).
    """
    x, y = TensorShape(shape_x), TensorShape(shape_y)
    if x.rank is None or y.rank is None:
        return TensorShape(None)
    rank = max(x.rank, y.rank)
    rows = zip(*([1] * (rank - len(s)) + s.as_list() for s in (x, y)), strict=True)
    return TensorShape([_wider(m, n, x, y) for m, n in rows])


def _wider(m: int | None, n: int | None, x: TensorShape, y: TensorShape) -> int | None:
    if 1 in (m, n) or m == n:
        return n if m == 1 else m
    if None in (m, n):
        return n if m is None else m
    raise misfit(f"Incompatible shapes for broadcasting: {x} and {y}.")


def broadcast_dynamic_shape(shape_x: TensorLike, shape_y: TensorLike) -> Tensor:
    """The shape that two shapes broadcast to, as an integer tensor."""
    return dims_tensor(common_shape(as_shape(shape_x), as_shape(shape_y)), I32)
