"""Softmax, and the losses over logits and their like: see `tapec.nn`.

Formulas that would overflow or cancel are written so that they do not, and so that derivatives of
any order are right.
"""

from __future__ import annotations

from tapec.eager.composite import composed
from tapec.errors import InvalidArgumentError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    divide,
    equal,
    less,
    less_equal,
    multiply,
    multiply_no_nan,
    negative,
    square,
    stop_gradient,
    subtract,
    where,
)
from tapec.functions.broadcasting import as_float, converted, like, may_equal, misfit, wrong_dtype
from tapec.functions.elementary import exp, log, log1p, softplus
from tapec.functions.known import dim_tensor
from tapec.functions.logic import logical_and
from tapec.functions.reductions import reduce_max, reduce_sum, restored
from tapec.ir.types import TensorType
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """``e ** x / sum(e ** x)`` along an axis (the last by default), without overflow."""
    return composed(_softmax, as_float(logits), axis=-1 if axis is None else axis)  # type: ignore[no-any-return]


def _softmax(x: Tensor, axis: int) -> Tensor:
    powers = exp(_shifted(x, axis))
    return divide(powers, restored(reduce_sum(powers, axis), powers, axis))


def log_softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """The logarithm of `softmax`, without overflow or underflow."""
    return composed(_log_softmax, as_float(logits), axis=-1 if axis is None else axis)  # type: ignore[no-any-return]


def _log_softmax(x: Tensor, axis: int) -> Tensor:
    shifted = _shifted(x, axis)
    return subtract(shifted, restored(log(reduce_sum(exp(shifted), axis)), shifted, axis))


def _shifted(x: Tensor, axis: int) -> Tensor:
    """Logits less their maximum, which is a constant for derivatives: what it would add cancels."""
    if not x.type.rank:
        raise misfit("softmax of a scalar", "it takes at least one axis")
    return subtract(x, restored(stop_gradient(reduce_max(x, axis)), x, axis))


# -- losses


def sparse_softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, name: str | None = None
) -> Tensor:
    """``-log_softmax(logits)`` at the label, for each example.

    Args:
        labels: integers ``[...]`` in ``[0, classes)``.
        logits: floats ``[..., classes]``.

    Returns:
        Losses ``[...]`` in the dtype of the logits. Their gradient is softmax less one-hot.

    Raises:
        InvalidArgumentError: eager, a label out of range; a compiled function gives NaN for it.
        ValueError: the shapes do not fit.
    """
    x, y = as_float(logits), as_tensor(labels)
    if not y.type.dtype.is_integer:
        raise wrong_dtype(y.type.dtype, "integer labels")
    if not may_equal(y.type.shape, x.type.shape[:-1]) or not x.type.rank:
        raise ValueError(
            f"`labels.shape` must equal `logits.shape` except for the last dimension. Received: "
            f"labels.shape={y.shape} and logits.shape={x.shape}",
            location=here(),
        )
    count = x.type.shape[-1]
    if y._array is not None and y._array.size:
        outside = y._array[(y._array < 0) | (y._array >= count)]
        if outside.size:
            raise InvalidArgumentError(
                f"Received a label value of {outside[0]} which is outside the valid range of "
                f"[0, {count}). Label values: {' '.join(map(str, y._array.reshape(-1)[:20]))}",
                location=here(),
            )
    losses: Tensor = composed(_sparse_losses, x, y)
    if current_trace() is None:
        return losses
    valid = logical_and(less_equal(0, y), less(y, dim_tensor(count, y.type.dtype)))
    return where(valid, losses, float("nan"))


def _sparse_losses(x: Tensor, y: Tensor) -> Tensor:
    shifted = _shifted(x, -1)
    classes = apply("iota", axis=y.type.rank, type=TensorType(y.type.dtype, x.type.shape))
    # A masked sum rather than a gather: its gradient is a selection, not a scattered addition.
    at_label = equal(restored(y, x, -1), classes)
    chosen = reduce_sum(where(at_label, shifted, 0), -1)
    return subtract(log(reduce_sum(exp(shifted), -1)), chosen)


