"""Transforms, frames and windows of signals: against NumPy and SciPy, and what TensorFlow 2.21 printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
from both_ways import slope
from traced import traced_results

import tapec
from tapec import signal
from tapec.compiler import compile_module
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module
from tapec.ir.types import C64, C128, DType, TensorType

Array = Any
rng = np.random.default_rng(0)


def reals(*shape: int) -> Array:
    return rng.normal(size=shape)


def numbers(*shape: int) -> Array:
    return reals(*shape) + 1j * reals(*shape)


def cut(x: Array, size: int) -> Array:
    return np.fft.irfft(x, size)


# Ours, theirs, and the operands.
TRANSFORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Array]] = {
    "fft": (signal.fft, np.fft.fft, numbers(2, 6)),
    "fft of a large prime": (signal.fft, np.fft.fft, numbers(17)),
    "ifft": (signal.ifft, np.fft.ifft, numbers(2, 5)),
    "fft2d": (signal.fft2d, np.fft.fft2, numbers(2, 3, 4)),
    "ifft2d": (signal.ifft2d, np.fft.ifft2, numbers(3, 4)),
    "fft3d": (signal.fft3d, np.fft.fftn, numbers(2, 3, 4)),
    "ifft3d": (signal.ifft3d, np.fft.ifftn, numbers(2, 3, 2)),
    "rfft": (signal.rfft, np.fft.rfft, reals(2, 6)),
    "rfft odd": (signal.rfft, np.fft.rfft, reals(5)),
    "rfft longer": (lambda x: signal.rfft(x, [8]), lambda x: np.fft.rfft(x, 8), reals(2, 5)),
    "rfft shorter": (lambda x: signal.rfft(x, [4]), lambda x: np.fft.rfft(x, 4), reals(2, 5)),
    "rfft2d": (signal.rfft2d, np.fft.rfft2, reals(2, 3, 4)),
    "rfft3d": (signal.rfft3d, np.fft.rfftn, reals(2, 3, 4)),
    "irfft": (signal.irfft, np.fft.irfft, numbers(2, 4)),
    "irfft odd": (lambda x: signal.irfft(x, [7]), lambda x: cut(x, 7), numbers(2, 4)),
    "irfft shorter": (lambda x: signal.irfft(x, [4]), lambda x: cut(x, 4), numbers(2, 4)),
    "irfft of one": (lambda x: signal.irfft(x, [1]), lambda x: cut(x, 1), numbers(1)),
    "irfft2d": (signal.irfft2d, np.fft.irfft2, numbers(2, 3, 4)),
    "irfft3d": (signal.irfft3d, np.fft.irfftn, numbers(2, 3, 3)),
    "fftnd": (
        lambda x: signal.fftnd(x, [4, 2], [0, 2], "ortho"),
        lambda x: np.fft.fftn(x, [4, 2], [0, 2], "ortho"),
        numbers(3, 2, 3),
    ),
    "ifftnd": (
        lambda x: signal.ifftnd(x, norm="forward"),
        lambda x: np.fft.ifftn(x, norm="forward"),
        numbers(3, 2),
    ),
    "rfftnd": (
        lambda x: signal.rfftnd(x, axes=[1, 0], norm="forward"),
        lambda x: np.fft.rfftn(x, axes=[1, 0], norm="forward"),
        reals(3, 2),
    ),
    "irfftnd": (
        lambda x: signal.irfftnd(x, [4, 2], [0, 1], "ortho"),
        lambda x: np.fft.irfftn(x, [4, 2], [0, 1], "ortho"),
        numbers(3, 3, 2),
    ),
    "fftshift": (signal.fftshift, np.fft.fftshift, reals(3, 4)),
    "ifftshift": (
        lambda x: signal.ifftshift(x, 0),
        lambda x: np.fft.ifftshift(x, 0),
        reals(3, 4),
    ),
    **{
        f"{'i' if inverse else ''}dct {kind} {norm}": (
            lambda x, f=(signal.idct if inverse else signal.dct), k=kind, n=norm: f(x, k, norm=n),
            lambda x, i=inverse, k=kind, n=norm: scipy.fft.dct(
                x, {2: 3, 3: 2}.get(k, k) if i else k, norm=n
            ),
            reals(2, 5),
        )
        for kind in (1, 2, 3, 4)
        for norm in (None, "ortho")
        for inverse in (False, True)
        if norm is None or kind > 1
    },
    "dct longer": (lambda x: signal.dct(x, n=8), lambda x: scipy.fft.dct(x, n=8), reals(2, 5)),
    "overlap_and_add": (
        lambda x: signal.overlap_and_add(x, 2),
        lambda x: sum(np.pad(x[:, f], [(0, 0), (2 * f, 4 - 2 * f)]) for f in range(3)),
        reals(2, 3, 3),
    ),
    "frame": (
        lambda x: signal.frame(x, 3, 2, axis=0),
        lambda x: np.stack([x[i : i + 3] for i in (0, 2, 4)]),
        reals(8, 2),
    ),
    "frame padded": (
        lambda x: signal.frame(x, 3, 2, pad_end=True, pad_value=1.5),
        lambda x: np.stack([np.append(x, [1.5, 1.5])[i : i + 3] for i in (0, 2, 4)]),
        reals(5),
    ),
    "stft": (
        lambda x: signal.stft(x, 5, 3, window_fn=None),
        lambda x: np.stack([np.fft.rfft(x[:, i : i + 5], 8) for i in (0, 3, 6)], 1),
        reals(2, 12),
    ),
    "mdct and back": (
        lambda x: signal.inverse_mdct(signal.mdct(x, 8))[..., 4:-4],
        lambda x: x[..., 4:-4],
        reals(2, 20),
    ),
    "stft and back": (
        lambda x: signal.inverse_stft(
            signal.stft(x, 8, 2), 8, 2, window_fn=signal.inverse_stft_window_fn(2)
        )[..., 6:-6],
        lambda x: x[..., 6:-6],
        reals(2, 20),
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values(name: str) -> None:
    """Eager, and compiled."""
    ours, theirs, x = TRANSFORMS[name]
    expected = theirs(x)
    for found in (ours(tapec.constant(x)).numpy(), traced_results(ours, [x])[0]):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_precision_stays_single(name: str) -> None:
    ours, theirs, x = TRANSFORMS[name]
    narrow = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)
    found = ours(tapec.constant(narrow)).numpy()
    assert found.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(found, theirs(x), rtol=1e-4, atol=1e-4)


def on_reals(f: Callable[..., Any], x: Array) -> tuple[Callable[..., Any], list[Array]]:
    """A function of real operands with a real result, from one of complex numbers."""
    weights = reals(50)

    def real(*parts: Any) -> Any:
        y = f(tapec.complex(*parts) if len(parts) == 2 else parts[0])
        if y.dtype.is_complex:
            y = tapec.concat([tapec.math.real(y), tapec.math.imag(y)], 0)
        y = tapec.reshape(y, [-1])
        return y * y * weights[: y.shape[0]]

    return real, [x.real, x.imag] if np.iscomplexobj(x) else [x]


@pytest.mark.parametrize("name", [n for n in TRANSFORMS if n != "stft"])
def test_gradients(name: str) -> None:
    """First and second, as of pairs of reals."""
    ours, _, x = TRANSFORMS[name]
    f, operands = on_reals(ours, x)
    check_gradients(f, operands, rtol=1e-6, atol=1e-7)
    check_gradients(slope(f), operands, rtol=1e-5, atol=1e-6)


def native(x: Array, dtype: DType, inverse: bool) -> Array:
    """The transform in native code."""
    function = Function("f", [TensorType(dtype, x.shape)])
    b = Builder(function.block)
    b.emit("return", b.fft(function.args[0], inverse=inverse))
    return compile_module(Module([function]))(x)[0]


@pytest.mark.parametrize("size", [1, 2, 3, 9, 11, 13, 16, 17, 30, 64, 91, 97, 100, 343, 1024])
@pytest.mark.parametrize("dtype", [C128, C64], ids=str)
def test_native_transforms_are_as_accurate_as_numpy(size: int, dtype: DType) -> None:
    """Within a few roundings of the largest element, for sizes of each kind."""
    x = numbers(2, size).astype(dtype.numpy)
    epsilon = np.finfo(dtype.real_dtype.numpy).eps
    exact = x.astype(np.complex128)
    for inverse in (False, True):
        expected = np.fft.ifft(exact, norm="forward") if inverse else np.fft.fft(exact)
        error = np.abs(native(x, dtype, inverse) - expected).max() / np.abs(expected).max()
        assert error < 8 * epsilon


def test_nothing_is_transformed() -> None:
    for shape in ((2, 0), (0, 3)):
        assert signal.fft(np.zeros(shape, np.complex64)).shape == shape
    assert tapec.compile(signal.ifft)(tapec.zeros([0, 3], tapec.complex64)).shape == (0, 3)
    assert signal.rfft(np.zeros((0, 3))).shape == (0, 2)
    assert signal.frame(tapec.zeros([3]), 5, 2).shape == (0, 5)
    assert signal.overlap_and_add(tapec.zeros([0, 5]), 2).shape == (0,)


def test_windows() -> None:
    """TensorFlow's figures: an odd length is never periodic."""
    expected: list[tuple[Any, list[float]]] = [
        (signal.hann_window(4), [0.0, 0.5, 1.0, 0.5]),
        (signal.hann_window(5), [0.0, 0.5, 1.0, 0.5, 0.0]),
        (signal.hann_window(3, periodic=False), [0.0, 1.0, 0.0]),
        (signal.hann_window(1), [1.0]),
        (signal.hamming_window(4), [0.08, 0.54, 1.0, 0.54]),
        (signal.kaiser_window(3, 2.0), [0.43867627, 1.0, 0.43867627]),
        (
            signal.kaiser_bessel_derived_window(4, 2.0),
            [0.48339167, 0.8754042, 0.8754042, 0.48339167],
        ),
        (signal.vorbis_window(4), [0.22801436, 0.9736578, 0.9736578, 0.22801416]),
    ]
    for window, values in expected:
        assert window.dtype == tapec.float32
        np.testing.assert_allclose(window.numpy(), values, rtol=2e-6, atol=1e-7)


