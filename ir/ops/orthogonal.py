"""The factorisation of a matrix into orthonormal columns and a triangle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import ShapeError
from tapec.ir.op import Cotangents, Index, Kernel, Op, Sample
from tapec.ir.ops.matrices import part, product, require_matrix, swapped
from tapec.ir.types import BOOL, F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class QR(Op):
    """``x = q r`` for ``x`` of at least as many rows as columns: ``qᵀ q = 1``, ``r`` upper triangular.

    Householder's reflections, one for each column, with LAPACK's signs: the diagonal of ``r`` has
    the sign opposite to what it replaces. A column that is 0 below the diagonal is not reflected;
    the third result, bool, says which columns were.
    """

    name = "qr"
    form = "nest"

    def infer(self, *types: Any) -> tuple[TensorType, ...]:
        """``q [..., m, n]``, ``r [..., n, n]``, and bool ``[..., n]``."""
        (x,) = types
        require_matrix(self.name, x)
        *lead, rows, columns = x.shape
        if not isinstance(rows, int) or not isinstance(columns, int) or rows < columns:
            raise ShapeError(f"qr: expected as many rows as columns, or more, got {x}")
        triangle = x.with_shape((*lead, columns, columns))
        return x, triangle, TensorType(BOOL, (*lead, columns))

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.linalg.qr`."""
        (x,) = arrays
        if not x.size:
            columns = x.shape[-1]
            triangle = np.zeros((*x.shape[:-2], columns, columns), x.dtype)
            return x, triangle, np.zeros((*x.shape[:-2], columns), bool)
        q, r = np.linalg.qr(x)
        _, scales = np.linalg.qr(x, mode="raw")
        return q, r, scales != 0

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = (q_bar + q s) r⁻ᵀ``, s being the lower triangle of ``r r_barᵀ - q_barᵀ q``, mirrored.

        Source: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with
        application in optimum experimental design", 2010, section 3.2.
        """
        q, r, _ = op.results
        q_ct, r_ct = cts[:2]
        terms = []
        if r_ct is not None:
            terms.append(product(b, r, r_ct, turn="y"))
        if q_ct is not None:
            terms.append(b.neg(product(b, q_ct, q, turn="x")))
        if not terms:
            return (None,)
        m = terms[0] if len(terms) == 1 else b.add(*terms)
        below = part(b, m, "gt")
        mirrored = b.add(part(b, m, "ge"), swapped(b, below))
        inner = product(b, q, mirrored)
        if q_ct is not None:
            inner = b.add(q_ct, inner)
        attrs = {"lower": False, "transpose": False, "unit": False}
        return (swapped(b, b.triangular_solve(r, swapped(b, inner), **attrs)),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.qr(operands[0])

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """Reflect column by column in ``q``, where the mirrors' normals stay; then make q of them."""
        (q, r, reflected), (x,) = outs, operands
        *lead, rows, columns = x.type.shape

        def matrix(m: Index) -> None:
            k.loop((rows, columns), lambda i: k.store(x[(*m, *i)], q, (*m, *i)))
            writer = _Reflections(k, m, q, r, reflected)
            k.loop((columns,), lambda i: writer.reflect(i[0]))
            k.loop((columns,), lambda i: writer.assemble(columns - 1 - i[0]))

        k.loop(tuple(lead), matrix)

    def flops(self, op: Operation) -> DimLike:
        """About ``4 m n²`` for each matrix: half for r, half for q."""
        x = op.operands[0].tensor
        return 4 * x.size * x.shape[-1]

    def samples(self) -> Iterator[Sample]:
        """Square, tall, a batch, one number, no columns, none."""
        for shape in ((3, 3), (4, 2), (2, 3, 2), (1, 1), (3, 0), (0, 0), (0, 3, 2)):
            large = np.eye(*shape[-2:])
            domain = (0.1 + 1.9 * large, 0.6 + 2.4 * large)
            yield Sample((TensorType(F64, shape),), domain=(domain,))


