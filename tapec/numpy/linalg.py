"""The namespace ``tapec.numpy.linalg``: norms, factorisations and systems of matrices.

A matrix is the last two axes of a tensor; the axes in front are a batch. Integers become float32. Where `tapec.linalg`
has the function under TensorFlow's name, the derivative is described there.

Raises of every function: InvalidArgumentError if shapes do not fit (ValueError while a function is compiled).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapec.absences.names import namespace
from tapec.functions import arithmetic, rearrangement, reductions
from tapec.functions.arithmetic import cast
from tapec.functions.arrays import full
from tapec.functions.broadcasting import axes_of, axis_of, misfit, wrong_dtype
from tapec.functions.matrices import decompositions, determinants, factorization, least_squares
from tapec.functions.matrices import eigen as _eigen
from tapec.functions.rearrangement import expand_dims, reshape, transpose
from tapec.ir.dims import Dim
from tapec.ir.types import I64
from tapec.numpy import products
from tapec.numpy.creation import eye
from tapec.numpy.products import matmul as matmul
from tapec.numpy.products import outer as _outer
from tapec.numpy.products import tensordot as tensordot
from tapec.numpy.products import vecdot as vecdot
from tapec.numpy.promotion import inexact, inexact_pair
from tapec.numpy.shaping import matrix_transpose as matrix_transpose
from tapec.tensor import Tensor, TensorLike, as_tensor


def _matrices(x: TensorLike) -> Tensor:
    tensor = inexact(x)
    if tensor.type.rank < 2:
        raise misfit(f"expected a matrix, or a batch of them, got {tensor.type}")
    return tensor


# -- products


def outer(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The products of each element of one vector with each of another."""
    x, y = as_tensor(x1), as_tensor(x2)
    if x.type.rank != 1 or y.type.rank != 1:
        raise misfit(f"outer takes vectors, got {x.type} and {y.type}")
    return _outer(x, y)


def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors in space, whose three coordinates lie along an axis."""
    x, y = as_tensor(x1), as_tensor(x2)
    for v in (x, y):
        if v.type.shape[axis_of(axis, v.type.rank)] != 3:
            raise misfit(f"cross takes vectors of 3 coordinates, got {x.type} and {y.type}")
    return products.cross(x, y, axis=axis)


def multi_dot(arrays: Sequence[TensorLike], /) -> Tensor:
    """The product of matrices, from left to right; the first and the last may be vectors."""
    return reduce(matmul, arrays[1:], as_tensor(arrays[0]))


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """The product of ``n`` times the same square matrix; of its inverse if ``n`` is negative."""
    tensor = as_tensor(x)
    if tensor.type.rank < 2 or tensor.type.shape[-1] != tensor.type.shape[-2]:
        raise misfit(f"matrix_power takes square matrices, got {tensor.type}")
    if n < 0:
        return matrix_power(inv(tensor), -n)
    if n == 0:
        one = eye(tensor.type.shape[-1], dtype=tensor.type.dtype)  # type: ignore[arg-type]
        return rearrangement.broadcast_to(one, tensor.type.shape)
    found, square = None, tensor
    while n:
        if n % 2:
            found = square if found is None else found @ square
        n //= 2
        square = square @ square if n else square
    assert found is not None
    return found


# -- diagonals


def diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, ``offset`` places above the main one."""
    return products.diagonal(x, offset, -2, -1)


