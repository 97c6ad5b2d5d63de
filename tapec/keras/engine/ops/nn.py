"""Keras' operations of networks; each stands in the module of its kind."""

from __future__ import annotations

from typing import Any

from keras.src.backend.common import standardize_dtype

import tapec
from tapec.keras.engine.activations import *
from tapec.keras.engine.attention import dot_product_attention as dot_product_attention
from tapec.keras.engine.conversion import convert_to_tensor, floating, promoted
from tapec.keras.engine.crossentropy import binary_crossentropy as binary_crossentropy
from tapec.keras.engine.crossentropy import categorical_crossentropy as categorical_crossentropy
from tapec.keras.engine.crossentropy import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from tapec.keras.engine.sequences import ctc_decode as ctc_decode
from tapec.keras.engine.sequences import ctc_loss as ctc_loss
from tapec.keras.engine.windows import *
from tapec.tensor import Tensor


def moments(
    x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False
) -> tuple[Tensor, Tensor]:
    """Mean and variance along axes; half floats in single ones, held to what they can be.

    Raises:
        NotImplementedError: ``synchronized``.
    """
    if synchronized:
        raise NotImplementedError(
            "Argument synchronized=True is not supported with tapec: there is one device."
        )
    x = floating(x)
    axes = list(axes) if isinstance(axes, tuple) else axes
    dtype = x.dtype
    if standardize_dtype(dtype) not in ("float16", "bfloat16"):
        return tuple(tapec.nn.moments(x, axes, keepdims=keepdims))  # type: ignore[return-value]
    found = tapec.nn.moments(tapec.cast(x, "float32"), axes, keepdims=keepdims)
    limit = tapec.float16.max
    return tuple(tapec.cast(tapec.clip_by_value(v, -limit, limit), dtype) for v in found)  # type: ignore[return-value]


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
    epsilon: float = 1e-3,
) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset``, for the entries of an axis."""
    x = floating(x)
    shape = [1] * x.type.rank
    shape[axis] = -1

    def aligned(value: Any) -> Tensor | None:
        if value is None:
            return None
        return tapec.reshape(convert_to_tensor(value, x.dtype.name), shape)

    return tapec.nn.batch_normalization(
        x, aligned(mean), aligned(variance), aligned(offset), aligned(scale), epsilon
    )


def psnr(x1: Any, x2: Any, max_val: float) -> Tensor:
    """The ratio of the greatest signal to the noise, in decibels.

    Raises:
        ValueError: the shapes differ.
    """
    a, b = map(floating, promoted(x1, x2))
    if a.shape != b.shape:
        raise ValueError(f"Input shapes {a.shape} and {b.shape} must match for PSNR calculation. ")
    error = tapec.reduce_mean(tapec.square(a - b))
    ratio = tapec.square(convert_to_tensor(max_val, b.dtype.name)) / error
    return tapec.math.log(ratio) * (10.0 / 2.302585092994046)
