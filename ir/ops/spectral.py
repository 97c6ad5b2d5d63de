"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations.

Vectors are unique but for their signs, which are made so: of the largest elements of a vector (those
within a thousandth of the largest) the first is positive. For singular vectors this decides of the
right ones, and the left ones turn with them. So eager and native code agree.

Where values are equal, their vectors are any basis of a subspace and have no derivative: what would
divide by the difference of equal values is 0 in a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from tapec.ir.types import BOOL, F64, INDEX, DType, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

#: Turns over all pairs of columns, at most; convergence is quadratic, and about ten are enough.
_SWEEPS = 40
#: Elements that count as largest in the rule of signs: so much of the largest.
_LARGE = 1 - 2.0**-10


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
        """`numpy.linalg.eigh`; NaN where that finds none."""
        (x,) = arrays
        try:
            values, vectors = np.linalg.eigh(x)
        except np.linalg.LinAlgError:
            values, vectors = np.full(x.shape[:-1], np.nan, x.dtype), np.full_like(x, np.nan)
        vectors = vectors * _signs(vectors)
        return values[..., None] * np.eye(x.shape[-1], dtype=x.dtype), vectors.astype(x.dtype)

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
                k.store(_unit(k, *i, dtype), v, (*m, *i))

            k.loop((n, n), start)
            _sweep(k, n, lambda p, q: _annihilate(k, m, d, v, p, q))
            _sort(
                k,
                n,
                lambda i: k.load(d, (*m, i, i)),
                lambda i, j: (
                    exchange(k, d, (*m, i, i), (*m, j, j)),
                    _exchange_columns(k, m, v, i, j),
                ),
            )
            k.loop((n,), lambda i: _turn(k, m, v, i[0]))

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
        """`numpy.linalg.svd`; NaN where that finds none."""
        (x,) = arrays
        n = x.shape[-1]
        try:
            u, s, vt = np.linalg.svd(x, full_matrices=False)
        except np.linalg.LinAlgError:
            shapes = (x.shape, (*x.shape[:-2], n), (*x.shape[:-2], n, n))
            u, s, vt = (np.full(shape, np.nan, x.dtype) for shape in shapes)
        v = np.swapaxes(vt, -1, -2)
        signs = _signs(v)
        return s.astype(x.dtype), (u * signs).astype(x.dtype), (v * signs).astype(x.dtype)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``u k vᵀ`` and, for more rows than columns, ``(u_bar - u uᵀ u_bar) s⁻¹ vᵀ``.

        ``k = diag(s_bar) + (f * (uᵀ u_bar - u_barᵀ u)) s + s (f * (vᵀ v_bar - v_barᵀ v))`` with
        ``f[i, j] = 1 / (s[j]² - s[i]²)``.

        Source: Townsend, "Differentiating the singular value decomposition", 2016.
        """
        s, u, v = op.results
        s_ct, u_ct, v_ct = cts
        square = v.tensor.shape
        rank = len(square)
        lead = tuple(range(rank - 2))
        along_rows = b.broadcast(s, shape=square, axes=(*lead, rank - 1))
        along_columns = b.broadcast(s, shape=square, axes=(*lead, rank - 2))
        gaps = _inverse_gaps(b, part(b, b.mul(along_rows, along_rows), "eq"))
        terms = []
        if s_ct is not None:
            terms.append(part(b, b.broadcast(s_ct, shape=square, axes=(*lead, rank - 1)), "eq"))
        for vectors, ct, values in ((u, u_ct, along_rows), (v, v_ct, along_columns)):
            if ct is not None:
                overlap = product(b, vectors, ct, turn="x")
                turned = b.mul(gaps, b.sub(overlap, swapped(b, overlap)))
                terms.append(b.mul(turned, values))
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
            k.loop((n, n), lambda i: k.store(_unit(k, *i, dtype), v, (*m, *i)))
            _sweep(k, n, lambda p, q: _orthogonalise(k, m, u, v, p, q))

            def length(i: Index) -> None:
                k.store(k.sqrt(_overlap(k, m, u, i[0], i[0])), s, (*m, *i))

            def exchange_all(i: DimLike, j: DimLike) -> None:
                exchange(k, s, (*m, i), (*m, j))
                _exchange_columns(k, m, u, i, j)
                _exchange_columns(k, m, v, i, j)

            k.loop((n,), length)
            _sort(k, n, lambda i: k.neg(k.load(s, (*m, i))), exchange_all)

            def finish(i: Index) -> None:
                value = k.load(s, (*m, *i))
                factor = _turn(k, m, v, i[0])
                scale = k.div(factor, k.where(k.gt(value, zero), value, one))
                _scale_column(k, m, u, i[0], scale)
                _complete(k, m, u, i[0], k.eq(value, zero))
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
    first = np.argmax(sizes >= _LARGE * sizes.max(-2, keepdims=True), -2)
    leading = np.take_along_axis(vectors, first[..., None, :], -2)
    return np.where(leading < 0, -1, 1).astype(vectors.dtype)


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
    large = np.eye(*shape[-2:]) * np.arange(1, 2 * shape[-1], 2)
    return Sample((TensorType(F64, shape),), domain=((large - 0.1, large + 0.6),))


# ---- in loops


def _unit(k: Kernel, i: DimLike, j: DimLike, dtype: DType) -> Value:
    """An element of the unit matrix."""
    same = k.eq(k.number(i, INDEX), k.number(j, INDEX))
    return k.where(same, k.constant(1, dtype), k.constant(0, dtype))


def _sweep(k: Kernel, n: DimLike, rotate: Callable[[DimLike, DimLike], Value]) -> None:
    """Rotate every pair of columns ``p < q``, again and again until no rotation was worth it.

    ``rotate`` says, as a bool, whether its was.
    """

    def sweep(_: Index, carried: Sequence[Value]) -> Sequence[Value]:
        # A sweep that is not needed any more has no turns.
        count = k.where(carried[0], k.number(n, INDEX), k.constant(0, INDEX))

        def row(i: Index, found: Sequence[Value]) -> Sequence[Value]:
            (p,) = i

            def pair(j: Index, inner: Sequence[Value]) -> Sequence[Value]:
                return [k.or_(inner[0], rotate(p, p + 1 + j[0]))]

            return k.fold((n - 1 - p,), found, pair)

        return k.fold((k.position(count, n + 1),), [k.constant(False, BOOL)], row)

    k.fold((_SWEEPS,), [k.constant(True, BOOL)], sweep)


def _rotation(k: Kernel, tangent_of_double: Value, wanted: Value) -> tuple[Value, Value, Value]:
    """Tangent, cosine and sine of the smaller angle with ``1 / tan(2 angle)`` given; of 0 if not wanted."""
    dtype = tangent_of_double.type.dtype
    zero, one = k.constant(0, dtype), k.constant(1, dtype)
    size = k.abs(tangent_of_double)
    root = k.sqrt(k.add(k.mul(size, size), one))
    t = k.div(one, k.add(size, root))
    t = k.where(k.lt(tangent_of_double, zero), k.neg(t), t)
    t = k.where(wanted, t, zero)
    c = k.div(one, k.sqrt(k.add(k.mul(t, t), one)))
    return t, c, k.mul(t, c)


def _rotate(k: Kernel, c: Value, s: Value, buffer: Value, first: Index, second: Index) -> None:
    """Turn two elements of a buffer into ``c a - s b`` and ``s a + c b``."""
    a, b = k.load(buffer, first), k.load(buffer, second)
    k.store(k.sub(k.mul(c, a), k.mul(s, b)), buffer, first)
    k.store(k.add(k.mul(s, a), k.mul(c, b)), buffer, second)


def _annihilate(k: Kernel, m: Index, d: Value, v: Value, p: DimLike, q: DimLike) -> Value:
    """Rotate rows and columns p and q of a symmetric matrix so that its element there is 0."""
    n, dtype = d.type.shape[-1], d.type.dtype  # type: ignore[union-attr]
    zero = k.constant(0, dtype)
    app, aqq, apq = (k.load(d, (*m, *place)) for place in ((p, p), (q, q), (p, q)))
    size = k.abs(apq)
    # Too small to change either: then it is left out.
    lost = [k.eq(k.add(k.abs(a), size), k.abs(a)) for a in (app, aqq)]
    wanted = k.not_(k.and_(*lost))
    slope = k.div(k.sub(aqq, app), k.mul(k.constant(2, dtype), apq))
    t, c, s = _rotation(k, slope, wanted)
    moved = k.mul(t, apq)

    def turn(i: Index) -> None:
        _rotate(k, c, s, d, (*m, *i, p), (*m, *i, q))
        _rotate(k, c, s, v, (*m, *i, p), (*m, *i, q))

    k.loop((n,), turn)
    k.loop((n,), lambda i: _rotate(k, c, s, d, (*m, p, *i), (*m, q, *i)))
    k.store(k.sub(app, moved), d, (*m, p, p))
    k.store(k.add(aqq, moved), d, (*m, q, q))
    k.store(zero, d, (*m, p, q))
    k.store(zero, d, (*m, q, p))
    return wanted


def _overlap(k: Kernel, m: Index, u: Value, p: DimLike, q: DimLike) -> Value:
    """The product of two columns."""
    rows, dtype = u.type.shape[-2], u.type.dtype  # type: ignore[union-attr]

    def term(i: Index) -> Value:
        return k.mul(k.load(u, (*m, *i, p)), k.load(u, (*m, *i, q)))

    return k.reduce("add", (rows,), dtype, term)


def _orthogonalise(k: Kernel, m: Index, u: Value, v: Value, p: DimLike, q: DimLike) -> Value:
    """Rotate columns p and q so that those of u are orthogonal."""
    dtype = u.type.dtype
    alpha, beta, gamma = (_overlap(k, m, u, *pair) for pair in ((p, p), (q, q), (p, q)))
    epsilon = k.constant(float(np.finfo(dtype.numpy).eps), dtype)
    bound = k.mul(epsilon, k.mul(k.sqrt(alpha), k.sqrt(beta)))
    wanted = k.gt(k.abs(gamma), bound)
    slope = k.div(k.sub(beta, alpha), k.mul(k.constant(2, dtype), gamma))
    _, c, s = _rotation(k, slope, wanted)
    for buffer in (u, v):
        _rotate_columns(k, m, buffer, p, q, c, s)
    return wanted


def _rotate_columns(
    k: Kernel, m: Index, buffer: Value, p: DimLike, q: DimLike, c: Value, s: Value
) -> None:
    rows = buffer.type.shape[-2]  # type: ignore[union-attr]
    k.loop((rows,), lambda i: _rotate(k, c, s, buffer, (*m, *i, p), (*m, *i, q)))


def _sort(
    k: Kernel,
    n: DimLike,
    key: Callable[[DimLike], Value],
    swap: Callable[[DimLike, DimLike], Any],
) -> None:
    """Put columns in ascending order of a key, by selection."""

    def place(i: Index) -> None:
        (first,) = i

        def step(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
            value = key(first + 1 + r[0])
            smaller = k.lt(value, carried[0])
            number = k.number(first + 1 + r[0], INDEX)
            return k.where(smaller, value, carried[0]), k.where(smaller, number, carried[1])

        init = (key(first), k.number(first, INDEX))
        swap(first, k.position(k.fold((n - 1 - first,), init, step)[1], n))

    k.loop((n,), place)


def _exchange_columns(k: Kernel, m: Index, buffer: Value, i: DimLike, j: DimLike) -> None:
    rows = buffer.type.shape[-2]  # type: ignore[union-attr]
    k.loop((rows,), lambda r: exchange(k, buffer, (*m, *r, i), (*m, *r, j)))


def _scale_column(k: Kernel, m: Index, buffer: Value, column: DimLike, factor: Value) -> None:
    rows = buffer.type.shape[-2]  # type: ignore[union-attr]

    def element(r: Index) -> None:
        place = (*m, *r, column)
        k.store(k.mul(k.load(buffer, place), factor), buffer, place)

    k.loop((rows,), element)


def _turn(k: Kernel, m: Index, v: Value, column: DimLike) -> Value:
    """Give a column its sign, as the module says; return the factor."""
    rows, dtype = v.type.shape[-2], v.type.dtype  # type: ignore[union-attr]
    zero = k.constant(0, dtype)

    def element(r: Index) -> Value:
        return k.load(v, (*m, *r, column))

    largest = k.reduce("max", (rows,), dtype, lambda r: k.abs(element(r)))
    bound = k.mul(largest, k.constant(_LARGE, dtype))

    def step(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
        value = element(r)
        leads = k.and_(k.eq(carried[0], zero), k.ge(k.abs(value), bound))
        return [k.where(leads, value, carried[0])]

    (leading,) = k.fold((rows,), [zero], step)
    factor = k.where(k.lt(leading, zero), k.constant(-1, dtype), k.constant(1, dtype))
    _scale_column(k, m, v, column, factor)
    return factor


def _complete(k: Kernel, m: Index, u: Value, column: DimLike, missing: Value) -> None:
    """If a column is missing, make one that is orthogonal to those in front of it.

    It is what is left of the unit vector that they reach least, after two rounds of Gram and Schmidt.
    """
    rows, dtype = u.type.shape[-2], u.type.dtype  # type: ignore[union-attr]
    zero, one = k.constant(0, dtype), k.constant(1, dtype)

    def make(_: Index) -> None:
        def reach(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
            def square(c: Index) -> Value:
                value = k.load(u, (*m, *r, *c))
                return k.mul(value, value)

            total = k.reduce("add", (column,), dtype, square)
            less = k.lt(total, carried[0])
            return k.where(less, total, carried[0]), k.where(less, k.number(*r, INDEX), carried[1])

        init = (k.constant(2, dtype), k.constant(0, INDEX))
        least = k.fold((rows,), init, reach)[1]

        def unit(r: Index) -> None:
            chosen = k.eq(k.number(*r, INDEX), least)
            k.store(k.where(chosen, one, zero), u, (*m, *r, column))

        k.loop((rows,), unit)

        def remove(i: Index) -> None:
            inner = _overlap(k, m, u, i[1], column)

            def element(r: Index) -> None:
                taken = k.mul(inner, k.load(u, (*m, *r, i[1])))
                place = (*m, *r, column)
                k.store(k.sub(k.load(u, place), taken), u, place)

            k.loop((rows,), element)

        k.loop((2, column), remove)
        _scale_column(k, m, u, column, k.div(one, k.sqrt(_overlap(k, m, u, column, column))))

    count = k.where(missing, k.constant(1, INDEX), k.constant(0, INDEX))
    k.loop((k.position(count, 2),), make)
