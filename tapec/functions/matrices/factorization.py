"""Factorisations of matrices into triangles, and what they solve: systems, inverses.

A matrix is the last two axes of a tensor; the axes in front are a batch. Everything takes float32,
float64 and complex numbers; other dtypes are refused. All of it is composed of the
operations ``cholesky``, ``lu`` and ``triangular_solve``, so derivatives of any order follow.

A singular matrix is an error, also in a compiled function; there, inside of what is mapped or repeated, it gives
infinities and NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapec import arguments
from tapec.errors import InvalidArgumentError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    conj,
    equal,
    floormod,
    greater,
    is_nan,
    less,
    multiply,
    not_equal,
    real,
    subtract,
    where,
)
from tapec.functions.arrays import eye, zeros_like
from tapec.functions.broadcasting import broadcast, common_shape, converted, like, may_equal, misfit
from tapec.functions.indexing import entries
from tapec.functions.logic import logical_and, logical_not
from tapec.functions.ordering import argsort
from tapec.functions.products import main_diagonal, matmul
from tapec.functions.rearrangement import expand_dims, transpose
from tapec.functions.reductions import reduce_sum
from tapec.functions.requirements import require
from tapec.ir.dims import DimLike
from tapec.ir.types import F16, F32, I32, TensorType
from tapec.recording import current_trace, tracing
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

_SINGULAR = "Input matrix is not invertible."
_INDEFINITE = "cholesky: the matrix is not positive definite"


class LU(NamedTuple):
    """``x[p] = l u``: ``l`` below the diagonal of the first entry, ``u`` on and above; then ``p``."""

    lu: Tensor
    p: Tensor


def matrices(a: TensorLike) -> Tensor:
    """A tensor of at least two axes.

    Raises:
        InvalidArgumentError: it has fewer (ValueError while a function is compiled).
    """
    x = as_tensor(a)
    if x.type.rank < 2:
        raise misfit(f"expected a matrix, or a batch of them, got shape {x.shape}")
    return x


def places(rows: DimLike, columns: DimLike) -> tuple[Tensor, Tensor]:
    """The row number and the column number of each element, int32 ``[rows, columns]``."""
    type = TensorType(I32, (rows, columns))
    return apply("iota", axis=0, type=type), apply("iota", axis=1, type=type)


def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """The lower triangular ``y`` with ``y yᴴ = (x + xᴴ) / 2``, ``[..., n, n]`` from ``[..., n, n]``.

    TensorFlow reads the lower triangle alone, which is the same for Hermitian ``x``; taking the
    Hermitian part makes the gradient Hermitian, as TensorFlow's is.

    Raises:
        InvalidArgumentError: a matrix is not positive definite.
    """
    x = matrices(input)
    symmetric = multiply(add(x, adjoint(x)), 0.5)
    result: Tensor = apply("cholesky", symmetric)
    if current_trace() is not None:
        with tracing(current_trace()):
            require(logical_not(is_nan(real(diagonal(result)))), _INDEFINITE)
    elif np.isnan(result.array[..., :1, :1]).any():  # what is bad is so everywhere
        raise InvalidArgumentError(
            _INDEFINITE, location=here(), hint="add a small multiple of the identity"
        )
    return result


def triangular_solve(
    matrix: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """The solution of ``t y = rhs`` for the lower or upper triangle ``t`` of a matrix.

    Args:
        matrix: ``[..., n, n]``, of which nothing but the triangle is read.
        rhs: ``[..., n, k]``; the axes in front broadcast.
        lower: which triangle.
        adjoint: whether it is transposed then, and conjugated.

    Returns:
        ``[..., n, k]``.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit; a 0 on the diagonal.
    """
    a, b = system(matrix, rhs)
    lower, adjoint = arguments.flag(lower, "lower"), arguments.flag(adjoint, "adjoint")
    _refuse_singular(a)
    return substituted(conj(a) if adjoint else a, b, lower=lower, transpose=adjoint)


def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Tensor:
    """The solution ``[..., n, k]`` of ``a y = rhs``, given the factor `cholesky` of ``a``."""
    factor, b = system(chol, rhs)
    _refuse_singular(factor)
    inner = substituted(factor, b, lower=True)
    return substituted(conj(factor), inner, lower=True, transpose=True)


def lu(input: TensorLike, output_idx_type: Any = I32, name: str | None = None) -> LU:
    """The factors of ``[..., n, n]`` with exchanges of rows; see `LU`.

    Returns:
        Both triangles in one matrix ``[..., n, n]``, and the order of the rows ``[..., n]``, int32 by default.
    """
    packed, order = apply("lu", matrices(input))
    return LU(packed, cast(order, output_idx_type))


def lu_reconstruct(
    lower_upper: TensorLike,
    perm: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """The matrix of which these are the factors, as `lu` gives them."""
    packed = matrices(lower_upper)
    n = packed.type.shape[-1]
    rows, columns = places(n, n)
    one = where(equal(rows, columns), like(1, packed.type.dtype), 0)
    lower = where(greater(rows, columns), packed, one)
    upper = where(greater(rows, columns), 0, packed)
    lead = packed.type.rank - 2
    back = argsort(_order(perm))
    return entries(matmul(lower, upper), back, lead, lead)


def lu_solve(
    lower_upper: TensorLike,
    perm: TensorLike,
    rhs: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """The solution of ``a y = rhs``, given the factors `lu` of ``a``.

    Args:
        lower_upper: both triangles, ``[..., n, n]``.
        perm: the order of the rows, ``[..., n]``.
        rhs: ``[..., n, k]``; the axes in front broadcast.
        validate_args: not used.
        name: not used.

    Returns:
        ``[..., n, k]``.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit; a singular matrix.
    """
    packed, b = system(lower_upper, rhs)
    _refuse_singular(packed)
    lead = b.type.rank - 2
    order = broadcast(_order(perm), packed.type.shape[:-1])
    exchanged = entries(b, order, lead, lead)
    inner = substituted(packed, exchanged, lower=True, unit=True)
    return substituted(packed, inner, lower=False)


def _order(perm: TensorLike) -> Tensor:
    order = as_tensor(perm)
    if not order.type.dtype.is_integer or not order.type.rank:
        raise misfit(f"expected the order of rows as integers, got {order.type}")
    return order


def lu_matrix_inverse(
    lower_upper: TensorLike,
    perm: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """The inverse of the matrix of which these are the factors, as `lu` gives them."""
    packed = matrices(lower_upper)
    return lu_solve(packed, perm, eye(packed.type.shape[-1], dtype=packed.type.dtype))


def solve(
    matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """The solution of ``matrix y = rhs``, by elimination with exchanges of rows.

    Args:
        matrix: ``[..., n, n]``.
        rhs: ``[..., n, k]``; the axes in front broadcast.
        adjoint: whether the matrix is transposed and conjugated first.

    Returns:
        ``[..., n, k]``.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit; a singular matrix.
    """
    a, b = system(matrix, rhs)
    return lu_solve(*lu(conj(transposed(a)) if arguments.flag(adjoint, "adjoint") else a), b)


def inv(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of ``[..., n, n]``, or its adjoint; float16 is computed in float32.

    Raises:
        InvalidArgumentError: no square matrices; a singular one.
    """
    x = matrices(input)
    if x.type.dtype == F16:
        return cast(inv(cast(x, F32), adjoint), F16)
    return solve(x, eye(x.type.shape[-1], dtype=x.type.dtype), adjoint)


