"""How arguments become operands: conversion to one dtype, broadcasting to one shape, axes.

What is no tensor takes the dtype of the tensor it meets; tensors of different dtypes are never
converted to each other; the operation refuses them.
Broadcasting is an operation of the program, so that its gradient, a sum, needs no rule in the
operations themselves.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import (
    InvalidArgumentError,
    NotImplementedError,
    TapecError,
    TypeError,
    ValueError,
)
from tapec.frames import here
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import DType, Shape, TensorType
from tapec.recording import current_trace
from tapec.tensor import EagerTensor, Tensor, TensorLike, apply, as_array, as_tensor


def misfit(message: str, hint: str | None = None) -> TapecError:
    """The error for shapes and values that do not fit: TensorFlow's class, eager or while a function is compiled."""
    kind = InvalidArgumentError if current_trace() is None else ValueError
    return kind(message, location=here(), hint=hint)


def refuse_outside(indices: Tensor, extent: DimLike) -> None:
    """Hold indices to be in ``[0, extent)``, where their values are known.

    Raises:
        InvalidArgumentError: eager, one is not.
    """
    array = indices._array
    if array is None or not array.size:
        return
    if array.min() < 0 or array.max() >= extent:
        where = np.argwhere((array < 0) | (array >= extent))[0]
        place = ",".join(map(str, where))
        raise InvalidArgumentError(
            f"indices[{place}] = {array[tuple(where)]} is not in [0, {extent})", location=here()
        )


def refuse_in_trace(what: str, hint: str) -> None:
    """Raise NotImplementedError while a function is compiled, for what must look at values."""
    if current_trace() is not None:
        raise NotImplementedError(
            f"{what} cannot be compiled: the shape of its result depends on values",
            location=here(),
            hint=hint,
        )


def has_dtype(value: TensorLike) -> bool:
    """Whether a value is a Tensor or Variable, whose dtype others adapt to."""
    return isinstance(value, Tensor) or hasattr(value, "read_value")


def like(value: TensorLike, dtype: DType, *, strict: bool = True) -> Tensor:
    """A tensor; numbers and arrays take ``dtype``, and arrays that it cannot hold will be refused with their own.

    Args:
        value: the tensor, number, array or list.
        dtype: what it shall be if it has none.
        strict: whether Python's numbers that ``dtype`` cannot hold are refused here; else they have their own, too.

    Raises:
        TypeError: ``2.5`` as an integer, say.
    """
    if has_dtype(value):
        return as_tensor(value)
    if isinstance(value, np.ndarray | np.generic) and not _holds(dtype, value.dtype.kind):
        return as_tensor(value)
    try:
        return as_tensor(value, dtype)
    except TypeError as error:
        if strict:
            raise TypeError(
                error.message,
                location=here(),
                hint="convert it, or the tensor that it meets, with tapec.cast",
            ) from None
        return as_tensor(value)


def _holds(dtype: DType, kind: str) -> bool:
    return dtype.is_complex or (kind in "fV" and dtype.is_floating) or kind in "biu"


def converted(x: TensorLike, y: TensorLike, *, strict: bool = True) -> tuple[Tensor, Tensor]:
    """Two tensors; what is no tensor takes the dtype of the other, the second that of the first if neither is.

    ``strict`` is for the second; see `like`.
    """
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x, y
    if has_dtype(y) and not has_dtype(x):
        second = as_tensor(y)
        return like(x, second.type.dtype), second
    first = as_tensor(x)
    return first, like(y, first.type.dtype, strict=strict)


def broadcast_pair(x: TensorLike, y: TensorLike, *, strict: bool = True) -> tuple[Tensor, Tensor]:
    """Two tensors of one shape by NumPy's rule; ``strict`` as in `converted`.

    Raises:
        InvalidArgumentError: ``Incompatible shapes`` (ValueError while a function is compiled).
    """
    if type(y) in _NUMBERS and isinstance(x, Tensor):
        full = _filled(y, x.type)
        if full is not None:
            return x, full
    elif type(x) in _NUMBERS and isinstance(y, Tensor):
        full = _filled(x, y.type)
        if full is not None:
            return full, y
    first, second = converted(x, y, strict=strict)
    a, b = first.type.shape, second.type.shape
    if a == b:
        return first, second
    shape = common_shape(a, b)
    return broadcast(first, shape), broadcast(second, shape)


_NUMBERS = frozenset({int, float})


def _filled(value: Any, type: TensorType) -> Tensor | None:
    """A number beside an eager float tensor, repeated at once: a broadcast would cost as much again.

    None where the general way is needed.
    """
    if not type.dtype.is_floating or current_trace() is not None:
        return None
    shape: Any = type.shape  # static, in eager code
    array = np.empty(shape, type.dtype.numpy)
    array.fill(value)
    return EagerTensor(array, type)


