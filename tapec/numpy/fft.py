"""The namespace ``tapec.numpy.fft``: discrete Fourier transforms along axes.

``n`` and ``s`` are lengths to which axes are cut or filled with 0. ``norm`` says where the factor is: ``backward`` in
the inverse transform, ``forward`` in the other one, ``ortho`` half in each. Gradients flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tapec.absences.names import namespace
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions import arithmetic
from tapec.functions.arithmetic import cast
from tapec.functions.broadcasting import axis_of, wrong_dtype
from tapec.functions.signals import fourier
from tapec.ir.types import F32, as_dtype
from tapec.numpy.creation import arange
from tapec.numpy.promotion import device_of, inexact
from tapec.tensor import Tensor, TensorLike, as_tensor

Axes = Sequence[int] | None
Lengths = Sequence[int] | None
_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _transformed(
    transform: Callable[..., Tensor], x: TensorLike, s: Any, axes: Any, norm: str
) -> Tensor:
    """A transform along axes, by default along all or the last ones."""
    tensor = inexact(x)
    if tensor.type.dtype.bits == 16:
        tensor = cast(tensor, F32)
    real = transform is fourier.rfftnd
    if real and tensor.type.dtype.is_complex:
        raise wrong_dtype(tensor.type.dtype, "real numbers")
    if norm not in _SWAPPED:
        raise ValueError(
            f"norm must be 'backward', 'ortho' or 'forward', got {norm!r}", location=here()
        )
    tensor = tensor if real else fourier.as_complex(tensor)
    rank = tensor.type.rank
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    places = [axis_of(a, rank) for a in axes]
    sizes = [tensor.type.shape[a] for a in places]
    if transform is fourier.irfftnd and sizes:
        sizes[-1] = 2 * (sizes[-1] - 1)
    given = sizes if s is None else s
    wanted = [size if n is None or n == -1 else n for n, size in zip(given, sizes, strict=True)]
    return transform(tensor, wanted, places, norm)


def fft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """``y[k] = sum of x[j] e ** (-2 pi i j k / n)`` along an axis."""
    return _transformed(fourier.fftnd, x, None if n is None else [n], [axis], norm)


def ifft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `fft`."""
    return _transformed(fourier.ifftnd, x, None if n is None else [n], [axis], norm)


def rfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """`fft` of real numbers: the first ``n // 2 + 1`` entries, of which the others are conjugates."""
    return _transformed(fourier.rfftnd, x, None if n is None else [n], [axis], norm)


def irfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfft`: ``n`` real numbers, by default ``2 (m - 1)`` of ``m`` complex ones."""
    return _transformed(fourier.irfftnd, x, None if n is None else [n], [axis], norm)


def hfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """`fft` of what is its own conjugate from behind, and given as by `rfft`: real numbers."""
    return irfft(
        arithmetic.conj(fourier.as_complex(inexact(x))), n=n, axis=axis, norm=_swapped(norm)
    )


def ihfft(
    x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `hfft`."""
    return arithmetic.conj(rfft(x, n=n, axis=axis, norm=_swapped(norm)))


def _swapped(norm: str) -> str:
    """With the factor in the other one of the two transforms; what is no norm stays, and is refused."""
    return _SWAPPED.get(norm, norm)


def fftn(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = None, norm: str = "backward"
) -> Tensor:
    """`fft` along axes, by default along all, or the last ones that ``s`` has lengths for."""
    return _transformed(fourier.fftnd, x, s, axes, norm)


def ifftn(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`."""
    return _transformed(fourier.ifftnd, x, s, axes, norm)


def rfftn(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = None, norm: str = "backward"
) -> Tensor:
    """`rfft` along the last of axes, `fft` along the others."""
    return _transformed(fourier.rfftnd, x, s, axes, norm)


def irfftn(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`."""
    return _transformed(fourier.irfftnd, x, s, axes, norm)


def fft2(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = (-2, -1), norm: str = "backward"
) -> Tensor:
    """`fftn` along two axes."""
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = (-2, -1), norm: str = "backward"
) -> Tensor:
    """The inverse of `fft2`."""
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = (-2, -1), norm: str = "backward"
) -> Tensor:
    """`rfftn` along two axes."""
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(
    x: TensorLike, /, *, s: Lengths = None, axes: Axes = (-2, -1), norm: str = "backward"
) -> Tensor:
    """The inverse of `rfft2`."""
    return irfftn(x, s=s, axes=axes, norm=norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the entries of `fft`, in cycles per unit of the distance ``d`` of samples."""
    device_of(device)
    target = F32 if dtype is None else as_dtype(dtype)
    line = arange(n, dtype=target)
    wrapped = arithmetic.where(arithmetic.less(line, (n + 1) // 2), line, line - n)
    return wrapped / (n * d)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the entries of `rfft`; see `fftfreq`."""
    device_of(device)
    return arange(n // 2 + 1, dtype=F32 if dtype is None else as_dtype(dtype)) / (n * d)


def fftshift(x: TensorLike, /, *, axes: Any = None) -> Tensor:
    """The halves of axes swapped, so that frequency 0 is in the middle."""
    return fourier.fftshift(as_tensor(x), axes)


def ifftshift(x: TensorLike, /, *, axes: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return fourier.ifftshift(as_tensor(x), axes)


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("numpy.fft")
