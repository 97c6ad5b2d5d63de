"""Segments, spectra and other mathematics that Keras asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating, promoted
from tapec.keras.engine.elementwise import of_floats
from tapec.keras.engine.spectra import complex_of
from tapec.keras.engine.spectra import fft as fft
from tapec.keras.engine.spectra import fft2 as fft2
from tapec.keras.engine.spectra import ifft2 as ifft2
from tapec.keras.engine.spectra import irfft as irfft
from tapec.keras.engine.spectra import istft as istft
from tapec.keras.engine.spectra import rfft as rfft
from tapec.keras.engine.spectra import stft as stft
from tapec.tensor import Tensor

#: The name by which Keras' own operations ask for it.
_get_complex_tensor_from_tuple = complex_of

rsqrt = of_floats(tapec.math.rsqrt)
erf = of_floats(tapec.math.erf)
erfc = of_floats(tapec.math.erfc)
erfinv = of_floats(tapec.math.erfinv)
logdet = of_floats(tapec.linalg.logdet)


def _segments(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Combines the entries of the first axis by the number of their segment."""

    def applied(
        data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
    ) -> Tensor:
        numbers = convert_to_tensor(segment_ids)
        if numbers.dtype.name not in ("int32", "int64"):
            numbers = tapec.cast(numbers, "int32")
        count: Any = num_segments
        if count is None:
            count = tapec.cast(tapec.reduce_max(numbers) + 1, "int32")
        return function(convert_to_tensor(data), numbers, count)

    return applied


def _endless(function: Callable[..., Tensor], sign: int) -> Callable[..., Tensor]:
    """An extreme that is infinite for floats where a segment is empty; TensorFlow's is the last finite number."""

    def applied(data: Tensor, numbers: Tensor, count: Any) -> Tensor:
        found = function(data, numbers, count)
        if not found.dtype.is_floating:
            return found
        last = tapec.constant(sign * found.dtype.max, found.dtype)
        return tapec.where(
            tapec.equal(found, last), tapec.constant(sign * math.inf, found.dtype), found
        )

    return applied


segment_sum = _segments(tapec.math.unsorted_segment_sum)
segment_max = _segments(_endless(tapec.math.unsorted_segment_max, -1))
segment_min = _segments(_endless(tapec.math.unsorted_segment_min, 1))
segment_prod = _segments(tapec.math.unsorted_segment_prod)


def top_k(x: Any, k: int, sorted: bool = True) -> Any:
    """The greatest entries of the last axis, and where they are."""
    return tapec.math.top_k(convert_to_tensor(x), k, sorted)


def in_top_k(targets: Any, predictions: Any, k: int) -> Tensor:
    """Whether the class of each row is among its ``k`` greatest predictions."""
    found = convert_to_tensor(targets)
    if found.dtype.name not in ("int32", "int64"):
        found = tapec.cast(found, "int32")
    rows = tapec.cast(floating(predictions), "float32")
    shape = tapec.shape(found)
    flat = tapec.math.in_top_k(
        tapec.reshape(found, [-1]), tapec.reshape(rows, [-1, tapec.shape(rows)[-1]]), k
    )
    return tapec.reshape(flat, shape)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials along axes."""
    axes = list(axis) if isinstance(axis, tuple) else axis
    return tapec.reduce_logsumexp(floating(x), axes, keepdims)


def cdist(x: Any, y: Any) -> Tensor:
    """The distance of each row of ``x`` from each of ``y``.

    Raises:
        ValueError: there are no rows, or they differ in length.
    """
    a, b = map(floating, promoted(x, y))
    if a.type.rank < 2 or b.type.rank < 2:
        raise ValueError("`cdist` inputs must have rank >= 2")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("Last dimension of inputs to `cdist` must match")
    off = tapec.expand_dims(a, -2) - tapec.expand_dims(b, -3)
    return tapec.sqrt(tapec.reduce_sum(tapec.square(off), -1))


def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Tensor:
    """The windows of the last axis."""
    return tapec.signal.frame(convert_to_tensor(x), sequence_length, sequence_stride)
