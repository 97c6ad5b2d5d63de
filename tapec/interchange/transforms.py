"""NumPy's Fourier transforms, with NumPy's parameters: any axes, lengths and factors, of real and complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tapec.functions.broadcasting import axis_of
from tapec.interchange.statistics import floats
from tapec.tensor import Tensor

Function = Callable[..., Any]


def _transform(name: str, a: Any, lengths: Any, axes: Any, norm: Any) -> Tensor:
    """A transform of `tapec.signal`, which is loaded when it is needed, along some axes; by default along all."""
    signal = import_module("tapec.functions.signals.fourier")
    x = floats(a)
    x = x if name.startswith("rfft") else signal.as_complex(x)
    rank = x.type.rank
    if axes is None:
        axes = range(rank) if lengths is None else range(rank - len(lengths), rank)
    places = [axis_of(n, rank) for n in axes]
    sizes = [x.type.shape[n] for n in places]
    if name.startswith("irfft"):
        sizes[-1] = 2 * (sizes[-1] - 1)
    given = sizes if lengths is None else lengths
    wanted = [s if n is None or n == -1 else n for n, s in zip(given, sizes, strict=True)]
    result: Tensor = getattr(signal, name)(x, wanted, places, norm)
    return result


def _along(name: str) -> Function:
    """Along one axis."""

    def transformed(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Tensor:
        return _transform(name, a, None if n is None else [n], [axis], norm)

    return transformed


def _planes(name: str) -> Function:
    """Along two axes."""

    def transformed(
        a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: Any = None
    ) -> Tensor:
        return _transform(name, a, s, axes, norm)

    return transformed


def _everywhere(name: str) -> Function:
    """Along any axes."""

    def transformed(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Tensor:
        return _transform(name, a, s, axes, norm)

    return transformed


def _shift(name: str) -> Function:
    """The halves of axes swapped."""

    def shifted(x: Any, axes: Any = None) -> Any:
        return getattr(import_module("tapec.functions.signals.fourier"), name)(x, axes)

    return shifted


TRANSFORMS: dict[Any, Function] = {
    np.fft.fft: _along("fftnd"),
    np.fft.ifft: _along("ifftnd"),
    np.fft.rfft: _along("rfftnd"),
    np.fft.irfft: _along("irfftnd"),
    np.fft.fft2: _planes("fftnd"),
    np.fft.ifft2: _planes("ifftnd"),
    np.fft.rfft2: _planes("rfftnd"),
    np.fft.irfft2: _planes("irfftnd"),
    np.fft.fftn: _everywhere("fftnd"),
    np.fft.ifftn: _everywhere("ifftnd"),
    np.fft.rfftn: _everywhere("rfftnd"),
    np.fft.irfftn: _everywhere("irfftnd"),
    np.fft.fftshift: _shift("fftshift"),
    np.fft.ifftshift: _shift("ifftshift"),
}
