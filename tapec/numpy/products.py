"""Sums of products: of vectors, matrices, and any axes. Operands of two dtypes take the one that holds both.

Raises of every function: InvalidArgumentError if shapes do not fit (ValueError while a function is compiled).
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tapec.functions import arithmetic, products, rearrangement, reductions
from tapec.functions.arrays import counting, full
from tapec.functions.broadcasting import axis_of, broadcast, common_shape, misfit
from tapec.functions.matrices.diagonals import diag_part
from tapec.functions.rearrangement import expand_dims, pad, reshape, transpose
from tapec.ir.types import as_dtype
from tapec.numpy.promotion import counted, of_dtype, pair, promoted
from tapec.numpy.shaping import moveaxis, ravel
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def matmul(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The product of matrices, or of batches of them; a vector at the left is a row, one at the right a column."""
    x, y = pair(x1, x2)
    if not x.type.rank or not y.type.rank:
        raise misfit(f"matmul takes vectors and matrices, got {x.type} and {y.type}")
    row, column = x.type.rank == 1, y.type.rank == 1
    product = products.matmul(expand_dims(x, 0) if row else x, expand_dims(y, 1) if column else y)
    dropped = [-2] * row + [-1] * column
    return rearrangement.squeeze(product, dropped) if dropped else product