class _Reflections:
    """The loops for one matrix; column c of ``q`` holds, below its diagonal, the normal of mirror c.

    The normal's element on the diagonal is 1 and not stored. Reflecting takes ``scale`` times the
    product with the normal away, where ``scale = 2 / |normal|²``, 0 if there is no mirror.
    """

    def __init__(self, k: Kernel, m: Index, q: Value, r: Value, reflected: Value) -> None:
        self.k = k
        self.m = m
        self.q, self.r, self.reflected = q, r, reflected
        shape: tuple[DimLike, ...] = q.type.shape  # type: ignore[union-attr]
        self.rows, self.columns = shape[-2:]
        self.dtype = q.type.dtype

    def at(self, i: DimLike, j: DimLike) -> Value:
        """An element of q."""
        return self.k.load(self.q, (*self.m, i, j))

    def put(self, value: Value, i: DimLike, j: DimLike) -> None:
        """Write an element of q."""
        self.k.store(value, self.q, (*self.m, i, j))

    def below(self, c: DimLike, body: Any) -> None:
        """Run a body for every row below a diagonal element."""
        self.k.loop((self.rows - 1 - c,), lambda t: body(c + 1 + t[0]))

    def total(self, combine: str, first: DimLike, body: Any) -> Value:
        """Combine what a body gives for every row from the first on."""
        extents = (self.rows - first,)
        return self.k.reduce(combine, extents, self.dtype, lambda t: body(first + t[0]))

    def reflect(self, c: DimLike) -> None:
        """Mirror column c onto the axis, and the columns behind it alike; row c of r is ready then."""
        k, m = self.k, self.m
        zero, one = (k.constant(v, self.dtype) for v in (0, 1))
        largest = self.total("max", c, lambda i: k.abs(self.at(i, c)))
        size = k.where(k.gt(largest, zero), largest, one)  # so that no square overflows

        def square(i: DimLike) -> Value:
            value = k.div(self.at(i, c), size)
            return k.mul(value, value)

        tail = self.total("add", c + 1, square)
        moved = k.ne(tail, zero)
        head = k.div(self.at(c, c), size)
        norm = k.sqrt(k.add(k.mul(head, head), tail))
        target = k.where(k.lt(head, zero), norm, k.neg(norm))
        target = k.where(moved, target, head)
        divisor = k.where(moved, k.sub(head, target), one)
        scale = k.where(moved, k.div(k.sub(target, head), target), zero)
        k.store(moved, self.reflected, (*m, c))
        self.below(c, lambda i: self.put(k.div(k.div(self.at(i, c), size), divisor), i, c))
        self._mirror(c, scale, lambda j: self.at(c, j))
        k.loop((c,), lambda t: k.store(zero, self.r, (*m, c, *t)))
        k.store(k.mul(target, size), self.r, (*m, c, c))

        def finished(t: Index) -> None:
            k.store(self.at(c, c + 1 + t[0]), self.r, (*m, c, c + 1 + t[0]))

        k.loop((self.columns - 1 - c,), finished)

    def _mirror(self, c: DimLike, scale: Value, head: Any) -> None:
        """Mirror the columns behind column c, whose element in row c is ``head(column)``."""
        k = self.k

        def column(t: Index) -> None:
            j = c + 1 + t[0]
            first = head(j)
            inner = self.total("add", c + 1, lambda i: k.mul(self.at(i, c), self.at(i, j)))
            moved = k.mul(scale, k.add(first, inner))
            self.put(k.sub(first, moved), c, j)
            self.below(
                c, lambda i: self.put(k.sub(self.at(i, j), k.mul(moved, self.at(i, c))), i, j)
            )

        k.loop((self.columns - 1 - c,), column)

    def assemble(self, c: DimLike) -> None:
        """Mirror the unit vectors behind c, which is done for the mirrors behind c, and make unit vector c."""
        k, m = self.k, self.m
        zero, one = (k.constant(v, self.dtype) for v in (0, 1))
        squares = self.total("add", c + 1, lambda i: k.mul(self.at(i, c), self.at(i, c)))
        scale = k.div(k.constant(2, self.dtype), k.add(one, squares))
        scale = k.where(k.load(self.reflected, (*m, c)), scale, zero)
        self._mirror(c, scale, lambda j: zero)
        self.below(c, lambda i: self.put(k.neg(k.mul(scale, self.at(i, c))), i, c))
        self.put(k.sub(one, scale), c, c)
        k.loop((c,), lambda t: self.put(zero, t[0], c))
