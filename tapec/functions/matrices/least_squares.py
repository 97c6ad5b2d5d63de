"""Least squares: the pseudo-inverse, the rank, and the solution of systems that have no other.

A matrix is the last two axes of a tensor; the axes in front are a batch.
"""

from __future__ import annotations

import numpy as np

from tapec import arguments
from tapec.functions.arithmetic import (
    add,
    cast,
    divide,
    equal,
    greater,
    multiply,
    stop_gradient,
    where,
)
from tapec.functions.arrays import eye
from tapec.functions.broadcasting import like, misfit
from tapec.functions.known import is_less, static_value
from tapec.functions.logic import logical_not
from tapec.functions.matrices.decompositions import svd
from tapec.functions.matrices.doubled import doubled, halved
from tapec.functions.matrices.factorization import (
    cholesky,
    cholesky_solve,
    matrices,
    places,
    solve,
    system,
    transposed,
)
from tapec.functions.products import matmul
from tapec.functions.rearrangement import expand_dims
from tapec.functions.reductions import reduce_max, reduce_sum
from tapec.ir.types import I32
from tapec.tensor import Tensor, TensorLike


def lstsq(
    matrix: TensorLike,
    rhs: TensorLike,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Tensor:
    """The ``y`` of least ``|matrix y - rhs|² + l2_regularizer |y|²``.

    Args:
        matrix: ``[..., m, n]``.
        rhs: ``[..., m, k]``; the axes in front broadcast.
        l2_regularizer: at least 0.
        fast: True: by the normal equations, which square the condition of the matrix, and need full
            rank or a regulariser; if ``m < n``, ``y`` is the shortest of the solutions. False: by
            `pinv`, for any rank, without regulariser.
        name: not used.

    Returns:
        ``[..., n, k]``. Both ways have derivatives of any order.

    Raises:
        InvalidArgumentError: shapes or dtypes do not fit; eager and fast, the rank is not full.
    """
    a, b = system(matrix, rhs)
    if not arguments.flag(fast, "fast"):
        return matmul(pinv(a, _tolerance(a)), b)
    m, n = a.type.shape[-2:]
    wide = is_less(m, n)
    gram = matmul(a, a, adjoint_b=True) if wide else matmul(a, a, adjoint_a=True)
    ridge = static_value(l2_regularizer, "l2_regularizer")
    if ridge:
        gram = add(gram, multiply(eye(gram.type.shape[-1], dtype=a.type.dtype), ridge))
    factor = cholesky(gram)
    if wide:
        return matmul(a, cholesky_solve(factor, b), adjoint_a=True)
    return cholesky_solve(factor, matmul(a, b, adjoint_a=True))


def pinv(
    a: TensorLike,
    rcond: TensorLike = None,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """The pseudo-inverse ``[..., n, m]`` of ``[..., m, n]`` (Moore, Penrose).

    Args:
        a: the matrices.
        rcond: singular values up to this part of the largest count as 0; broadcasts to the axes in
            front. ``10 max(m, n) eps`` if None, ``eps`` being the spacing of numbers at 1.
        validate_args: not used.
        name: not used.

    Derivatives, of any order, are those of a pseudo-inverse whose rank does not change; equal
    singular values do not matter.

    Source: of the derivative, Golub and Pereyra, "The differentiation of pseudo-inverses and
    nonlinear least squares problems whose variables separate", 1973; here it follows from a
    factorisation of full rank.
    """
    x = matrices(a)
    if x.type.dtype.is_complex:
        return halved(pinv(doubled(x), 10 * _tolerance(x) if rcond is None else rcond))
    share = like(10 * _tolerance(x) if rcond is None else rcond, x.type.dtype)
    s, u, v = svd(stop_gradient(x))
    k = s.type.shape[-1]
    if k == 0:
        return transposed(x)
    kept = greater(s, expand_dims(multiply(share, reduce_max(s, -1)), -1))
    inverse = expand_dims(where(kept, divide(1, where(kept, s, 1)), 0), -2)
    # For bases p and q that do not move, x = (x q) (pᵀ x q)⁻¹ (pᵀ x), and each factor is inverted by
    # itself. The products that are solved for are the unit matrix, but for rounding.
    p, q = multiply(u, inverse), multiply(v, inverse)
    columns, rows = matmul(x, q), matmul(p, x, transpose_a=True)
    missing = where(equal(*places(k, k)), expand_dims(cast(logical_not(kept), x.type.dtype), -1), 0)
    left = solve(add(matmul(columns, columns, transpose_a=True), missing), transposed(columns))
    right = solve(add(matmul(rows, rows, transpose_b=True), missing), rows)
    return matmul(right, matmul(matmul(rows, q), left), transpose_a=True)


def matrix_rank(
    a: TensorLike,
    tol: TensorLike = None,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """How many singular values are greater than ``tol``, int32 ``[...]``.

    ``tol`` is ``max(m, n) eps`` times the largest if None, ``eps`` being the spacing of numbers at 1.
    """
    x = matrices(a)
    s = svd(x, compute_uv=False)  # real, also of a complex matrix
    if s.type.shape[-1] == 0:
        return reduce_sum(cast(s, I32), -1)
    bound = multiply(reduce_max(s, -1), _tolerance(x)) if tol is None else like(tol, s.type.dtype)
    return reduce_sum(cast(greater(s, expand_dims(bound, -1)), I32), -1)


def _tolerance(x: Tensor) -> float:
    """The larger side of a matrix, times the spacing of numbers at 1."""
    if not x.type.dtype.is_differentiable:
        raise misfit(f"expected matrices of floats, got {x.type}")
    rows, columns = x.type.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise misfit(f"the sizes of matrices {x.shape} must be known")
    return max(rows, columns) * float(np.finfo(x.type.dtype.numpy).eps)