def trace(x: TensorLike, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of `diagonal`; small integers are added up as 32 bits."""
    return products.trace(x, offset, -2, -1, dtype=dtype)


# -- norms


def vector_norm(
    x: TensorLike, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """A norm of vectors along axes, by default of all elements.

    Args:
        x: the vectors.
        axis: an axis or several, which are one vector then.
        keepdims: whether axes stay with size 1.
        ord: a number ``p``, for the root of the sum of powers; 0 counts what is not 0; ``inf`` and ``-inf`` are the
            greatest and the least absolute value.
    """
    tensor = inexact(x)
    axes = axes_of(axis, tensor.type.rank)
    if ord == 2:
        found = reductions.reduce_euclidean_norm(tensor, axes, keepdims)
        return arithmetic.real(found)
    size = arithmetic.abs(tensor)
    if ord == math.inf:
        return reductions.reduce_max(size, axes, keepdims)
    if ord == -math.inf:
        return reductions.reduce_min(size, axes, keepdims)
    if ord == 0:
        return reductions.reduce_sum(
            cast(arithmetic.not_equal(size, 0), size.type.dtype), axes, keepdims
        )
    if ord == 1:
        return reductions.reduce_sum(size, axes, keepdims)
    return arithmetic.pow(reductions.reduce_sum(arithmetic.pow(size, ord), axes, keepdims), 1 / ord)


def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices.

    Args:
        x: the matrices.
        keepdims: whether both axes stay with size 1.
        ord: ``fro``, the root of the sum of squares; ``nuc``, the sum of singular values; 2 and -2, the greatest and
            the least of them; 1 and -1, the greatest and the least sum of absolute values of a column; ``inf`` and
            ``-inf``, of a row.
    """
    tensor = _matrices(x)
    if ord == "fro":
        return vector_norm(tensor, axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        values = svdvals(tensor)
        choose = {2: reductions.reduce_max, -2: reductions.reduce_min, "nuc": reductions.reduce_sum}
        found = choose[ord](values, -1)
    elif ord in (1, -1, math.inf, -math.inf):
        summed = -2 if abs(ord) == 1 else -1
        sums = reductions.reduce_sum(arithmetic.abs(tensor), summed)
        found = (reductions.reduce_max if ord > 0 else reductions.reduce_min)(sums, -1)
    else:
        raise misfit(f"unknown norm of matrices {ord!r}")
    return reshape(found, (*found.type.shape, 1, 1)) if keepdims else found


def norm(x: TensorLike, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`vector_norm` of an axis, `matrix_norm` of two, and of all elements without either.

    Args:
        x: numbers.
        ord: see there; by default the root of the sum of squares.
        axis: the axis of vectors, or the two of matrices; by default those of a vector or a matrix.
        keepdims: whether axes stay with size 1.
    """
    tensor = inexact(x)
    if ord is None:
        return vector_norm(tensor, axis=axis, keepdims=keepdims)
    rank = tensor.type.rank
    axes = tuple(range(rank)) if axis is None else axis
    axes = axes if isinstance(axes, Sequence) else (axes,)
    if len(axes) == 1:
        return vector_norm(tensor, axis=axes[0], keepdims=keepdims, ord=2 if ord == "fro" else ord)
    if len(axes) != 2:
        raise misfit(f"a norm of order {ord!r} takes one axis or two, got {axes}")
    row, column = (axis_of(a, rank) for a in axes)
    rest = [a for a in range(rank) if a not in (row, column)]
    found = matrix_norm(transpose(tensor, [*rest, row, column]), ord=ord)
    if keepdims:
        kept = [1 if a in (row, column) else n for a, n in enumerate(tensor.type.shape)]
        return reshape(found, kept)
    return found


# -- factorisations


class EighResult(NamedTuple):
    """What `eigh` finds."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` finds."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` finds."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` finds."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """The lower triangular ``l`` with ``l lᴴ = x``, or the upper ``u`` with ``uᴴ u = x``.

    Only the triangle of ``x`` that the result has is read.
    """
    tensor = _matrices(x)
    if not upper:
        return factorization.cholesky(tensor)
    return factorization.adjoint(factorization.cholesky(factorization.adjoint(tensor)))


def qr(x: TensorLike, /, *, mode: str = "reduced") -> QRResult:
    """``x = Q R`` with orthonormal columns in ``Q`` and a triangle ``R``; all columns if ``mode`` is ``complete``."""
    if mode not in ("reduced", "complete"):
        raise misfit(f"mode must be 'reduced' or 'complete', got {mode!r}")
    return QRResult(*decompositions.qr(_matrices(x), full_matrices=mode == "complete"))


def eigh(x: TensorLike, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors in columns, of symmetric or Hermitian matrices."""
    values, vectors = decompositions.eigh(_matrices(x))
    return EighResult(arithmetic.real(values), vectors)


def eigvalsh(x: TensorLike, /) -> Tensor:
    """The eigenvalues of `eigh`."""
    return eigh(x).eigenvalues


def eig(x: TensorLike, /) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors in columns, of any square matrices; both are complex."""
    return _eigen.eig(_matrices(x))


def eigvals(x: TensorLike, /) -> Tensor:
    """The eigenvalues of `eig`."""
    return _eigen.eigvals(_matrices(x))


def svd(x: TensorLike, /, *, full_matrices: bool = True) -> SVDResult:
    """``x = U diag(S) Vh``: singular values, descending, and vectors; see `tapec.linalg.svd`."""
    s, u, v = decompositions.svd(_matrices(x), full_matrices=full_matrices)
    return SVDResult(u, s, factorization.adjoint(v))


def svdvals(x: TensorLike, /) -> Tensor:
    """The singular values of `svd`."""
    found: Tensor = decompositions.svd(_matrices(x), compute_uv=False)
    return found


# -- systems


def det(x: TensorLike, /) -> Tensor:
    """The determinant."""
    return determinants.det(_matrices(x))


def slogdet(x: TensorLike, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value."""
    return SlogdetResult(*determinants.slogdet(_matrices(x)))


def inv(x: TensorLike, /) -> Tensor:
    """The inverse.

    Raises:
        InvalidArgumentError: a matrix is singular.
    """
    return factorization.inv(_matrices(x))


def solve(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The solution of ``x1 y = x2``; a vector ``x2`` is one right-hand side for all matrices.

    Raises:
        InvalidArgumentError: a matrix is singular.
    """
    a, b = inexact_pair(x1, x2)
    if b.type.rank == 1:
        return rearrangement.squeeze(factorization.solve(a, expand_dims(b, -1)), -1)
    return factorization.solve(a, b)


def lstsq(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The ``y`` for which ``x1 y`` is nearest to ``x2``; of several the shortest."""
    a, b = inexact_pair(x1, x2)
    if b.type.rank == 1:
        return rearrangement.squeeze(pinv(a) @ expand_dims(b, -1), -1)
    return pinv(a) @ b


def pinv(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """The pseudo-inverse (Moore, Penrose).

    Args:
        x: matrices ``[..., m, n]``.
        rtol: singular values up to this part of the largest count as 0; ``max(m, n) eps`` if None.
    """
    tensor = _matrices(x)
    return least_squares.pinv(tensor, _tolerance(tensor) if rtol is None else rtol)


def matrix_rank(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """How many singular values are greater than ``rtol`` times the largest, which is ``max(m, n) eps`` if None."""
    tensor = _matrices(x)
    values = svdvals(tensor)
    if values.type.shape[-1] == 0:
        return full(0, I64, values.type.shape[:-1])
    share = _tolerance(tensor) if rtol is None else rtol
    bound = arithmetic.multiply(reductions.reduce_max(values, -1), share)
    return reductions.reduce_sum(cast(values > expand_dims(bound, -1), I64), -1)


def _tolerance(x: Tensor) -> float:
    if not x.type.dtype.is_differentiable:
        raise wrong_dtype(x.type.dtype, "floats")
    rows, columns = x.type.shape[-2:]
    if isinstance(rows, Dim) or isinstance(columns, Dim):
        raise misfit(f"the sizes of matrices {x.shape} must be known")
    return max(rows, columns) * float(np.finfo(x.type.dtype.numpy).eps)


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("numpy.linalg")
