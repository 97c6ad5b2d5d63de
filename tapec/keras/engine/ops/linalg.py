"""Linear algebra as Keras asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras.src.backend.common.backend_utils import canonicalize_axis

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating, promoted
from tapec.tensor import Tensor


def cholesky(a: Any, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix."""
    found = tapec.linalg.cholesky(floating(a))
    return tapec.linalg.adjoint(found) if upper else found


def cholesky_inverse(a: Any, upper: bool = False) -> Tensor:
    """The inverse of the matrix whose triangular factor is given."""
    factor = floating(a)
    if upper:
        factor = tapec.linalg.adjoint(factor)
    rows = tapec.shape(factor)[-1]
    unit = tapec.broadcast_to(tapec.eye(rows, dtype=factor.dtype), tapec.shape(factor))
    return tapec.linalg.cholesky_solve(factor, unit)


def det(a: Any) -> Tensor:
    """The determinant."""
    return tapec.linalg.det(floating(a))


def eig(x: Any) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors, complex."""
    return tuple(tapec.linalg.eig(floating(x)))  # type: ignore[return-value]


def eigh(x: Any) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    return tuple(tapec.linalg.eigh(floating(x)))  # type: ignore[return-value]


def inv(a: Any) -> Tensor:
    """The inverse."""
    return tapec.linalg.inv(floating(a))


def lu_factor(x: Any) -> tuple[Tensor, Tensor]:
    """The factors in one matrix, and which row was exchanged with each, in order."""
    x = floating(x)
    height, width = x.shape[-2:]
    count = min(height, width)
    square = x[..., :height]
    if width < height:  # columns that the others do not depend on
        more = tapec.broadcast_to(
            tapec.eye(height, dtype=x.dtype)[:, width:], [*x.shape[:-2], height, height - width]
        )
        square = tapec.concat([x, more], -1)
    factors, permutation = tapec.linalg.lu(square)
    if width < height:
        factors = factors[..., :width]
    elif width > height:
        lower = tapec.linalg.band_part(factors, -1, 0)
        lower = tapec.linalg.set_diag(lower, tapec.ones_like(tapec.linalg.diag_part(lower)))
        rest = tapec.gather(x[..., height:], permutation, axis=-2, batch_dims=x.type.rank - 2)
        factors = tapec.concat([factors, tapec.linalg.triangular_solve(lower, rest)], -1)
    rows = np.array(permutation)
    flat = rows.reshape(-1, height)
    pivots = np.stack([_exchanges(row)[:count] for row in flat]) if len(flat) else flat[:, :count]
    return factors, convert_to_tensor(pivots.reshape(*rows.shape[:-1], count), "int32")


def _exchanges(permutation: Any) -> Any:
    """The exchanges, one for each place, that make a permutation."""
    order = list(range(len(permutation)))
    found = []
    for place, row in enumerate(permutation):
        at = order.index(row)
        order[place], order[at] = order[at], order[place]
        found.append(at)
    return np.array(found)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of all elements, of vectors along an axis, or of the matrices in two."""
    x = floating(x)
    axes = tuple(range(x.type.rank)) if axis is None else axis
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    axes = tuple(canonicalize_axis(n, x.type.rank) for n in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"An axis stands twice. Received: axis={axis}")
    if axis is None and ord is None:
        square = tapec.reduce_sum(tapec.square(tapec.abs(x)), None, keepdims)
        return tapec.sqrt(square)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of dimensions to norm: `axis` must be 1 or 2 integers. Received: axis={axis}"
        )
    return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)


def _vector_norm(x: Tensor, ord: Any, axis: int, keepdims: bool) -> Tensor:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order for vectors. Received: ord={ord}")
    size = tapec.abs(x)
    if ord == 2:
        return tapec.norm(x, axis=axis, keepdims=keepdims)
    if ord == np.inf:
        return tapec.reduce_max(size, axis, keepdims)
    if ord == -np.inf:
        return tapec.reduce_min(size, axis, keepdims)
    if ord == 0:
        return tapec.reduce_sum(tapec.cast(size > 0.0, size.dtype), axis, keepdims)
    if ord == 1:
        return tapec.reduce_sum(size, axis, keepdims)
    return tapec.pow(tapec.reduce_sum(tapec.pow(size, float(ord)), axis, keepdims), 1.0 / ord)