def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: int = -1, name: str | None = None
) -> Tensor:
    """``-sum(labels * log_softmax(logits))`` along an axis.

    Args:
        labels: probabilities in the shape of the logits, converted to their dtype; gradients flow to them too.
        logits: floats ``[..., classes]``.
        axis: of the classes.

    A class of probability 0 adds nothing, even if its logit is ``-inf``.
    """
    x = as_float(like(logits, as_tensor(labels).type.dtype, strict=False))
    p = cast(like(labels, x.type.dtype), x.type.dtype)
    return composed(_losses, x, p, axis=axis)  # type: ignore[no-any-return]


def _losses(x: Tensor, p: Tensor, axis: int) -> Tensor:
    return negative(reduce_sum(multiply_no_nan(log_softmax(x, axis), p), axis))


def sigmoid_cross_entropy_with_logits(
    labels: TensorLike = None, logits: TensorLike = None, name: str | None = None
) -> Tensor:
    """``-z log(sigmoid(x)) - (1 - z) log(1 - sigmoid(x))`` for labels ``z`` and logits ``x``.

    Formula: ``max(x, 0) - x z + log1p(e ** -|x|)``; see `tapec.functions.elementary.softplus`.

    Raises:
        ValueError: the shapes differ.
    """
    z, x = converted(labels, logits)
    _require_same_shape(z, x)
    return composed(_sigmoid_losses, z, x)  # type: ignore[no-any-return]


def _sigmoid_losses(z: Tensor, x: Tensor) -> Tensor:
    below = less(x, 0)
    linear = subtract(where(below, 0, x), multiply(x, z))
    return add(linear, log1p(exp(where(below, x, negative(x)))))


def weighted_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, pos_weight: TensorLike, name: str | None = None
) -> Tensor:
    """The sigmoid cross-entropy with ``pos_weight`` times the loss of positive labels.

    Formula: ``(1 - z) x + (1 + (pos_weight - 1) z) softplus(-x)``.

    Raises:
        ValueError: the shapes differ.
    """
    z, x = converted(labels, logits)
    _require_same_shape(z, x)
    weight = add(1, multiply(subtract(like(pos_weight, x.type.dtype), 1), z))
    return add(multiply(subtract(1, z), x), multiply(weight, softplus(negative(x))))


def _require_same_shape(labels: Tensor, logits: Tensor) -> None:
    if not may_equal(labels.type.shape, logits.type.shape):
        raise ValueError(
            f"`logits` and `labels` must have the same shape, received ({logits.shape} vs "
            f"{labels.shape})",
            location=here(),
        )


def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """``sum(t ** 2) / 2``."""
    return multiply(reduce_sum(square(as_float(t))), 0.5)


def scale_regularization_loss(regularization_loss: TensorLike) -> Tensor:
    """The sum of a regularisation loss: tapec runs on one device."""
    return reduce_sum(regularization_loss)


def compute_average_loss(
    per_example_loss: TensorLike,
    sample_weight: TensorLike = None,
    global_batch_size: int | None = None,
) -> Tensor:
    """The sum of weighted losses divided by the batch size.

    Args:
        per_example_loss: losses, the batch first.
        sample_weight: factors that broadcast to the losses.
        global_batch_size: the divisor; the size of the first axis if None.
    """
    losses = as_float(per_example_loss)
    if sample_weight is not None:
        losses = multiply(losses, like(sample_weight, losses.type.dtype))
    if global_batch_size is None and not losses.type.rank:
        raise misfit("compute_average_loss: losses without a batch axis", "pass global_batch_size")
    size = losses.shape[0] if global_batch_size is None else global_batch_size
    return divide(reduce_sum(losses), size)
