"""Loops that carry values: folds in order, and reductions, whose order is ours to choose.

A reduction inside a vectorised loop has a sum for each lane. Any other is itself vectorised along its last axis, if
that is long enough: the lanes sum up on their own, through all the loops of the reduction, and are combined once at the
end, halves first. In both cases several sums take turns along the last axis, so that one addition need not wait for the
one before. The order depends on the extents and lanes alone: the same program gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS, Index, Op
from tapec.ir.types import F32, DType, Shape

if TYPE_CHECKING:
    from tapec.ir.loops.builder import LoopBuilder

Body = Callable[[Index], Value]

#: Sums that take turns: additions take about four cycles, and two start in each.
CHAINS = 4
#: Lanes up to which a vector is one register.
WIDE = 16
#: A rest of at most this many turns is written out.
UNROLL = 4


def fold(
    k: LoopBuilder,
    extents: Shape,
    init: Sequence[Value],
    body: Callable[[Index, Sequence[Value]], Sequence[Value]],
) -> tuple[Value, ...]:
    """Run the body for every index in row-major order, carrying values along; inside a vectorised loop, vectors."""
    wide = k.active_lanes is not None

    def axis(index: Index, carried: Sequence[Value]) -> Sequence[Value]:
        if len(index) == len(extents):
            results = body(index, carried)
            return [k.splat(v) for v in results] if wide else results
        return k.repeat(0, extents[len(index)], lambda i, inner: axis((*index, i), inner), carried)

    return tuple(axis((), [k.splat(v) for v in init] if wide else init))


def reduce(
    k: LoopBuilder,
    combine: str,
    extents: Shape,
    dtype: DType,
    body: Body,
    *,
    chains: int = CHAINS,
) -> Value:
    """Combine the body's values over all indices, in ``chains`` sums; those of half precision are kept in single."""
    if not extents:
        return body(())
    half = dtype.is_floating and dtype.bits < 32 and combine in ("add", "mul")
    if half:
        wide = _Reduction(k, OPS[combine], F32, lambda i: k.cast(body(i), dtype=F32), chains)
        return k.cast(wide.over(extents), dtype=dtype)
    return _Reduction(k, OPS[combine], dtype, body, chains).over(extents)


class _Reduction(NamedTuple):
    """One reduction: how values are combined, and where they come from."""

    k: LoopBuilder
    combine: Op
    dtype: DType
    body: Body
    chains: int

    def over(self, extents: Shape) -> Value:
        """The combination of all values."""
        k, extent = self.k, extents[-1]
        start = k.constant(neutral(self.combine.name, self.dtype), self.dtype)
        inside = k.active_lanes is not None
        lanes = 0 if inside else self._lanes(extent)
        turns = extent // lanes if lanes else extent
        # Wide vectors are several registers, which take turns themselves.
        width = (k.active_lanes.count if k.active_lanes else lanes) // WIDE
        chains = 1 if k.compact else max(self.chains // max(width, 1), 1)
        while isinstance(turns, int) and chains > 1 and turns < 2 * chains:
            chains //= 2
        # The rest of the last axis: some of the lanes, or one by one into a sum of its own.
        alone = lanes and not k.masked and extent % lanes
        sums = [k.splat(start) if inside or lanes else start] * chains + [start] * bool(alone)

        def last(outer: Index, carried: Sequence[Value]) -> Sequence[Value]:
            return self._last_axis(outer, extent, carried, chains, lanes)

        sums = list(fold_scalars(k, extents[:-1], sums, last))
        total = self._combined(sums[:chains])
        if lanes:
            total = k.pure(OPS["reduce_lanes"], total, combine=self.combine.name)
        return k.apply(self.combine, total, sums[chains]) if alone else total

    def _lanes(self, extent: DimLike) -> int:
        """Lanes of vectors along the last axis; 0 if it is too short."""
        k = self.k
        if k.lanes == 1 or not isinstance(extent, int):
            return k.lanes if k.lanes > 1 else 0
        return k.lanes if extent >= (k.lanes // 2 if k.masked else k.lanes) else 0

    def _last_axis(
        self, outer: Index, extent: DimLike, carried: Sequence[Value], chains: int, lanes: int
    ) -> Sequence[Value]:
        """All sums in turn, then the first for what is left."""
        k, unit = self.k, lanes or 1
        rest = list(carried[chains:])

        def turn(i: DimLike, sums: Sequence[Value]) -> Sequence[Value]:
            return [self._step(s, (*outer, i + n * unit), lanes) for n, s in enumerate(sums)]

        def single(i: DimLike, sums: Sequence[Value]) -> Sequence[Value]:
            return [self._step(sums[0], (*outer, i), 0)]

        grouped, whole = extent // (chains * unit) * chains * unit, extent // unit * unit
        sums = list(k.repeat(0, grouped, turn, carried[:chains], step=chains * unit, lanes=lanes))
        first: Sequence[Value] = sums[:1]
        if isinstance(whole, int) and isinstance(grouped, int) and whole - grouped <= UNROLL * unit:
            for i in range(grouped, whole, unit):
                first = k.repeat(i, i + unit, turn, first, step=unit, lanes=lanes)
        else:
            first = k.repeat(grouped, whole, turn, first, step=unit, lanes=lanes)
        if rest:
            rest = list(k.repeat(whole, extent, single, rest))
        else:
            first = k.repeat(whole, extent, turn, first, step=unit, lanes=lanes, rest=True)
        return [*first, *sums[1:], *rest]

    def _step(self, total: Value, index: Index, lanes: int) -> Value:
        """A sum and one more value; lanes that are not active keep theirs."""
        k = self.k
        value = self.body(index)
        mask = k.active_mask() if lanes else None
        if mask is not None:
            value = k.where(
                mask, value, k.constant(neutral(self.combine.name, self.dtype), self.dtype)
            )
        return k.apply(self.combine, total, value)

    def _combined(self, sums: Sequence[Value]) -> Value:
        """Several sums as one, halves first."""
        while len(sums) > 1:
            half = len(sums) // 2
            pairs: Any = zip(sums[:half], sums[half:], strict=True)
            sums = [self.k.apply(self.combine, a, b) for a, b in pairs]
        return sums[0]


def fold_scalars(
    k: LoopBuilder,
    extents: Shape,
    init: Sequence[Value],
    body: Callable[[Index, Sequence[Value]], Sequence[Value]],
) -> Sequence[Value]:
    """As `fold`, but what is carried keeps its type: it has the lanes that it needs already."""

    def axis(index: Index, carried: Sequence[Value]) -> Sequence[Value]:
        if len(index) == len(extents):
            return body(index, carried)
        return k.repeat(0, extents[len(index)], lambda i, inner: axis((*index, i), inner), carried)

    return axis((), init)


def neutral(combine: str, dtype: DType) -> Any:
    """What changes nothing when it is combined."""
    if combine in ("add", "or"):
        return False if dtype.is_bool else 0
    if combine in ("mul", "and"):
        return True if dtype.is_bool else 1 if combine == "mul" else -1
    lowest = combine == "max"
    if dtype.is_bool:
        return not lowest
    if dtype.is_floating:
        return -np.inf if lowest else np.inf
    info = np.iinfo(dtype.numpy)
    return int(info.min if lowest else info.max)
