"""Jacobi's rotations of the columns of a matrix, and what else eigenvalues and singular values need, as loops.

``m`` is the index of a matrix in its buffer, ``k`` writes the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.op import Index, Kernel
from tapec.ir.ops.matrices import exchange
from tapec.ir.types import BOOL, INDEX, DType

if TYPE_CHECKING:
    from tapec.ir.core import Value

#: Turns over all pairs of columns, at most; convergence is quadratic, and about ten are enough.
_SWEEPS = 40
#: Elements that count as largest in the rule of signs: so much of the largest.
LARGE = 1 - 2.0**-10


def unit(k: Kernel, i: DimLike, j: DimLike, dtype: DType) -> Value:
    """An element of the unit matrix."""
    same = k.eq(k.number(i, INDEX), k.number(j, INDEX))
    return k.where(same, k.constant(1, dtype), k.constant(0, dtype))


def sweep(k: Kernel, n: DimLike, rotate: Callable[[DimLike, DimLike], Value]) -> None:
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


def rotation(k: Kernel, tangent_of_double: Value, wanted: Value) -> tuple[Value, Value, Value]:
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


def widened(k: Kernel, x: Any, dtype: DType) -> Any:
    """A real number in the dtype of elements that may be complex."""
    return k.cast(x, dtype=dtype) if dtype.is_complex else x


def phase(k: Kernel, value: Any, dtype: DType, wanted: Value) -> Any:
    """The factor that turns a complex number onto its modulus; 1 if not wanted, or if there is no angle."""
    real = dtype.real_dtype
    size = k.abs(value)
    useful = k.and_(wanted, k.gt(size, k.constant(0, real)))
    length = widened(k, k.where(useful, size, k.constant(1, real)), dtype)
    return k.where(useful, k.div(k.conj(value), length), k.constant(1, dtype))


class Rotation:
    """What turns two elements ``a`` and ``b`` of a buffer into ``c a - s b`` and ``s a + c b``.

    Of complex ones ``b`` is turned before, as makes the element beside the diagonal real.
    """

    def __init__(
        self, k: Kernel, c: Value, s: Value, beside: Any, wanted: Value, dtype: DType
    ) -> None:
        """Cosine and sine are real; ``beside`` is the element."""
        self._k, self._complex = k, dtype.is_complex
        self._c, self._s = widened(k, c, dtype), widened(k, s, dtype)
        self._phase = phase(k, beside, dtype, wanted) if dtype.is_complex else None

    def conjugate(self) -> Rotation:
        """That of rows, where this one is of columns."""
        if self._complex:
            turned = copy(self)
            turned._phase = self._k.conj(self._phase)
            return turned
        return self

    def __call__(self, buffer: Value, first: Index, second: Index) -> None:
        """Turn two elements."""
        k, c, s = self._k, self._c, self._s
        a, b = k.load(buffer, first), k.load(buffer, second)
        if self._complex:
            b = k.mul(self._phase, b)
        k.store(k.sub(k.mul(c, a), k.mul(s, b)), buffer, first)
        k.store(k.add(k.mul(s, a), k.mul(c, b)), buffer, second)


def annihilate(k: Kernel, m: Index, d: Value, v: Value, p: DimLike, q: DimLike) -> Value:
    """Rotate rows and columns p and q of a symmetric or Hermitian matrix so that its element there is 0."""
    n, dtype = d.type.shape[-1], d.type.dtype  # type: ignore[union-attr]
    app, aqq = (real_of(k, k.load(d, (*m, *place)), dtype) for place in ((p, p), (q, q)))
    apq = k.load(d, (*m, p, q))
    size = k.abs(apq)
    # Too small to change either: then it is left out.
    lost = [k.eq(k.add(k.abs(a), size), k.abs(a)) for a in (app, aqq)]
    wanted = k.not_(k.and_(*lost))
    beside = size if dtype.is_complex else apq
    t, c, s = rotation(k, _slope(k, k.sub(aqq, app), beside, wanted), wanted)
    moved = k.mul(t, beside)
    columns = Rotation(k, c, s, apq, wanted, dtype)
    rows = columns.conjugate()

    def both(i: Index) -> None:
        columns(d, (*m, *i, p), (*m, *i, q))
        columns(v, (*m, *i, p), (*m, *i, q))

    k.loop((n,), both)
    k.loop((n,), lambda i: rows(d, (*m, p, *i), (*m, q, *i)))
    zero = k.constant(0, dtype)
    k.store(widened(k, k.sub(app, moved), dtype), d, (*m, p, p))
    k.store(widened(k, k.add(aqq, moved), dtype), d, (*m, q, q))
    k.store(zero, d, (*m, p, q))
    k.store(zero, d, (*m, q, p))
    return wanted


def _slope(k: Kernel, gap: Value, beside: Value, wanted: Value) -> Value:
    """``1 / tan`` of twice the angle, finite also where no rotation is wanted: checks need not look closer."""
    dtype = beside.type.dtype
    zero, one = k.constant(0, dtype), k.constant(1, dtype)
    double = k.mul(k.constant(2, dtype), beside)
    return k.div(k.where(wanted, gap, zero), k.where(wanted, double, one))


def real_of(k: Kernel, x: Any, dtype: DType) -> Any:
    """The real part of an element that may be complex."""
    return k.real(x) if dtype.is_complex else x


def overlap(k: Kernel, m: Index, u: Value, p: DimLike, q: DimLike) -> Any:
    """The product of two columns, the first of which is conjugated."""
    rows, dtype = u.type.shape[-2], u.type.dtype  # type: ignore[union-attr]

    def term(i: Index) -> Any:
        first = k.load(u, (*m, *i, p))
        return k.mul(k.conj(first) if dtype.is_complex else first, k.load(u, (*m, *i, q)))

    return k.reduce("add", (rows,), dtype, term)


def square(k: Kernel, m: Index, u: Value, p: DimLike) -> Any:
    """The square of a column's length."""
    return real_of(k, overlap(k, m, u, p, p), u.type.dtype)


