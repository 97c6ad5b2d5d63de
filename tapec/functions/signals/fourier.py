"""Fourier transforms over the last axes.

A transform may be asked for another length than its operand has: then the operand is cut, or filled up with zeros.
Forward transforms have no factor, inverse ones ``1 / N``. float32 goes with complex64, float64 with complex128.
Gradients are transforms too, so there are derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast, conj, multiply, real
from tapec.functions.broadcasting import axes_of, axis_of, has_dtype, misfit, wrong_dtype
from tapec.functions.known import as_dim, as_shape
from tapec.functions.rearrangement import concat, pad, part, reverse, roll, transpose
from tapec.ir.dims import DimLike
from tapec.ir.types import C64, C128, F32, F64
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

# -- complex transforms


def fft(input: TensorLike, name: str | None = None) -> Tensor:
    """The transform of complex numbers along the last axis: ``y[k] = sum of x[n] e ** (-2 pi i k n / N)``.

    Raises:
        InvalidArgumentError: the operand is not complex, or a scalar (while compiled, TypeError and ValueError).
    """
    return _transformed(_complex(input, 1), 1, inverse=False)


def ifft(input: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `fft`."""
    return _transformed(_complex(input, 1), 1, inverse=True)


def fft2d(input: TensorLike, name: str | None = None) -> Tensor:
    """`fft` along the last two axes."""
    return _transformed(_complex(input, 2), 2, inverse=False)


