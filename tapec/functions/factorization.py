"""Factorisations of matrices, and what they solve: systems, inverses, determinants, least squares.

A matrix is the last two axes of a tensor; the axes in front are a batch. Everything takes float32
and float64; other dtypes are refused. All of it is composed of the operations ``cholesky``, ``lu``
and ``triangular_solve``, so derivatives of any order follow.

Eagerly a singular matrix is an error. A compiled function cannot stop: it gives infinities and NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tapec.errors import InvalidArgumentError, TapecError, UnimplementedError
from tapec.frames import here
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    cast,
    equal,
    floormod,
    greater,
    less,
    logical_and,
    multiply,
    negative,
    sign,
    subtract,
    where,
)
from tapec.functions.arrays import eye
from tapec.functions.broadcasting import broadcast, common_shape, converted, may_equal, misfit
from tapec.functions.elementary import log
from tapec.functions.indexing import entries
from tapec.functions.known import static_value
from tapec.functions.products import main_diagonal, matmul
from tapec.functions.rearrangement import expand_dims, part, reshape, transpose
from tapec.functions.reductions import reduce_prod, reduce_sum
from tapec.ir.dims import DimLike
from tapec.ir.types import I32, TensorType
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

#: Determinants up to this size are polynomials of the elements, without division.
_POLYNOMIAL = 4


class LU(NamedTuple):
    """``x[p] = l u``: ``l`` below the diagonal of the first entry, ``u`` on and above; then ``p``."""

    lu: Tensor
    p: Tensor


class SLogDet(NamedTuple):
    """The sign of a determinant and the logarithm of its absolute value."""

    sign: Tensor
    log_abs_determinant: Tensor


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
    """The lower triangular ``y`` with ``y yᵀ = (x + xᵀ) / 2``, ``[..., n, n]`` from ``[..., n, n]``.

    TensorFlow reads the lower triangle alone, which is the same for symmetric ``x``; taking the
    symmetric part makes the gradient symmetric, as TensorFlow's is.

    Raises:
        InvalidArgumentError: eager, a matrix is not positive definite; a compiled function gives
            NaN from the first bad pivot on.
    """
    x = matrices(input)
    symmetric = multiply(add(x, _transposed(x)), 0.5)
    try:
        result: Tensor = apply("cholesky", symmetric)
    except InvalidArgumentError:
        raise
    except TapecError as error:
        if type(error) is not TapecError:
            raise
        raise InvalidArgumentError(error.message, location=here(), hint=error.hint) from None
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
        adjoint: whether it is transposed then.

    Returns:
        ``[..., n, k]``.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit; eager, a 0 on the diagonal.
    """
    a, b = _system(matrix, rhs)
    _refuse_singular(a)
    return _substituted(a, b, lower=lower, transpose=adjoint)


def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: str | None = None) -> Tensor:
    """The solution ``[..., n, k]`` of ``a y = rhs``, given the factor `cholesky` of ``a``."""
    factor, b = _system(chol, rhs)
    _refuse_singular(factor)
    inner = _substituted(factor, b, lower=True)
    return _substituted(factor, inner, lower=True, transpose=True)


def lu(input: TensorLike, output_idx_type: Any = I32, name: str | None = None) -> LU:
    """The factors of ``[..., n, n]`` with exchanges of rows; see `LU`.

    Returns:
        Both triangles in one matrix ``[..., n, n]``, and the order of the rows ``[..., n]``, int32 by default.
    """
    packed, order = apply("lu", matrices(input))
    return LU(packed, cast(order, output_idx_type))