def _matrix_norm(x: Tensor, ord: Any, axes: Sequence[int], keepdims: bool) -> Tensor:
    rank = x.type.rank
    row, column = (n % rank for n in axes)
    if ord in ("fro", None):
        square = tapec.square(tapec.abs(x))
        return tapec.sqrt(tapec.reduce_sum(square, [row, column], keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        along, other = (row, column) if abs(ord) == 1 else (column, row)
        sums = tapec.reduce_sum(tapec.abs(x), along, True)
        pick = tapec.reduce_max if ord > 0 else tapec.reduce_min
        found = pick(sums, other, True)
    elif ord in (2, -2, "nuc"):
        rest = [n for n in range(rank) if n not in (row, column)]
        values = tapec.linalg.svd(tapec.transpose(x, [*rest, row, column]), compute_uv=False)
        pick = {2: tapec.reduce_max, -2: tapec.reduce_min, "nuc": tapec.reduce_sum}[ord]
        found = pick(values, -1)
        for n in sorted((row, column)):
            found = tapec.expand_dims(found, n)
    else:
        raise ValueError(f"Invalid norm order for matrices. Received: ord={ord}")
    return found if keepdims else tapec.squeeze(found, [row, column])


def qr(x: Any, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """An orthogonal and an upper triangular factor.

    Raises:
        ValueError: ``mode`` is neither ``"reduced"`` nor ``"complete"``.
    """
    if mode not in {"reduced", "complete"}:
        raise ValueError(
            f"`mode` argument value not supported. Expected one of {{'reduced', 'complete'}}. Received: mode={mode}"
        )
    return tuple(tapec.linalg.qr(floating(x), full_matrices=mode == "complete"))  # type: ignore[return-value]


def solve(a: Any, b: Any) -> Tensor:
    """``x`` of ``a @ x = b``; vectors are columns."""
    left, right = map(floating, promoted(a, b))
    if right.type.rank == left.type.rank - 1:
        return tapec.squeeze(tapec.linalg.solve(left, right[..., None]), -1)
    return tapec.linalg.solve(left, right)


def solve_triangular(a: Any, b: Any, lower: bool = False) -> Tensor:
    """`solve` of a triangular matrix."""
    left, right = map(floating, promoted(a, b))
    if right.type.rank == left.type.rank - 1:
        found = tapec.linalg.triangular_solve(left, right[..., None], lower)
        return tapec.squeeze(found, -1)
    return tapec.linalg.triangular_solve(left, right, lower)


def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Left vectors, singular values and the adjoint of the right vectors."""
    x = floating(x)
    if not compute_uv:
        return tapec.linalg.svd(x, compute_uv=False)
    values, left, right = tapec.linalg.svd(x, full_matrices=full_matrices)
    return left, values, tapec.linalg.adjoint(right)


def lstsq(a: Any, b: Any, rcond: float | None = None) -> Tensor:
    """The ``x`` of least norm for which ``a @ x`` is nearest to ``b``."""
    left, right = map(floating, promoted(a, b))
    columns = right if right.type.rank > 1 else right[:, None]
    if rcond is None:
        rcond = float(np.finfo(left.dtype.as_numpy_dtype).eps) * max(left.shape)
    found = tapec.matmul(tapec.linalg.pinv(left, rcond), columns)
    return found if right.type.rank > 1 else found[:, 0]


def matrix_rank(x: Any, tol: float | None = None) -> Tensor:
    """The number of singular values above ``tol``."""
    return tapec.linalg.matrix_rank(floating(x), tol)


def pinv(x: Any, rcond: Any = None) -> Tensor:
    """The inverse of Moore and Penrose."""
    return tapec.linalg.pinv(floating(x), rcond)


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """The value of a function and its change along tangents; forwards in the end, by two ways back."""
    inputs = [convert_to_tensor(x) for x in primals]
    seeds = [convert_to_tensor(t) for t in tangents]
    with tapec.GradientTape() as outer:
        with tapec.GradientTape() as inner:
            inner.watch(inputs)
            result = fun(*inputs)
            value = result[0] if has_aux else result
        leaf = convert_to_tensor(value)
        weights = tapec.ones_like(leaf)
        outer.watch(weights)
        slopes = inner.gradient(leaf, inputs, weights, unconnected_gradients="zero")
        total = tapec.add_n([tapec.reduce_sum(g * t) for g, t in zip(slopes, seeds, strict=True)])
    change = outer.gradient(total, weights, unconnected_gradients="zero")
    return (value, change, result[1]) if has_aux else (value, change)
