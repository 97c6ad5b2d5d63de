"""Cumulative operations: each element combines all elements up to it along one axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError
from tapec.ir.op import (
    AlongAxis,
    Cotangents,
    Index,
    Kernel,
    Sample,
    normal_axes,
    require_same_shape,
)
from tapec.ir.ops.arith import conj
from tapec.ir.types import F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Cumulative(AlongAxis):
    """The family: ``exclusive`` leaves the element itself out, ``reverse`` starts at the end."""

    form = "nest"
    #: The scalar operation, its neutral element, NumPy's function.
    combine: ClassVar[str]
    neutral: ClassVar[int]
    numpy: ClassVar[Callable[..., Any]]
    kinds: ClassVar[tuple[str, ...]] = ("float", "int", "uint", "complex")

    def infer(
        self, *types: Any, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> TensorType:
        """The operand's type."""
        (x,) = types
        normal_axes(self.name, (axis,), x.rank)
        if x.dtype.kind not in self.kinds:
            raise DTypeError(f"{self.name} does not take {x.dtype.code}")
        result: TensorType = x
        return result

    @np.errstate(all="ignore")
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

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Both parts alike."""
        return self.apart(b, *operands, **attrs)

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
        """``x_bar[i] = before[i] * sum over j of ct[j] * between[i, j]``, exact at zeros, too.

        ``before`` is the product of what comes before x[i], ``between`` that of what comes after
        it and is a factor of y[j]. Horner's scheme gives the sum for all i in one `linear_scan`.
        """
        (x,) = op.operands
        axis, (ct,) = op.attrs["axis"], cts
        exclusive, reverse = op.attrs.get("exclusive", False), op.attrs.get("reverse", False)
        factors, back = conj(b, x), not reverse
        if exclusive:
            before = op.result
            sums = shifted(b, b.linear_scan(factors, ct, axis=axis, reverse=back), axis, back)
        else:
            before = b.cumprod(x, axis=axis, exclusive=True, reverse=reverse)
            sums = b.linear_scan(shifted(b, factors, axis, back), ct, axis=axis, reverse=back)
        return (b.mul(conj(b, before), sums),)


class LinearScan(AlongAxis):
    """``y[0] = x[0]``, ``y[i] = a[i] * y[i - 1] + x[i]`` along ``axis``, for operands a and x.

    ``reverse`` starts at the end. The first element of a is not used.
    """

    name = "linear_scan"
    form = "nest"

    def infer(self, *types: Any, axis: int, reverse: bool = False) -> TensorType:
        """The operands' common type."""
        a, x = types
        normal_axes(self.name, (axis,), x.rank)
        if a.dtype != x.dtype:
            raise DTypeError(
                f"linear_scan: dtypes differ: {a.dtype.code} and {x.dtype.code}",
                hint="convert one of them with tapec.cast",
            )
        if x.dtype.kind not in Cumulative.kinds:
            raise DTypeError(f"linear_scan does not take {x.dtype.code}")
        require_same_shape(self.name, a, x)
        result: TensorType = x
        return result

    def evaluate(self, *arrays: Any, axis: int, reverse: bool = False) -> Any:
        """One step at a time for all lines."""
        a, x = (np.moveaxis(array, axis, 0) for array in arrays)
        y = x.copy()
        order = range(len(y))[:: -1 if reverse else 1]
        with np.errstate(all="ignore"):
            for last, i in pairwise(order):
                y[i] += a[i] * y[last]
        return np.ascontiguousarray(np.moveaxis(y, 0, axis))

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar`` is the scan from the other end; ``a_bar[i] = x_bar[i] * conj(y[i - 1])``."""
        axis, reverse = op.attrs["axis"], op.attrs.get("reverse", False)
        factors = shifted(b, conj(b, op.operands[0]), axis, not reverse)
        x_ct = b.linear_scan(factors, cts[0], axis=axis, reverse=not reverse)
        return b.mul(x_ct, conj(b, shifted(b, op.result, axis, reverse))), x_ct

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: Any,
        axis: int,
        reverse: bool = False,
    ) -> None:
        """For each line along the axis, go through it with the last result."""
        (out,), (a, x) = outs, operands
        shape = x.type.shape
        length = shape[axis]
        if length == 0:
            return

        def line(i: Index) -> None:
            def place(r: DimLike) -> Index:
                return (*i[:axis], length - 1 - r if reverse else r, *i[axis:])

            def step(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
                at = place(r[0] + 1)
                value = k.add(k.mul(a[at], carried[0]), x[at])
                k.store(value, out, at)
                return (value,)

            first = x[place(0)]
            k.store(first, out, place(0))
            k.fold((length - 1,), (first,), step)

        k.loop((*shape[:axis], *shape[axis + 1 :]), line)

    def flops(self, op: Operation) -> DimLike:
        """A multiplication and an addition for each element."""
        return 2 * op.result.tensor.size

    def samples(self) -> Iterator[Sample]:
        """Both directions, each axis, one element, none."""
        for shape, axis, reverse in (
            ((2, 4), 1, False),
            ((2, 4), 1, True),
            ((3, 2), 0, False),
            ((1, 2), 0, True),
            ((0, 2), 0, False),
        ):
            yield Sample((TensorType(F64, shape),) * 2, {"axis": axis, "reverse": reverse})


def shifted(b: Builder, x: Value, axis: int, reverse: bool) -> Value:
    """``y[i] = x[i - 1]`` (``x[i + 1]`` if ``reverse``) along an axis, with 0 where that is outside."""
    shape = x.tensor.shape
    n = shape[axis]
    if n == 0:
        return x
    none = (0,) * len(shape)

    def along(value: DimLike) -> tuple[DimLike, ...]:
        return (*none[:axis], value, *none[axis + 1 :])

    sizes = (*shape[:axis], n - 1, *shape[axis + 1 :])
    rest = b.slice(x, starts=along(int(reverse)), sizes=sizes, strides=(1,) * len(shape))
    low, high = along(int(not reverse)), along(int(reverse))
    result: Value = b.pad(rest, value=0.0, low=low, high=high, interior=none)
    return result
