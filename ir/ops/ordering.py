"""Sorting: the order of elements. Gathering by it sorts them, and has a derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError
from tapec.ir.op import AlongAxis, Index, Kernel, Sample, normal_axes
from tapec.ir.types import F64, I32, I64, DType, TensorType

if TYPE_CHECKING:
    from tapec.ir.core import Operation, Value

#: Powers of 2 below which a length is that only a call knows.
_MOST = 40


class ArgSort(AlongAxis):
    """The indices, as ``dtype``, that put an axis in order: ``x[y[0]] <= x[y[1]] <= …``.

    Equal elements keep their order, also where ``descending``. NaN counts as largest.
    """

    name = "argsort"
    form = "nest"
    differentiable = False

    def infer(
        self, *types: Any, axis: int, descending: bool = False, dtype: DType = I32
    ) -> TensorType:
        """The operand's shape."""
        (x,) = types
        normal_axes(self.name, (axis,), x.rank)
        if x.dtype.is_complex:
            raise DTypeError(f"argsort: {x.dtype.code} has no order")
        if not dtype.is_integer:
            raise DTypeError(f"argsort: indices must be integers, got {dtype.code}")
        result: TensorType = x.with_dtype(dtype)
        return result

    def evaluate(
        self, *arrays: Any, axis: int, descending: bool = False, dtype: DType = I32
    ) -> Any:
        """`numpy.argsort`; of the reversed operand, read backwards, where ``descending``."""
        (x,) = arrays
        if x.dtype.kind == "V":
            x = x.astype(np.float32)  # bfloat16, of which NumPy does not know where NaN goes
        if not descending:
            return np.argsort(x, axis=axis, kind="stable").astype(dtype.numpy)
        order = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        return (x.shape[axis] - 1 - np.flip(order, axis)).astype(dtype.numpy)

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: Any,
        axis: int,
        descending: bool = False,
        dtype: DType = I32,
    ) -> None:
        """Count from 0, then run a sorting network: its loops depend on the size alone.

        Where only a call knows that, the sizes of blocks are powers of 2 from a table.
        """
        (out,), (x,) = outs, operands
        shape = x.type.shape
        length = shape[axis]

        def line(i: Index) -> None:
            def at(place: DimLike) -> Index:
                return (*i[:axis], place, *i[axis:])

            def exchange(low: DimLike, high: DimLike) -> None:
                """Put the two elements at these places of the order in order."""
                exists = k.inside(high, 0, length)
                places = [at(k.clamp(place, 0, length - 1)) for place in (low, high)]
                first, second = (k.load(out, place) for place in places)
                one, other = (x[at(k.position(p, length))] for p in (first, second))
                before, after = _less(k, other, one), _less(k, one, other)
                if descending:
                    before, after = after, before
                tied = k.and_(k.not_(after), k.lt(second, first))
                swap = k.and_(exists, k.or_(before, tied))
                k.store(k.where(swap, second, first), out, places[0])
                k.store(k.where(swap, first, second), out, places[1])

            def stage(half: DimLike, mirrored: bool) -> None:
                size = 2 * half

                def pair(r: Index) -> None:
                    low = r[0] * size + r[1]
                    high = r[0] * size + size - 1 - r[1] if mirrored else low + half
                    exchange(low, high)

                k.loop(((length + size - 1) // size, half), pair)

            k.loop((length,), lambda r: k.store(k.number(r[0], dtype), out, at(r[0])))
            _in_stages(k, length, stage)

        k.loop((*shape[:axis], *shape[axis + 1 :]), line)

    def flops(self, op: Operation) -> DimLike:
        """None."""
        return 0

    def samples(self) -> Iterator[Sample]:
        """Both directions, each axis, ties, sizes that are no power of 2, one element, none."""
        for shape, axis, descending in (
            ((2, 5), 1, False),
            ((2, 8), 1, True),
            ((3, 2), 0, False),
            ((1,), 0, False),
            ((2, 0), 1, True),
        ):
            attrs = {"axis": axis, "descending": descending, "dtype": I32}
            yield Sample((TensorType(F64, shape),), attrs)
        for descending in (False, True):
            attrs = {"axis": 0, "descending": descending, "dtype": I64}
            yield Sample((TensorType(I32, (11,)),), attrs, integers=(0, 4))


def _less(k: Kernel, a: Value, b: Value) -> Value:
    """``a < b``, where NaN is greater than any number."""
    if not a.type.dtype.is_floating:
        return k.lt(a, b)
    return k.or_(k.lt(a, b), k.and_(k.is_nan(b), k.not_(k.is_nan(a))))


def _in_stages(k: Kernel, length: DimLike, stage: Callable[[DimLike, bool], None]) -> None:
    """Run all stages of the network for a length: each for half the size of its blocks."""
    if isinstance(length, int):
        for size, mirrored in _stages(length):
            stage(size // 2, mirrored)
        return
    powers = k.table([2**n for n in range(_MOST)], I64)

    def power(n: DimLike) -> DimLike:
        return k.position(k.load(powers, (n,)), 2**_MOST)

    def blocks(n: Index) -> None:
        stage(power(n[0]), True)
        k.loop(n, lambda m: stage(power(n[0] - 1 - m[0]), False))

    k.loop((_doublings(k, powers, length),), blocks)


def _doublings(k: Kernel, powers: Value, length: DimLike) -> DimLike:
    """How often 1 has to be doubled to reach a length."""
    one, none = k.constant(1, I64), k.constant(0, I64)

    def counted(n: Index) -> Value:
        return k.where(k.lt(k.load(powers, n), k.number(length, I64)), one, none)

    return k.position(k.reduce("add", (_MOST,), I64, counted), _MOST + 1)


def _stages(length: int) -> Iterator[tuple[int, bool]]:
    """The stages of a bitonic sorting network: size of its blocks, and which pairs it compares.

    Element j of a block is compared with element ``size - 1 - j`` if mirrored, else with element
    ``size / 2 + j``. The smaller goes first in every pair, so pairs that reach beyond the end can
    be left out, as if infinity stood there.

    Source: Batcher, "Sorting networks and their applications", 1968, in the form without descending
    pairs.
    """
    size = 2
    while size < 2 * length:
        yield size, True
        inner = size // 2
        while inner > 1:
            yield inner, False
            inner //= 2
        size *= 2
