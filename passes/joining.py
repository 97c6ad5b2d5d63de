"""Sums over turns of loops in loops are added up in one go, in the order in which one loop would add them."""

from __future__ import annotations

from tapec.ir.core import Block, Function, Operation, Value
from tapec.ir.ops.arith import Add
from tapec.ir.ops.movement import Broadcast
from tapec.ir.ops.repetition import Loop
from tapec.passes.rewrite import is_exactly, splat


def join_sums(function: Function) -> None:
    """Let sums go through loops that begin with zeros, instead of adding what these have added up."""
    for op in list(function.walk()):
        if isinstance(op.defn, Add) and op.block is not None:
            for total, summand in (op.operands, op.operands[::-1]):
                if _go_through(op.block, op, total, summand):
                    break


def _go_through(block: Block, add: Operation, total: Value, summand: Value) -> bool:
    """Begin with ``total`` the loop that adds ``summand`` up from zero; tell whether it was done."""
    if total is summand:
        return False
    first = _beginning(block, summand)
    if first is None or (total.op is not None and not _is_before(block, total.op, first.op)):
        return False
    assert first.op is not None
    first.op.set_operand(_place(first), total)
    add.replace([summand])
    return True


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


def _is_before(block: Block, op: Operation, other: Operation | None) -> bool:
    if other is None or op.block is not block:
        return False
    return block.ops.index(op) < block.ops.index(other)


def _source(value: Value) -> Value:
    """What is broadcast to a value."""
    while value.op is not None and isinstance(value.op.defn, Broadcast):
        (value,) = value.op.operands
    return value