def vecdot(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The sum along an axis of products, of complex numbers with the conjugate of the first; other axes broadcast."""
    x, y = pair(x1, x2)
    if not -builtins.min(x.type.rank, y.type.rank) <= axis < 0:
        axis -= x.type.rank
        if x.type.rank != y.type.rank or not -x.type.rank <= axis < 0:
            raise misfit(f"axis {axis} is out of range of {x.type} and {y.type}")
    m, n = x.type.shape[axis], y.type.shape[axis]
    if m != n and isinstance(m, int) and isinstance(n, int):
        raise misfit(f"vecdot: sizes {m} and {n} of axis {axis} differ")
    return reductions.reduce_sum(_product(arithmetic.conj(x), y), axis)


def _product(x: Tensor, y: Tensor) -> Tensor:
    return arithmetic.logical_and(x, y) if x.type.dtype.is_bool else arithmetic.multiply(x, y)


def vdot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The sum of products of all elements, of complex numbers with the conjugate of the first."""
    x, y = pair(x1, x2)
    return vecdot(ravel(x), ravel(y))


def dot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The sum over the last axis of the first and the last but one of the second; with a scalar the product."""
    x, y = pair(x1, x2)
    if not x.type.rank or not y.type.rank:
        return arithmetic.multiply(x, y)
    return products.tensordot(x, y, [[x.type.rank - 1], [builtins.max(y.type.rank - 2, 0)]])


def inner(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The sum over the last axes of both; with a scalar the product."""
    x, y = pair(x1, x2)
    if not x.type.rank or not y.type.rank:
        return arithmetic.multiply(x, y)
    return products.tensordot(x, y, [[x.type.rank - 1], [y.type.rank - 1]])


def outer(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The products of each element of the one with each of the other, as a matrix."""
    x, y = pair(x1, x2)
    return _product(reshape(x, (-1, 1)), reshape(y, (1, -1)))


def tensordot(x1: TensorLike, x2: TensorLike, /, axes: Any = 2) -> Tensor:
    """The sum over pairs of axes.

    Args:
        x1: a tensor.
        x2: a tensor.
        axes: a number ``n``, for the last ``n`` axes of ``x1`` and the first ``n`` of ``x2``; or two sequences of axes.
    """
    x, y = pair(x1, x2)
    pairs = axes if isinstance(axes, int) else [_list(side) for side in axes]
    return products.tensordot(x, y, pairs)


def _list(side: Any) -> list[int]:
    return list(side) if isinstance(side, Sequence) else [side]


def kron(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Each element of the one times the whole other, put together."""
    x, y = pair(x1, x2)
    rank = builtins.max(x.type.rank, y.type.rank)
    m, n = ((1,) * (rank - v.type.rank) + v.type.shape for v in (x, y))
    apart = [size for a in m for size in (a, 1)]
    inside = [size for a in n for size in (1, a)]
    product = arithmetic.multiply(reshape(x, apart), reshape(y, inside))
    return reshape(product, [a * b for a, b in zip(m, n, strict=True)])


def cross(
    x1: TensorLike,
    x2: TensorLike,
    /,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Tensor:
    """The cross product of vectors in space; of vectors in the plane, its third coordinate.

    Args:
        x1: vectors of two or three coordinates.
        x2: vectors of two or three coordinates.
        axisa: the axis of the coordinates of ``x1``.
        axisb: the axis of the coordinates of ``x2``.
        axisc: the axis of the coordinates of the result.
        axis: all three of them.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = pair(x1, x2)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    sizes = x.type.shape[-1], y.type.shape[-1]
    if any(n not in (2, 3) for n in sizes):
        raise misfit(f"cross takes vectors of 2 or 3 coordinates, got {x.type} and {y.type}")
    lead = common_shape(x.type.shape[:-1], y.type.shape[:-1])
    a, b = (rearrangement.unstack(broadcast(v, (*lead, v.type.shape[-1])), axis=-1) for v in (x, y))
    third = a[0] * b[1] - a[1] * b[0]
    if sizes == (2, 2):
        return third
    zero = arithmetic.multiply(a[0], 0)
    a, b = ([*v, zero] if len(v) == 2 else v for v in (a, b))
    first, second = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2]
    return moveaxis(rearrangement.stack([first, second, third], -1), -1, axisc)


def einsum(subscripts: str, /, *operands: TensorLike) -> Tensor:
    """A sum of products, written with a letter for each axis; see `tapec.einsum`."""
    return products.einsum(subscripts, *promoted(*operands))


# -- diagonals


def diagonal(x: TensorLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonal of two axes, ``offset`` places above the main one, as the last axis of the result."""
    tensor = as_tensor(x)
    rank = tensor.type.rank
    pair = [axis_of(axis1, rank), axis_of(axis2, rank)]
    if pair[0] == pair[1]:
        raise misfit("a diagonal lies in two axes, got one twice")
    moved = transpose(tensor, [*(n for n in range(rank) if n not in pair), *pair])
    rows, columns = moved.type.shape[-2:]
    if isinstance(rows, int) and isinstance(columns, int) and not -rows < offset < columns:
        return full(0, tensor.type.dtype, (*moved.type.shape[:-2], 0))
    return diag_part(moved, k=offset)


def trace(
    x: TensorLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: Any = None
) -> Tensor:
    """The sum of a `diagonal`; small integers are added up as 32 bits."""
    line = diagonal(x, offset, axis1, axis2)
    wanted = counted(line.type.dtype) if dtype is None else as_dtype(dtype)
    return reductions.reduce_sum(of_dtype(line, wanted), -1)


# -- sliding


def convolve(x1: TensorLike, x2: TensorLike, /, mode: str = "full") -> Tensor:
    """The sums of products of a vector with a reversed one that is moved along it.

    Args:
        x1: ``[m]``.
        x2: ``[n]``.
        mode: ``full`` all ``m + n - 1`` places where they meet, ``same`` the ``max(m, n)`` in the middle, ``valid``
            those where one is wholly inside the other.
    """
    x, y = pair(x1, x2)
    if x.type.rank != 1 or y.type.rank != 1:
        raise misfit(f"convolve takes vectors, got {x.type} and {y.type}")
    sizes = x.type.shape[0], y.type.shape[0]
    if not all(isinstance(n, int) and n for n in sizes):
        raise misfit(f"convolve takes vectors of known sizes, which are not empty: {sizes}")
    n, m = sorted(map(int, sizes))  # type: ignore[arg-type]
    if x.type.shape[0] == n:
        x, y = y, x
    padded = pad(x, [[n - 1, n - 1]])
    places = counting(as_dtype("int32"), m + n - 1)
    at = arithmetic.add(expand_dims(places, 1), expand_dims(counting(as_dtype("int32"), n), 0))
    rows = rearrangement.reshape(_rows(padded, at), (m + n - 1, n))
    whole = matmul(rows, rearrangement.reverse(y, [0]))
    if mode == "full":
        return whole
    if mode not in ("same", "valid"):
        raise misfit(f"mode must be 'full', 'same' or 'valid', got {mode!r}")
    size = m if mode == "same" else m - n + 1
    start = (n - 1) // 2 if mode == "same" else n - 1
    return rearrangement.part(whole, 0, start, size)


def _rows(x: Tensor, at: Tensor) -> Tensor:
    return apply("gather", x, at, axis=0, batch_dims=0)  # type: ignore[no-any-return]


def correlate(x1: TensorLike, x2: TensorLike, /, mode: str = "valid") -> Tensor:
    """The sums of products of a vector with the conjugate of another that is moved along it; see `convolve`."""
    x, y = pair(x1, x2)
    m, n = x.type.shape[0], y.type.shape[0]
    found = convolve(x, rearrangement.reverse(arithmetic.conj(y), [0]), mode)
    if mode == "same" and isinstance(m, int) and isinstance(n, int) and m < n:
        whole = convolve(x, rearrangement.reverse(arithmetic.conj(y), [0]))
        return rearrangement.part(whole, 0, m - 1 - (m - 1) // 2, n)
    return found


def polyval(p: TensorLike, x: TensorLike, /) -> Tensor:
    """The polynomial with coefficients ``p``, the highest first, at ``x``, by Horner's rule."""
    coefficients, at = pair(p, x)
    value = arithmetic.multiply(at, 0)
    for coefficient in rearrangement.unstack(coefficients):
        value = arithmetic.add(arithmetic.multiply(value, at), coefficient)
    return value
