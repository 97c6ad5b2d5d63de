"""Memory of one's own: for what a function returns, and for what loops carry.

Results that are arguments, or other results, are copied. What a loop carries is always in one place, that of its first
value, which nobody else may need then: one that has other readers, or is an argument, is copied; a constant is made
once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Body, Function, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.interleaved import Reinterpretation
from tapec.ir.ops.movement import Reshape
from tapec.ir.ops.regions import RegionOp
from tapec.ir.ops.source import Constant, Extent, Iota


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
        if not isinstance(value.op.defn, Reshape | Reinterpretation):
            return True
        (value,) = value.op.operands
    return False


def _another(block: Block, before: Operation, value: Value) -> Value:
    """The same value in other memory."""
    op = value.op
    if op is not None and isinstance(op.defn, Constant | Extent | Iota):
        copy = block.insert_before(before, clone_operation(op, {}))
        return copy.result
    kernel = _copying(value)
    kernel.location = before.location
    kernel.result.name = value.name
    return block.insert_before(before, kernel).result


def _copying(value: Value) -> Operation:
    """A kernel that copies a value."""
    body = Block([value.type])
    Builder(body).emit("yield", body.args[0])
    return Operation(OPS["kernel"], [value], [value.type], {}, [Region([body])])


def copy_aliases(body: Function | Body) -> None:
    """Results that are arguments, or the same as other results, become values of their own: copies.

    But for an argument that replaces itself.
    """
    terminator = body.block.terminator
    seen: set[Value] = set()
    for i, value in enumerate(terminator.operands):
        if i in body.updates and value is body.args[body.updates[i]]:
            continue
        root = stored(value)
        if root.op is None or not seen.isdisjoint((value, root)):
            terminator.set_operand(i, _copied(body.block, value))
        seen |= {value, root}


def _copied(block: Block, value: Value) -> Value:
    """A copy, made at the end; what a value reinterprets is copied instead of it."""
    view = (
        value.op if value.op is not None and isinstance(value.op.defn, Reinterpretation) else None
    )
    source = value if view is None else view.operands[0]
    kernel = _copying(source)
    block.insert_before(block.terminator, kernel)
    if view is None:
        return kernel.result
    return Builder(block, block.terminator).emit(view.defn, kernel.result)  # type: ignore[no-any-return]


def stored(value: Value) -> Value:
    """Through operations that only give another type, what is in memory."""
    while value.op is not None and isinstance(value.op.defn, Reshape | Reinterpretation):
        value = value.op.operands[0]
    return value


def written_over(value: Value) -> Iterator[Value]:
    """What is in the memory of a value, one after the other, the last one first: a loop writes over what it takes."""
    while True:
        value = stored(value)
        yield value
        op = value.op
        if op is None or not isinstance(op.defn, RegionOp):
            return
        place = op.defn.overwritten(op).get(value.index)
        if place is None:
            return
        value = op.operands[place]


def writers(value: Value) -> Iterator[Operation]:
    """The operations that write the memory of a value, the last one first: a loop writes over what it takes."""
    op = value.op
    while op is not None:
        if isinstance(op.defn, KernelOp):
            yield op
            return
        place: int | None = 0
        if isinstance(op.defn, RegionOp):
            yield op
            place = op.defn.overwritten(op).get(value.index)
        if place is None:
            return
        value = op.operands[place]
        op = value.op