def solve(
    matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """The solution of ``matrix y = rhs``, by elimination with exchanges of rows.

    Args:
        matrix: ``[..., n, n]``.
        rhs: ``[..., n, k]``; the axes in front broadcast.
        adjoint: whether the matrix is transposed first.

    Returns:
        ``[..., n, k]``.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit; eager, a singular matrix.
    """
    a, b = _system(matrix, rhs)
    packed, order = lu(_transposed(a) if adjoint else a)
    _refuse_singular(packed)
    lead = b.type.rank - 2
    exchanged = entries(b, order, lead, lead)
    inner = _substituted(packed, exchanged, lower=True, unit=True)
    return _substituted(packed, inner, lower=False)


def inv(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of ``[..., n, n]``, or its transpose.

    Raises:
        InvalidArgumentError: no square matrices; eager, a singular one.
    """
    x = matrices(input)
    return solve(x, eye(x.type.shape[-1], dtype=x.type.dtype), adjoint)


def det(input: TensorLike, name: str | None = None) -> Tensor:
    """The determinants ``[...]`` of ``[..., n, n]``.

    Up to 4 rows this is a polynomial of the elements, whose derivatives exist for singular matrices
    too: the gradient is the transposed adjugate. Beyond, it is the product of the pivots of `lu`,
    whose gradient is not finite for a singular matrix.

    Source: Bird, "A simple division-free algorithm for computing determinants", 2011.
    """
    x = matrices(input)
    n = x.type.shape[-1]
    if not isinstance(n, int) or n > _POLYNOMIAL or n == 0 or x.type.shape[-2] != n:
        packed, order = lu(x)
        return multiply(_parity(order, packed), reduce_prod(_diagonal(packed), -1))
    rows, columns = places(n, n)
    power = x
    for _ in range(n - 1):
        # Minus the sums of what follows on the diagonal; what is above it stays.
        behind = where(greater(columns, rows), expand_dims(_diagonal(power), -2), 0)
        ends = expand_dims(negative(reduce_sum(behind, -1)), -1)
        upper = where(greater(columns, rows), power, where(equal(rows, columns), ends, 0))
        power = matmul(upper, x)
    corner = reshape(
        part(part(power, x.type.rank - 2, 0, 1), x.type.rank - 1, 0, 1), x.type.shape[:-2]
    )
    return corner if n % 2 else negative(corner)


def slogdet(input: TensorLike, name: str | None = None) -> SLogDet:
    """Sign and logarithm of the absolute value of `det`, without overflow; ``-inf`` if singular."""
    packed, order = lu(input)
    pivots = _diagonal(packed)
    signs = multiply(_parity(order, packed), reduce_prod(sign(pivots), -1))
    return SLogDet(signs, reduce_sum(log(absolute(pivots)), -1))


def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of symmetric, positive definite matrices; see `cholesky`."""
    return multiply(reduce_sum(log(_diagonal(cholesky(matrix))), -1), 2)


def lstsq(
    matrix: TensorLike,
    rhs: TensorLike,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Tensor:
    """The ``y`` of least ``|matrix y - rhs|² + l2_regularizer |y|²``, by the normal equations.

    Args:
        matrix: ``[..., m, n]`` of full rank. If ``m < n``, ``y`` is the shortest of the solutions.
        rhs: ``[..., m, k]``; the axes in front broadcast.
        l2_regularizer: at least 0.
        fast: must be True. The normal equations square the condition of the matrix.

    Returns:
        ``[..., n, k]``.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit; eager, the rank is not full.
        UnimplementedError: ``fast=False``.
    """
    if not fast:
        raise UnimplementedError(
            "lstsq: fast=False needs an orthogonal decomposition, which tapec does not have",
            location=here(),
            hint="use fast=True with a small l2_regularizer",
        )
    a, b = _system(matrix, rhs)
    m, n = a.type.shape[-2:]
    wide = isinstance(m, int) and isinstance(n, int) and m < n
    gram = matmul(a, a, transpose_b=True) if wide else matmul(a, a, transpose_a=True)
    ridge = static_value(l2_regularizer, "l2_regularizer")
    if ridge:
        gram = add(gram, multiply(eye(gram.type.shape[-1], dtype=a.type.dtype), ridge))
    factor = cholesky(gram)
    if wide:
        return matmul(a, cholesky_solve(factor, b), transpose_a=True)
    return cholesky_solve(factor, matmul(a, b, transpose_a=True))


def _transposed(x: Tensor) -> Tensor:
    rank = x.type.rank
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _system(matrix: TensorLike, rhs: TensorLike) -> tuple[Tensor, Tensor]:
    """A matrix and a right-hand side of one dtype, with the same axes in front."""
    a, b = map(matrices, converted(matrix, rhs))
    if not may_equal(a.type.shape[-2:-1], b.type.shape[-2:-1]):
        raise misfit(f"the rows of a matrix {a.shape} and a right-hand side {b.shape} differ")
    lead = common_shape(a.type.shape[:-2], b.type.shape[:-2])
    return tuple(broadcast(x, (*lead, *x.type.shape[-2:])) for x in (a, b))  # type: ignore[return-value]


def _substituted(
    triangle: Tensor, rhs: Tensor, *, lower: bool, transpose: bool = False, unit: bool = False
) -> Tensor:
    attrs = {"lower": lower, "transpose": transpose, "unit": unit}
    result: Tensor = apply("triangular_solve", triangle, rhs, **attrs)
    return result


def _diagonal(x: Tensor) -> Tensor:
    *lead, n, _ = x.type.shape
    return main_diagonal(x, lead, n)


def _refuse_singular(triangle: Tensor) -> None:
    """Eagerly refuse triangles with a 0 on their diagonals."""
    array = triangle._array
    if array is not None and not array.diagonal(0, -2, -1).all():
        raise InvalidArgumentError("Input matrix is not invertible.", location=here())


def _parity(order: Tensor, like: Tensor) -> Tensor:
    """1 for an even permutation, -1 for an odd one, in a dtype: by the number of inversions."""
    n = order.type.shape[-1]
    rows, columns = places(n, n)
    inverted = greater(expand_dims(order, -1), expand_dims(order, -2))
    count = reduce_sum(cast(logical_and(less(rows, columns), inverted), I32), [-2, -1])
    return cast(subtract(1, multiply(floormod(count, 2), 2)), like.type.dtype)
