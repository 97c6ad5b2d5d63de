"""Turn checks into a result, and updates into updates that happen only if every check holds.

A check raises, which native code cannot do. Here each becomes its condition, a bool; the function gets one more result,
an ``i32``: 0, or the number of the first check, in program order, that does not hold. What a function writes into its
arguments becomes a choice between the new value and the old one, so after a failed check its state is that of the last
whole step. What the program tells the host (`notify`) becomes results too, in program order, in front of that one.
Nothing has an effect any more: the schedule is free, and a program without checks pays nothing.

The attribute ``checks`` of the function says how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Operation, Value
from tapec.ir.errors import PassError
from tapec.ir.ops.check import Check
from tapec.ir.ops.host import Notify
from tapec.ir.types import I32, TensorType

_STATUS = TensorType(I32)


def run(module: Module, options: object = None) -> bool:
    """Rewrite every function that has checks.

    Raises:
        PassError: a check, or what the host is told, stands inside of a loop or branch.
    """
    changed = False
    for function in module.functions.values():
        checks = checks_of(function)
        told = [op for op in function.block.ops if isinstance(op.defn, Notify)]
        if checks or told:
            _commit(function, checks, told)
            changed = True
    return changed


def checks_of(function: Function) -> list[Operation]:
    """The checks of a function, in program order: the status counts them so, from 1 on.

    Raises:
        PassError: one stands inside of a loop or branch.
    """
    found = [op for op in function.block.ops if isinstance(op.defn, Check)]
    for outer in function.block.ops:
        for op in outer.walk():
            if op is not outer and isinstance(op.defn, Check | Notify):
                raise PassError(
                    f"{op.name} stands inside of {outer.name}",
                    location=op.location,
                    hint="use what the loop or branch returns",
                )
    return found


def _commit(function: Function, checks: Sequence[Operation], told: Sequence[Operation]) -> None:
    block = function.block
    values = [v for op in told for v in op.operands]
    for op in told:
        op.erase()
    terminator = block.terminator
    terminator.set_operands([*terminator.operands, *values])
    if checks:
        _guard(function, checks)


def _guard(function: Function, checks: Sequence[Operation]) -> None:
    """Give the function its status, on which its updates depend."""
    block = function.block
    conditions = []
    for op in checks:
        assert isinstance(op.defn, Check)
        b = Builder(block, before=op)
        b.location = op.location
        conditions.append(op.defn.condition(b, op))
        op.replace(op.defn.remains(op))
    terminator = block.terminator
    b = Builder(block, before=terminator)
    status = _status(b, conditions)
    holds = b.eq(status, b.full(0, _STATUS))
    results = list(terminator.operands)
    for index, argument in function.updates.items():
        old, new = function.args[argument], results[index]
        if new is not old:
            everywhere = b.broadcast_to(holds, new.tensor.shape)
            results[index] = b.where(everywhere, new, old)
            results[index].name = new.name
    terminator.set_operands([*results, status])
    function.attrs["checks"] = len(checks)


def _status(b: Builder, conditions: Sequence[Value]) -> Value:
    """The number of the first condition that is false; 0 if all are true."""
    status = b.full(0, _STATUS)
    for number in range(len(conditions), 0, -1):
        status = b.where(conditions[number - 1], status, b.full(number, _STATUS))
    status.name = "status"
    return status