def ifft2d(input: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `fft2d`."""
    return _transformed(_complex(input, 2), 2, inverse=True)


def fft3d(input: TensorLike, name: str | None = None) -> Tensor:
    """`fft` along the last three axes."""
    return _transformed(_complex(input, 3), 3, inverse=False)


def ifft3d(input: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `fft3d`."""
    return _transformed(_complex(input, 3), 3, inverse=True)


def _complex(x: TensorLike, rank: int) -> Tensor:
    """A complex tensor with at least so many axes."""
    tensor = as_tensor(x) if has_dtype(x) else as_complex(as_tensor(x))
    if not tensor.type.dtype.is_complex:
        raise wrong_dtype(tensor.type.dtype, "complex64 or complex128")
    _require_rank(tensor, rank)
    return tensor


def as_real(x: TensorLike, rank: int) -> Tensor:
    """A float tensor with at least so many axes."""
    tensor = as_tensor(x)
    if not has_dtype(x) and not (tensor.type.dtype.is_complex or tensor.type.dtype == F64):
        tensor = cast(tensor, F32)
    if tensor.type.dtype not in (F32, F64):
        raise wrong_dtype(tensor.type.dtype, "float32 or float64")
    _require_rank(tensor, rank)
    return tensor


def as_complex(x: Tensor) -> Tensor:
    """The tensor, or real numbers as complex ones, of double precision if they have it."""
    return x if x.type.dtype.is_complex else cast(x, C128 if x.type.dtype == F64 else C64)


def _require_rank(tensor: Tensor, rank: int) -> None:
    if tensor.type.rank < rank:
        raise misfit(f"Input must have rank of at least {rank} but got: {tensor.type.rank}")


def _transformed(x: Tensor, count: int, *, inverse: bool) -> Tensor:
    """The transform along the last ``count`` axes."""
    rank = x.type.rank
    for axis in range(rank - 1, rank - 1 - count, -1):
        x = _along(x, axis, inverse=inverse)
    return x


def _along(x: Tensor, axis: int, *, inverse: bool) -> Tensor:
    """The transform along one axis."""
    rank, size = x.type.rank, x.type.shape[axis]
    swap = (*range(axis), rank - 1, *range(axis + 1, rank - 1), axis)
    last = x if axis == rank - 1 else transpose(x, swap)
    y: Tensor = apply("fft", last, inverse=inverse)
    y = y if axis == rank - 1 else transpose(y, swap)
    return _divided(y, size) if inverse else y


def _divided(x: Tensor, size: DimLike) -> Tensor:
    """An unscaled inverse transform, scaled."""
    if not isinstance(size, int):
        raise misfit(f"an inverse transform needs a size that is known, got {size}")
    return multiply(x, 1 / size) if size else x


# -- transforms of real numbers


def rfft(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The first ``N // 2 + 1`` elements of the transform of real numbers; the others are their conjugates.

    Args:
        input_tensor: float32 or float64, ``[..., N]``.
        fft_length: a vector of the length N of the transform; that of the axis by default.

    Raises:
        InvalidArgumentError: another dtype or a scalar (while compiled, TypeError and ValueError).
    """
    return _rfft(as_real(input_tensor, 1), _lengths(fft_length, 1))


def rfft2d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """`rfft` along the last axis, then `fft` along the one before; ``fft_length`` has two entries."""
    return _rfft(as_real(input_tensor, 2), _lengths(fft_length, 2))


def rfft3d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """`rfft` along the last axis, then `fft` along the two before; ``fft_length`` has three entries."""
    return _rfft(as_real(input_tensor, 3), _lengths(fft_length, 3))


def irfft(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft`: real numbers from the first half of their transform.

    Args:
        input_tensor: complex, ``[..., N // 2 + 1]``.
        fft_length: a vector of the length N of the result; the even one by default.
    """
    return _irfft(_complex(input_tensor, 1), _lengths(fft_length, 1))


def irfft2d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft2d`."""
    return _irfft(_complex(input_tensor, 2), _lengths(fft_length, 2))


def irfft3d(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `rfft3d`."""
    return _irfft(_complex(input_tensor, 3), _lengths(fft_length, 3))


def _lengths(given: Any, count: int) -> Sequence[DimLike | None]:
    """The lengths of the transforms along the last axes."""
    if given is None:
        return (None,) * count
    lengths = as_shape(given)
    if len(lengths) != count:
        raise misfit(f"fft_length must have shape [{count}], got {len(lengths)} entries")
    return lengths


def fitted(x: Tensor, axis: int, size: DimLike) -> Tensor:
    """The tensor cut, or filled up with zeros, to a size."""
    own = x.type.shape[axis]
    if own == size:
        return x
    if not isinstance(own, int) or not isinstance(size, int):
        raise misfit(f"fft_length {size} of an axis of size {own}: one of them is not known")
    if size < own:
        return part(x, axis, 0, size)
    return pad(x, [(0, size - own if a == axis else 0) for a in range(x.type.rank)])


def _rfft(x: Tensor, lengths: Sequence[DimLike | None]) -> Tensor:
    rank, count = x.type.rank, len(lengths)
    if not 0 < count <= rank:
        raise misfit(f"a transform along {count} axes of a tensor with {rank}")
    for axis, length in zip(range(rank - count, rank), lengths, strict=True):
        x = x if length is None else fitted(x, axis, length)
    size = x.type.shape[-1]
    y: Tensor = apply("fft", as_complex(x), inverse=False)
    y = part(y, rank - 1, 0, size // 2 + 1 if size != 0 else 0)
    for axis in range(rank - 2, rank - 1 - count, -1):
        y = _along(y, axis, inverse=False)
    return y


def _irfft(x: Tensor, lengths: Sequence[DimLike | None]) -> Tensor:
    rank, count = x.type.rank, len(lengths)
    if not 0 < count <= rank:
        raise misfit(f"a transform along {count} axes of a tensor with {rank}")
    for axis, length in zip(range(rank - count, rank - 1), lengths[:-1], strict=True):
        x = x if length is None else fitted(x, axis, length)
        x = _along(x, axis, inverse=True)
    size = lengths[-1]
    if size is None:
        own = x.type.shape[-1]
        size = 2 * (own - 1) if own != 0 else 0
    half = size // 2 + 1 if size != 0 else 0
    x = fitted(x, rank - 1, half)
    # The other half is the conjugate of elements 1 to N - N // 2 - 1, backwards.
    others = conj(reverse(part(x, rank - 1, 1, size - half), [rank - 1])) if half != 0 else x
    whole: Tensor = apply("fft", concat([x, others], rank - 1), inverse=True)
    return _divided(real(whole), size)


# -- any axes


def fftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`fft` along ``axes``, by default all of them.

    Args:
        input_tensor: complex.
        fft_length: the length along each axis.
        axes: the axes.
        norm: where the factor is: ``backward`` (None) in the inverse transform, ``forward`` in this one, ``ortho`` half
            in each.
    """
    return _over_axes(_complex(input_tensor, 1), fft_length, axes, norm, inverse=False)


def ifftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `fftnd`."""
    return _over_axes(_complex(input_tensor, 1), fft_length, axes, norm, inverse=True)


def rfftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`rfft` along the last of ``axes``, `fft` along the others."""
    x = as_real(input_tensor, 1)
    numbers, lengths = _axes_and_lengths(x, fft_length, axes)
    for axis, length in zip(numbers, lengths, strict=True):
        x = x if length is None else fitted(x, axis, length)
    sizes = [x.type.shape[axis] for axis in numbers]
    z = as_complex(x)
    z = _along(z, numbers[-1], inverse=False)
    z = part(z, numbers[-1], 0, sizes[-1] // 2 + 1)
    for axis in numbers[:-1]:
        z = _along(z, axis, inverse=False)
    return _normed(z, sizes, norm, inverse=False)


def irfftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `rfftnd`."""
    x = _complex(input_tensor, 1)
    numbers, lengths = _axes_and_lengths(x, fft_length, axes)
    rank = x.type.rank
    order = (*(a for a in range(rank) if a not in numbers), *numbers)
    y = _irfft(transpose(x, order), lengths)
    sizes = [y.type.shape[rank - len(numbers) + n] for n in range(len(numbers))]
    return _normed(transpose(y, tuple(np.argsort(order).tolist())), sizes, norm, inverse=True)


def _axes_and_lengths(
    x: Tensor, fft_length: Any, axes: Any
) -> tuple[tuple[int, ...], Sequence[DimLike | None]]:
    lengths = None if fft_length is None else as_shape(fft_length)
    rank = x.type.rank
    if axes is not None:
        numbers = tuple(axis_of(a, rank) for a in as_shape(axes))
    else:
        numbers = tuple(range(0 if lengths is None else rank - len(lengths), rank))
    if lengths is not None and len(lengths) != len(numbers):
        raise misfit(f"fft_length has {len(lengths)} entries for {len(numbers)} axes")
    return numbers, (None,) * len(numbers) if lengths is None else lengths


def _over_axes(x: Tensor, fft_length: Any, axes: Any, norm: str | None, *, inverse: bool) -> Tensor:
    numbers, lengths = _axes_and_lengths(x, fft_length, axes)
    for axis, length in zip(numbers, lengths, strict=True):
        x = _along(x if length is None else fitted(x, axis, length), axis, inverse=inverse)
    return _normed(x, [x.type.shape[axis] for axis in numbers], norm, inverse=inverse)


def _normed(x: Tensor, sizes: Sequence[DimLike], norm: str | None, *, inverse: bool) -> Tensor:
    """A transform with the factor of ``backward`` with that of another norm."""
    if arguments.is_one_of(norm, (None, "backward")):
        return x
    if not arguments.is_one_of(norm, ("ortho", "forward")):
        raise ValueError(
            f"norm must be None, backward, ortho or forward, got {norm!r}", location=here()
        )
    count = 1
    for size in sizes:
        count *= as_dim(size)  # type: ignore[assignment]
    factor = float(count) if norm == "forward" else sqrt(count)
    return multiply(x, factor if inverse else 1 / factor)


# -- zero frequency in the middle


def fftshift(x: TensorLike, axes: Any = None, name: str | None = None) -> Tensor:
    """Each axis rolled by half its size, so that frequency 0 comes to the middle; by default all axes."""
    return _rolled(as_tensor(x), axes, 1)


def ifftshift(x: TensorLike, axes: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _rolled(as_tensor(x), axes, -1)


def _rolled(x: Tensor, axes: Any, sign: int) -> Tensor:
    numbers = axes_of(axes, x.type.rank)
    for axis in numbers:
        size = x.type.shape[axis]
        x = roll(x, size // 2 if sign > 0 else -(size // 2), axis)
    return x
