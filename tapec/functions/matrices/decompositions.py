"""Orthogonal decompositions of matrices, and their exponential.

A matrix is the last two axes of a tensor; the axes in front are a batch. Everything takes float32
and float64; the exponential, eigenvalues and singular values take complex numbers, too. For the
signs of vectors, and for equal eigenvalues and singular values, see `tapec.ir.ops.spectral`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tapec import arguments
from tapec.functions.arithmetic import (
    add,
    cast,
    multiply,
    negative,
    sign,
    stop_gradient,
    subtract,
    where,
)
from tapec.functions.arrays import eye, ones_like
from tapec.functions.broadcasting import like
from tapec.functions.known import is_less
from tapec.functions.matrices.doubled import doubled, halved
from tapec.functions.matrices.factorization import adjoint, matrices, solve
from tapec.functions.products import main_diagonal, matmul
from tapec.functions.rearrangement import concat, expand_dims, part, reshape, stack
from tapec.ir.types import F16, F32
from tapec.tensor import Tensor, TensorLike, apply


class QR(NamedTuple):
    """``x = q r`` with orthonormal columns in ``q`` and ``r`` upper triangular."""

    q: Tensor
    r: Tensor


def qr(input: TensorLike, full_matrices: bool = False, name: str | None = None) -> QR:
    """The factorisation by Householder's reflections, with LAPACK's signs.

    Args:
        input: ``[..., m, n]``, of which the first ``min(m, n)`` columns are independent if a
            gradient is wanted; float16 is computed in float32, complex matrices as real ones of twice the size.
        full_matrices: whether ``q`` gets all its ``m`` columns, and ``r`` rows of zeros, if ``m > n``.
        name: not used.

    Returns:
        ``q [..., m, k]`` and ``r [..., k, n]`` with ``k = min(m, n)``, or ``m`` if full. Both have
        derivatives of any order, also the columns that complete ``q``.
    """
    x = matrices(input)
    if x.type.dtype == F16:
        halves = qr(cast(x, F32), full_matrices)
        return QR(cast(halves.q, F16), cast(halves.r, F16))
    *lead, rows, columns = x.type.shape
    if x.type.dtype.is_complex:
        q, r = _complex_qr(x)
        return _completed(x, q, r, _complex_complement(q)) if full_matrices else QR(q, r)
    if is_less(rows, columns):
        # The first columns make q; the others follow: r = qᵀ x.
        q, r, _ = apply("qr", part(x, len(lead) + 1, 0, rows))
        rest = part(x, len(lead) + 1, rows, columns - rows)
        return QR(q, concat([r, matmul(q, rest, transpose_a=True)], -1))
    q, r, reflected = apply("qr", x)
    if not full_matrices or rows == columns:
        return QR(q, r)
    return _completed(x, q, r, _complement(q, reflected))


def _completed(x: Tensor, q: Tensor, r: Tensor, more: Tensor) -> QR:
    """The factors with all columns and rows."""
    *lead, rows, columns = x.type.shape
    if not is_less(columns, rows):
        return QR(q, r)
    zeros = multiply(part(x, len(lead), columns, rows - columns), 0)
    return QR(concat([q, more], -1), concat([r, zeros], -2))


def _complex_qr(x: Tensor) -> QR:
    """The factors of complex matrices, from those of real ones of twice the size.

    The columns there are pairs, ``w`` and ``i w``, and stay pairs when earlier ones are taken off. So the factors are
    doubled complex ones, but for the signs of the second columns; the signs of the first are LAPACK's.
    """
    q, r = qr(doubled(x))
    lead, size = list(r.type.shape[:-2]), r.type.shape[-2]
    signs = sign(main_diagonal(part(r, len(lead) + 1, 0, size), lead, size))
    pairs = reshape(signs, (*signs.type.shape[:-1], size // 2, 2))
    both = stop_gradient(pairs[..., 0] * pairs[..., 1])
    fixed = stack([ones_like(both), both], -1)
    turned = multiply(r, expand_dims(reshape(fixed, signs.type.shape), -1))
    return QR(halved(q), halved(turned))


def _complement(q: Tensor, reflected: Tensor) -> Tensor:
    """The columns that the reflections put behind those of ``q``.

    They are those of ``1 - y t yᵀ``, the product of the reflections, of which the first columns are
    ``q``; from these follow the others. A column that was not reflected counts as reflected along
    itself, which turns its sign.

    Source: Ballard, Demmel, Grigori, Jacquelin, Nguyen and Solomonik, "Reconstructing Householder
    vectors from tall-skinny QR", 2014, section 3.
    """
    signs = where(reflected, 1, like(-1, q.type.dtype))
    return _behind(multiply(q, expand_dims(signs, -2)))


def _complex_complement(q: Tensor) -> Tensor:
    """Columns that complete orthonormal ones.

    These are turned first, so that their upper square is Hermitian and negative: then `_behind` solves a system whose
    eigenvalues are between -2 and -1.
    """
    *lead, _, columns = q.type.shape
    _, u, v = apply("svd", stop_gradient(part(q, len(lead), 0, columns)))
    return _behind(matmul(q, negative(matmul(v, adjoint(u)))))


def _behind(turned: Tensor) -> Tensor:
    """The columns of ``1 - y t yᴴ`` behind the first ones, which are given."""
    *lead, rows, columns = turned.type.shape
    dtype = turned.type.dtype
    top = subtract(part(turned, len(lead), 0, columns), eye(columns, dtype=dtype))
    below = part(turned, len(lead), columns, rows - columns)
    factor = solve(top, adjoint(below), adjoint=True)
    return concat(
        [matmul(top, factor), add(matmul(below, factor), eye(rows - columns, dtype=dtype))], -2
    )


def eigh(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices, of which the lower triangle is read.

    Args:
        tensor: ``[..., n, n]``.
        name: not used.

    Returns:
        The eigenvalues ``[..., n]``, ascending, and ``[..., n, n]`` with a vector in each column, both in
        the dtype of the matrices. Of the largest elements of a vector, the first is real and positive.
        Gradients are in the lower triangle; where eigenvalues are equal, what comes through the vectors is 0.
    """
    values, vectors = apply("eigh", matrices(tensor))
    *lead, n, _ = values.type.shape
    return main_diagonal(values, lead, n), vectors


