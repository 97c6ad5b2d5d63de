"""The LoopBuilder: loop-level code written through the `Kernel` protocol.

Lowering rules speak of elements at indices; the builder decides where code goes (`tapec.ir.loops.values`) and how
memory is read. In a vectorised loop, an element whose address grows by one with the loop's symbol is a vector load, one
whose address does not change is a scalar, any other is a gather. Loads move out of loops as other values do, but for
buffers that the kernel writes. What is left over at the end of a vectorised loop runs once more with fewer lanes
active.

Text of what it writes: `tapec.ir.ops.loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np

from tapec.ir.core import Block, Function, Operation, Region, Value
from tapec.ir.dims import Dim, DimLike, bounds, coefficient, symbols
from tapec.ir.errors import PassError
from tapec.ir.loops import reduction as loop_reduction
from tapec.ir.loops.values import Frame, Lanes, LoopValues
from tapec.ir.op import OPS, Index, Op
from tapec.ir.types import INDEX, BufferType, DType, Shape, TensorType, VectorType

_INDEX = TensorType(INDEX)


class LoopBuilder(LoopValues):
    """Writes the body of a kernel; see the module docstring."""

    def __init__(
        self, function: Function, *, lanes: int = 16, masked: bool = True, compact: bool = False
    ) -> None:
        """Write into ``function``; vectors have ``lanes`` lanes.

        ``masked`` lets the end of a vectorised loop use masked loads and stores; otherwise it runs one by one.
        ``compact`` keeps to one sum where several could take turns.
        """
        super().__init__(function, lanes)
        self.masked = masked
        self.compact = compact
        #: Gathers and reversed loads written so far: what a better choice of vectorised loop would avoid.
        self.gathers = 0
        #: Whether any loop was vectorised.
        self.vectorised = False
        self._mutable: set[Value] = set()
        self._addresses: dict[tuple[Value, Index], DimLike] = {}

    # ---- memory

    def mutable(self, *buffers: Value) -> None:
        """Say that the kernel writes these buffers: loads from them stay where they are."""
        self._mutable.update(buffers)

    def alloc(self, type: BufferType) -> Value:
        """Scratch, which is mutable."""
        (buffer,) = self.effect(OPS["alloc"], type=type)
        self._mutable.add(buffer)
        return buffer

    def shared(self, type: BufferType) -> Value:
        """Scratch that a block of threads shares."""
        (buffer,) = self.effect(OPS["alloc"], type=type, shared=True)
        self._mutable.add(buffer)
        return buffer

    def thread(self, threads: int) -> Dim:
        """The number of this thread among so many of its block."""
        return self._bind("t", self.pure(OPS["thread"]), 0, 0, threads - 1)

    def view(self, buffer: Value, type: BufferType, row: DimLike) -> Value:
        """Part number ``row`` of a buffer that is made of parts of this type."""
        attrs = {"type": type, "stride": type.tensor.bytes}
        (part,) = self.effect(OPS["view"], buffer, self.first_lane(row), **attrs)
        return part

    def full_like(self, value: Any, like: Value) -> Value:
        """A literal of the dtype of an element."""
        return self.constant(value, like.type.dtype)

    def table(self, array: Any, dtype: DType) -> Value:
        """Memory that holds these numbers: a constant outside of all loops."""
        values = np.asarray(array).astype(dtype.numpy)
        with self.outside(0):
            (buffer,) = self.effect(
                OPS["constant"], value=values, type=BufferType(dtype, values.shape)
            )
        return buffer

    def load(self, buffer: Value, index: Index) -> Value:
        """An element of a buffer, or one for each lane."""
        lanes = self.active_lanes
        if lanes is None or not any(map(self.varies, index)):
            return self._load(OPS["load"], buffer, *map(self.first_lane, index))
        step = self._step(buffer, index, lanes)
        if step == 1:
            start = tuple(map(self.first_lane, index))
            if lanes.active is None:
                return self._load(OPS["load"], buffer, *start, lanes=lanes.count)
            attrs = {"lanes": lanes.count, "masked": True}
            return self._load(OPS["load"], buffer, *start, lanes.active, **attrs)
        self.gathers += 1
        moving = [n for n, i in enumerate(index) if coefficient(i, lanes.symbol) != 0]
        if step == -1 and lanes.active is None and len(moving) == 1:
            last = tuple(i - (lanes.count - 1) if n in moving else i for n, i in enumerate(index))
            start = tuple(map(self.first_lane, last))
            vector = self._load(OPS["load"], buffer, *start, lanes=lanes.count)
            mask = tuple(reversed(range(lanes.count)))
            return self.pure(OPS["shuffle"], vector, vector, mask=mask)
        offsets = self.splat(self.index(self._address(buffer, index)))
        active = self.active_mask()
        if active is not None:
            offsets = self.where(active, offsets, self.constant(0, INDEX))
        return self._load(OPS["load_at"], buffer, offsets)

    def _load(self, defn: Op, buffer: Value, *operands: Value, **attrs: Any) -> Value:
        if buffer in self._mutable:
            return self.effect(defn, buffer, *operands, **attrs)[0]
        return self.pure(defn, buffer, *operands, **attrs)

    def store(self, value: Value, buffer: Value, index: Index) -> None:
        """Write an element of a buffer, or one for each lane."""
        self._mutable.add(buffer)
        start = tuple(map(self.first_lane, index))
        lanes = self.active_lanes
        if lanes is None or not any(map(self.varies, index)):
            self.effect(OPS["store"], value, buffer, *start)
            return
        if self._step(buffer, index, lanes) != 1:
            raise PassError(f"@{self.function.name}: lanes would be stored apart at {index}")
        if lanes.active is None:
            self.effect(OPS["store"], self.splat(value), buffer, *start)
        else:
            self.effect(OPS["store"], self.splat(value), buffer, *start, lanes.active, masked=True)

    def prefetch(self, buffer: Value, index: Index) -> None:
        """Say that an element will soon be read or written; the index may lie outside."""
        self.effect(OPS["prefetch"], buffer, *map(self.first_lane, index))

    def _address(self, buffer: Value, index: Index) -> DimLike:
        """The offset of an index into a buffer, worked out once."""
        place = self._addresses.get((buffer, index))
        if place is None:
            place = self._addresses[buffer, index] = buffer.buffer.address(index)
        return place

    def _step(self, buffer: Value, index: Index, lanes: Lanes) -> int | None:
        """Elements between the addresses of neighbouring lanes; None where that is not one number."""
        place = self._address(buffer, index)
        if any(s.name in self._varying for s in symbols(place)):
            return None
        return coefficient(place, lanes.symbol)

    def active_mask(self) -> Value | None:
        """Which lanes are active; None if all are."""
        lanes = self.active_lanes
        if lanes is None or lanes.active is None:
            return None
        numbers = self.pure(OPS["lanes"], type=VectorType(INDEX, lanes.count))
        return self.lt(numbers, lanes.active)

    # ---- loops

    def repeat(
        self,
        low: DimLike,
        high: DimLike,
        body: Callable[[DimLike, Sequence[Value]], Sequence[Value]],
        init: Sequence[Value] = (),
        *,
        step: int = 1,
        lanes: int = 0,
        rest: bool = False,
        parallel: bool = False,
        unroll: int = 1,
        over: str = "",
    ) -> tuple[Value, ...]:
        """Run a body for ``low <= i < high``, carrying values along; return the last ones.

        The body gets the index and the carried values, and returns the next. ``lanes`` vectorises: the index then
        stands for that many neighbours, or with ``rest`` for those that are left. A loop that runs once is no loop.
        ``over``: see `tapec.ir.ops.loop.For`.
        """
        distance = high - low
        if isinstance(distance, int) and distance <= 0:
            return tuple(init)
        if isinstance(low, int) and isinstance(high, int) and high <= low + step and not over:
            return self._once(low, high, body, init, lanes)
        block = Block([_INDEX, *(v.type for v in init)])
        first = self.index(low), self.index(high)
        least = bounds(low)[0] or 0
        factor = gcd(step, self.factor(low))
        i = self._enter(block, block.args[0], least, high - 1, lanes, factor=factor)
        for arg in block.args:
            self._depths[arg] = len(self.frames) - 1
        if rest and lanes:
            self._limit(high - i)
        carried = body(i, block.args[1:])
        self.effect(OPS["yield"], *carried)
        self.frames.pop()
        attrs: dict[str, Any] = {}
        if step != 1:
            attrs["step"] = step
        if parallel:
            attrs["parallel"] = True
        if unroll != 1:
            attrs["unroll"] = unroll
        if over:
            attrs["over"] = over
        types = [v.type for v in init]
        region = Region([block])
        op = Operation(OPS["for"], [*first, *init], types, attrs, [region], self.location)
        self.frames[-1].block.append(op)
        self._place(op, len(self.frames) - 1)
        return op.results

    def _once(
        self,
        low: int,
        high: int,
        body: Callable[[DimLike, Sequence[Value]], Sequence[Value]],
        init: Sequence[Value],
        lanes: int,
    ) -> tuple[Value, ...]:
        """The body for one index; of a vectorised loop, for as many lanes as are left."""
        if not lanes:
            return tuple(body(low, init))
        active = None if high - low >= lanes else self.constant(high - low, INDEX)
        start = self.constant(low, INDEX)
        i = self._enter(self.frames[-1].block, start, low, high - 1, lanes, active, factor=low)
        try:
            results = tuple(body(i, init))
        finally:
            frame = self.frames.pop()
        for result in results:
            # The block is the parent's, so that is where its values live.
            if self.depth_of(result) == frame.depth:
                self._depths[result] = frame.depth - 1
        return results

    def neighbours(
        self, first: DimLike, count: DimLike, lanes: int, body: Callable[[DimLike], None]
    ) -> None:
        """Run a body once for ``count`` neighbours from ``first`` on, of which the first ``lanes`` are looked at.

        The body's index stands for them as that of a vectorised loop does. Nothing that is computed in the body may be
        used after it.
        """
        active = None if count == lanes else self.index(count)
        low, last = bounds(first)[0], first + (lanes - 1)
        start, factor = self.index(first), self.factor(first)
        i = self._enter(self.frames[-1].block, start, low or 0, last, lanes, active, factor=factor)
        body(i)
        self.frames.pop()

    def _enter(
        self,
        block: Block,
        value: Value,
        low: int,
        top: DimLike,
        lanes: int,
        active: Value | None = None,
        *,
        factor: int = 1,
    ) -> Dim:
        """Start a body whose index is ``value``, at most ``top``, a multiple of ``factor``; return its symbol."""
        depth = len(self.frames)
        i = self._bind("i", value, depth, low, top)
        (of,) = symbols(i)
        self._factors[of] = factor
        aligned = lanes > 0 and factor % lanes == 0
        vector = Lanes(of, lanes, active, aligned) if lanes else self.active_lanes
        self.vectorised |= lanes > 0
        self.frames.append(Frame(block, depth, vector))
        return i

    def _limit(self, count: DimLike) -> None:
        """Let the first ``count`` lanes of the loop being written be active."""
        frame = self.frames[-1]
        assert frame.lanes is not None
        frame.lanes = replace(frame.lanes, active=self.first_lane(count))

    def whole(self, extent: DimLike, least: int) -> DimLike:
        """The extent, or 0 if it is less than ``least``."""
        if isinstance(extent, int):
            return extent if extent >= least else 0
        if self.at_least(extent, least):
            return extent
        value, number = self.first_lane(extent), self.constant(least, INDEX)
        value = self.where(self.ge(value, number), value, self.constant(0, INDEX))
        return self._bind("w", value, self.depth_of(value), 0, extent)

    def along(
        self,
        extent: DimLike,
        body: Callable[[DimLike], None],
        *,
        vector: bool = False,
        parallel: bool = False,
        splits: Sequence[int] = (),
    ) -> None:
        """Run a body for every index below ``extent``; ``vector``: for several at a time.

        ``splits`` are indices, in order, at which a loop ends and another begins.
        """

        def run(i: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
            body(i)
            return ()

        if not vector or self.lanes == 1:
            self.repeat(0, extent, run, parallel=parallel)
            return
        for low, high in pairwise((0, *splits, extent)):
            main = low + (high - low) // self.lanes * self.lanes
            self.repeat(low, main, run, step=self.lanes, lanes=self.lanes, parallel=parallel)
            if self.masked:
                self.repeat(main, high, run, step=self.lanes, lanes=self.lanes, rest=True)
            else:
                self.repeat(main, high, run)

    def loop(self, extents: Shape, body: Callable[[Index], None]) -> None:
        """Run the body for every index, row-major."""

        def run(index: Index, carried: Sequence[Value]) -> Sequence[Value]:
            body(index)
            return ()

        self.fold(extents, (), run)

    def fold(
        self,
        extents: Shape,
        init: Sequence[Value],
        body: Callable[[Index, Sequence[Value]], Sequence[Value]],
    ) -> tuple[Value, ...]:
        """Run the body for every index in order, carrying values along."""
        return loop_reduction.fold(self, extents, init, body)

    def reduce(
        self, combine: str, extents: Shape, dtype: DType, body: Callable[[Index], Value]
    ) -> Value:
        """Combine the body's values over all indices; see `tapec.ir.loops.reduction` for the order."""
        return loop_reduction.reduce(self, combine, extents, dtype, body)
