"""Gradients kept within bounds: by their norm, or by the norm of all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tapec.errors import TypeError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    divide,
    greater,
    is_finite,
    maximum,
    multiply,
    square,
    where,
)
from tapec.functions.broadcasting import as_float, like
from tapec.functions.elementary import sqrt
from tapec.functions.reductions import reduce_sum
from tapec.ir.types import F32
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.tensors.indexed_slices import IndexedSlices


def clip_by_norm(
    t: TensorLike, clip_norm: TensorLike, axes: object = None, name: str | None = None
) -> Tensor:
    """``t`` scaled down to a Euclidean norm of ``clip_norm`` where it is longer, else ``t``.

    Args:
        t: floats.
        clip_norm: the greatest norm, a scalar; a negative one counts as 0.
        axes: which axes make a vector; all by default.

    Formula: ``t * clip_norm / max(norm, clip_norm)``. A vector of zeros has a gradient.

    Of IndexedSlices the values are scaled, by the norm of the values: equal indices are not merged first, as in
    TensorFlow.

    Example: ``clip_by_norm([3.0, 4.0], 1.0)`` is ``[0.6, 0.8]``.

    Raises:
        ValueError: ``t`` is None.
    """
    if isinstance(t, IndexedSlices):
        return t.map(lambda v: clip_by_norm(v, clip_norm, axes))  # type: ignore[no-any-return]
    values = as_float(t)
    if isinstance(clip_norm, int | float):
        limit = like(max(clip_norm, 0), values.type.dtype)
    else:
        limit = maximum(like(clip_norm, values.type.dtype), 0)
    squares = reduce_sum(square(values), axes, keepdims=True)
    positive = greater(squares, 0)
    length = where(positive, sqrt(where(positive, squares, 1)), squares)
    return divide(multiply(values, limit), maximum(length, limit))


def global_norm(t_list: Sequence[TensorLike | None], name: str | None = None) -> Tensor:
    """The Euclidean norm of all elements of all tensors together; None entries do not count.

    Of IndexedSlices the values count as they are: equal indices are not merged first, as in TensorFlow. The norm of
    the sum is that of ``tapec.convert_to_tensor(slices)``.

    Raises:
        TypeError: ``t_list`` is no sequence.
        InvalidArgumentError: the dtypes differ.
    """
    tensors = [as_float(_values(t)) for t in _sequence(t_list) if t is not None]
    if not tensors:
        return as_tensor(0.0, F32)
    return sqrt(reduce(add, [reduce_sum(square(t)) for t in tensors]))


def clip_by_global_norm(
    t_list: Sequence[TensorLike | None],
    clip_norm: TensorLike,
    use_norm: TensorLike = None,
    name: str | None = None,
) -> tuple[list[Tensor | None], Tensor]:
    """Tensors scaled together, down to a `global_norm` of ``clip_norm`` if it is greater.

    The direction of the whole stays. If the norm is not finite, every result is NaN.

    Args:
        t_list: tensors; None entries stay None.
        clip_norm: the greatest norm, a positive scalar.
        use_norm: the norm, if it is known already.

    Returns:
        The list of scaled tensors, and the norm before.

    Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
    2012.

    Example: ``clip_by_global_norm([[3.0], [4.0]], 1.0)`` is ``([[0.6], [0.8]], 5.0)``.

    Raises:
        TypeError: ``t_list`` is no sequence.
        InvalidArgumentError: the dtypes differ.
    """
    tensors = [None if t is None else as_float(_values(t)) for t in _sequence(t_list)]
    norm = global_norm(tensors) if use_norm is None else as_tensor(use_norm)
    limit = like(clip_norm, norm.type.dtype)
    scale = where(is_finite(norm), divide(limit, maximum(norm, limit)), float("nan"))
    scaled = [None if t is None else multiply(t, scale) for t in tensors]
    return [_like(given, t) for given, t in zip(t_list, scaled, strict=True)], norm


def _values(t: TensorLike) -> TensorLike:
    """The tensor whose elements count."""
    return t.values if isinstance(t, IndexedSlices) else t


def _like(given: TensorLike | None, values: Tensor | None) -> Any:
    """IndexedSlices again, if they were given."""
    if isinstance(given, IndexedSlices) and values is not None:
        return IndexedSlices(values, given.indices, given.known_dims)
    return values


def _sequence(t_list: object) -> Sequence[TensorLike | None]:
    if not isinstance(t_list, Sequence):
        raise TypeError(
            f"`t_list` should be a sequence of tensors. Received {type(t_list)}.",
            location=here(),
            hint="put the tensors into a list",
        )
    return t_list
