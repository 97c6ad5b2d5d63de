"""The derivative of a loop that may turn without end: few carried values are kept, what is between is computed again.

All that a derivative needs are the carried values of every turn, last turn first, and there is no place for a number of
them that only the run knows. So few turns are kept as they are. Of more, the turns are cut into parts of the same
length, a power of the number of slots; the carried values at the start of each are kept, and the parts are gone through
from the last to the first, each cut again, by the next lower power, until a part is as many turns as there are slots.
Where the turns are fewer than a part has, there is one part, and nothing is run for it. Each level costs one more run
forwards; no number of turns that an int32 can count needs more than the levels that are written (Griewank, "Achieving
logarithmic growth of temporal and spatial complexity in reverse automatic differentiation", 1992).

The turn backwards is written twice: for few turns, and for a part of the lowest level. A derivative of higher order
differentiates all that is written here, loops in the body multiply it: with one more copy at each level, the programs
of third derivatives took minutes to compile.
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
#: Bits of a number of slots, and bytes of kept values above which there are fewer slots and more levels. Each level is
#: one more copy of the body, and of all its derivatives.
_SLOTS = ((8, 1 << 20), (6, 1 << 26))
#: Bytes up to which a derivative of higher order may keep the values of all turns of a part.
_LITTLE = 1 << 20

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
        self.size = sum(n for n in sizes if isinstance(n, int))
        bits = next((n for n, most in _SLOTS if self.size * (1 << n) * _levels(n) <= most), 4)
        self.slots, self.levels = 1 << bits, _levels(bits)

    def write(
        self,
        b: Builder,
        turns: Value,
        state: Sequence[Value],
        flow: Sequence[Value],
        same: Sequence[Value],
    ) -> list[Value]:
        """What becomes of ``flow`` over ``turns`` turns that began with ``state``."""
        values = [turns, *state, *flow, *same]
        few = b.le(turns, b.full(self.slots, _NUMBER))

        def side(write: Callable[..., list[Value]]) -> Region:
            return new_region(
                [v.type for v in values], lambda i, args: write(i, *self._split(args))
            )

        top = self.levels - 1
        sides = [side(self._directly), side(lambda i, *a: self._in_parts(i, top, *a))]
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
        """Keep the carried values at the start of each part, and go back through one part after the other.

        There are at most ``slots`` to the power ``level + 1`` turns.
        """
        if level == 0:
            return self._directly(b, turns, state, flow, same)
        length = b.full(self.slots**level, _NUMBER)
        parts = _parts(b, turns, length)
        numbers = b.emit("iota", axis=0, type=TensorType(I32, (self.slots,)))
        attrs = {"length": self.slots, "counted": True}

        def left(inner: Builder, number: Value, turns: Value, length: Value) -> Value:
            result: Value = inner.sub(turns, inner.mul(number, length))
            return result

        def forward(inner: Builder, args: list[Value]) -> list[Value]:
            own, (number, turns, length, *rest) = args[: self.carried], args[self.carried :]
            # Nobody needs what is behind the last part.
            more = inner.lt(length, left(inner, number, turns, length))
            count = inner.where(more, length, inner.full(0, _NUMBER))
            return [*self._advanced(inner, level, count, own, rest), *own]

        def backward(inner: Builder, args: list[Value]) -> list[Value]:
            own, rest = args[: len(flow)], args[len(flow) :]
            start, (number, turns, length, *rest) = rest[: self.carried], rest[self.carried :]
            count = inner.min(length, left(inner, number, turns, length))
            return self._in_parts(inner, level - 1, count, start, own, rest)

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
        self, b: Builder, level: int, turns: Value, state: Sequence[Value], same: Sequence[Value]
    ) -> list[Value]:
        """The carried values some turns later."""

        def forward(inner: Builder, args: list[Value]) -> list[Value]:
            return recomputed_into(inner, self.body, args)[: self.carried]

        region = new_region([*self.state_types, *self.same_types], forward)
        most = self.slots**level
        attrs: dict[str, Any] = {"carried": self.carried, "stacked": 0, "counted": True}
        attrs["length"] = most if most * self.size <= _LITTLE else -1
        return list(emitted(b, "loop", [turns, *state, *same], [region], **attrs))


def _levels(bits: int) -> int:
    """How many levels of so many slots any number of turns needs."""
    return -(-_BITS // bits)


def _parts(b: Builder, whole: Value, size: Value) -> Value:
    """How many parts of a size make up a whole: rounded up, at least 1."""
    one = b.full(1, _NUMBER)
    left = b.sub(b.max(whole, one), one)
    result: Value = b.add(b.floordiv(left, size), one)
    return result
