"""The square root of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapec.control.loops import while_loop
from tapec.derivatives.custom import custom_gradient
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import add, greater, multiply, stop_gradient, subtract
from tapec.functions.arrays import eye
from tapec.functions.broadcasting import misfit
from tapec.functions.matrices.doubled import doubled, halved
from tapec.functions.matrices.factorization import inv, matrices, solve, transposed
from tapec.functions.products import matmul
from tapec.functions.rearrangement import expand_dims, reshape
from tapec.functions.reductions import reduce_max
from tapec.tensor import Tensor, TensorLike

#: Steps, at most; the last ones double the digits, each before halves the distance of eigenvalues from 1.
_STEPS = 60


def sqrtm(input: TensorLike, name: str | None = None) -> Tensor:
    """The principal square root ``y`` of square matrices, ``y y = x``, by the iteration of Denman and Beavers.

    Args:
        input: ``[..., n, n]``, real or complex, not singular. Where an eigenvalue is negative or 0, there
            is no such root of a real matrix, and the result is NaN, or no root.
        name: not used.

    Returns:
        ``[..., n, n]``, with derivatives to second order; each solves a system of ``n²`` equations.

    Raises:
        InvalidArgumentError: no square matrices; a singular one.

    Source: Higham, "Functions of matrices", 2008, section 6.3 (product form).
    """
    x = matrices(input)
    if x.type.shape[-1] != x.type.shape[-2] or not x.type.dtype.is_differentiable:
        raise misfit(f"sqrtm: expected square matrices of floats, got {x.type}")
    if x.type.dtype.is_complex:
        return halved(sqrtm(doubled(x)))
    result: Any = _rooted(x, _root(stop_gradient(x)))
    return result  # type: ignore[no-any-return]


def _root(x: Tensor) -> Tensor:
    """The product of the root's approximations: ``rest`` is that of the last two, and ends as the unit matrix."""
    n = x.type.shape[-1]
    if not isinstance(n, int):
        raise misfit(f"sqrtm: the size of matrices {x.shape} must be known")
    if n == 0:
        return x
    unit = eye(n, dtype=x.type.dtype)
    tolerance = 4 * n * float(np.finfo(x.type.dtype.numpy).eps)

    def unfinished(root: Tensor, rest: Tensor) -> Tensor:
        return greater(reduce_max(absolute(subtract(rest, unit))), tolerance)

    def step(root: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        inverse = inv(rest)
        mean = multiply(add(rest, inverse), 0.5)
        return matmul(root, multiply(add(unit, inverse), 0.5)), multiply(add(unit, mean), 0.5)

    root, _ = while_loop(unfinished, step, (x, x), back_prop=False, maximum_iterations=_STEPS)
    result: Tensor = root
    return result


@custom_gradient
def _rooted(x: Tensor, y: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, None]]]:
    """The root, whose derivative ``z`` along ``u`` solves ``y z + z y = u``."""

    def gradient(upstream: Tensor) -> tuple[Tensor, None]:
        # Newton's step moves nothing, but has the derivative that the root has.
        moved = add(y, _sylvester(y, subtract(x, matmul(y, y))))
        return _sylvester(transposed(moved), upstream), None

    return add(y, 0), gradient


def _sylvester(a: Tensor, c: Tensor) -> Tensor:
    """The ``z`` with ``a z + z a = c``."""
    *lead, n, _ = a.type.shape
    unit = eye(n, dtype=a.type.dtype)

    def kron(left: Tensor, right: Tensor) -> Tensor:
        outer, inner = (
            expand_dims(expand_dims(left, -1), -3),
            expand_dims(expand_dims(right, -2), -4),
        )
        return multiply(outer, inner)

    table = add(kron(a, unit), kron(unit, transposed(a)))
    flat = solve(reshape(table, (*lead, n * n, n * n)), reshape(c, (*lead, n * n, 1)))
    return reshape(flat, (*lead, n, n))
