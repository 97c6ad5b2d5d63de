"""NumPy's products and linear algebra, with NumPy's parameters."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from tapec.functions import arithmetic, products, rearrangement, reductions
from tapec.functions.arithmetic import multiply
from tapec.functions.broadcasting import common_shape, converted
from tapec.interchange.statistics import floats
from tapec.interchange.ufuncs import matmul
from tapec.tensor import Tensor, as_tensor

Function = Callable[..., Any]


def _linalg(name: str, *args: Any, **kwargs: Any) -> Any:
    """A function of `tapec.linalg`, which is loaded when it is needed; NotImplemented if there is none."""
    function = getattr(import_module("tapec.linalg"), name, None)
    return NotImplemented if function is None else function(*args, **kwargs)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    tensor = floats(x)
    if axis is None and ord is not None and tensor.type.rank == 2:
        axis = (-2, -1)
    if isinstance(axis, tuple) and ord not in (None, "fro", 1, np.inf):
        return NotImplemented
    if isinstance(axis, tuple) and len(axis) == 2 and ord in (1, np.inf):
        # Sums of columns, or of rows.
        summed = axis[0 if ord == 1 else 1]
        sums = reductions.reduce_sum(arithmetic.abs(tensor), summed, keepdims=True)
        return reductions.reduce_max(sums, axis, keepdims)
    kind = "euclidean" if ord in (None, "fro") else ord
    return reductions.norm(tensor, kind, list(axis) if isinstance(axis, tuple) else axis, keepdims)


def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    if axis is None and keepdims:
        return NotImplemented
    return _norm(rearrangement.reshape(x, [-1]) if axis is None else x, ord, axis, keepdims)


def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return _norm(x, ord, (-2, -1), keepdims)


def _dot(a: Any, b: Any) -> Tensor:
    x, y = converted(a, b)
    if not x.type.rank or not y.type.rank:
        return multiply(x, y)
    second = y.type.rank - 2 if y.type.rank > 1 else 0
    return products.tensordot(x, y, [[x.type.rank - 1], [second]])


def _inner(a: Any, b: Any) -> Tensor:
    x, y = converted(a, b)
    if not x.type.rank or not y.type.rank:
        return multiply(x, y)
    return products.tensordot(x, y, [[x.type.rank - 1], [y.type.rank - 1]])


def _vdot(a: Any, b: Any) -> Tensor:
    x, y = converted(a, b)
    product = multiply(arithmetic.conj(x), y)
    return reductions.reduce_sum(rearrangement.reshape(product, [-1]))


def _vector_dot(x1: Any, x2: Any, *, axis: int = -1) -> Tensor:
    x, y = converted(x1, x2)
    return reductions.reduce_sum(multiply(arithmetic.conj(x), y), axis)


def _outer(a: Any, b: Any) -> Tensor:
    x, y = converted(a, b)
    return multiply(rearrangement.reshape(x, [-1, 1]), rearrangement.reshape(y, [1, -1]))


def _kronecker(a: Any, b: Any) -> Any:
    x, y = converted(a, b)
    if x.type.rank != y.type.rank:
        return NotImplemented
    apart = [n for size in x.type.shape for n in (size, 1)]
    inside = [n for size in y.type.shape for n in (1, size)]
    product = multiply(rearrangement.reshape(x, apart), rearrangement.reshape(y, inside))
    shape = [m * n for m, n in zip(x.type.shape, y.type.shape, strict=True)]
    return rearrangement.reshape(product, shape)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return reductions.reduce_sum(diagonal(a, offset, axis1, axis2), -1)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonal of two axes, as the last axis."""
    x = as_tensor(a)
    rank = x.type.rank
    pair = [axis1 % rank, axis2 % rank]
    moved = rearrangement.transpose(x, [*(n for n in range(rank) if n not in pair), *pair])
    result: Tensor = _linalg("diag_part", moved, k=offset)
    return result


def _diagonal_or_matrix(v: Any, k: int = 0) -> Any:
    x = as_tensor(v)
    if x.type.rank == 1:
        return _linalg("diag", x, k=k)
    return diagonal(x, k)


def _lower(m: Any, k: int = 0) -> Any:
    x = as_tensor(m)
    rows, columns = x.shape[-2:]
    return arithmetic.where(np.tri(rows, columns, k, bool), x, 0)


def _upper(m: Any, k: int = 0) -> Any:
    x = as_tensor(m)
    rows, columns = x.shape[-2:]
    return arithmetic.where(np.tri(rows, columns, k - 1, bool), 0, x)


def _power(a: Any, n: int) -> Any:
    if n < 0:
        return _power(_linalg("inv", floats(a)), -n)
    x = floats(a)
    if n == 0:
        return NotImplemented
    found, square = None, x
    while n:
        if n % 2:
            found = square if found is None else found @ square
        n //= 2
        square = square @ square if n else square
    return found


