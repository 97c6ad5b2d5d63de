"""Eigenvalues of symmetric and Hermitian matrices and singular values, by Jacobi's rotations.

Vectors are unique but for their signs (phases, if they are complex), which are made so: of the largest
elements of a vector (those within a thousandth of the largest) the first is real and positive. For
singular vectors this decides of the right ones, and the left ones turn with them. So eager and native
code agree, and gradients are those of these very vectors.

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
from tapec.ir.ops.arith import conj
from tapec.ir.ops.matrices import (
    adjoint,
    exchange,
    halved,
    like,
    part,
    product,
    real_part,
    require_matrix,
    require_square,
)
from tapec.ir.ops.rotations import (
    LARGE,
    annihilate,
    complete,
    exchange_columns,
    orthogonalise,
    real_of,
    scale_column,
    sort,
    square,
    sweep,
    turn,
    unit,
    widened,
)
from tapec.ir.types import F64, I32, INDEX, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Eigh(Op):
    """``x = v d vᴴ`` for symmetric or Hermitian ``x``, of which the lower triangle is read.

    ``d`` is diagonal, real and ascends, the columns of ``v`` are orthonormal. For signs and for equal
    eigenvalues see the module.
    """

    name = "eigh"
    form = "nest"

    def infer(self, *types: Any) -> tuple[TensorType, TensorType]:
        """Two square matrices: d and v."""
        x = require_square(self.name, types[0], or_complex=True)
        return x, x

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.linalg.eigh`; NaN for what is not finite."""
        (x,) = arrays
        try:
            values, vectors = np.linalg.eigh(x)
        except np.linalg.LinAlgError:
            values, vectors = np.full(x.shape[:-1], np.nan, x.dtype), np.full_like(x, np.nan)
        vectors = vectors * phases(vectors)
        diagonal = values[..., None] * np.eye(x.shape[-1])
        return spoiled(x, diagonal, vectors)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``v (d_bar + f * (vᴴ v_bar)) vᴴ`` with ``f[i, j] = 1 / (d[j] - d[i])``, in the lower triangle.

        Source: Giles, "Collected matrix derivative results for forward and reverse mode AD", 2008,
        section 3.1.
        """
        d, v = op.results
        d_ct, v_ct = cts
        terms = [] if d_ct is None else [part(b, d_ct, "eq")]
        if v_ct is not None:
            gaps = inverse_gaps(b, real_part(b, d))
            overlap = product(b, conj(b, v), phase_fixed(b, v, v_ct, [(v, v_ct)]), turn="x")
            terms.append(b.mul(like(b, gaps, v), overlap))
        if not terms:
            return (None,)
        inner = terms[0] if len(terms) == 1 else b.add(*terms)
        full = product(b, product(b, v, inner), conj(b, v), turn="y")
        return (halved(b, b.add(full, adjoint(b, full))),)

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
                row, column = k.number(i[0], INDEX), k.number(i[1], INDEX)
                above = x[(*m, i[1], i[0])]
                value = k.where(
                    k.ge(row, column), x[(*m, *i)], k.conj(above) if dtype.is_complex else above
                )
                if dtype.is_complex:  # what is imaginary on the diagonal is not read
                    middle = widened(k, k.real(value), dtype)
                    value = k.where(k.eq(row, column), middle, value)
                k.store(value, d, (*m, *i))
                k.store(unit(k, i[0], i[1], dtype), v, (*m, *i))

            def swap(i: DimLike, j: DimLike) -> None:
                exchange(k, d, (*m, i, i), (*m, j, j))
                exchange_columns(k, m, v, i, j)

            def orient(i: Index) -> None:
                turn(k, m, v, i[0])

            k.loop((n, n), start)
            sweep(k, n, lambda p, q: annihilate(k, m, d, v, p, q))
            sort(k, n, lambda i: real_of(k, k.load(d, (*m, i, i)), dtype), swap)
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
    """``x = u diag(s) vᴴ`` for ``x`` of at least as many rows as columns.

    ``s`` is real, descends and is not negative, the columns of ``u`` and ``v`` are orthonormal; results are
    ``s``, ``u``, ``v``. For signs and for equal singular values see the module.
    """

    name = "svd"
    form = "nest"

    def infer(self, *types: Any) -> tuple[TensorType, ...]:
        """``s [..., n]``, ``u [..., m, n]``, ``v [..., n, n]``."""
        (x,) = types
        require_matrix(self.name, x, or_complex=True)
        *lead, rows, columns = x.shape
        if not isinstance(rows, int) or not isinstance(columns, int) or rows < columns:
            raise ShapeError(f"svd: expected as many rows as columns, or more, got {x}")
        values = TensorType(x.dtype.real_dtype, (*lead, columns))
        return values, x, x.with_shape((*lead, columns, columns))

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.linalg.svd`; NaN for what is not finite."""
        (x,) = arrays
        n = x.shape[-1]
        try:
            u, s, vt = np.linalg.svd(x, full_matrices=False)
        except np.linalg.LinAlgError:
            shapes = (x.shape, (*x.shape[:-2], n), (*x.shape[:-2], n, n))
            u, s, vt = (np.full(shape, np.nan, x.dtype) for shape in shapes)
        v = np.swapaxes(vt, -1, -2).conj()
        signs = phases(v)
        s, u, v = spoiled(x, s[..., None], u * signs, v * signs)
        return s[..., 0].real, u, v

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``u k vᴴ`` and, for more rows than columns, ``(u_bar - u uᴴ u_bar) s⁻¹ vᴴ``.

        ``k = diag(s_bar) + (f * (uᴴ u_bar - u_barᴴ u)) s + s (f * (vᴴ v_bar - v_barᴴ v))`` with
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
        gaps = inverse_gaps(b, part(b, along_rows, "eq"))
        sums = _no_pole(b, b.add(along_rows, along_columns))
        half = b.full_like(0.5, gaps)
        terms = []
        if s_ct is not None:
            diagonal = b.broadcast(s_ct, shape=square, axes=(*lead, rank - 1))
            terms.append(like(b, part(b, diagonal, "eq"), v))
        told = [(y, ct) for y, ct in ((u, u_ct), (v, v_ct)) if ct is not None]
        if told:
            v_ct = phase_fixed(b, v, v_ct, told)
        for vectors, ct, factors in (
            (u, u_ct, b.add(gaps, sums)),
            (v, v_ct, b.sub(gaps, sums)),
        ):
            if ct is not None:
                overlap = product(b, conj(b, vectors), ct, turn="x")
                turned = b.sub(overlap, adjoint(b, overlap))
                terms.append(b.mul(like(b, b.mul(half, factors), v), turned))
        if not terms:
            return (None,)
        inner = terms[0]
        for term in terms[1:]:
            inner = b.add(inner, term)
        left = product(b, u, inner)
        if u_ct is not None and u.tensor.shape != square:
            outside = b.sub(u_ct, product(b, u, product(b, conj(b, u), u_ct, turn="x")))
            inverse = _no_pole(b, s)
            scales = b.broadcast(inverse, shape=u.tensor.shape, axes=(*lead, rank - 1))
            left = b.add(left, b.mul(outside, like(b, scales, u)))
        return (product(b, left, conj(b, v), turn="y"),)

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
        dtype, real = x.type.dtype, x.type.dtype.real_dtype

        def matrix(m: Index) -> None:
            zero, one = k.constant(0, real), k.constant(1, real)
            largest = k.reduce("max", (rows, n), real, lambda i: k.abs(x[(*m, *i)])) if n else zero
            size = k.where(k.gt(largest, zero), largest, one)  # so that no square overflows
            whole = widened(k, size, dtype)
            k.loop((rows, n), lambda i: k.store(k.div(x[(*m, *i)], whole), u, (*m, *i)))
            k.loop((n, n), lambda i: k.store(unit(k, i[0], i[1], dtype), v, (*m, *i)))
            sweep(k, n, lambda p, q: orthogonalise(k, m, u, v, p, q))

            def length(i: Index) -> None:
                k.store(k.sqrt(square(k, m, u, i[0])), s, (*m, *i))

            def exchange_all(i: DimLike, j: DimLike) -> None:
                exchange(k, s, (*m, i), (*m, j))
                exchange_columns(k, m, u, i, j)
                exchange_columns(k, m, v, i, j)

            k.loop((n,), length)
            sort(k, n, lambda i: k.neg(k.load(s, (*m, i))), exchange_all)

            def finish(i: Index) -> None:
                value = k.load(s, (*m, *i))
                factor = turn(k, m, v, i[0])
                length = widened(k, k.where(k.gt(value, zero), value, one), dtype)
                scale_column(k, m, u, i[0], k.div(factor, length))
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


