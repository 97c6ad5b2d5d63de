"""Cumulative operations: each element combines all elements up to it along one axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError
from tapec.ir.op import Cotangents, Index, Kernel, Op, Sample, normal_axes
from tapec.ir.types import F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Cumulative(Op):
    """The family: ``exclusive`` leaves the element itself out, ``reverse`` starts at the end."""

    form = "nest"
    #: The scalar operation, its neutral element, NumPy's function.
    combine: ClassVar[str]
    neutral: ClassVar[int]
    numpy: ClassVar[Callable[..., Any]]

    def infer(
        self, *types: Any, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> TensorType:
        """The operand's type."""
        (x,) = types
        normal_axes(self.name, (axis,), x.rank)
        if x.dtype.kind not in ("float", "int", "uint"):
            raise DTypeError(f"{self.name} does not take {x.dtype}")
        result: TensorType = x
        return result

    def evaluate(
        self, *arrays: Any, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        """NumPy's function, on the reversed and shifted operand."""
        x = np.flip(arrays[0], axis) if reverse else arrays[0]
        if exclusive:
            first = np.full_like(np.take(x, [0] if x.shape[axis] else [], axis), self.neutral)
            x = np.concatenate([first, np.delete(x, -1, axis) if x.shape[axis] else x], axis)
        y = type(self).numpy(x, axis=axis, dtype=x.dtype)
        return np.flip(y, axis) if reverse else y

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The axis moves by one."""
        return b.emit(self, operands[0], **(attrs | {"axis": attrs["axis"] + 1}))

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: Any,
        axis: int,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> None:
        """For each line along the axis, go through it with a running value."""
        (out,), (x,) = outs, operands
        shape = x.type.shape
        length = shape[axis]

        def line(i: Index) -> None:
            def step(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
                at: DimLike = length - 1 - r[0] if reverse else r[0]
                place = (*i[:axis], at, *i[axis:])
                value = getattr(k, self.combine)(carried[0], x[place])
                k.store(carried[0] if exclusive else value, out, place)
                return (value,)

            k.fold((length,), (k.constant(self.neutral, x.type.dtype),), step)

        k.loop((*shape[:axis], *shape[axis + 1 :]), line)

    def samples(self) -> Iterator[Sample]:
        """Each combination of flags, each axis, an empty axis."""
        for exclusive in (False, True):
            for reverse in (False, True):
                attrs = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
                yield Sample((TensorType(F64, (2, 4)),), attrs)
        yield Sample((TensorType(F64, (3, 2)),), {"axis": 0})
        yield Sample((TensorType(F64, (0, 2)),), {"axis": 0})


class CumSum(Cumulative):
    """``y[i] = sum of x[j] for j <= i`` along ``axis``."""

    name = "cumsum"
    combine = "add"
    neutral = 0
    numpy = np.cumsum

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The cumulative sum of the cotangent from the other end."""
        attrs = op.attrs | {"reverse": not op.attrs.get("reverse", False)}
        return (b.cumsum(cts[0], **attrs),)


class CumProd(Cumulative):
    """``y[i] = product of x[j] for j <= i`` along ``axis``."""

    name = "cumprod"
    combine = "mul"
    neutral = 1
    numpy = np.cumprod

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar[i] = sum over j of ct[j] * (product of y[j]'s other factors)``: exact behind zeros, too.

        No quotient ``y / x``, hence all pairs: the cumulative product of x with element i replaced by 1, for each i.
        """
        (x,) = op.operands
        axis, rank = op.attrs["axis"], x.tensor.rank
        exclusive, reverse = op.attrs.get("exclusive", False), op.attrs.get("reverse", False)
        n = x.tensor.shape[axis]
        order = (*(a for a in range(rank) if a != axis), axis)
        rows = b.transpose(x, permutation=order)
        ct = b.transpose(cts[0], permutation=order)
        lead = rows.tensor.shape[:-1]
        square = (*lead, n, n)
        wide = b.broadcast(rows, shape=square, axes=(*range(rank - 1), rank))
        matrix = TensorType(wide.tensor.dtype, square)
        asked = b.eq(b.iota(axis=rank - 1, type=matrix), b.iota(axis=rank, type=matrix))
        others = b.where(asked, b.full(1, matrix), wide)
        products = b.cumprod(others, axis=rank, exclusive=exclusive, reverse=reverse)
        first, second = b.iota(axis=rank - 1, type=matrix), b.iota(axis=rank, type=matrix)
        compare = ("gt" if exclusive else "ge", "lt" if exclusive else "le")[reverse]
        counts = b.emit(compare, second, first)  # whether y[second] holds the factor x[first]
        weights = b.broadcast(ct, shape=square, axes=(*range(rank - 1), rank))
        parts = b.where(counts, b.mul(products, weights), b.full(0, matrix))
        summed = b.sum(parts, axes=(rank,))
        back = tuple(order.index(a) for a in range(rank))
        return (b.transpose(summed, permutation=back),)
