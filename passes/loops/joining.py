"""Sums over turns of loops in loops are added up in one go, in the order in which one loop would add them."""

from __future__ import annotations

from tapec.ir.core import Block, Function, Operation, Value
from tapec.ir.ops.arith import Add
from tapec.ir.ops.movement import Broadcast
from tapec.ir.ops.repetition import Loop
from tapec.passes.rules.rewrite import is_exactly, splat


def join_sums(function: Function) -> bool:
    """Let sums go through the parts of a loop that was cut, instead of adding what each part has added up.

    Parts of one loop have the same attribute ``part`` (`tapec.passes.loops.checkpoint`). Sums of loops that the user
    wrote one into the other, or one after the other, stay as they are. Return whether there were any to join.
    """
    changed = False
    for op in list(function.walk()):
        if isinstance(op.defn, Add) and op.block is not None:
            for total, summand in (op.operands, op.operands[::-1]):
                if _go_through(op.block, op, total, summand):
                    changed = True
                    break
    return changed


def _go_through(block: Block, add: Operation, total: Value, summand: Value) -> bool:
    """Begin with ``total`` the loop that adds ``summand`` up from zero; tell whether it was done."""
    first = _beginning(block, summand)
    if first is None or first.op is None:
        return False
    before, others = _continued(first.op, total), None
    if before is None and total.op is not None and isinstance(total.op.defn, Add):
        # What comes from elsewhere is added to the sum of all parts.
        others, before = _split(first.op, total.op)
    if before is None or not _is_there(block, before, first.op):
        return False
    first.op.set_operand(_place(first), before)
    if others is None:
        add.replace([summand])
    else:
        add.set_operands([others, summand])
    return True


def _split(part: Operation, add: Operation) -> tuple[Value | None, Value | None]:
    """Of two values that are added, the one that comes from elsewhere, and the one that a part of a loop continues."""
    for others, total in (add.operands, add.operands[::-1]):
        if _continued(part, total) is not None:
            return others, total
    return None, None


def _continued(part: Operation, total: Value) -> Value | None:
    """A sum, if it is that of the turns of the same loop that come before a part; else None."""
    mark = part.attrs.get("part")
    if mark is None:
        return None
    if total.op is None:
        around = (
            None if part.block is None or part.block.region is None else part.block.region.owner
        )
        inside = isinstance(around, Operation) and around.attrs.get("part") == mark
        return total if inside and total.owner is part.block else None
    if total.op.attrs.get("part") != mark or sum(total.users.values()) > 1:
        return None
    follows = any(v.op is total.op for v in part.operands)
    return total if follows and _adds_up(total.op, total.index) else None


def _beginning(block: Block, value: Value) -> Value | None:
    """The result of the first of the loops of a block that add a value up, if it begins with zeros; else None."""
    while True:
        op = value.op
        if op is None or op.block is not block or sum(value.users.values()) > 1:
            return None
        if not _adds_up(op, value.index):
            return None
        start = op.operands[_place(value)]
        if is_exactly(splat(_source(start)), 0.0):
            return value
        value = start


def _place(value: Value) -> int:
    """The operand of a loop that becomes one of its results."""
    op = value.op
    assert op is not None
    assert isinstance(op.defn, Loop)
    return op.defn.overwritten(op)[value.index]


def _adds_up(op: Operation, index: int) -> bool:
    """Whether an operation is a loop that only adds to what becomes its result of this number."""
    if not isinstance(op.defn, Loop) or len(op.regions) > 1:
        return False
    if index not in op.defn.overwritten(op):
        return False
    body = op.regions[0].block
    arg = body.args[index]
    return sum(arg.users.values()) == 1 and _is_sum(body.terminator.operands[index], arg)


def _is_sum(value: Value, arg: Value) -> bool:
    """Whether a value is another one plus something, or what loops add up that begin with that."""
    while value is not arg:
        op = value.op
        if op is None or sum(value.users.values()) > 1:
            return False
        if isinstance(op.defn, Add) and arg in op.operands:
            return True
        if not _adds_up(op, value.index):
            return False
        value = op.operands[_place(value)]
    return True


def _is_there(block: Block, value: Value, op: Operation) -> bool:
    """Whether a value is made before an operation of a block runs."""
    if op.block is not block:
        return False
    return value.op is None or (
        value.op.block is block and block.ops.index(value.op) < block.ops.index(op)
    )


def _source(value: Value) -> Value:
    """What is broadcast to a value."""
    while value.op is not None and isinstance(value.op.defn, Broadcast):
        (value,) = value.op.operands
    return value