def transposed(x: Tensor) -> Tensor:
    """The last two axes swapped."""
    rank = x.type.rank
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def adjoint(x: Tensor) -> Tensor:
    """The last two axes swapped, the elements conjugated."""
    return conj(transposed(x))


def system(matrix: TensorLike, rhs: TensorLike) -> tuple[Tensor, Tensor]:
    """A matrix and a right-hand side of one dtype, with the same axes in front."""
    a, b = map(matrices, converted(matrix, rhs))
    if not may_equal(a.type.shape[-2:-1], b.type.shape[-2:-1]):
        raise misfit(f"the rows of a matrix {a.shape} and a right-hand side {b.shape} differ")
    lead = common_shape(a.type.shape[:-2], b.type.shape[:-2])
    return tuple(broadcast(x, (*lead, *x.type.shape[-2:])) for x in (a, b))  # type: ignore[return-value]


def substituted(
    triangle: Tensor, rhs: Tensor, *, lower: bool, transpose: bool = False, unit: bool = False
) -> Tensor:
    """The solution for a triangle of a matrix, which may be transposed, or count as having ones on its diagonal."""
    attrs = {"lower": lower, "transpose": transpose, "unit": unit}
    result: Tensor = apply("triangular_solve", triangle, rhs, **attrs)
    return result


def diagonal(x: Tensor) -> Tensor:
    """The diagonals ``[..., n]`` of ``[..., n, n]``."""
    *lead, n, _ = x.type.shape
    return main_diagonal(x, lead, n)


def _refuse_singular(triangle: Tensor) -> None:
    """Refuse triangles with a 0 on their diagonals."""
    array = triangle._array
    if array is None:
        with tracing(current_trace()):
            pivots = diagonal(triangle)
            require(not_equal(pivots, zeros_like(pivots)), _SINGULAR)
    elif not array.diagonal(0, -2, -1).all():
        raise InvalidArgumentError(_SINGULAR, location=here())


def parity(order: Tensor, like: Tensor) -> Tensor:
    """1 for an even permutation, -1 for an odd one, in a dtype: by the number of inversions."""
    n = order.type.shape[-1]
    rows, columns = places(n, n)
    inverted = greater(expand_dims(order, -1), expand_dims(order, -2))
    count = reduce_sum(cast(logical_and(less(rows, columns), inverted), I32), [-2, -1])
    return cast(subtract(1, multiply(floormod(count, 2), 2)), like.type.dtype)
