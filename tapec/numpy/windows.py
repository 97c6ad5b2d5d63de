"""Windows: weights by which a frame of a signal fades in and out, as float32. ``M`` is their number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapec import arguments
from tapec.functions.known import static_value
from tapec.ir.types import F32
from tapec.tensor import Array, Tensor, TensorLike, as_tensor


def _window(weights: Callable[..., Array], M: TensorLike, *rest: TensorLike) -> Tensor:
    count = arguments.integer(static_value(M, "the number of weights"), "the number of weights")
    numbers = [arguments.number(static_value(v, "beta"), "beta") for v in rest]
    return as_tensor(weights(count, *numbers), F32)


def bartlett(M: TensorLike, /) -> Tensor:
    """A triangle from 0 to 1 and back."""
    return _window(np.bartlett, M)


def blackman(M: TensorLike, /) -> Tensor:
    """``0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))``."""
    return _window(np.blackman, M)


def hamming(M: TensorLike, /) -> Tensor:
    """``0.54 - 0.46 cos(2 pi n / (M - 1))``."""
    return _window(np.hamming, M)


def hanning(M: TensorLike, /) -> Tensor:
    """``0.5 - 0.5 cos(2 pi n / (M - 1))``."""
    return _window(np.hanning, M)


def kaiser(M: TensorLike, beta: TensorLike, /) -> Tensor:
    """``I0(beta sqrt(1 - (2 n / (M - 1) - 1)²)) / I0(beta)``, with the modified Bessel function ``I0``."""
    return _window(np.kaiser, M, beta)
