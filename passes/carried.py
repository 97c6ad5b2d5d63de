"""What loops carry is always in one place: that of the first value, which nobody else may need then.

A first value that has other readers, or is an argument, is copied; a constant is made once more.
"""

from __future__ import annotations

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.movement import Reshape
from tapec.ir.ops.regions import RegionOp
from tapec.ir.ops.source import Constant, Iota


def give_own_memory(block: Block) -> None:
    """Let every loop of a block have the memory of the values that it overwrites to itself."""
    for op in [op for op in block.ops if isinstance(op.defn, RegionOp)]:
        for place in _overwritten(op):
            if not _is_own(op.operands[place]):
                op.set_operand(place, _another(block, op, op.operands[place]))


def _overwritten(op: Operation) -> list[int]:
    assert isinstance(op.defn, RegionOp)
    return list(op.defn.overwritten(op).values())


def _is_own(value: Value) -> bool:
    """Whether an operation makes a value for one reader, in memory that nobody else reads."""
    while sum(value.users.values()) == 1 and value.op is not None:
        if not isinstance(value.op.defn, Reshape):
            return True
        (value,) = value.op.operands
    return False


def _another(block: Block, before: Operation, value: Value) -> Value:
    """The same value in other memory."""
    op = value.op
    if op is not None and isinstance(op.defn, Constant | Iota):
        copy = block.insert_before(before, clone_operation(op, {}))
        return copy.result
    body = Block([value.type])
    Builder(body).emit("yield", body.args[0])
    kernel = Operation(OPS["kernel"], [value], [value.type], {}, [Region([body])], before.location)
    kernel.result.name = value.name
    return block.insert_before(before, kernel).result


def first_writer(value: Value) -> Operation:
    """The operation that first writes the memory of a value: a loop's result is made in that of what it takes."""
    op = value.op
    assert op is not None
    if isinstance(op.defn, KernelOp):
        return op
    if isinstance(op.defn, RegionOp):
        place = op.defn.overwritten(op).get(value.index)
        return op if place is None else first_writer(op.operands[place])
    return first_writer(op.operands[0])