def phases(vectors: Any) -> Any:
    """By what each column is multiplied, as the module says."""
    sizes = np.abs(vectors)
    if not vectors.shape[-2]:
        return np.ones_like(sizes.sum(-2, keepdims=True))
    first = np.argmax(sizes >= LARGE * sizes.max(-2, keepdims=True), -2)
    leading = np.take_along_axis(vectors, first[..., None, :], -2)
    if np.iscomplexobj(vectors):
        sizes = np.abs(leading)
        return np.where(sizes > 0, leading.conj() / np.where(sizes > 0, sizes, 1), 1)
    return np.where(leading < 0, -1, 1).astype(vectors.dtype)


def spoiled(x: Any, *results: Any, dtype: Any = None) -> list[Any]:
    """Results in the operand's dtype, or another; NaN for matrices that have NaN or infinity."""
    usable = np.isfinite(x).all((-2, -1), keepdims=True)
    return [np.where(usable, y, np.nan).astype(dtype or x.dtype) for y in results]


def phase_fixed(b: Builder, v: Value, ct: Value | None, told: Sequence[tuple[Value, Value]]) -> Any:
    """The cotangent of ``v``, and what its phases add that are fixed by the leading element of each column.

    A phase that turns its column, and those of the other vectors that are ``told`` with their cotangents, moves the
    result by ``t``, the imaginary part of all products ``yᴴ y_bar`` of columns. It turns back what the rest does to the
    leading element, which is real: so that has the cotangent ``-i t / v``.
    """
    if not v.tensor.dtype.is_complex:
        return ct
    shape, rank = v.tensor.shape, v.tensor.rank
    rows = rank - 2
    sizes = b.stop_gradient(b.abs(v))
    largest = b.broadcast(b.reduce_max(sizes, axes=(rows,)), shape=shape, axes=_all_but(rank, rows))
    leads = b.ge(sizes, b.mul(largest, b.full_like(LARGE, largest)))
    first = b.eq(b.cumsum(b.cast(leads, dtype=I32), axis=rows), b.full(1, v.tensor.with_dtype(I32)))
    leads = b.and_(leads, first)
    turned = [b.sum(b.imag(b.mul(conj(b, y), y_ct)), axes=(rows,)) for y, y_ct in told]
    total = turned[0] if len(turned) == 1 else b.add(*turned)
    total = b.broadcast(total, shape=shape, axes=_all_but(rank, rows))
    zero, one = b.full_like(0, total), b.full_like(1, total)
    moved = b.div(b.neg(total), b.where(leads, b.real(v), one))
    added = b.complex(zero, b.where(leads, moved, zero))
    return added if ct is None else b.add(ct, added)


def _all_but(rank: int, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(rank) if i != axis)


def inverse_gaps(b: Builder, d: Value) -> Value:
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