def test_mel_scale() -> None:
    """TensorFlow's figures."""
    bands = signal.linear_to_mel_weight_matrix(2, 5, 8000, 100.0, 3000.0)
    expected = [[0.0, 0.0], [0.52344096, 0.47655907], [0.0, 0.6172104], [0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(bands.numpy(), expected, rtol=1e-5)
    found = signal.mfccs_from_log_mel_spectrograms([1.0, 2.0, 4.0])
    np.testing.assert_allclose(found.numpy(), [5.715476, -2.1213202, 0.40824834], rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: signal.fft(tapec.ones([3])), InvalidArgumentError),
        (lambda: signal.fft(tapec.constant(1j)), InvalidArgumentError),
        (lambda: signal.rfft(tapec.constant([1j])), InvalidArgumentError),
        (lambda: signal.rfft(tapec.ones([3]), [3, 3]), InvalidArgumentError),
        (lambda: signal.fft2d(tapec.constant([1j])), InvalidArgumentError),
        (lambda: signal.fftnd(tapec.constant([1j]), norm="none"), ValueError),
        (lambda: signal.dct(tapec.ones([3]), 5), ValueError),
        (lambda: signal.dct(tapec.ones([3]), 1, norm="ortho"), ValueError),
        (lambda: signal.dct(tapec.ones([1]), 1), ValueError),
        (lambda: signal.dct(tapec.ones([3]), norm="forward"), ValueError),
        (lambda: signal.dct(tapec.ones([3]), n=0), ValueError),
        (lambda: signal.dct(tapec.ones([3, 3]), axis=0), NotImplementedError),
        (lambda: signal.frame(1.0, 3, 1), ValueError),
        (lambda: signal.overlap_and_add(tapec.ones([3]), 1), ValueError),
        (lambda: signal.mdct(tapec.ones([20]), 6), ValueError),
        (lambda: signal.hann_window(4, dtype=tapec.int32), ValueError),
        (lambda: signal.linear_to_mel_weight_matrix(upper_edge_hertz=1e9), ValueError),
        (lambda: signal.mfccs_from_log_mel_spectrograms(tapec.ones([0])), ValueError),
    ],
)
def test_is_refused(call: Callable[[], Any], error: type[Exception]) -> None:
    """With TensorFlow's classes."""
    with pytest.raises(error):
        call()
