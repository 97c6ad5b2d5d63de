"""Turn checks into a result, and updates into updates that happen only if every check holds.

A check raises, which native code cannot do. Here each becomes its condition, a bool; the function gets one more result,
an ``i32``: 0, or the number of the first check, in program order, that does not hold. What a function writes into its
arguments becomes a choice between the new value and the old one, so after a failed check its state is that of the last
whole step. What the program tells the host (`notify`) becomes results too, in program order, in front of that one.
Nothing has an effect any more: the schedule is free, and a program without checks pays nothing.

A branch or loop with checks inside gets a status too, which goes through its regions.

The attribute ``checks`` of the function says how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.errors import PassError
from tapec.ir.ops.check import Check
from tapec.ir.ops.host import Notify
from tapec.ir.ops.movement import Reshape
from tapec.ir.ops.regions import RegionOp
from tapec.ir.ops.scatter import IndexUpdate
from tapec.ir.types import I32, TensorType

_I32 = TensorType(I32)


class _Status(NamedTuple):
    """Whether check ``number`` holds, a bool; or what the checks of a branch or loop came to, a number."""

    number: int | None
    value: Value


def run(module: Module, options: object = None) -> bool:
    """Rewrite every function that has checks.

    Raises:
        PassError: what the host is told stands inside of a loop or branch, or a check in a loop's condition.
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
        PassError: see `run`.
    """
    for outer in function.block.ops:
        for op in outer.walk():
            inside = op is not outer and isinstance(op.defn, Notify)
            if inside or (isinstance(op.defn, Check) and not _can_tell(op)):
                raise PassError(
                    f"{op.attrs.get('what') or op.name} stands inside of {outer.name}",
                    location=op.location,
                    hint="use what the loop or branch returns",
                )
    return [op for op in function.walk() if isinstance(op.defn, Check)]


def _can_tell(check: Operation) -> bool:
    """Whether all the regions around a check yield results."""
    region = check.block.region if check.block is not None else None
    while region is not None and isinstance(region.owner, Operation):
        outer = region.owner
        defn = outer.defn
        if not isinstance(defn, RegionOp) or not defn.yields_results(outer.regions.index(region)):
            return False
        region = outer.block.region if outer.block is not None else None
    return True


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
    found = _statuses(block, count(1))
    terminator = block.terminator
    b = Builder(block, before=terminator)
    status = _first(b, found)
    status.name = "status"
    holds = b.eq(status, b.full(0, _I32))
    results = list(terminator.operands)
    for index, argument in function.updates.items():
        old, new = function.args[argument], results[index]
        if new is not old:
            results[index] = _if(holds, new, old, b)
            results[index].name = new.name
    terminator.set_operands([*results, status])
    function.attrs["checks"] = len(checks)


def _if(holds: Value, new: Value, old: Value, b: Builder) -> Value:
    """The new value if all holds, else the old one; of what is changed at some places, these alone are written."""
    if not _is_changed(new, old):
        result: Value = b.where(b.broadcast_to(holds, new.tensor.shape), new, old)
        return result

    def again(value: Value) -> Value:
        op = value.op
        if value is old or op is None:
            return value
        first, *others = op.operands
        if isinstance(op.defn, IndexUpdate):
            indices, updates = others
            everywhere = b.broadcast_to(holds, updates.tensor.shape)
            others = [indices, b.where(everywhere, updates, op.defn.idle(b, op))]
        changed: Value = b.emit(op.defn, again(first), *others, **op.attrs)
        return changed

    return again(new)


def _is_changed(new: Value, old: Value) -> bool:
    """Whether a value is another one changed at some places, seen through changes of shape."""
    while new is not old and new.op is not None and isinstance(new.op.defn, IndexUpdate | Reshape):
        new = new.op.operands[0]
    return new is old


def _statuses(block: Block, numbers: Iterator[int]) -> list[_Status]:
    """Take the checks out of a block and its regions, in program order; return what tells whether they hold."""
    found: list[_Status] = []
    for op in list(block.ops):
        b = Builder(block, before=op)
        b.location = op.location
        if isinstance(op.defn, Check):
            found.append(_Status(next(numbers), op.defn.condition(b, op)))
            op.replace(op.defn.remains(op))
        elif any(isinstance(inner.defn, Check) for inner in op.walk()):
            assert isinstance(op.defn, RegionOp)
            all_well = b.full(0, _I32)
            found.append(_Status(None, op.defn.threaded(op, all_well, _Inside(numbers))))
    return found


class _Inside:
    """Carries a status through a region: the first that is not 0 stays."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers

    def __call__(self, b: Builder, block: Block, status: Value) -> Value:
        own = _first(b, _statuses(block, self.numbers))
        result: Value = b.where(b.eq(status, b.full(0, _I32)), own, status)
        return result


def _first(b: Builder, statuses: Sequence[_Status]) -> Value:
    """The number of the first check that does not hold; 0 if all do."""
    status = b.full(0, _I32)
    for number, value in reversed(statuses):
        if number is None:
            status = b.where(b.eq(value, b.full(0, _I32)), status, value)
        else:
            status = b.where(value, status, b.full(number, _I32))
    return status
