"""Signals in frames: short-time Fourier transforms and back, lapped cosine transforms, the mel scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast, divide, multiply, square, subtract
from tapec.functions.broadcasting import axis_of, misfit
from tapec.functions.indexing import gather
from tapec.functions.known import static_integer, static_value
from tapec.functions.rearrangement import concat, pad, part, reshape, reverse, split, tile
from tapec.functions.reductions import reduce_sum
from tapec.functions.signals.cosine import dct, idct
from tapec.functions.signals.fourier import fitted, irfft, rfft
from tapec.functions.signals.windows import hann_window, vorbis_window
from tapec.ir.dims import Dim
from tapec.ir.types import F32, I32, DType, as_dtype
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

#: Weights of a frame, from its length; called with the keyword ``dtype``.
Window = Callable[..., Tensor]


def frame(
    signal: TensorLike,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: Any = -1,
    name: str | None = None,
) -> Tensor:
    """Windows of a signal, which may overlap.

    Args:
        signal: ``[..., samples, ...]``, the samples along ``axis``.
        frame_length: samples of a frame.
        frame_step: samples from one frame to the next.
        pad_end: whether frames that reach beyond the end are filled up with ``pad_value``, not dropped.
        pad_value: a number.
        axis: the axis.

    Returns:
        ``[..., frames, frame_length, ...]``.

    Raises:
        ValueError: the signal is a scalar.
    """
    x = as_tensor(signal)
    if not x.type.rank:
        raise ValueError("The signal must have at least one axis, got a scalar.", location=here())
    at = axis_of(static_value(axis, "axis"), x.type.rank)
    length, step = _number(frame_length, "frame_length"), _number(frame_step, "frame_step")
    size = x.type.shape[at]
    if not isinstance(size, int):
        raise misfit(f"frame needs a size that is known, got {size}")
    if arguments.flag(pad_end, "pad_end"):
        count = -(-size // step)
        missing = max(0, length + step * (count - 1) - size)
        ends = [(0, missing if a == at else 0) for a in range(x.type.rank)]
        x = pad(x, ends, constant_values=pad_value)
    else:
        count = max(0, 1 + (size - length) // step)
    places = np.arange(count)[:, None] * step + np.arange(length)
    return gather(x, places.astype(np.int32), axis=at)


def overlap_and_add(signal: TensorLike, frame_step: Any, name: str | None = None) -> Tensor:
    """A signal from overlapping frames: they are added.

    Args:
        signal: ``[..., frames, frame_length]``.
        frame_step: samples from one frame to the next.

    Returns:
        ``[..., (frames - 1) * frame_step + frame_length]``.

    Raises:
        ValueError: the signal has fewer than two axes.
    """
    x, step = as_tensor(signal), _number(frame_step, "frame_step")
    if x.type.rank < 2:
        message = f"The signal must be [..., frames, frame_length], got {x.type}."
        raise ValueError(message, location=here())
    *lead, count, length = x.type.shape
    if not isinstance(count, int) or not isinstance(length, int):
        raise misfit(f"overlap_and_add needs sizes that are known, got {x.type}")
    places = np.arange(count)[:, None] * step + np.arange(length)
    shape = (*lead, max(0, (count - 1) * step + length) if count else 0)
    indices = as_tensor(places, I32)
    added: Tensor = apply("scatter_add", indices, x, shape=shape, axis=len(lead), batch_dims=0)
    return added


# -- short-time Fourier transforms


def stft(
    signals: TensorLike,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """The `rfft` of each frame of a signal.

    Args:
        signals: float32 or float64, ``[..., samples]``.
        frame_length: samples of a frame.
        frame_step: samples from one frame to the next.
        fft_length: the length of the transforms; by default the power of 2 that is not below ``frame_length``.
        window_fn: weights of a frame, from its length; None for none.
        pad_end: as in `frame`.

    Returns:
        Complex, ``[..., frames, fft_length // 2 + 1]``.
    """
    length = _number(frame_length, "frame_length")
    framed = frame(signals, length, frame_step, pad_end=pad_end)
    if window_fn is not None:
        framed = multiply(framed, _weights(window_fn, "window_fn", length, framed.dtype))
    return rfft(framed, [_transform_length(fft_length, length)])


def inverse_stft(
    stfts: TensorLike,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """A signal from the transforms of its frames; exact with the window of `inverse_stft_window_fn`.

    Args:
        stfts: complex, ``[..., frames, fft_length // 2 + 1]``.
        frame_length: samples of a frame.
        frame_step: samples from one frame to the next.
        fft_length: the length of the transforms; by default the power of 2 that is not below ``frame_length``.
        window_fn: weights of a frame, from its length; None for none.

    Returns:
        ``[..., samples]``.
    """
    length = _number(frame_length, "frame_length")
    framed = irfft(stfts, [_transform_length(fft_length, length)])
    framed = fitted(framed, framed.type.rank - 1, length)
    if window_fn is not None:
        framed = multiply(framed, _weights(window_fn, "window_fn", length, framed.dtype))
    return overlap_and_add(framed, frame_step)


def inverse_stft_window_fn(
    frame_step: Any, forward_window_fn: Window = hann_window, name: str | None = None
) -> Window:
    """The window with which `inverse_stft` undoes `stft`: the forward one by the sum of its squares at each sample.

    Source: Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984.
    """
    step = _number(frame_step, "frame_step")

    def window(frame_length: Any, dtype: Any = F32) -> Tensor:
        length = _number(frame_length, "frame_length")
        forward = _weights(forward_window_fn, "forward_window_fn", length, as_dtype(dtype))
        overlaps = -(-length // step)
        squares = pad(square(forward), [(0, overlaps * step - length)])
        sums = reduce_sum(reshape(squares, [overlaps, step]), axis=0, keepdims=True)
        everywhere = reshape(tile(sums, [overlaps, 1]), [overlaps * step])
        return divide(forward, part(everywhere, 0, 0, length))

    return window


def _transform_length(fft_length: Any, frame_length: int) -> int:
    if fft_length is not None:
        return _number(fft_length, "fft_length")
    return 1 << max(frame_length - 1, 0).bit_length()


def _number(value: Any, what: str) -> int:
    number = static_integer(value, what)
    if isinstance(number, Dim) or not 0 <= number < 2**31:
        raise misfit(f"{what} must be a number in [0, 2**31) that is known, got {number}")
    return int(number)


def _real(value: Any, what: str) -> float:
    return float(arguments.number(static_value(value, what), what))


# -- lapped cosine transforms


def mdct(
    signals: TensorLike,
    frame_length: Any,
    window_fn: Window | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The modified cosine transform: frames that overlap by half, folded to half their length, then `dct` of type 4.

    Args:
        signals: float32 or float64, ``[..., samples]``.
        frame_length: samples of a frame, a multiple of 4.
        window_fn: weights of a frame, from its length; None for ``1 / sqrt(2)``.
        pad_end: as in `frame`.
        norm: as in `dct`.

    Returns:
        ``[..., frames, frame_length // 2]``.

    Raises:
        ValueError: the length is no multiple of 4, or the norm has another value.
    """
    length = _number(frame_length, "frame_length")
    if length % 4:
        message = f"The frame length must be a multiple of 4, got {length}."
        raise ValueError(message, location=here())
    framed = frame(signals, length, length // 2, pad_end=pad_end)
    a, b, c, d = split(_weighted(framed, length, window_fn), 4, axis=-1)
    last = framed.type.rank - 1
    first = subtract(multiply(reverse(c, [last]), -1), d)
    return dct(concat([first, subtract(a, reverse(b, [last]))], last), type=4, norm=norm)


def inverse_mdct(
    mdcts: TensorLike,
    window_fn: Window | None = vorbis_window,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `mdct`, but for the first and last half of a frame."""
    x = as_tensor(mdcts)
    half = x.type.shape[-1] if x.type.rank else 0
    if not isinstance(half, int) or half % 2 or not half:
        raise misfit(f"inverse_mdct needs a size that is known and even, got {half}")
    unfolded = idct(x, type=4, norm=norm)
    if norm is None:
        unfolded = multiply(unfolded, 0.5 / half)
    last = x.type.rank - 1
    front, back = split(unfolded, 2, axis=-1)
    minus = multiply(front, -1)
    parts = [back, multiply(reverse(back, [last]), -1), reverse(minus, [last]), minus]
    return overlap_and_add(_weighted(concat(parts, last), 2 * half, window_fn), half)


def _weighted(framed: Tensor, length: int, window_fn: Window | None) -> Tensor:
    if window_fn is None:
        return multiply(framed, 0.5**0.5)
    return multiply(framed, _weights(window_fn, "window_fn", length, framed.dtype))


def _weights(window: Window, what: str, length: int, dtype: DType) -> Any:
    """What the caller's function gives for the length of a frame.

    Raises:
        TypeError: it is no function, or takes no length and dtype.
    """
    return arguments.function(window, what, length, dtype=dtype)(length, dtype=dtype)


# -- the mel scale


def linear_to_mel_weight_matrix(
    num_mel_bins: Any = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: Any = 125.0,
    upper_edge_hertz: Any = 3800.0,
    dtype: Any = F32,
    name: str | None = None,
) -> Tensor:
    """The matrix by which a spectrogram, ``[..., num_spectrogram_bins]``, becomes bands of equal width for the ear.

    A frequency is ``1127 log(1 + hertz / 700)`` mel; the bands are triangles that overlap by half.

    Returns:
        ``[num_spectrogram_bins, num_mel_bins]``.

    Raises:
        ValueError: numbers that make no bands.
    """
    bins, lines = _number(num_mel_bins, "num_mel_bins"), _number(num_spectrogram_bins, "bins")
    rate = _real(sample_rate, "sample_rate")
    lower = _real(lower_edge_hertz, "lower_edge_hertz")
    upper = _real(upper_edge_hertz, "upper_edge_hertz")
    _require_bands(bins, rate, lower, upper, dtype)
    edges = np.linspace(_mel(lower), _mel(upper), bins + 2)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    # Frequency 0 is in no band.
    mels = _mel(np.linspace(0.0, rate / 2, lines)[1:, None])
    rising, falling = (mels - low) / (middle - low), (high - mels) / (high - middle)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    return cast(as_tensor(np.pad(weights, [(1, 0), (0, 0)])), as_dtype(dtype))


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


def _require_bands(bins: int, rate: float, lower: float, upper: float, dtype: Any) -> None:
    wrong = None
    if bins <= 0:
        wrong = f"num_mel_bins must be positive. Got: {bins}"
    elif lower < 0:
        wrong = f"lower_edge_hertz must be non-negative. Got: {lower}"
    elif lower >= upper:
        wrong = f"lower_edge_hertz {lower} >= upper_edge_hertz {upper}"
    elif rate <= 0:
        wrong = f"sample_rate must be positive. Got: {rate}"
    elif upper > rate / 2:
        wrong = f"upper_edge_hertz must not be larger than the Nyquist frequency. Got {upper} for {rate}"
    elif not as_dtype(dtype).is_floating:
        wrong = f"dtype must be a floating point type. Got: {dtype}"
    if wrong is not None:
        raise ValueError(wrong, location=here())


def mfccs_from_log_mel_spectrograms(
    log_mel_spectrograms: TensorLike, name: str | None = None
) -> Tensor:
    """The cepstral coefficients: `dct` of type 2, by ``sqrt(2 bins)``.

    Raises:
        ValueError: there are no bins.
    """
    x = as_tensor(log_mel_spectrograms)
    bins = x.type.shape[-1] if x.type.rank else 0
    if not isinstance(bins, int) or bins == 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {bins}", location=here())
    return multiply(dct(x, type=2), (2.0 * bins) ** -0.5)
