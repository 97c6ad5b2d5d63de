"""Loops that carry values: folds in order, and reductions, whose order is ours to choose.

A reduction runs over its axes from the outside in; along the last, several sums take turns, so that one addition need
not wait for the one before. Where no vectorised loop is around it, that axis is vectorised, and the lanes are combined
at the end, halves first. The order depends on the extents and lanes alone: the same program gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS, Index
from tapec.ir.types import F32, DType, Shape, VectorType

if TYPE_CHECKING:
    from tapec.ir.loop_builder import LoopBuilder

Body = Callable[[Index], Value]

#: Sums that take turns: additions take about four cycles, and two start in each.
CHAINS = 4


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


def reduce(k: LoopBuilder, combine: str, extents: Shape, dtype: DType, body: Body) -> Value:
    """Combine the body's values over all indices."""
    if not extents:
        return body(())
    wide = F32 if dtype.is_floating and dtype.bits < 32 and combine in ("add", "mul") else dtype
    defn = OPS[combine]
    lanes = k.active_lanes
    start = k.constant(neutral(combine, wide), wide)
    if lanes is not None:
        start = k.splat(start)

    def value(index: Index) -> Value:
        found = body(index)
        return k.cast(found, dtype=wide) if wide != dtype else found

    def last(outer: Index, carried: Value) -> Value:
        return _last_axis(k, defn, extents[-1], carried, lambda i: value((*outer, i)))

    (total,) = fold(k, extents[:-1], (start,), lambda outer, carried: (last(outer, carried[0]),))
    return k.cast(total, dtype=dtype) if wide != dtype else total


def _last_axis(
    k: LoopBuilder, combine: Any, extent: DimLike, total: Value, value: Callable[[DimLike], Value]
) -> Value:
    """``total`` combined with the values along the last axis."""
    done = 0
    if isinstance(extent, int):
        if k.active_lanes is None and extent >= 2 * k.lanes > 2:
            total, done = _vectorised(k, combine, extent, total, value)
        else:
            grouped = extent // CHAINS * CHAINS
            if grouped > CHAINS:
                sums = _chains(k, combine, 0, grouped, total, value, 1)
                total, done = k.apply(combine, total, sums), grouped
    (total,) = k.repeat(
        done, extent, lambda i, carried: (k.apply(combine, carried[0], value(i)),), (total,)
    )
    return total


def _vectorised(
    k: LoopBuilder, combine: Any, extent: int, total: Value, value: Callable[[DimLike], Value]
) -> tuple[Value, int]:
    """The part of the axis that fills whole vectors; and where it ends."""
    grouped = extent // (CHAINS * k.lanes) * CHAINS * k.lanes
    whole = extent // k.lanes * k.lanes
    parts = []
    if grouped:
        parts.append(_chains(k, combine, 0, grouped, total, value, k.lanes))
    if whole > grouped:
        parts.append(_chains(k, combine, grouped, whole, total, value, k.lanes, chains=1))
    vector = parts[0] if len(parts) == 1 else k.apply(combine, *parts)
    lanes = k.pure(OPS["reduce_lanes"], vector, combine=combine.name)
    return k.apply(combine, total, lanes), whole


def _chains(
    k: LoopBuilder,
    combine: Any,
    low: int,
    high: int,
    like: Value,
    value: Callable[[DimLike], Value],
    lanes: int,
    chains: int = CHAINS,
) -> Value:
    """Several sums that take turns between ``low`` and ``high``, combined; each may be a vector of ``lanes``."""
    start = k.constant(neutral(combine.name, like.type.dtype), like.type.dtype)
    if lanes > 1:
        start = k.pure(OPS["splat"], start, lanes=lanes)
    elif isinstance(like.type, VectorType):
        start = k.splat(start)

    def step(i: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
        return [k.apply(combine, c, value(i + n * lanes)) for n, c in enumerate(carried)]

    width = lanes if lanes > 1 else 0
    sums = list(k.repeat(low, high, step, [start] * chains, step=chains * lanes, lanes=width))
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [k.apply(combine, a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
    return sums[0]


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
