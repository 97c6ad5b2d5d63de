"""Contractions: products summed over shared axes. Their loops are tiled by a schedule of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import (
    Contraction,
    Cotangents,
    Index,
    Kernel,
    Op,
    Sample,
    require_equal_dims,
    spread,
)
from tapec.ir.ops.arith import conj
from tapec.ir.pairs import Pair
from tapec.ir.quiet import quiet
from tapec.ir.types import F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class SumOfProducts(Op):
    """The family of products summed over shared axes, which a schedule tiles; a member says its `contraction`."""

    form = "contraction"

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The sum of products; what a schedule does not tile uses this."""
        x, y = operands
        contraction = self.contraction(x.type, y.type, **attrs)
        first, second = contraction.maps

        result = self.infer(x.type, y.type, **attrs)
        assert isinstance(result, TensorType)
        dtype = result.dtype

        def product(r: Index) -> Value:
            factors = x[first((*i, *r))], y[second((*i, *r))]
            if dtype != x.type.dtype:
                return k.mul(*(k.cast(factor, dtype=dtype) for factor in factors))
            return k.mul(*factors)

        extents = contraction.space[len(contraction.space) - contraction.reduced :]
        return k.reduce("add", extents, dtype, product)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Four real contractions."""
        x, y = operands

        def product(first: str, second: str) -> Any:
            return b.emit(self, getattr(x, first), getattr(y, second), **attrs)

        re = b.sub(product("re", "re"), product("im", "im"))
        return Pair(re, b.add(product("re", "im"), product("im", "re")))

    def letters(self, op: Operation) -> Mapping[str, Any]:
        """The attributes of the `conv` that is equal: a letter for each axis, those that are summed in no result."""
        raise NotImplementedError

    def flops(self, op: Operation) -> DimLike:
        """A multiplication and an addition for each product."""
        return 2 * prod(self.contraction(*(v.type for v in op.operands), **op.parameters).space)


_matmul = quiet(np.matmul)


class MatMul(SumOfProducts):
    """``c[…, i, j] = sum over r of a[…, i, r] * b[…, r, j]``, either operand transposed in its last two axes.

    Leading axes are equal; the public function broadcasts them.
    """

    name = "matmul"
    sums_batch = True

    def infer(
        self, *types: Any, transpose_a: bool = False, transpose_b: bool = False
    ) -> TensorType:
        """``[…, m, n]`` from ``[…, m, k]`` and ``[…, k, n]``."""
        a, b = types
        if a.dtype != b.dtype:
            raise DTypeError(
                f"matmul: dtypes differ: {a.dtype.code} and {b.dtype.code}",
                hint="convert one of them with tapec.cast",
            )
        if a.dtype.kind == "bool":
            raise DTypeError("matmul does not take bool")
        if a.rank < 2 or a.rank != b.rank:
            raise ShapeError(
                f"matmul: expected two matrices or two stacks of equal rank, got {a} and {b}"
            )
        m, k = _matrix(a, transpose_a)
        inner, n = _matrix(b, transpose_b)
        hint = f"the inner dims are {k} and {inner}"
        if n == k:
            hint += "; the second matrix would fit transposed"
        for p, q in ((k, inner), *zip(a.shape[:-2], b.shape[:-2], strict=True)):
            try:
                require_equal_dims(p, q, lambda: f"matmul: shapes do not fit: {a} and {b}")
            except ShapeError as error:
                error.hint = hint
                raise
        return TensorType(a.dtype, (*a.shape[:-2], m, n))

    def prepared(
        self, b: Builder, op: Operation, fixed: Sequence[bool]
    ) -> tuple[Value, Value] | None:
        """The second matrix is turned once, which else is done in blocks each time."""
        x, y = op.operands
        if fixed[0] or not fixed[1] or not op.attrs.get("transpose_b"):
            return None
        rank = y.tensor.rank
        turned = b.transpose(y, permutation=(*range(rank - 2), rank - 1, rank - 2))
        product = b.matmul(x, turned, **{**op.parameters, "transpose_b": False})
        return turned, product

    def evaluate(self, *arrays: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        """`numpy.matmul`."""
        a, b = arrays
        a = np.swapaxes(a, -1, -2) if transpose_a else a
        b = np.swapaxes(b, -1, -2) if transpose_b else b
        if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
            # Half precision accumulates in single, as native code does.
            return _matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        return _matmul(a, b)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``a_bar = ct bᴴ``, ``b_bar = aᴴ ct``, with each transposition that the operand had.

        Source: Giles, "Collected matrix derivative results for forward and reverse mode AD", 2008, section 2.2.
        """
        x, y = (conj(b, v) for v in op.operands)
        (ct,) = cts
        ta, tb = op.attrs.get("transpose_a", False), op.attrs.get("transpose_b", False)
        if ta:
            x_ct = b.matmul(y, ct, transpose_a=tb, transpose_b=True)
        else:
            x_ct = b.matmul(ct, y, transpose_a=False, transpose_b=not tb)
        if tb:
            y_ct = b.matmul(ct, x, transpose_a=True, transpose_b=ta)
        else:
            y_ct = b.matmul(x, ct, transpose_a=not ta, transpose_b=False)
        return x_ct, y_ct

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more leading axis; a stack times one matrix is a taller matrix times that matrix."""
        x, y = operands
        ta, tb = attrs.get("transpose_a", False), attrs.get("transpose_b", False)
        if x.tensor.rank == 3 and not batched[1] and not ta:
            count, m, k = x.tensor.shape
            rows = b.reshape(x, shape=(count * m, k))
            product = b.matmul(rows, y, transpose_a=False, transpose_b=tb)
            return b.reshape(product, shape=(count, m, product.tensor.shape[-1]))
        if y.tensor.rank == 3 and not batched[0] and tb:
            count, n, k = y.tensor.shape
            rows = b.reshape(y, shape=(count * n, k))
            product = b.matmul(x, rows, transpose_a=ta, transpose_b=True)
            wide = b.reshape(product, shape=(product.tensor.shape[0], count, n))
            return b.transpose(wide, permutation=(1, 0, 2))
        return b.matmul(*spread(b, operands, batched), **attrs)

    def merges_batch(self, op: Operation, batched: Sequence[bool]) -> bool:
        """Rows of matrices times one matrix are a taller matrix times that matrix."""
        if op.result.tensor.rank != 2:
            return False
        if batched[0] and not batched[1]:
            return not op.attrs.get("transpose_a", False)
        return not batched[0] and bool(op.attrs.get("transpose_b", False))

    def batch_sum(self, b: Builder, operands: Sequence[Value], **attrs: Any) -> Value:
        """One product that sums over the batch and over the inner axis as one."""
        x = _summed_first(b, operands[0], first=attrs.get("transpose_a", False))
        y = _summed_first(b, operands[1], first=not attrs.get("transpose_b", False))
        result: Value = b.matmul(x, y, transpose_a=True, transpose_b=False)
        return result

    def contraction(
        self, *types: Any, transpose_a: bool = False, transpose_b: bool = False
    ) -> Contraction:
        """Result axes, then the one summed axis."""
        result = self.infer(*types, transpose_a=transpose_a, transpose_b=transpose_b)
        k = _matrix(types[0], transpose_a)[1]

        def first(i: Index) -> Index:
            *lead, m, _, r = i
            return (*lead, r, m) if transpose_a else (*lead, m, r)

        def second(i: Index) -> Index:
            *lead, _, n, r = i
            return (*lead, n, r) if transpose_b else (*lead, r, n)

        return Contraction((*result.shape, k), 1, (first, second))

    def letters(self, op: Operation) -> Mapping[str, Any]:
        """``m`` rows, ``n`` columns, ``k`` that is summed over, behind the axes of a stack."""
        names = (c for c in ascii_letters if c not in "mnk")
        stack = "".join(islice(names, op.result.tensor.rank - 2))
        left = "km" if op.attrs.get("transpose_a", False) else "mk"
        right = "nk" if op.attrs.get("transpose_b", False) else "kn"
        roles = {"left": stack + left, "right": stack + right, "result": stack + "mn"}
        return {**roles, "windows": (), "strides": (), "dilations": ()}

    def samples(self) -> Iterator[Sample]:
        """Each combination of transpositions, stacks, vectors as matrices, zero-size."""
        for ta in (False, True):
            for tb in (False, True):
                a, b = ((3, 2) if ta else (2, 3)), ((4, 3) if tb else (3, 4))
                yield _sample(a, b, transpose_a=ta, transpose_b=tb)
        yield _sample((2, 2, 3), (2, 3, 1), transpose_a=False, transpose_b=False)
        yield _sample((1, 3), (3, 1))
        yield _sample((2, 0), (0, 3))
        yield _sample((0, 2), (2, 3))


def _summed_first(b: Builder, x: Value, *, first: bool) -> Value:
    """``[…, n k, m]`` of a batch ``[n, …, k, m]``, or ``[n, …, m, k]`` unless the summed axis k is ``first``."""
    last = x.tensor.rank - 1
    ends = (last - 1, last) if first else (last, last - 1)
    order = (*range(1, last - 1), 0, *ends)
    if order != tuple(range(last + 1)):
        x = b.transpose(x, permutation=order)
    *lead, n, k, m = x.tensor.shape
    result: Value = b.reshape(x, shape=(*lead, n * k, m))
    return result


def _matrix(x: TensorType, transposed: bool) -> tuple[DimLike, DimLike]:
    rows, columns = x.shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _sample(a: tuple[int, ...], b: tuple[int, ...], **attrs: Any) -> Sample:
    return Sample((TensorType(F64, a), TensorType(F64, b)), attrs)