def _solve(a: Any, b: Any) -> Any:
    x, y = converted(floats(a), b)
    if y.type.rank == 1:  # NumPy 2: a vector only if it is one
        return rearrangement.squeeze(_linalg("solve", x, rearrangement.expand_dims(y, -1)), -1)
    return _linalg("solve", x, y)


def _cross(a: Any, b: Any, axis: int = -1) -> Any:
    x, y = converted(a, b)
    if axis != -1 or x.type.shape[-1:] != (3,) or y.type.shape[-1:] != (3,):
        return NotImplemented
    shape = common_shape(x.type.shape, y.type.shape)
    wide = rearrangement.broadcast_to
    return _linalg("cross", wide(x, shape), wide(y, shape))


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return _linalg("svd", floats(a), compute_uv=False)
    found = _linalg("svd", floats(a), full_matrices=full_matrices)
    if found is NotImplemented:
        return found
    s, u, v = found
    return u, s, _linalg("adjoint", v)


def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete"):
        return NotImplemented
    return _linalg("qr", floats(a), full_matrices=mode == "complete")


def _inverse(a: Any) -> Any:
    return _linalg("inv", floats(a))


def _chain(arrays: Sequence[Any]) -> Any:
    return reduce(_dot, arrays)


def _einsum(*operands: Any, optimize: Any = False) -> Any:
    if not operands or not isinstance(operands[0], builtins.str):
        return NotImplemented
    return products.einsum(*operands)


def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """A sum over shifted copies of the longer one."""
    x, y = converted(a, v)
    if x.type.rank != 1 or y.type.rank != 1:
        return NotImplemented
    if y.type.size > x.type.size:  # type: ignore[operator]
        x, y = y, x
    m, n = (int(t.type.shape[0]) for t in (x, y))  # type: ignore[arg-type]
    if not n:
        return NotImplemented
    copies = [rearrangement.pad(multiply(x, y[i]), [[i, n - 1 - i]]) for i in range(n)]
    whole = reductions.add_n(copies)
    if mode == "full":
        return whole
    size = m if mode == "same" else m - n + 1
    start = (n - 1) // 2 if mode == "same" else n - 1
    return whole[start : start + size]


def _polynomial(p: Any, x: Any) -> Tensor:
    coefficients, at = converted(p, x)
    value = multiply(at, 0)
    for i in range(len(coefficients)):
        value = arithmetic.add(multiply(value, at), coefficients[i])
    return value


MATRICES: dict[Any, Function] = {
    np.dot: _dot,
    np.inner: _inner,
    np.vdot: _vdot,
    np.outer: _outer,
    np.kron: _kronecker,
    np.cross: _cross,
    np.tensordot: lambda a, b, axes=2: products.tensordot(a, b, axes),
    np.einsum: _einsum,
    np.convolve: _convolve,
    np.polyval: _polynomial,
    np.trace: _trace,
    np.diagonal: diagonal,
    np.diag: _diagonal_or_matrix,
    np.tril: _lower,
    np.triu: _upper,
    np.matrix_transpose: lambda x: _linalg("matrix_transpose", x),
    np.linalg.matrix_transpose: lambda x: _linalg("matrix_transpose", x),
    np.linalg.norm: _norm,
    np.linalg.vector_norm: _vector_norm,
    np.linalg.matrix_norm: _matrix_norm,
    np.linalg.inv: _inverse,
    np.linalg.det: lambda a: _linalg("det", floats(a)),
    np.linalg.slogdet: lambda a: _linalg("slogdet", floats(a)),
    np.linalg.solve: _solve,
    np.linalg.cholesky: lambda a, *, upper=False: (
        NotImplemented if upper else _linalg("cholesky", floats(a))
    ),
    np.linalg.qr: _qr,
    np.linalg.eigh: lambda a, UPLO="L": _linalg("eigh", floats(a)),
    np.linalg.eigvalsh: lambda a, UPLO="L": _linalg("eigvalsh", floats(a)),
    np.linalg.svd: _svd,
    np.linalg.svdvals: lambda x, /: _linalg("svd", floats(x), compute_uv=False),
    np.linalg.pinv: lambda a: _linalg("pinv", floats(a)),
    np.linalg.matrix_power: _power,
    np.linalg.multi_dot: _chain,
    np.linalg.outer: _outer,
    np.linalg.cross: _cross,
    np.linalg.trace: lambda x, /, *, offset=0: _trace(x, offset, -2, -1),
    np.linalg.diagonal: lambda x, /, *, offset=0: diagonal(x, offset, -2, -1),
    np.linalg.tensordot: lambda a, b, /, *, axes=2: products.tensordot(a, b, axes),
    np.linalg.matmul: matmul,
    np.linalg.vecdot: _vector_dot,
}
