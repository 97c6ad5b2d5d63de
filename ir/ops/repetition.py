"""`loop`: a program that runs again and again, over rows, for as long as a condition holds, or both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.builder import Builder
from tapec.ir.core import Body, Value
from tapec.ir.dims import Dim, DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Cotangents
from tapec.ir.ops.regions import EntryWriter, RegionOp, Step, live_args, with_value
from tapec.ir.ops.repetition_batch import mapped
from tapec.ir.ops.repetition_rules import ENDLESS, passed_back, pulled, turns_of
from tapec.ir.types import BOOL, I32, INDEX, TensorType, Type

if TYPE_CHECKING:
    from tapec.ir.core import Operation

#: What stands for no bound where a number has to be.
ENDLESS_TURNS = 2**62
#: Turns that nobody waits for.
_FEW_TURNS = 100


class Loop(RegionOp):
    """The first region again and again: carried values go round, stacked ones come in and go out row by row.

    Operands are ``carried`` initial values, ``stacked`` ones of which each turn takes its row, then what is the same
    in all turns; in front of them, of a loop that is ``counted``, the number of turns (an int32). The body takes the
    carried values, the rows and the rest; it yields the next carried values, then rows. Results are the last carried
    values, then these rows stacked. There are ``length`` turns, or at most so many (without end, if that is -1) if the
    loop is counted, or has a second region: that takes carried values and what is the same, and yields whether there is
    another turn.
    ``reverse``: from the last row to the first; of a counted loop, the last that counts. A row of a result whose turn
    never came may be anything. One more result is the number of turns, if ``turns``.
    """

    name = "loop"

    # ---- the parts

    def parts(self, op: Operation) -> tuple[tuple[Value, ...], ...]:
        """The operands by role: counts, carried, stacked, unchanging."""
        counted, carried, stacked = _numbers(op.attrs)
        ends = (0, counted, counted + carried, counted + carried + stacked, len(op.operands))
        return tuple(op.operands[a:b] for a, b in pairwise(ends))

    def may_be_empty(self, op: Operation) -> bool:
        """Whether there may be no turn at all."""
        length = op.attrs["length"]
        return len(op.regions) > 1 or bool(op.attrs.get("counted")) or length == 0

    def may_not_end(self, op: Operation) -> bool:
        """Whether only a count or a condition says how often it turns."""
        return self.turns(op) is None

    def guarded(self, op: Operation, when: Value) -> None:
        """A count is 0 then, a condition false."""
        if op.attrs.get("counted") and self.may_not_end(op):
            assert op.block is not None
            b = Builder(op.block, before=op)
            with b.at(op.location):
                count = b.where(when, op.operands[0], b.full_like(0, op.operands[0]))
            op.set_operand(0, count)
        super().guarded(op, when)

    def may_take_long(self, op: Operation) -> bool:
        """Whether there are many turns, or nobody knows how many."""
        length = op.attrs["length"]
        few = isinstance(length, int) and 0 <= length <= _FEW_TURNS
        return not few or super().may_take_long(op)

    def result_types(self, op: Operation) -> tuple[Type, ...]:
        """The carried values' types, and those of the stacked rows."""
        counts, carried, stacked, _ = self.parts(op)
        length = op.attrs["length"]
        self._check(op, counts, stacked, length)
        yields = tuple(v.tensor for v in op.regions[0].block.terminator.operands)
        wanted = tuple(v.type for v in carried)
        if yields[: len(carried)] != wanted:
            came = ", ".join(map(str, yields[: len(carried)]))
            raise ShapeError(f"loop carries {', '.join(map(str, wanted))}, its body yields {came}")
        rows = yields[len(carried) :]
        if rows and length == ENDLESS:
            raise ShapeError("loop: rows without end cannot be stacked")
        turns = (TensorType(I32),) if op.attrs.get("turns") else ()
        return (*wanted, *(row.with_shape((length, *row.shape)) for row in rows), *turns)

    def _check(
        self, op: Operation, counts: Sequence[Value], stacked: Sequence[Value], length: DimLike
    ) -> None:
        for name, number in zip(("counts", "carried", "stacked"), _numbers(op.attrs), strict=True):
            if number < 0:
                raise ShapeError(f"loop has {number} {name} operands")
        if sum(_numbers(op.attrs)) > len(op.operands):
            raise ShapeError(
                f"loop has {len(op.operands)} operands, {sum(_numbers(op.attrs))} are told apart"
            )
        if any(v.type != TensorType(I32) for v in counts):
            raise DTypeError("loop: the number of turns must be an int32 of rank 0")
        if length == ENDLESS and len(op.regions) < 2 and not counts:
            raise ShapeError("loop has neither a length nor a condition nor a count")
        if len(op.regions) > 1:
            if op.attrs.get("reverse"):
                raise ShapeError("loop: a condition does not go with reverse")
            ends = tuple(v.type for v in op.regions[1].block.terminator.operands)
            if ends != (TensorType(BOOL),):
                raise DTypeError("loop: the condition must be a bool of rank 0")
        for v in stacked:
            if v.tensor.shape[:1] != (length,):
                raise ShapeError(f"loop of length {length} takes rows from {v.type}")

    def region_types(self, op: Operation) -> Sequence[tuple[Type, ...]]:
        """Carried values, rows and the rest; for the condition without rows."""
        _, carried, stacked, same = self.parts(op)
        first = tuple(v.type for v in carried)
        rows = tuple(v.tensor.with_shape(v.tensor.shape[1:]) for v in stacked)
        rest = tuple(v.type for v in same)
        return [(*first, *rows, *rest), (*first, *rest)][: max(len(op.regions), 1)]

    def operands_of(self, op: Operation, region: int) -> range | tuple[int, ...]:
        """All but the count; for the condition without rows."""
        counted, carried, stacked = _numbers(op.attrs)
        if region == 0:
            return range(counted, len(op.operands))
        rest = range(counted + carried + stacked, len(op.operands))
        return (*range(counted, counted + carried), *rest)

    def turns(self, op: Operation) -> DimLike | None:
        """The length, if there is one."""
        length: DimLike = op.attrs["length"]
        return None if length == ENDLESS else length

    def yields_results(self, region: int) -> bool:
        """The body does, the condition does not."""
        return region == 0

    def unchanged(self, op: Operation) -> Collection[int]:
        """What is the same in all turns."""
        return range(sum(_numbers(op.attrs)), len(op.operands))

    def bodies(self, op: Operation) -> list[Body]:
        """The body, which updates what is carried, and the condition."""
        carried = op.attrs["carried"]
        body = Body(op.name, op.regions[0].block, {i: i for i in range(carried)})
        return [body, *(Body(op.name, region.block) for region in op.regions[1:])]

    def overwritten(self, op: Operation) -> Mapping[int, int]:
        """What is carried is always in one place."""
        counted, carried, _ = _numbers(op.attrs)
        return {i: counted + i for i in range(carried)}

    def needs(self, op: Operation) -> tuple[list[int], list[int]]:
        """What is read of the results, what the condition asks, and what these depend on from turn to turn."""
        counted, carried, _ = _numbers(op.attrs)
        body = op.regions[0].block
        yields = body.terminator.operands
        read = {r.index for r in op.results if r.users}
        wanted = {i for i in read if i < len(yields)}
        live: set[int] = set()
        for condition in op.regions[1:]:
            ends = live_args(condition.block, condition.block.terminator.operands)
            sources = self.operands_of(op, 1)
            live |= {sources[arg.index] - counted for arg in ends}
        while True:
            found = live_args(body, [yields[i] for i in wanted])
            live |= {arg.index for arg in found}
            more = wanted | {i for i in live if i < carried}
            if more == wanted:
                break
            wanted = more
        kept = live | {i for i in wanted if i < carried}
        return [*range(counted), *(counted + i for i in sorted(kept))], sorted(wanted | read)

    def attrs_of(
        self, op: Operation, operands: Sequence[int], results: Sequence[int]
    ) -> dict[str, Any]:
        """Fewer carried values and rows."""
        counted, carried, stacked = _numbers(op.attrs)
        rows = range(counted + carried, counted + carried + stacked)
        attrs = {
            **op.attrs,
            "carried": sum(i < carried for i in results),
            "stacked": sum(i in rows for i in operands),
        }
        if attrs.get("turns") and len(op.results) - 1 not in results:
            del attrs["turns"]
        return attrs

    # ---- meaning

    def evaluate(self, *arrays: Any, regions: Any, results: Any, **attrs: Any) -> Any:
        """Turn by turn; rows that are never made are zeros."""
        counted, carried, stacked = _numbers(attrs)
        length, rest = attrs["length"], arrays[counted + carried + stacked :]
        state = list(arrays[counted : counted + carried])
        xs = arrays[counted + carried : counted + carried + stacked]
        last = len(results) - bool(attrs.get("turns"))
        rows = [np.zeros(t.static_shape, t.dtype.numpy) for t in results[carried:last]]
        turns = length
        if counted:
            turns = int(arrays[0]) if length == ENDLESS else min(int(arrays[0]), length)
        i = 0
        while i < turns or (turns == ENDLESS and not counted):
            if len(regions) > 1 and not regions[1](*state, *rest)[0]:
                break
            place = turns - 1 - i if attrs.get("reverse") else i
            yielded = regions[0](*state, *(x[place] for x in xs), *rest)
            state = list(yielded[:carried])
            for row, value in zip(rows, yielded[carried:], strict=True):
                row[place] = value
            i += 1
        return (*state, *rows, *([np.int32(i)] if attrs.get("turns") else []))

    def passes_back(self, op: Operation, given: Sequence[bool]) -> Sequence[bool]:
        """What a turn has a cotangent for, from turn to turn; and what comes out as it went in if there is none."""
        return passed_back(self, op, given)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """A loop the other way round, over the carried values that each turn had: this one now returns them too.

        Each turn of it computes the body again, and its gradient. Where there is no place for these values, because
        nothing says how often the loop turns or they are too many, `tapec.ir.ops.checkpoints` says what is kept.
        """
        return pulled(self, b, op, cts)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """All rows turn together; those whose condition says no stay as they are."""
        return mapped(self, b, operands, batched, **attrs)

    def threaded(self, op: Operation, first: Value, step: Step) -> Value:
        """Round with what is carried."""
        counted, carried, _ = _numbers(op.attrs)
        new = with_value(op, first, step, operand=counted + carried, place=carried, regions=(0,))
        new.attrs["carried"] = carried + 1
        return new.results[carried]

    def final(self, op: Operation, region: int) -> list[Value]:
        """What is carried in the end, and what is the same in all turns."""
        counted, carried, _ = _numbers(op.attrs)
        places = self.operands_of(op, region)
        return [
            op.results[i - counted] if i < counted + carried else op.operands[i] for i in places
        ]

    def left_early(self, op: Operation, b: Builder) -> Value | None:
        """Whether there were less turns than there might be."""
        counts, *_ = self.parts(op)
        length = op.attrs["length"]
        if length != ENDLESS:
            length = length if isinstance(length, Dim) else min(length, 2**31 - 1)
            counts = (*counts, b.extent(dim=length, type=TensorType(I32)))
        if not counts:
            return None
        result: Value = b.lt(turns_of(op), reduce(b.min, counts))
        return result

    def lower_regions(self, k: EntryWriter, op: Operation) -> None:
        """A ``for`` of the entry, or a ``while``."""
        counted, carried, stacked = _numbers(op.attrs)
        low = k.number(0)
        length = ENDLESS_TURNS if op.attrs["length"] == ENDLESS else op.attrs["length"]
        high = k.number(length)
        if counted:
            count = k.b.cast(k.load(k.operand(0), I32), dtype=INDEX)
            high = count if op.attrs["length"] == ENDLESS else k.b.min(count, high)
        ends = op.results[carried : len(op.results) - bool(op.attrs.get("turns"))]
        rest = [k.operand(i) for i in self.unchanged(op)]
        state = [k.result(i) for i in range(carried)]

        def place(args: Sequence[Value]) -> Value:
            (turn,) = args
            if not op.attrs.get("reverse"):
                return turn
            result: Value = k.b.sub(k.b.sub(high, turn), k.number(1))
            return result

        def inputs(args: Sequence[Value]) -> Sequence[Any]:
            at = place(args) if stacked else None
            first = counted + carried
            rows = [
                k.row(k.operand(i), op.operands[i].tensor, at)
                for i in range(first, first + stacked)
                if at is not None
            ]
            return [*state, *rows, *rest]

        def outputs(args: Sequence[Value]) -> Sequence[Any]:
            at = place(args) if ends else None
            return [
                *[None] * carried,
                *(k.row(k.result(v.index), v.tensor, at) for v in ends if at is not None),
            ]

        types = (TensorType(INDEX),)
        if len(op.regions) == 1:
            body = k.region(0, types, inputs, outputs)
            k.b.emit("for", low, high, regions=[body], result_types=())
            turns = high
        else:
            again = k.region(
                1, types, lambda _: [*state, *rest], lambda _: [None], lambda _: [k.yielded(1, 0)]
            )
            body = k.region(0, types, inputs, outputs)
            turns = k.b.emit("while", low, high, regions=[again, body])
        if op.attrs.get("turns"):
            k.store(k.b.cast(turns, dtype=I32), k.result(len(op.results) - 1))


def _numbers(attrs: Mapping[str, Any]) -> tuple[int, int, int]:
    """How many operands are counts, carried, stacked."""
    return int(attrs.get("counted", False)), attrs["carried"], attrs["stacked"]
