"""Losses of predicted distributions, with the checks and the clipping that Keras does."""

from __future__ import annotations

from typing import Any

from keras.src import backend

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating
from tapec.tensor import Tensor


def _clipped(x: Tensor) -> Tensor:
    return tapec.clip_by_value(x, backend.epsilon(), 1.0 - backend.epsilon())


def _require_alike(target: Tensor, output: Tensor, count: int | None, how: str) -> None:
    """Hold the sizes to be equal, as far as they are known, but for the last ``-count`` of the output."""
    expected = tuple(output.shape)[:count]
    if target.type.rank != len(expected):
        raise ValueError(
            f"Arguments `target` and `output` must have the same rank (ndim){how}. Received: "
            f"target.shape={target.shape}, output.shape={output.shape}"
        )
    for one, other in zip(target.shape, expected, strict=True):
        if one is not None and other is not None and one != other:
            raise ValueError(
                f"Arguments `target` and `output` must have the same shape{how}. Received: "
                f"target.shape={target.shape}, output.shape={output.shape}"
            )


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """For each row, the mean surprise at classes drawn from ``target``, of who believes in ``output``.

    Raises:
        ValueError: the shapes differ, or there is no axis.
    """
    y = floating(output)
    t = convert_to_tensor(target, y.dtype.name)
    if not t.type.rank:
        raise ValueError(
            "Arguments `target` and `output` must be at least rank 1. Received: "
            f"target.shape={t.shape}, output.shape={y.shape}"
        )
    _require_alike(t, y, None, "")
    if from_logits:
        return tapec.nn.softmax_cross_entropy_with_logits(t, y, axis)
    shares = y / tapec.reduce_sum(y, axis, True)
    return tapec.negative(tapec.reduce_sum(t * tapec.math.log(_clipped(shares)), axis))


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """`categorical_crossentropy` of targets that are the numbers of classes.

    Raises:
        ValueError: the shapes do not fit.
    """
    y = floating(output)
    t = convert_to_tensor(target)
    if t.dtype.name not in ("int32", "int64"):
        t = tapec.cast(t, "int32")
    if not y.type.rank:
        raise ValueError(
            f"Argument `output` must be at least rank 1. Received: output.shape={y.shape}"
        )
    if t.type.rank == y.type.rank and t.shape[-1] == 1:
        t = tapec.squeeze(t, -1)
    _require_alike(t, y, -1, " up until the last dimension")
    place = axis % y.type.rank
    if place != y.type.rank - 1:
        order = [n for n in range(y.type.rank) if n != place]
        y = tapec.transpose(y, [*order, place])
    if from_logits:
        return tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=y)
    return tapec.nn.sparse_softmax_cross_entropy_with_logits(
        labels=t, logits=tapec.math.log(_clipped(y))
    )


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Tensor:
    """The surprise at each truth, of who gives it the probability ``output``.

    Raises:
        ValueError: the shapes differ.
    """
    y = floating(output)
    t = convert_to_tensor(target, y.dtype.name)
    _require_alike(t, y, None, "")
    if from_logits:
        return tapec.nn.sigmoid_cross_entropy_with_logits(labels=t, logits=y)
    y = _clipped(y)
    found = t * tapec.math.log(y) + (1.0 - t) * tapec.math.log(1.0 - y)
    return tapec.negative(found)
