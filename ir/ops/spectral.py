"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations.

Vectors are unique but for their signs, which are made so: of the largest elements of a vector (those
within a thousandth of the largest) the first is positive. For singular vectors this decides of the
right ones, and the left ones turn with them. So eager and native code agree.

Where values are equal, their vectors are any basis of a subspace and have no derivative: what would
divide by the difference of equal values is 0 in a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import ShapeError
from tapec.ir.op import Cotangents, Index, Kernel, Op, Sample
from tapec.ir.ops.matrices import (
    exchange,
    halved,
    part,
    product,
    require_matrix,
    require_square,
    swapped,
)
from tapec.ir.ops.rotations import (
    LARGE,
    annihilate,
    complete,
    exchange_columns,
    orthogonalise,
    overlap,
    scale_column,
    sort,
    sweep,
    turn,
    unit,
)
from tapec.ir.types import F64, INDEX, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Eigh(Op):
    """``x = v d vᵀ`` for symmetric ``x``, of which the lower triangle is read.

    ``d`` is diagonal and ascends, the columns of ``v`` are orthonormal. For signs and for equal
    eigenvalues see the module.
    """

    name = "eigh"
    form = "nest"

    def infer(self, *types: Any) -> tuple[TensorType, TensorType]:
        """Two square matrices: d and v."""
        x = require_square(self.name, types[0])
        return x, x

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.linalg.eigh`; NaN for what is not finite."""
        (x,) = arrays
        try:
            values, vectors = np.linalg.eigh(x)
        except np.linalg.LinAlgError:
            values, vectors = np.full(x.shape[:-1], np.nan, x.dtype), np.full_like(x, np.nan)
        vectors = vectors * _signs(vectors)
        diagonal = values[..., None] * np.eye(x.shape[-1])
        return _spoiled(x, diagonal, vectors)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``v (d_bar + f * (vᵀ v_bar)) vᵀ`` with ``f[i, j] = 1 / (d[j] - d[i])``, in the lower triangle.

        Source: Giles, "Collected matrix derivative results for forward and reverse mode AD", 2008,
        section 3.1.
        """
        d, v = op.results
        d_ct, v_ct = cts
        terms = [] if d_ct is None else [part(b, d_ct, "eq")]
        if v_ct is not None:
            terms.append(b.mul(_inverse_gaps(b, d), product(b, v, v_ct, turn="x")))
        if not terms:
            return (None,)
        inner = terms[0] if len(terms) == 1 else b.add(*terms)
        full = product(b, product(b, v, inner), v, turn="y")
        return (halved(b, b.add(full, swapped(b, full))),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.eigh(operands[0])

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """Cyclic two-sided rotations until nothing is left beside the diagonal of d; then sort.

        Source: Golub and Van Loan, "Matrix computations", 4th edition, 2013, section 8.5.
        """
        (d, v), (x,) = outs, operands
        *lead, n, _ = x.type.shape
        dtype = x.type.dtype

        def matrix(m: Index) -> None:
            def start(i: Index) -> None:
                lower = k.ge(k.number(i[0], INDEX), k.number(i[1], INDEX))
                k.store(k.where(lower, x[(*m, *i)], x[(*m, i[1], i[0])]), d, (*m, *i))
                k.store(unit(k, i[0], i[1], dtype), v, (*m, *i))

            def swap(i: DimLike, j: DimLike) -> None:
                exchange(k, d, (*m, i, i), (*m, j, j))
                exchange_columns(k, m, v, i, j)

            def orient(i: Index) -> None:
                turn(k, m, v, i[0])

            k.loop((n, n), start)
            sweep(k, n, lambda p, q: annihilate(k, m, d, v, p, q))
            sort(k, n, lambda i: k.load(d, (*m, i, i)), swap)
            k.loop((n,), orient)

        k.loop(tuple(lead), matrix)

    def flops(self, op: Operation) -> DimLike:
        """``9 n³`` for each of about eight sweeps."""
        x = op.operands[0].tensor
        return 72 * x.size * x.shape[-1]

    def samples(self) -> Iterator[Sample]:
        """Three eigenvalues, a batch, one number, none."""
        for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)):
            yield _spaced(shape)


class SVD(Op):
    """``x = u diag(s) vᵀ`` for ``x`` of at least as many rows as columns.

    ``s`` descends and is not negative, the columns of ``u`` and ``v`` are orthonormal; results are
    ``s``, ``u``, ``v``. For signs and for equal singular values see the module.
    """

    name = "svd"
    form = "nest"

    def infer(self, *types: Any) -> tuple[TensorType, ...]:
        """``s [..., n]``, ``u [..., m, n]``, ``v [..., n, n]``."""
        (x,) = types
        require_matrix(self.name, x)
        *lead, rows, columns = x.shape
        if not isinstance(rows, int) or not isinstance(columns, int) or rows < columns:
            raise ShapeError(f"svd: expected as many rows as columns, or more, got {x}")
        return x.with_shape((*lead, columns)), x, x.with_shape((*lead, columns, columns))

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.linalg.svd`; NaN for what is not finite."""
        (x,) = arrays
        n = x.shape[-1]
        try:
            u, s, vt = np.linalg.svd(x, full_matrices=False)
        except np.linalg.LinAlgError:
            shapes = (x.shape, (*x.shape[:-2], n), (*x.shape[:-2], n, n))
            u, s, vt = (np.full(shape, np.nan, x.dtype) for shape in shapes)
        v = np.swapaxes(vt, -1, -2)
        signs = _signs(v)
        s, u, v = _spoiled(x, s[..., None], u * signs, v * signs)
        return s[..., 0], u, v

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``u k vᵀ`` and, for more rows than columns, ``(u_bar - u uᵀ u_bar) s⁻¹ vᵀ``.

        ``k = diag(s_bar) + (f * (uᵀ u_bar - u_barᵀ u)) s + s (f * (vᵀ v_bar - v_barᵀ v))`` with
        ``f[i, j] = 1 / (s[j]² - s[i]²)``. With the two antisymmetric matrices called ``p`` and ``q`` that is
        ``(p + q) / (s[j] - s[i]) / 2 + (p - q) / (s[j] + s[i]) / 2``, of which the second part has a value where
        singular values are equal, too.

        Source: Townsend, "Differentiating the singular value decomposition", 2016.
        """
        s, u, v = op.results
        s_ct, u_ct, v_ct = cts
        square = v.tensor.shape
        rank = len(square)
        lead = tuple(range(rank - 2))
        along_rows = b.broadcast(s, shape=square, axes=(*lead, rank - 1))
        along_columns = b.broadcast(s, shape=square, axes=(*lead, rank - 2))
        gaps = _inverse_gaps(b, part(b, along_rows, "eq"))
        sums = _no_pole(b, b.add(along_rows, along_columns))
        half = b.full(0.5, v.tensor)
        terms = []
        if s_ct is not None:
            terms.append(part(b, b.broadcast(s_ct, shape=square, axes=(*lead, rank - 1)), "eq"))
        for vectors, ct, factors in (
            (u, u_ct, b.add(gaps, sums)),
            (v, v_ct, b.sub(gaps, sums)),
        ):
            if ct is not None:
                overlap = product(b, vectors, ct, turn="x")
                turned = b.sub(overlap, swapped(b, overlap))
                terms.append(b.mul(b.mul(half, factors), turned))
        if not terms:
            return (None,)
        inner = terms[0]
        for term in terms[1:]:
            inner = b.add(inner, term)
        left = product(b, u, inner)
        if u_ct is not None and u.tensor.shape != square:
            outside = b.sub(u_ct, product(b, u, product(b, u, u_ct, turn="x")))
            inverse = _no_pole(b, s)
            scales = b.broadcast(inverse, shape=u.tensor.shape, axes=(*lead, rank - 1))
            left = b.add(left, b.mul(outside, scales))
        return (product(b, left, v, turn="y"),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.svd(operands[0])

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """One-sided rotations until the columns of ``x v`` are orthogonal; they are ``u s``.

        Source: Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958;
        Golub and Van Loan, "Matrix computations", 4th edition, 2013, section 8.6.3.
        """
        (s, u, v), (x,) = outs, operands
        *lead, rows, n = x.type.shape
        dtype = x.type.dtype

        def matrix(m: Index) -> None:
            zero, one = k.constant(0, dtype), k.constant(1, dtype)
            largest = k.reduce("max", (rows, n), dtype, lambda i: k.abs(x[(*m, *i)])) if n else zero
            size = k.where(k.gt(largest, zero), largest, one)  # so that no square overflows
            k.loop((rows, n), lambda i: k.store(k.div(x[(*m, *i)], size), u, (*m, *i)))
            k.loop((n, n), lambda i: k.store(unit(k, i[0], i[1], dtype), v, (*m, *i)))
            sweep(k, n, lambda p, q: orthogonalise(k, m, u, v, p, q))

            def length(i: Index) -> None:
                k.store(k.sqrt(overlap(k, m, u, i[0], i[0])), s, (*m, *i))

            def exchange_all(i: DimLike, j: DimLike) -> None:
                exchange(k, s, (*m, i), (*m, j))
                exchange_columns(k, m, u, i, j)
                exchange_columns(k, m, v, i, j)

            k.loop((n,), length)
            sort(k, n, lambda i: k.neg(k.load(s, (*m, i))), exchange_all)

            def finish(i: Index) -> None:
                value = k.load(s, (*m, *i))
                factor = turn(k, m, v, i[0])
                scale = k.div(factor, k.where(k.gt(value, zero), value, one))
                scale_column(k, m, u, i[0], scale)
                complete(k, m, u, i[0], k.eq(value, zero))
                k.store(k.mul(value, size), s, (*m, *i))

            k.loop((n,), finish)

        k.loop(tuple(lead), matrix)

    def flops(self, op: Operation) -> DimLike:
        """``6 m n²`` for each of about eight sweeps."""
        x = op.operands[0].tensor
        return 48 * x.size * x.shape[-1]

    def samples(self) -> Iterator[Sample]:
        """Square, tall, a batch, one number, no columns, none."""
        for shape in ((3, 3), (4, 2), (2, 3, 2), (1, 1), (3, 0), (0, 0), (0, 3, 2)):
            yield _spaced(shape)


# ---- in rules


def _signs(vectors: Any) -> Any:
    """By what each column is multiplied, as the module says."""
    sizes = np.abs(vectors)
    if not vectors.shape[-2]:
        return np.ones_like(sizes.sum(-2, keepdims=True))
    first = np.argmax(sizes >= LARGE * sizes.max(-2, keepdims=True), -2)
    leading = np.take_along_axis(vectors, first[..., None, :], -2)
    return np.where(leading < 0, -1, 1).astype(vectors.dtype)


def _spoiled(x: Any, *results: Any) -> list[Any]:
    """Results in the operand's dtype; NaN for matrices that have NaN or infinity."""
    usable = np.isfinite(x).all((-2, -1), keepdims=True)
    return [np.where(usable, y, np.nan).astype(x.dtype) for y in results]


def _inverse_gaps(b: Builder, d: Value) -> Value:
    """``1 / (d[j] - d[i])`` for a diagonal matrix, 0 for equal values."""
    shape = d.tensor.shape
    rank = len(shape)
    values = b.sum(d, axes=(rank - 1,))
    lead = tuple(range(rank - 2))
    rows = b.broadcast(values, shape=shape, axes=(*lead, rank - 2))
    columns = b.broadcast(values, shape=shape, axes=(*lead, rank - 1))
    return _no_pole(b, b.sub(columns, rows))


def _no_pole(b: Builder, x: Value) -> Value:
    """``1 / x``, and 0 for 0, with derivatives of 0 there."""
    zero, one = b.full_like(0, x), b.full_like(1, x)
    pole = b.eq(x, zero)
    result: Value = b.where(pole, zero, b.reciprocal(b.where(pole, one, x)))
    return result


def _spaced(shape: tuple[int, ...]) -> Sample:
    """Matrices whose eigenvalues and singular values are apart, near 1, 3, 5."""
    large = np.eye(shape[-2], shape[-1]) * np.arange(1, 2 * shape[-1], 2)
    return Sample((TensorType(F64, shape),), domain=((large - 0.1, large + 0.6),))