def eigvalsh(tensor: TensorLike, name: str | None = None) -> Tensor:
    """The eigenvalues of `eigh` alone."""
    return eigh(tensor)[0]


def svd(
    tensor: TensorLike,
    full_matrices: bool = False,
    compute_uv: bool = True,
    name: str | None = None,
) -> Any:
    """Singular values and vectors: ``x = u diag(s) vᴴ``.

    Args:
        tensor: ``[..., m, n]``.
        full_matrices: whether ``u`` and ``v`` are square, else they have ``k = min(m, n)`` columns.
        compute_uv: False: the singular values alone.
        name: not used.

    Returns:
        ``s [..., k]``, real and descending; then ``u [..., m, k]`` and ``v [..., n, k]``. Of the largest
        elements of a column of ``v`` (of ``u`` if ``m < n``), the first is real and positive. Where
        singular values are equal, the gradient that comes through the vectors is 0.
    """
    x = matrices(tensor)
    rows, columns = x.type.shape[-2:]
    wide = is_less(rows, columns)
    s, u, v = apply("svd", adjoint(x) if wide else x)
    if not arguments.flag(compute_uv, "compute_uv"):
        return s
    if full_matrices and rows != columns:
        if x.type.dtype.is_complex:
            more = _complex_complement(u)
        else:
            q, _, reflected = apply("qr", u)  # q is u, but for signs
            more = _complement(q, reflected)
        u = concat([u, more], -1)
    return (s, v, u) if wide else (s, u, v)


def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """The exponential ``1 + x + x² / 2 + …`` of square matrices ``[..., n, n]``.

    It has derivatives of any order; each works with matrices of twice the size.
    """
    result: Tensor = apply("expm", matrices(input))[0]
    return result
