"""How much a program does, roughly: whether others run meanwhile, how often a loop looks for signals."""

from __future__ import annotations

from tapec.ir.core import Block, Module, Operation, Value
from tapec.ir.op import Elementwise
from tapec.ir.ops import arith, loop

#: Operations executed, roughly, from which on other threads get the interpreter meanwhile.
LONG_WORK = 200_000
#: Up to so many, nobody minds if they wait for it: some 100 microseconds, where Python itself switches every 5000.
SHORT_WORK = 4_000_000
#: Turns of a loop whose length is not known.
_UNKNOWN = 1000


def takes_long(module: Module) -> bool:
    """Whether other threads should have the interpreter meanwhile: there is much to do, or nobody knows how much."""
    return not _takes_at_most(module, LONG_WORK)


def is_short(module: Module) -> bool:
    """Whether a caller may keep the interpreter from others meanwhile, if that spares it something.

    Where sizes are open `tapec.runtime.cpu.estimate` tells at the call.
    """
    return _takes_at_most(module, SHORT_WORK)


def _takes_at_most(module: Module, most: int) -> bool:
    loops = (op for op in module.entry.walk() if isinstance(op.defn, loop.For | loop.While))
    known = all(turns_at_most(op) is not None for op in loops)
    return known and work(module.entry.block, module) <= most


def work(block: Block, module: Module) -> int:
    """Operations that one run of a block executes, as a rule."""
    total = 0
    for op in block.ops:
        total += 1
        if op.attrs.get("rare"):
            continue
        if isinstance(op.defn, loop.Launch):
            total += work(module.functions[op.attrs["kernel"]].block, module)
        elif op.regions:
            inner = sum(work(b, module) for region in op.regions for b in region.blocks)
            if isinstance(op.defn, loop.For | loop.While):
                turns = turns_at_most(op)
                inner *= _UNKNOWN if turns is None else turns
            total += inner
    return total


def turns_at_most(op: Operation) -> int | None:
    """How often a loop turns at most, as far as its bounds tell; indices are taken to be no less than 0."""
    low, high = op.operands[:2]
    distance = _distance(low, high)
    return None if distance is None else max(distance, 0) // int(op.attrs.get("step", 1)) + 1


def _distance(low: Value, high: Value) -> int | None:
    """How far it is from an index to another at most: a tile's last rows end at the lesser of two bounds."""
    if high is low:
        return 0
    op = high.op
    if op is None:
        return None
    if isinstance(op.attrs.get("value"), int):
        start = low.op.attrs.get("value") if low.op else None
        return int(op.attrs["value"]) - (start if isinstance(start, int) else 0)
    if not isinstance(op.defn, Elementwise):
        return None
    found = [_distance(low, x) for x in op.operands]
    known = [n for n in found if n is not None]
    if isinstance(op.defn, arith.Min):
        return min(known, default=None)
    if len(known) < len(found):
        return None
    if isinstance(op.defn, arith.Max):
        return max(known)
    return sum(known) if isinstance(op.defn, arith.Add) else None