def orthogonalise(k: Kernel, m: Index, u: Value, v: Value, p: DimLike, q: DimLike) -> Value:
    """Rotate columns p and q so that those of u are orthogonal."""
    dtype = u.type.dtype
    real = dtype.real_dtype
    alpha, beta, gamma = square(k, m, u, p), square(k, m, u, q), overlap(k, m, u, p, q)
    epsilon = k.constant(float(np.finfo(real.numpy).eps), real)
    bound = k.mul(epsilon, k.mul(k.sqrt(alpha), k.sqrt(beta)))
    size = k.abs(gamma)
    wanted = k.gt(size, bound)
    beside = size if dtype.is_complex else gamma
    _, c, s = rotation(k, _slope(k, k.sub(beta, alpha), beside, wanted), wanted)
    turned = Rotation(k, c, s, gamma, wanted, dtype)
    for buffer in (u, v):
        rotate_columns(k, m, buffer, p, q, turned)
    return wanted


def rotate_columns(
    k: Kernel, m: Index, buffer: Value, p: DimLike, q: DimLike, rotate: Rotation
) -> None:
    rows = buffer.type.shape[-2]  # type: ignore[union-attr]
    k.loop((rows,), lambda i: rotate(buffer, (*m, *i, p), (*m, *i, q)))


def sort(
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


def exchange_columns(k: Kernel, m: Index, buffer: Value, i: DimLike, j: DimLike) -> None:
    rows = buffer.type.shape[-2]  # type: ignore[union-attr]
    k.loop((rows,), lambda r: exchange(k, buffer, (*m, *r, i), (*m, *r, j)))


def scale_column(k: Kernel, m: Index, buffer: Value, column: DimLike, factor: Value) -> None:
    rows = buffer.type.shape[-2]  # type: ignore[union-attr]

    def element(r: Index) -> None:
        place = (*m, *r, column)
        k.store(k.mul(k.load(buffer, place), factor), buffer, place)

    k.loop((rows,), element)


def turn(k: Kernel, m: Index, v: Value, column: DimLike) -> Any:
    """Give a column its sign or phase, as the module says; return the factor."""
    rows, dtype = v.type.shape[-2], v.type.dtype  # type: ignore[union-attr]
    real = dtype.real_dtype
    zero = k.constant(0, real)

    def element(r: Index) -> Any:
        return k.load(v, (*m, *r, column))

    largest = k.reduce("max", (rows,), real, lambda r: k.abs(element(r)))
    bound = k.mul(largest, k.constant(LARGE, real))

    def step(r: Index, carried: Sequence[Any]) -> Sequence[Any]:
        value = element(r)
        leads = k.and_(k.eq(k.abs(carried[0]), zero), k.ge(k.abs(value), bound))
        return [k.where(leads, value, carried[0])]

    (leading,) = k.fold((rows,), [k.constant(0, dtype)], step)
    if dtype.is_complex:
        factor = phase(k, leading, dtype, k.constant(True, BOOL))
    else:
        factor = k.where(k.lt(leading, zero), k.constant(-1, dtype), k.constant(1, dtype))
    scale_column(k, m, v, column, factor)
    return factor


def complete(k: Kernel, m: Index, u: Value, column: DimLike, missing: Value) -> None:
    """If a column is missing, make one that is orthogonal to those in front of it.

    It is what is left of the unit vector that they reach least, after two rounds of Gram and Schmidt.
    """
    rows, dtype = u.type.shape[-2], u.type.dtype  # type: ignore[union-attr]
    real = dtype.real_dtype
    zero, one = k.constant(0, dtype), k.constant(1, dtype)

    def make(_: Index) -> None:
        def reach(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
            def squared(c: Index) -> Value:
                value = k.load(u, (*m, *r, *c))
                size = k.abs(value) if dtype.is_complex else value
                return k.mul(size, size)

            total = k.reduce("add", (column,), real, squared)
            less = k.lt(total, carried[0])
            return k.where(less, total, carried[0]), k.where(
                less, k.number(r[0], INDEX), carried[1]
            )

        init = (k.constant(2, real), k.constant(0, INDEX))
        least = k.fold((rows,), init, reach)[1]

        def start(r: Index) -> None:
            chosen = k.eq(k.number(r[0], INDEX), least)
            k.store(k.where(chosen, one, zero), u, (*m, *r, column))

        k.loop((rows,), start)

        def remove(i: Index) -> None:
            inner = overlap(k, m, u, i[1], column)

            def element(r: Index) -> None:
                taken = k.mul(inner, k.load(u, (*m, *r, i[1])))
                place = (*m, *r, column)
                k.store(k.sub(k.load(u, place), taken), u, place)

            k.loop((rows,), element)

        k.loop((2, column), remove)
        length = k.sqrt(square(k, m, u, column))
        scale_column(k, m, u, column, widened(k, k.div(k.constant(1, real), length), dtype))

    count = k.where(missing, k.constant(1, INDEX), k.constant(0, INDEX))
    k.loop((k.position(count, 2),), make)