@lru_cache(maxsize=4096)
def common_shape(*shapes: Shape) -> Shape:
    """The shape that all of these broadcast to.

    Raises:
        InvalidArgumentError: there is none (ValueError while a function is compiled).
    """
    rank = builtins.max(map(len, shapes))
    result: list[DimLike] = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            m = result[axis]
            if m == 1 or (n != 1 and isinstance(m, Dim)):
                result[axis] = n
            elif n not in (1, m) and not isinstance(n, Dim):
                raise misfit("Incompatible shapes: " + " vs. ".join(map(shape_text, shapes)))
    return tuple(result)


def may_equal(a: Shape, b: Shape) -> bool:
    """Whether shapes are equal, or may be once their symbols have values."""
    return len(a) == len(b) and all(
        m == n or isinstance(m, Dim) or isinstance(n, Dim) for m, n in zip(a, b, strict=True)
    )


def compatible(a: Shape, b: Shape) -> bool:
    """Whether two shapes broadcast."""
    return all(
        m == n or 1 in (m, n) or isinstance(m, Dim) or isinstance(n, Dim)
        for m, n in zip(reversed(a), reversed(b), strict=False)
    )


def shape_text(shape: Iterable[object]) -> str:
    """``[2,3]``, as TensorFlow prints shapes in messages."""
    return f"[{','.join(map(str, shape))}]"


def broadcast(x: Tensor, shape: Shape) -> Tensor:
    """Repeat ``x`` to a shape that it broadcasts to; ``x`` itself if nothing is to be repeated."""
    source = x.type.shape
    if source == shape:
        return x
    if len(source) > len(shape):
        raise misfit(
            f"cannot repeat {shape_text(source)} to {shape_text(shape)}, which has less axes"
        )
    kept, axes = _axes_kept(source, shape)
    if len(axes) == len(shape):
        return x  # equal but for a symbol: the operation itself records what it assumes
    if len(axes) < len(source):
        x = apply("reshape", x, shape=kept)
    result: Tensor = apply("broadcast", x, shape=shape, axes=axes)
    return result


@lru_cache(maxsize=4096)
def _axes_kept(source: Shape, shape: Shape) -> tuple[Shape, tuple[int, ...]]:
    """The dims of a shape that are not to be repeated on the way to another, and the axes where they are there."""
    lead = len(shape) - len(source)
    kept = [a for a, n in enumerate(source) if n != 1 or shape[a + lead] == 1]
    return tuple([source[a] for a in kept]), tuple([a + lead for a in kept])


def binary(op: str, x: TensorLike, y: TensorLike) -> Tensor:
    """An elementwise operation of two operands after conversion and broadcasting."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)) or x.type.shape != y.type.shape:
        # TensorFlow has its sum, alone, refuse what it cannot convert: another class of error.
        x, y = broadcast_pair(x, y, strict=op != "add")
    result: Tensor = apply(op, x, y)
    return result


def unary(op: str, x: TensorLike) -> Tensor:
    """An elementwise operation of one operand."""
    result: Tensor = apply(op, x if isinstance(x, Tensor) else as_tensor(x))
    return result


def as_float(x: TensorLike) -> Tensor:
    """A tensor that carries gradients.

    Raises:
        InvalidArgumentError: it holds integers or bools (TypeError while a function is compiled).
    """
    tensor = as_tensor(x)
    if not tensor.type.dtype.is_differentiable:
        raise wrong_dtype(tensor.type.dtype, "a float or complex number")
    return tensor


def wrong_dtype(dtype: DType, wanted: str) -> TapecError:
    """The error for an operand of a dtype that the function does not take."""
    kind = InvalidArgumentError if current_trace() is None else TypeError
    return kind(
        f"expected {wanted}, got {dtype.name}", location=here(), hint="convert it with tapec.cast"
    )


def axis_of(axis: object, rank: int, what: str = "axis") -> int:
    """An axis in ``[0, rank)`` from one that may be negative.

    Raises:
        InvalidArgumentError: outside of the rank (ValueError while a function is compiled).
    """
    number = arguments.integer(axis, what)
    if not -rank <= number < rank:
        raise misfit(f"Invalid {what} ({number} for input with {rank} dimension(s))")
    return int(number % rank)


def axes_of(axes: object, rank: int, what: str = "reduction dimension") -> tuple[int, ...]:
    """Distinct axes in ascending order from None (all), a number, or a sequence of numbers.

    Raises:
        InvalidArgumentError: one is outside of the rank or named twice (ValueError while a function
            is compiled).
    """
    if axes is None:
        return tuple(range(rank))
    if isinstance(axes, int):
        return (axis_of(axes, rank, what),)
    numbers: Sequence[object]
    if isinstance(axes, list | tuple):
        numbers = axes
    else:
        numbers = np.atleast_1d(as_array(axes)).tolist()
    found = sorted(axis_of(a, rank, what) for a in numbers)
    if len(set(found)) != len(found):
        raise misfit(f"Invalid reduction arguments: Axes contains duplicate dimension: {found}")
    return tuple(found)
