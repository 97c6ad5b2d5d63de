"""Discrete cosine transforms, which are parts of Fourier transforms of twice the size."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import NotImplementedError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import multiply, real
from tapec.functions.broadcasting import misfit
from tapec.functions.known import as_dim
from tapec.functions.rearrangement import concat, part, reverse
from tapec.functions.signals.fourier import as_complex, as_real, fitted, rfft
from tapec.tensor import Tensor, TensorLike, apply


def dct(
    input: TensorLike,
    type: int = 2,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The discrete cosine transform along the last axis.

    Type 1 is ``x[0] + (-1)^k x[N-1] + 2 sum of x[n] cos(pi k n / (N-1))`` over the others, type 2 ``2 sum of x[n]
    cos(pi k (2n+1) / 2N)``, type 3 ``x[0] + 2 sum of x[n] cos(pi n (2k+1) / 2N)`` for ``n > 0``, type 4 ``2 sum of
    x[n] cos(pi (2k+1) (2n+1) / 4N)``.

    Args:
        input: float32 or float64, ``[..., N]``.
        type: 1, 2, 3 or 4.
        n: the length N, if not that of the axis.
        axis: -1.
        norm: None, or ``ortho``: the transform is an orthogonal matrix (not for type 1).

    Raises:
        ValueError: an argument has another value.
        NotImplementedError: another axis.
    """
    if arguments.integer(axis, "axis") != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}", location=here())
    x = as_real(input, 1)
    if arguments.integer(type, "type") not in (1, 2, 3, 4):
        raise ValueError("Types I, II, III and IV (I)DCT are supported.", location=here())
    if not arguments.is_one_of(norm, (None, "ortho")):
        raise ValueError(
            f"Unknown normalization. Expected None or 'ortho', got: {norm}", location=here()
        )
    if type == 1 and norm is not None:
        raise ValueError("Normalization is not supported for the Type-I DCT.", location=here())
    if n is not None and as_dim(n) < 1:  # type: ignore[operator]
        raise ValueError("n should be a positive integer or None", location=here())
    x = x if n is None else fitted(x, x.type.rank - 1, as_dim(n))
    size = x.type.shape[-1]
    if not isinstance(size, int):
        raise misfit(f"a cosine transform needs a size that is known, got {size}")
    if type == 1 and size < 2:
        raise ValueError(
            "Type-I DCT requires the dimension to be greater than one.", location=here()
        )
    return (_dct1, _dct2, _dct3, _dct4)[type - 1](x, size, norm is not None)


def idct(
    input: TensorLike,
    type: int = 2,
    n: Any = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `dct`; without ``norm`` times 2N, for type 1 times 2(N-1)."""
    return dct(input, {2: 3, 3: 2}.get(arguments.integer(type, "type"), type), n, axis, norm)


def _turned(x: Tensor, angles: Any) -> Tensor:
    """Numbers times ``e ** (i angle)``."""
    x = as_complex(x)
    return multiply(x, np.exp(1j * np.asarray(angles)).astype(x.type.dtype.numpy))


def _long(x: Tensor, size: int, *, inverse: bool) -> Tensor:
    """The first half of a transform of twice the size."""
    last = x.type.rank - 1
    y: Tensor = apply("fft", fitted(x, last, 2 * size), inverse=inverse)
    return part(y, last, 0, size)


def _scaled_ends(x: Tensor, size: int, first: float, others: float) -> Tensor:
    """The first element times a number, the others times another."""
    factors = np.full(size, others, x.type.dtype.numpy)
    factors[:1] = first
    return multiply(x, factors)


def _dct1(x: Tensor, size: int, ortho: bool) -> Tensor:
    last = x.type.rank - 1
    mirrored = reverse(part(x, last, 1, size - 2), [last])
    return real(rfft(concat([x, mirrored], last)))


def _dct2(x: Tensor, size: int, ortho: bool) -> Tensor:
    angles = -np.pi * np.arange(size) / (2 * size)
    y = multiply(real(_turned(_long(as_complex(x), size, inverse=False), angles)), 2)
    return _scaled_ends(y, size, 0.5 / sqrt(size), sqrt(0.5 / size)) if ortho and size else y


def _dct3(x: Tensor, size: int, ortho: bool) -> Tensor:
    if ortho and size:
        x = _scaled_ends(x, size, 1 / sqrt(size), sqrt(2 / size))
    else:
        x = _scaled_ends(x, size, 1, 2)
    turned = _turned(x, np.pi * np.arange(size) / (2 * size))
    return real(_long(turned, size, inverse=True))


def _dct4(x: Tensor, size: int, ortho: bool) -> Tensor:
    numbers = np.arange(size)
    turned = _turned(x, -np.pi * numbers / (2 * size))
    y = _turned(_long(turned, size, inverse=False), -np.pi * (2 * numbers + 1) / (4 * size))
    return multiply(real(y), sqrt(2 / size) if ortho and size else 2)
