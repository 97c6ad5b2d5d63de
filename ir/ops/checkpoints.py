"""The derivative of a loop that may turn without end: few carried values are kept, what is between is computed again.

All that a derivative needs are the carried values of every turn, last turn first, and there is no place for a number of
them that only the run knows. So the turns are cut into at most `_slots` parts of equal length, the carried values at
the start of each are kept, and the parts are gone through from the last to the first, each in the same way: until a
part has no more turns than there are slots. Each level costs one more run forwards; no number of turns that an int32
can count needs more than the levels that are written (Griewank, "Achieving logarithmic growth of temporal and spatial
complexity in reverse automatic differentiation", 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.core import Block, Region, Value
from tapec.ir.ops.regions import emitted, new_region, recomputed_into
from tapec.ir.types import I32, TensorType, Type

if TYPE_CHECKING:
    from tapec.ir.builder import Builder

_NUMBER = TensorType(I32)
#: Bits of the largest number of turns.
_BITS = 31
#: Bytes of kept values above which there are fewer slots and more levels.
_MUCH = 1 << 26

#: Writes one turn backwards: from cotangents and sums, carried values, and what is the same in all turns.
Backward = Callable[["Builder", Sequence[Value], Sequence[Value], Sequence[Value]], list[Value]]


class Checkpoints:
    """Goes back over a body that turned any number of times."""

    def __init__(
        self,
        body: Block,
        carried: int,
        same: Sequence[Value],
        flow: Sequence[Value],
        back: Backward,
    ) -> None:
        """``flow`` are cotangents and sums, which go round; ``back`` writes one turn of that."""
        self.body, self.carried, self.back = body, carried, back
        self.state_types: list[Type] = [a.type for a in body.args[:carried]]
        self.same_types: list[Type] = [v.type for v in same]
        self.flow_types: list[Type] = [v.type for v in flow]
        sizes = [a.tensor.bytes for a in body.args[:carried]]
        size = sum(n for n in sizes if isinstance(n, int))
        bits = 6 if size * (1 << 6) * _levels(6) <= _MUCH else 4
        self.slots, self.levels = 1 << bits, _levels(bits)

    def write(
        self,
        b: Builder,
        turns: Value,
        state: Sequence[Value],
        flow: Sequence[Value],
        same: Sequence[Value],
        level: int | None = None,
    ) -> list[Value]:
        """What becomes of ``flow`` over ``turns`` turns that began with ``state``."""
        level = self.levels - 1 if level is None else level
        if level == 0:
            return self._directly(b, turns, state, flow, same)
        values = [turns, *state, *flow, *same]
        few = b.le(turns, b.full(self.slots, _NUMBER))

        def side(write: Callable[..., list[Value]]) -> Region:
            return new_region(
                [v.type for v in values], lambda i, args: write(i, *self._split(args))
            )

        sides = [side(self._directly), side(lambda i, *a: self._in_parts(i, level, *a))]
        return list(emitted(b, "cond", [few, *values], sides))

    def _split(self, args: Sequence[Value]) -> tuple[Value, list[Value], list[Value], list[Value]]:
        turns, *rest = args
        state, rest = rest[: self.carried], rest[self.carried :]
        flow, same = rest[: len(self.flow_types)], rest[len(self.flow_types) :]
        return turns, state, flow, same

    def _directly(
        self,
        b: Builder,
        turns: Value,
        state: Sequence[Value],
        flow: Sequence[Value],
        same: Sequence[Value],
    ) -> list[Value]:
        """Keep the carried values of all turns, of which there are no more than slots."""

        def forward(inner: Builder, args: list[Value]) -> list[Value]:
            return [*recomputed_into(inner, self.body, args), *args[: self.carried]]

        def backward(inner: Builder, args: list[Value]) -> list[Value]:
            own, rest = args[: len(flow)], args[len(flow) :]
            return self.back(inner, own, rest[: self.carried], rest[self.carried :])

        attrs = {"length": self.slots, "counted": True}
        region = new_region([*self.state_types, *self.same_types], forward)
        kept = emitted(
            b, "loop", [turns, *state, *same], [region], carried=self.carried, stacked=0, **attrs
        )[self.carried :]
        region = new_region([*self.flow_types, *self.state_types, *self.same_types], backward)
        operands = [turns, *flow, *kept, *same]
        sizes = {"carried": len(flow), "stacked": self.carried}
        return list(emitted(b, "loop", operands, [region], reverse=True, **sizes, **attrs))

    def _in_parts(
        self,
        b: Builder,
        level: int,
        turns: Value,
        state: Sequence[Value],
        flow: Sequence[Value],
        same: Sequence[Value],
    ) -> list[Value]:
        """Keep the carried values at the start of each part, and go back through one part after the other."""
        length = _parts(b, turns, b.full(self.slots, _NUMBER))
        parts = _parts(b, turns, length)
        numbers = b.emit("iota", axis=0, type=TensorType(I32, (self.slots,)))
        attrs = {"length": self.slots, "counted": True}

        def steps(inner: Builder, number: Value, turns: Value, length: Value) -> Value:
            result: Value = inner.min(length, inner.sub(turns, inner.mul(number, length)))
            return result

        def forward(inner: Builder, args: list[Value]) -> list[Value]:
            own, (number, *rest) = args[: self.carried], args[self.carried :]
            count = steps(inner, number, *rest[:2])
            return [*self._advanced(inner, count, own, rest[2:]), *own]

        def backward(inner: Builder, args: list[Value]) -> list[Value]:
            own, rest = args[: len(flow)], args[len(flow) :]
            start, (number, *rest) = rest[: self.carried], rest[self.carried :]
            count = steps(inner, number, *rest[:2])
            return self.write(inner, count, start, own, rest[2:], level - 1)

        tail: list[Type] = [_NUMBER, _NUMBER, _NUMBER, *self.same_types]
        region = new_region([*self.state_types, *tail], forward)
        operands = [parts, *state, numbers, turns, length, *same]
        sizes = {"carried": self.carried, "stacked": 1}
        kept = emitted(b, "loop", operands, [region], **sizes, **attrs)[self.carried :]
        region = new_region([*self.flow_types, *self.state_types, *tail], backward)
        operands = [parts, *flow, *kept, numbers, turns, length, *same]
        sizes = {"carried": len(flow), "stacked": self.carried + 1}
        return list(emitted(b, "loop", operands, [region], reverse=True, **sizes, **attrs))

    def _advanced(
        self, b: Builder, turns: Value, state: Sequence[Value], same: Sequence[Value]
    ) -> list[Value]:
        """The carried values some turns later."""

        def forward(inner: Builder, args: list[Value]) -> list[Value]:
            return recomputed_into(inner, self.body, args)[: self.carried]

        region = new_region([*self.state_types, *self.same_types], forward)
        attrs: dict[str, Any] = {"carried": self.carried, "stacked": 0, "counted": True}
        return list(emitted(b, "loop", [turns, *state, *same], [region], length=-1, **attrs))


def _levels(bits: int) -> int:
    """How many levels of so many slots any number of turns needs."""
    return -(-_BITS // bits)


def _parts(b: Builder, whole: Value, size: Value) -> Value:
    """How many parts of a size make up a whole: rounded up, at least 1."""
    one = b.full(1, _NUMBER)
    left = b.sub(b.max(whole, one), one)
    result: Value = b.add(b.floordiv(left, size), one)
    return result
