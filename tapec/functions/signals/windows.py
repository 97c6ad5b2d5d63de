"""Window functions: weights by which a frame of a signal fades in and out."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast
from tapec.functions.broadcasting import misfit
from tapec.functions.known import static_integer, static_value
from tapec.ir.dims import Dim
from tapec.ir.types import F32, as_dtype
from tapec.tensor import Tensor, as_tensor


def hann_window(
    window_length: Any, periodic: Any = True, dtype: Any = F32, name: str | None = None
) -> Tensor:
    """``0.5 - 0.5 cos(2 pi n / N)``.

    Args:
        window_length: how many weights.
        periodic: whether N is the length, so that frames add up; else it is one less. An odd length is never periodic,
            as in TensorFlow.
        dtype: a float dtype.

    Raises:
        ValueError: the dtype is no float.
    """
    return _raised_cosine(window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(
    window_length: Any, periodic: Any = True, dtype: Any = F32, name: str | None = None
) -> Tensor:
    """``0.54 - 0.46 cos(2 pi n / N)``; see `hann_window`."""
    return _raised_cosine(window_length, periodic, dtype, 0.54, 0.46)


def kaiser_window(
    window_length: Any, beta: Any = 12.0, dtype: Any = F32, name: str | None = None
) -> Tensor:
    """``I0(beta sqrt(1 - (2 n / (N - 1) - 1)²)) / I0(beta)``, with the modified Bessel function ``I0``."""
    return _weights(
        np.kaiser(_length(window_length), arguments.number(static_value(beta, "beta"), "beta")),
        dtype,
    )


def kaiser_bessel_derived_window(
    window_length: Any, beta: Any = 12.0, dtype: Any = F32, name: str | None = None
) -> Tensor:
    """The roots of the running sums of a `kaiser_window` of half the length, up and down again."""
    if not _length(window_length):
        return _weights(np.zeros(0), dtype)
    sums = np.cumsum(
        np.kaiser(
            _length(window_length) // 2 + 1, arguments.number(static_value(beta, "beta"), "beta")
        )
    )
    rising = np.sqrt(sums[:-1] / sums[-1])
    return _weights(np.concatenate([rising, rising[::-1]]), dtype)


def vorbis_window(window_length: Any, dtype: Any = F32, name: str | None = None) -> Tensor:
    """``sin(pi / 2 sin²(pi (n + 1/2) / N))``."""
    length = _length(window_length)
    middle = np.sin(np.pi / max(length, 1) * (np.arange(length) + 0.5))
    return _weights(np.sin(np.pi / 2 * middle**2), dtype)


def _raised_cosine(
    window_length: Any, periodic: Any, dtype: Any, mean: float, swing: float
) -> Tensor:
    length = _length(window_length)
    if length == 1:
        return _weights(np.ones(1), dtype)
    longer = bool(static_value(periodic, "periodic")) and length % 2 == 0
    turns = np.arange(length) / (length - (not longer))
    return _weights(mean - swing * np.cos(2 * np.pi * turns), dtype)


def _length(window_length: Any) -> int:
    length = static_integer(window_length, "window_length")
    if isinstance(length, Dim) or not 0 <= length < 2**31:
        raise misfit(f"window_length must be a number in [0, 2**31) that is known, got {length}")
    return int(length)


def _weights(values: Any, dtype: Any) -> Tensor:
    target = as_dtype(dtype)
    if not target.is_floating:
        message = f"`dtype` must be a floating point type. Got: {target!r}"
        raise ValueError(message, location=here())
    return cast(as_tensor(values), target)
