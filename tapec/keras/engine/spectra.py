"""Fourier transforms of pairs of real and imaginary parts, as Keras has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating
from tapec.tensor import Tensor

Pair = tuple[Tensor, Tensor]


def complex_of(x: Any) -> Tensor:
    """The complex tensor of a pair of parts.

    Raises:
        ValueError: it is no pair of floats of one shape.
    """
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise ValueError(
            f"Input `x` should be a tuple of two tensors - real and imaginary. Received: x={x}"
        )
    real, imag = map(convert_to_tensor, x)
    if real.shape != imag.shape:
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary. Both the real and imaginary parts "
            f"should have the same shape. Received: x[0].shape = {real.shape}, x[1].shape = {imag.shape}"
        )
    if not real.dtype.is_floating or not imag.dtype.is_floating:
        raise ValueError(f"At least one tensor in input `x` is not of type float. Received: x={x}.")
    return tapec.complex(real, imag)


def _parts(z: Tensor) -> Pair:
    return tapec.math.real(z), tapec.math.imag(z)


def fft(x: Any) -> Pair:
    """The transform along the last axis."""
    return _parts(tapec.signal.fft(complex_of(x)))


def fft2(x: Any) -> Pair:
    """The transform along the last two axes."""
    return _parts(tapec.signal.fft2d(complex_of(x)))


def ifft2(x: Any) -> Pair:
    """The inverse of `fft2`."""
    return _parts(tapec.signal.ifft2d(complex_of(x)))


def rfft(x: Any, fft_length: int | None = None) -> Pair:
    """The half of the transform of real numbers that says all, along the last axis."""
    lengths = None if fft_length is None else [fft_length]
    return _parts(tapec.signal.rfft(floating(x), lengths))


def irfft(x: Any, fft_length: int | None = None) -> Tensor:
    """The inverse of `rfft`."""
    lengths = None if fft_length is None else [fft_length]
    return tapec.signal.irfft(complex_of(x), lengths)


def _window(window: Any, length: int, whole: int, dtype: Any) -> Tensor | None:
    """The weights of a frame, amid zeros up to the length of the transform.

    Raises:
        ValueError: an unknown name, or weights of another length.
    """
    if window is None:
        return None
    if isinstance(window, str):
        kinds: dict[str, Callable[..., Tensor]] = {
            "hann": tapec.signal.hann_window,
            "hamming": tapec.signal.hamming_window,
        }
        if window not in kinds:
            raise ValueError(
                'If a string is passed to `window`, it must be one of `"hann"`, `"hamming"`. '
                f"Received: window={window}"
            )
        weights = kinds[window](length, periodic=True, dtype=dtype)
    else:
        weights = convert_to_tensor(window, dtype.name)
    if weights.type.shape != (length,):
        raise ValueError(
            "The shape of `window` must be equal to [sequence_length]. "
            f"Received: window shape={weights.shape}"
        )
    before = (whole - length) // 2
    return tapec.pad(weights, [[before, whole - length - before]])


def stft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Any = "hann",
    center: bool = True,
) -> Pair:
    """The transforms of windows along the last axis.

    Raises:
        TypeError: the input is neither float32 nor float64.
        ValueError: the transform is shorter than the window; see also `_window`.
    """
    x = convert_to_tensor(x)
    if x.dtype.name not in ("float32", "float64"):
        raise TypeError(
            f"Invalid input type. Expected `float32` or `float64`. Received: input type={x.dtype.name}"
        )
    if fft_length < sequence_length:
        raise ValueError(
            "`fft_length` must equal or larger than `sequence_length`. Received: "
            f"sequence_length={sequence_length}, fft_length={fft_length}"
        )
    weights = _window(window, sequence_length, fft_length, x.dtype)
    if center:
        half = fft_length // 2
        x = tapec.pad(x, [[0, 0]] * (x.type.rank - 1) + [[half, half]], "REFLECT")
    frames = tapec.signal.frame(x, fft_length, sequence_stride)
    if weights is not None:
        frames = frames * weights
    return _parts(tapec.signal.rfft(frames, [fft_length]))


def istft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    length: int | None = None,
    window: Any = "hann",
    center: bool = True,
) -> Tensor:
    """The signal whose windows have these transforms; overlaps are weighted so that `stft` is undone."""
    frames = tapec.signal.irfft(complex_of(x), [fft_length])
    weights = _window(window, sequence_length, fft_length, frames.dtype)
    if weights is not None:
        inverse = tapec.signal.inverse_stft_window_fn(sequence_stride, lambda *_, **__: weights)
        frames = frames * inverse(fft_length, dtype=frames.dtype)
    signal = tapec.signal.overlap_and_add(frames, sequence_stride)
    start = fft_length // 2 if center else 0
    if length is not None:
        return signal[..., start : start + length]
    return signal[..., start:-start] if center else signal
