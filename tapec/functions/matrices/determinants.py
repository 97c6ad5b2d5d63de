"""Determinants and their logarithms.

A matrix is the last two axes of a tensor; the axes in front are a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tapec.derivatives.custom import custom_gradient
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    cast,
    equal,
    greater,
    multiply,
    negative,
    real,
    sign,
    stop_gradient,
    subtract,
    where,
)
from tapec.functions.elementary import log
from tapec.functions.matrices.decompositions import svd
from tapec.functions.matrices.factorization import (
    cholesky,
    diagonal,
    lu,
    matrices,
    parity,
    places,
    transposed,
)
from tapec.functions.products import matmul
from tapec.functions.rearrangement import expand_dims, part, reshape
from tapec.functions.reductions import cumprod, reduce_prod, reduce_sum
from tapec.tensor import Tensor, TensorLike

Gradient = Callable[[Tensor], Tensor]

#: Determinants up to this size are polynomials of the elements, without division.
_POLYNOMIAL = 4


class SLogDet(NamedTuple):
    """The sign of a determinant and the logarithm of its absolute value."""

    sign: Tensor
    log_abs_determinant: Tensor


def det(input: TensorLike, name: str | None = None) -> Tensor:
    """The determinants ``[...]`` of ``[..., n, n]``.

    The gradient is the matrix of cofactors, the transposed adjugate: finite and exact for singular
    matrices too, and so is its own derivative. Up to 4 rows this follows from computing a polynomial
    of the elements. Beyond, the value is the product of the pivots of `lu`, and derivatives are made
    of singular values.

    Source: Bird, "A simple division-free algorithm for computing determinants", 2011.
    """
    x = matrices(input)
    n = x.type.shape[-1]
    if n == 0 or x.type.shape[-2] != n or not isinstance(n, int):
        return _product_of_pivots(x)
    if n > _POLYNOMIAL and x.type.dtype.is_complex:
        return _product_of_pivots(x)
    if n > _POLYNOMIAL:
        result: Any = _smooth_det(x)
        return result  # type: ignore[no-any-return]
    rows, columns = places(n, n)
    power = x
    for _ in range(n - 1):
        # Minus the sums of what follows on the diagonal; what is above it stays.
        behind = where(greater(columns, rows), expand_dims(diagonal(power), -2), 0)
        ends = expand_dims(negative(reduce_sum(behind, -1)), -1)
        upper = where(greater(columns, rows), power, where(equal(rows, columns), ends, 0))
        power = matmul(upper, x)
    corner = reshape(
        part(part(power, x.type.rank - 2, 0, 1), x.type.rank - 1, 0, 1), x.type.shape[:-2]
    )
    return corner if n % 2 else negative(corner)


@custom_gradient
def _smooth_det(x: Tensor) -> tuple[Tensor, Gradient]:
    """`det` by pivots, whose own derivative would divide by them."""

    def gradient(upstream: Tensor) -> Tensor:
        return multiply(expand_dims(expand_dims(upstream, -1), -1), _cofactors(x))

    return _product_of_pivots(x), gradient


@custom_gradient
def _cofactors(x: Tensor) -> tuple[Tensor, Gradient]:
    """The derivative of the determinant: ``|u v| u diag(products of all other s) vᵀ``.

    Its own derivative along ``g``, in the bases of the singular vectors: pairs ``i != j`` contribute
    ``g[i, i] h[j, j] - g[i, j] h[j, i]`` times the product of all values but those two.
    """
    s, u, v = svd(x)
    orientation = multiply(_orientation(u), _orientation(v))
    u = multiply(u, expand_dims(expand_dims(orientation, -1), -1))
    before, after = (cumprod(s, -1, exclusive=True, reverse=r) for r in (False, True))
    result = matmul(multiply(u, expand_dims(multiply(before, after), -2)), v, transpose_b=True)

    def gradient(upstream: Tensor) -> Tensor:
        s, u, v = svd(x)
        turned = matmul(matmul(u, upstream, transpose_a=True), v)
        pairs = _products_without_two(s)
        straight = matmul(pairs, expand_dims(diagonal(turned), -1))
        crossed = multiply(pairs, transposed(turned))
        n = s.type.shape[-1]
        inner = subtract(where(equal(*places(n, n)), straight, 0), crossed)
        orientation = expand_dims(expand_dims(multiply(_orientation(u), _orientation(v)), -1), -1)
        return multiply(matmul(matmul(u, inner), v, transpose_b=True), orientation)

    return result, gradient


def _products_without_two(s: Tensor) -> Tensor:
    """``[..., n, n]``: the products of all elements of ``[..., n]`` but i and j; 0 for ``i = j``."""
    n = s.type.shape[-1]
    rows, columns = places(n, n)
    before, after = (cumprod(s, -1, exclusive=True, reverse=r) for r in (False, True))
    behind = where(greater(columns, rows), expand_dims(s, -2), 1)
    between = cumprod(behind, -1, exclusive=True)
    whole = multiply(multiply(expand_dims(before, -1), between), expand_dims(after, -2))
    upper = where(greater(columns, rows), whole, 0)
    return add(upper, transposed(upper))


def _orientation(x: Tensor) -> Tensor:
    """1 or -1: the determinant of an orthogonal matrix."""
    packed, order = lu(stop_gradient(x))
    return multiply(parity(order, packed), reduce_prod(sign(diagonal(packed)), -1))


def _product_of_pivots(x: Tensor) -> Tensor:
    packed, order = lu(x)
    return multiply(parity(order, packed), reduce_prod(diagonal(packed), -1))


def slogdet(input: TensorLike, name: str | None = None) -> SLogDet:
    """Sign and logarithm of the absolute value of `det`, without overflow; ``-inf`` if singular.

    Both have the dtype of the matrices, of complex ones, too.
    """
    packed, order = lu(input)
    pivots = diagonal(packed)
    signs = multiply(parity(order, packed), reduce_prod(sign(pivots), -1))
    return SLogDet(signs, cast(reduce_sum(log(absolute(pivots)), -1), signs.type.dtype))


def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of Hermitian, positive definite matrices; see `cholesky`."""
    return multiply(reduce_sum(log(real(diagonal(cholesky(matrix)))), -1), 2)
