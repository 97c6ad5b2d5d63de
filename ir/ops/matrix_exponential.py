"""The exponential of square matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.op import Cotangents, Index, Kernel, Op, Sample
from tapec.ir.ops.matrices import adjoint, require_square
from tapec.ir.types import F64, I32, INDEX, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

#: Terms of the series: the first that is left out, of a matrix with norm 1, is ``1 / 19! < 1e-17``.
_TERMS = 18
#: Squarings, at most: float64 has no larger exponent.
_SQUARINGS = 1025


class Expm(Op):
    """``e ** x``, the sum of ``xⁿ / n!``, and ``e ** (x / 2)``, of which it is the square.

    The matrix is halved until its 1-norm is at most 1, its series summed up, and the sum squared as
    often as the matrix was halved.

    Source: Moler and Van Loan, "Nineteen dubious ways to compute the exponential of a matrix,
    twenty-five years later", 2003, method 3.
    """

    name = "expm"
    form = "nest"

    def infer(self, *types: Any) -> tuple[TensorType, TensorType]:
        """Twice the operand's type."""
        x = require_square(self.name, types[0], or_complex=True)
        return x, x

    def evaluate(self, *arrays: Any) -> Any:
        """The formula, for all matrices at once."""
        (x,) = arrays
        with np.errstate(all="ignore"):
            norms = np.abs(x).sum(-2).max(-1, initial=0)
            large = (norms > 2) & np.isfinite(norms)
            halvings = np.ceil(np.log2(np.where(large, norms, 2))).astype(int)  # at least one
            scaled = x * np.ldexp(x.real.dtype.type(1), -halvings)[..., None, None]
            unit = np.eye(x.shape[-1], dtype=x.dtype)
            half = np.broadcast_to(unit, x.shape)
            for n in range(_TERMS, 0, -1):
                half = unit + (scaled @ half) / x.dtype.type(n)
            for turn in range(1, halvings.max(initial=1)):
                half = np.where((turn < halvings)[..., None, None], half @ half, half)
            return half @ half, np.ascontiguousarray(half)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The corner of ``e ** [[xᴴ, ct], [0, xᴴ]]``, of twice the size: the derivative along ``ct``.

        ``ct`` is divided by its largest element first, so that it calls for no more squarings.

        Source: Najfeld and Havel, "Derivatives of the matrix exponential and their computation",
        1995, theorem 4.13.
        """
        turned = adjoint(b, op.operands[0])
        whole, half = cts
        if half is not None:
            halved = b.mul(turned, b.full_like(0.5, turned))
            half = b.mul(_along(b, halved, half), b.full_like(0.5, turned))
        if whole is not None:
            whole = _along(b, turned, whole)
        return (b.add(whole, half) if whole and half else whole or half,)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.expm(operands[0])

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """The sum grows in the second result; each product is made in the first."""
        (whole, half), (x,) = outs, operands
        *lead, n, _ = x.type.shape
        dtype, real = x.type.dtype, x.type.dtype.real_dtype
        zero, one = k.constant(0, dtype), k.constant(1, dtype)

        def matrix(m: Index) -> None:
            def size(i: Index) -> Value:
                return k.reduce("add", (n,), real, lambda r: k.abs(x[(*m, *r, *i)]))

            norm = k.reduce("max", (n,), real, size)
            halvings = _halvings(k, norm)
            halve, whole_size = k.constant(0.5, real), k.constant(1, real)
            (scale,) = k.fold((halvings,), [whole_size], lambda _, s: [k.mul(s[0], halve)])

            def multiply(left: Any) -> None:
                """Into the first result, a product with the second."""

                def element(i: Index) -> None:
                    def term(r: Index) -> Value:
                        return k.mul(left((*m, i[0], *r)), k.load(half, (*m, *r, i[1])))

                    k.store(k.reduce("add", (n,), dtype, term), whole, (*m, *i))

                k.loop((n, n), element)

            def unit(i: Index) -> Value:
                return k.where(k.eq(k.number(i[0], I32), k.number(i[1], I32)), one, zero)

            def add_term(t: Index) -> None:
                multiply(lambda i: x[i])
                factor = k.div(scale, k.number(_TERMS - t[0], real))
                if dtype.is_complex:
                    factor = k.cast(factor, dtype=dtype)

                def element(i: Index) -> None:
                    term = k.mul(factor, k.load(whole, (*m, *i)))
                    k.store(k.add(unit(i), term), half, (*m, *i))

                k.loop((n, n), element)

            def square(_: Index) -> None:
                multiply(lambda i: k.load(half, i))
                k.loop((n, n), lambda i: k.store(k.load(whole, (*m, *i)), half, (*m, *i)))

            k.loop((n, n), lambda i: k.store(unit(i), half, (*m, *i)))
            k.loop((_TERMS,), add_term)
            k.loop((halvings - 1,), square)
            multiply(lambda i: k.load(half, i))

        if n:
            k.loop(tuple(lead), matrix)

    def flops(self, op: Operation) -> DimLike:
        """``2 n³`` for each term and a few squarings."""
        x = op.operands[0].tensor
        return 2 * (_TERMS + 4) * x.size * x.shape[-1]

    def samples(self) -> Iterator[Sample]:
        """A matrix, a batch, one number, none."""
        for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)):
            yield Sample((TensorType(F64, shape),), domain=(-0.9, 0.9))


def _along(b: Builder, x: Value, direction: Value) -> Value:
    """The derivative of ``e ** x`` along a direction."""
    shape, rank = x.tensor.shape, x.tensor.rank
    n = shape[-1]
    if n == 0:
        return direction
    sizes = b.stop_gradient(b.reduce_max(b.abs(direction), axes=(rank - 2, rank - 1)))
    sizes = b.where(b.gt(sizes, b.full_like(0, sizes)), sizes, b.full_like(1, sizes))
    size = b.broadcast(sizes, shape=shape, axes=tuple(range(rank - 2)))
    if x.tensor.dtype.is_complex:
        size = b.cast(size, dtype=x.tensor.dtype)
    above = b.concat(x, b.div(direction, size), axis=rank - 1)
    below = b.concat(b.full_like(0, x), x, axis=rank - 1)
    power, _ = b.expm(b.concat(above, below, axis=rank - 2))
    starts = (*(0,) * (rank - 1), n)
    corner = b.slice(power, starts=starts, sizes=shape, strides=(1,) * rank)
    result: Value = b.mul(corner, size)
    return result


def _halvings(k: Kernel, norm: Value) -> DimLike:
    """How often to halve a matrix for a norm of at most 1; at least once."""
    dtype = norm.type.dtype
    two = k.constant(2, dtype)
    large = k.and_(k.gt(norm, two), k.is_finite(norm))
    logarithm = k.mul(k.log(k.where(large, norm, two)), k.constant(1 / log(2), dtype))
    # Rounded up, a little lower first: a power of 2 need not be halved once more for a rounded logarithm.
    count = k.ceil(k.sub(logarithm, k.constant(1e-4, dtype)))
    return 1 + k.position(k.sub(k.cast(count, dtype=INDEX), k.constant(1, INDEX)), _SQUARINGS)
