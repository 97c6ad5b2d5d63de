"""Factorisations of square matrices and the solution of triangular systems.

A matrix is the last two axes; the axes in front are a batch. Everything here takes float32, float64
and complex numbers of these. Solutions, inverses and determinants are composed of these. The loops are the textbook's,
unblocked: no library stands behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Cotangents, Index, Kernel, Op, Sample, require_equal_dims, spread
from tapec.ir.ops.arith import conj
from tapec.ir.ops.matrices import adjoint, exchange, halved, part, places, require_square, swapped
from tapec.ir.types import F64, I32, INDEX, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Cholesky(Op):
    """The lower triangular ``y`` with ``y yᴴ = x``; only the lower triangle of ``x`` is read.

    The diagonal is real, of complex matrices too. Of a matrix that is not positive definite it has NaN, from the first
    bad pivot on or everywhere.
    """

    name = "cholesky"
    form = "nest"

    def infer(self, *types: Any) -> TensorType:
        """The operand's type."""
        (x,) = types
        return require_square(self.name, x, or_complex=True)

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.linalg.cholesky`, of each matrix by itself where it refuses one."""
        (x,) = arrays
        try:
            return np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return np.full_like(x, np.nan)
            return np.stack([self.evaluate(row) for row in x])

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = tril(s + sᴴ)`` with its diagonal halved, ``s = y⁻ᴴ Φ(yᴴ ct) y⁻¹``.

        Φ keeps the lower triangle and halves the diagonal.

        Source: Murray, "Differentiation of the Cholesky decomposition", 2016, eq. 10.
        """
        y = conj(b, op.result)
        inner = halved(b, b.matmul(y, cts[0], transpose_a=True, transpose_b=False))
        solve = {"lower": True, "transpose": True, "unit": False}
        left = b.triangular_solve(y, inner, **solve)
        s = b.triangular_solve(y, adjoint(b, left), **solve)  # sᴴ, but so is the sum below
        return (halved(b, b.add(s, adjoint(b, s))),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.cholesky(operands[0])

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """Row by row, each from those above it."""
        (out,), (x,) = outs, operands
        *lead, n, _ = x.type.shape
        dtype = x.type.dtype

        def matrix(m: Index) -> None:
            def rest(i: DimLike, j: DimLike) -> Value:
                """``x[i, j]`` less the product of what is known of the two rows."""

                def product(r: Index) -> Value:
                    other = k.load(out, (*m, j, *r))
                    if dtype.is_complex:
                        other = k.conj(other)
                    return k.mul(k.load(out, (*m, i, *r)), other)

                return k.sub(x[(*m, i, j)], k.reduce("add", (j,), dtype, product))

            def row(r: Index) -> None:
                (i,) = r

                def left(c: Index) -> None:
                    value = k.div(rest(i, c[0]), k.load(out, (*m, *c, *c)))
                    k.store(value, out, (*m, i, *c))

                def right(c: Index) -> None:
                    k.store(k.constant(0, dtype), out, (*m, i, i + 1 + c[0]))

                k.loop((i,), left)
                square = rest(i, i)
                if dtype.is_complex:
                    root = k.cast(k.sqrt(k.real(square)), dtype=dtype)
                else:
                    root = k.sqrt(square)
                k.store(root, out, (*m, i, i))
                k.loop((n - 1 - i,), right)

            k.loop((n,), row)

        k.loop(tuple(lead), matrix)

    def flops(self, op: Operation) -> DimLike:
        """A third of n³ for each matrix."""
        size = op.result.tensor.size
        return size * op.result.tensor.shape[-1] // 3

    def samples(self) -> Iterator[Sample]:
        """One matrix, a batch, one number, none."""
        for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)):
            yield _sample([shape], 0)


class TriangularSolve(Op):
    """The ``y`` with ``t y = x`` for a triangle ``t`` of the first operand, ``[…, n, n]``.

    ``lower`` says which triangle, ``transpose`` that it is transposed then, ``unit`` that its
    diagonal counts as ones. Nothing else of the operand is read.
    """

    name = "triangular_solve"
    form = "nest"

    def infer(self, *types: Any, lower: bool, transpose: bool, unit: bool) -> TensorType:
        """The type of the right-hand side."""
        a, x = types
        require_square(self.name, a, or_complex=True)
        message = f"triangular_solve: {x} is no right-hand side for {a}"
        if a.dtype != x.dtype:
            raise DTypeError(message, hint="convert one of them with tapec.cast")
        if a.rank != x.rank:
            raise ShapeError(message, hint="both need the same leading axes, and x two more")
        for p, q in zip(a.shape[:-1], x.shape[:-1], strict=True):
            require_equal_dims(p, q, lambda: message)
        result: TensorType = x
        return result

    def evaluate(self, *arrays: Any, lower: bool, transpose: bool, unit: bool) -> Any:
        """Substitution, one row at a time for all matrices; a zero on the diagonal gives infinity."""
        a, x = arrays
        y = x.copy()
        n = a.shape[-1]
        if transpose:
            a = np.swapaxes(a, -1, -2)
        forward = lower != transpose
        with np.errstate(all="ignore"):
            for i in range(n) if forward else range(n - 1, -1, -1):
                known = slice(i) if forward else slice(i + 1, n)
                y[..., i, :] -= (a[..., i, None, known] @ y[..., known, :])[..., 0, :]
                if not unit:
                    y[..., i, :] /= a[..., i, i, None]
        return y

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = t⁻ᴴ ct``, ``t_bar = -x_bar yᴴ``, of which the triangle counts.

        Source: Giles, "Collected matrix derivative results for forward and reverse mode AD", 2008,
        section 2.3.
        """
        (ct,), attrs = cts, op.attrs
        turned = attrs | {"transpose": not attrs["transpose"]}
        x_ct = b.triangular_solve(conj(b, op.operands[0]), ct, **turned)
        y = conj(b, op.result)
        factors = (y, x_ct) if attrs["transpose"] else (x_ct, y)
        full = b.neg(b.matmul(*factors, transpose_a=False, transpose_b=True))
        compare = "g" if attrs["lower"] else "l"
        return part(b, full, compare + ("t" if attrs["unit"] else "e")), x_ct

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front; columns of one matrix stand side by side instead."""
        a, x = operands
        if batched[0] or x.tensor.rank > 3:
            return b.triangular_solve(*spread(b, operands, batched), **attrs)
        count, n, m = x.tensor.shape
        wide = b.reshape(b.transpose(x, permutation=(1, 0, 2)), shape=(n, count * m))
        y = b.reshape(b.triangular_solve(a, wide, **attrs), shape=(n, count, m))
        return b.transpose(y, permutation=(1, 0, 2))

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: Any,
        lower: bool,
        transpose: bool,
        unit: bool,
    ) -> None:
        """Substitution: each row of the result from those before it."""
        (out,), (a, x) = outs, operands
        *lead, n, columns = x.type.shape

        def matrix(m: Index) -> None:
            def place(step: DimLike) -> DimLike:
                return step if lower != transpose else n - 1 - step

            def entry(i: DimLike, j: DimLike) -> Value:
                value: Value = a[(*m, j, i) if transpose else (*m, i, j)]
                return value

            def element(r: Index) -> None:
                i, column = place(r[0]), r[1]

                def product(s: Index) -> Value:
                    j = place(s[0])
                    return k.mul(entry(i, j), k.load(out, (*m, j, column)))

                known = k.reduce("add", (r[0],), x.type.dtype, product)
                value = k.sub(x[(*m, i, column)], known)
                k.store(value if unit else k.div(value, entry(i, i)), out, (*m, i, column))

            k.loop((n, columns), element)

        k.loop(tuple(lead), matrix)

    def flops(self, op: Operation) -> DimLike:
        """n² for each column."""
        x = op.result.tensor
        return x.size * x.shape[-2]

    def samples(self) -> Iterator[Sample]:
        """Each triangle, transposed or not, unit or not; a batch; no rows, no columns."""
        for lower in (True, False):
            for transpose in (False, True):
                attrs = {"lower": lower, "transpose": transpose, "unit": False}
                yield _sample([(3, 3), (3, 2)], 0, **attrs)
        unit = {"lower": True, "transpose": False, "unit": True}
        yield _sample([(3, 3), (3, 2)], 0, **unit)
        yield _sample([(3, 3), (3, 2)], 0, **(unit | {"lower": False, "transpose": True}))
        yield _sample([(2, 2, 2), (2, 2, 1)], 0, **unit)
        yield _sample([(0, 0), (0, 2)], 0, **unit)
        yield _sample([(2, 2), (2, 0)], 0, **unit)


class LU(Op):
    """``x[p] = l u``: ``l`` below the diagonal of the first result, ``u`` on and above; then ``p``.

    ``l`` has ones on its diagonal. Each pivot is the first largest element of what is left of its
    column; where all of that is 0, so is the pivot.
    """

    name = "lu"
    form = "nest"

    def infer(self, *types: Any) -> tuple[TensorType, TensorType]:
        """The triangles have the operand's type; the order of its rows is int32."""
        (x,) = types
        require_square(self.name, x, or_complex=True)
        return x, TensorType(I32, x.shape[:-1])

    def evaluate(self, *arrays: Any) -> Any:
        """Elimination, one column at a time for all matrices."""
        *lead, n, _ = arrays[0].shape
        a = arrays[0].reshape(prod(lead), n, n).copy()
        order = np.broadcast_to(np.arange(n, dtype=np.int32), (len(a), n)).copy()
        each = np.arange(len(a))
        with np.errstate(all="ignore"):
            for c in range(n):
                pivot = c + np.argmax(np.abs(a[:, c:, c]), axis=1)
                for rows in (a, order):
                    rows[each, c], rows[each, pivot] = rows[each, pivot], rows[each, c]
                head, below = a[:, c, c, None], a[:, c + 1 :, c]
                below[...] = np.where(head == 0, 0, below / head)
                a[:, c + 1 :, c + 1 :] -= below[..., None] * a[:, c, None, c + 1 :]
        return a.reshape(arrays[0].shape), order.reshape(arrays[0].shape[:-1])

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar[p] = l⁻ᴴ (tril(lᴴ ct, -1) + triu(ct uᴴ)) u⁻ᴴ``.

        From ``dl = l tril(l⁻¹ dx[p] u⁻¹, -1)`` and ``du = triu(l⁻¹ dx[p] u⁻¹) u``.
        """
        packed, order = conj(b, op.results[0]), op.results[1]
        ct = cts[0]
        if ct is None:
            return (None,)
        rows, columns = places(b, packed)
        one = b.full_like(1, packed)
        lower = b.where(b.eq(rows, columns), one, part(b, packed, "gt"))
        upper = part(b, packed, "le")
        inner = b.add(
            part(b, b.matmul(lower, ct, transpose_a=True, transpose_b=False), "gt"),
            part(b, b.matmul(ct, upper, transpose_a=False, transpose_b=True), "le"),
        )
        left = b.triangular_solve(packed, inner, lower=True, transpose=True, unit=True)
        turned = b.triangular_solve(
            packed, swapped(b, left), lower=False, transpose=False, unit=False
        )
        axis = packed.tensor.rank - 2
        shape = packed.tensor.shape
        pulled = swapped(b, turned)
        return (b.scatter_add(order, pulled, shape=shape, axis=axis, batch_dims=axis),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.lu(operands[0])

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """Copy the matrix, then eliminate column by column in place."""
        (out, order), (x,) = outs, operands
        *lead, n, _ = x.type.shape

        def matrix(m: Index) -> None:
            k.loop((n, n), lambda r: k.store(x[(*m, *r)], out, (*m, *r)))
            k.loop((n,), lambda r: k.store(k.number(r[0], I32), order, (*m, *r)))

            def column(r: Index) -> None:
                (c,) = r
                pivot = k.position(_pivot(k, out, m, c, n), n)
                k.loop((n,), lambda t: exchange(k, out, (*m, c, *t), (*m, pivot, *t)))
                exchange(k, order, (*m, c), (*m, pivot))
                _eliminate(k, out, m, c, n)

            k.loop((n,), column)

        k.loop(tuple(lead), matrix)

    def flops(self, op: Operation) -> DimLike:
        """Two thirds of n³ for each matrix."""
        x = op.operands[0].tensor
        return 2 * x.size * x.shape[-1] // 3

    def samples(self) -> Iterator[Sample]:
        """Pivots on the diagonal and beside it; a batch, one number, none."""
        yield _sample([(3, 3)], 0)
        yield _sample([(3, 3)], 1)
        yield _sample([(2, 2, 2)], 1)
        yield _sample([(1, 1)], 0)
        yield _sample([(0, 0)], 0)
        yield _sample([(0, 2, 2)], 0)


def _pivot(k: Kernel, matrix: Value, m: Index, c: DimLike, n: DimLike) -> Value:
    """The row, from row c on, of the first largest element of column c."""
    dtype = matrix.type.dtype.real_dtype

    def step(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
        size, row = carried
        value = k.abs(k.load(matrix, (*m, c + r[0], c)))
        larger = k.gt(value, size)
        return k.where(larger, value, size), k.where(larger, k.number(c + r[0], INDEX), row)

    return k.fold((n - c,), (k.constant(-1, dtype), k.number(c, INDEX)), step)[1]


def _eliminate(k: Kernel, matrix: Value, m: Index, c: DimLike, n: DimLike) -> None:
    """Take multiples of row c from the rows below it, so that column c would be 0; keep the factors there."""
    zero = k.constant(0, matrix.type.dtype)
    head = k.load(matrix, (*m, c, c))

    def row(r: Index) -> None:
        i = c + 1 + r[0]
        ratio = k.div(k.load(matrix, (*m, i, c)), head)
        factor = k.where(k.eq(head, zero), zero, ratio)
        k.store(factor, matrix, (*m, i, c))

        def element(t: Index) -> None:
            j = c + 1 + t[0]
            product = k.mul(factor, k.load(matrix, (*m, c, j)))
            k.store(k.sub(k.load(matrix, (*m, i, j)), product), matrix, (*m, i, j))

        k.loop((n - 1 - c,), element)

    k.loop((n - 1 - c,), row)


def _sample(shapes: Sequence[tuple[int, ...]], offset: int, **attrs: Any) -> Sample:
    """A matrix whose largest elements are ``offset`` columns right of the diagonal; any second operand."""
    n = shapes[0][-1]
    large = np.roll(np.eye(n), offset, axis=1) if n else np.eye(0)
    domain = ((0.1 + 1.9 * large, 0.6 + 2.4 * large), (-2.0, 2.0))
    types = tuple(TensorType(F64, shape) for shape in shapes)
    return Sample(types, attrs, domain=domain[: len(types)])
