"""Turn checks and calls of the host into a result, and updates into updates that happen only if every check holds.

A check raises, which native code cannot do. Here each becomes its condition, a bool; the function gets one more result,
an ``i32``: 0, or the number of the first check, in program order, that does not hold. What a function writes into its
arguments becomes a choice between the new value and the old one, so after a failed check its state is that of the last
whole step. Nothing has an effect any more: the schedule is free, and a program without checks pays nothing.

What the program tells the host (`notify`) becomes results too, in program order, in front of that one, for the host to
look at when the program ended. Where the host has to be called in the middle, since it gives something back or is told
something inside of a loop or branch, every `notify` becomes a `call_host`. The status up to there is its token, so that
these calls keep their order among each other and with the checks, and none is made after a check that failed; a call
that raised makes the status `RAISED`.

A branch or loop with checks or calls inside gets a status too, which goes through its regions; a loop ends when it is
not 0. A loop's condition gives nothing but whether there is another turn, so there is none where a check in it does not
hold; behind the loop the condition is looked at once more, with what the loop carried in the end, for which check it
was.

The attribute ``checks`` of the function says how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.errors import PassError
from tapec.ir.op import OPS
from tapec.ir.ops.check import Check
from tapec.ir.ops.host import TOKEN, Notify
from tapec.ir.ops.movement import Reshape
from tapec.ir.ops.regions import RegionOp, copied_into, emitted, new_region
from tapec.ir.ops.scatter import IndexUpdate


class _Status(NamedTuple):
    """Whether check ``number`` holds, a bool."""

    number: int
    holds: Value


def run(module: Module, options: object = None) -> bool:
    """Rewrite every function that has checks, or tells the host something.

    Raises:
        PassError: the host is told something in a loop's condition; either stands in a kernel.
    """
    changed = False
    for function in module.functions.values():
        checks = checks_of(function)
        told = [op for op in function.walk() if isinstance(op.defn, Notify)]
        if not checks and not told:
            continue
        changed = True
        if calls_back(function):
            _guard(function, len(checks) + len(told))
            continue
        _return(function, told)
        if checks:
            _guard(function, len(checks))
    return changed


def calls_back(function: Function) -> bool:
    """Whether the host is called in the middle of the program, not told at its end."""
    return any(
        isinstance(op.defn, Notify) and (op.results or op.block is not function.block)
        for op in function.walk()
    )


def checks_of(function: Function) -> list[Operation]:
    """The checks of a function, in program order: the status counts them so, from 1 on.

    Raises:
        PassError: see `run`.
    """
    for outer in function.block.ops:
        for op in outer.walk():
            if isinstance(op.defn, Check | Notify) and not _can_tell(op):
                raise PassError(
                    f"{op.attrs.get('what') or op.name} stands inside of {outer.name}, where it has no effect",
                    location=op.location,
                    hint="of a loop, do it in the body, not in the condition",
                )
    return [op for op in function.walk() if isinstance(op.defn, Check)]


def _can_tell(op: Operation) -> bool:
    """Whether all the regions around an operation yield results; of a check it is enough that they are regions."""
    region = op.block.region if op.block is not None else None
    while region is not None and isinstance(region.owner, Operation):
        outer = region.owner
        defn = outer.defn
        if not isinstance(defn, RegionOp):
            return False
        if isinstance(op.defn, Notify) and not defn.yields_results(outer.regions.index(region)):
            return False
        region = outer.block.region if outer.block is not None else None
    return True


def _return(function: Function, told: Sequence[Operation]) -> None:
    """Make results of what the host is told."""
    values = [v for op in told for v in op.operands[1:]]
    for op in told:
        op.erase()
    terminator = function.block.terminator
    terminator.set_operands([*terminator.operands, *values])


def _guard(function: Function, checks: int) -> None:
    """Give the function its status, on which its updates depend."""
    block = function.block
    status = _Statuses(count(1)).of(block, None)
    b = Builder(block, before=block.terminator)
    if status is None:
        status = b.full(0, TOKEN)
    status.name = "status"
    holds = b.eq(status, b.full(0, TOKEN))
    terminator = block.terminator
    results = list(terminator.operands)
    for index, argument in function.updates.items():
        old, new = function.args[argument], results[index]
        if new is not old:
            results[index] = _if(holds, new, old, b)
            results[index].name = new.name
    terminator.set_operands([*results, status])
    function.attrs["checks"] = checks


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
        changed: Value = b.emit(op.defn, again(first), *others, **op.parameters)
        return changed

    return again(new)


def _is_changed(new: Value, old: Value) -> bool:
    """Whether a value is another one changed at some places, seen through changes of shape."""
    while new is not old and new.op is not None and isinstance(new.op.defn, IndexUpdate | Reshape):
        new = new.op.operands[0]
    return new is old


class _Statuses:
    """Takes checks and calls out of blocks, in program order."""

    def __init__(self, numbers: Iterator[int]) -> None:
        """``numbers``: of the checks."""
        self._numbers = numbers

    def of(self, block: Block, status: Value | None) -> Value | None:
        """The status at the end of a block that began with one; None is 0."""
        found: list[_Status] = []
        for op in list(block.ops):
            b = Builder(block, before=op)
            b.location = op.location
            if isinstance(op.defn, Check):
                found.append(_Status(next(self._numbers), op.defn.condition(b, op)))
                op.replace(op.defn.remains(op))
            elif isinstance(op.defn, Notify):
                status, found = _call(b, op, _token(b, status, found)), []
            elif any(isinstance(inner.defn, Check | Notify) for inner in op.walk()):
                status, found = self._around(op, _token(b, status, found)), []
        if not found:
            return status
        return _token(Builder(block, before=block.terminator), status, found)

    def _around(self, op: Operation, status: Value) -> Value:
        """The status behind a branch or loop, which ends when it is not 0."""
        assert isinstance(op.defn, RegionOp)
        result = op.defn.threaded(op, status, self._inside)
        new = result.op
        assert new is not None
        assert isinstance(new.defn, RegionOp)
        for k, region in enumerate(new.regions):
            if op.defn.yields_results(k):
                continue
            where = list(op.defn.operands_of(new, k)).index(new.operands.index(status))
            if _has_checks(region.block):
                result = self._asked_again(new, k, result)
            inside = _Statuses(count(1)).of(region.block, region.block.args[where])
            assert inside is not None
            b = Builder(region.block, before=region.block.terminator)
            new.defn.stopped(region.block, b.eq(inside, b.full(0, TOKEN)))
        return result

    def _inside(self, b: Builder, block: Block, status: Value) -> Value:
        return self.of(block, status) or status

    def _asked_again(self, op: Operation, region: int, status: Value) -> Value:
        """The status behind a loop, with the checks of its condition for what it carried in the end.

        They are looked at if the loop was left because its condition said so, not after the most turns.
        """
        assert isinstance(op.defn, RegionOp)
        assert op.block is not None
        b = Builder(op.block, before=op.block.ops[op.block.ops.index(op) + 1])
        b.location = op.location
        again = b.eq(status, b.full(0, TOKEN))
        left = op.defn.left_early(op, b)
        if left is not None:
            again = b.and_(again, left)
        values = [*op.defn.final(op, region), status]
        types = [v.type for v in values]

        def asked(inner: Builder, args: list[Value]) -> list[Value]:
            copied_into(inner, op.regions[region].block, args[:-1])
            return args[-1:]

        sides = [new_region(types, asked), new_region(types, lambda _, args: args[-1:])]
        (found,) = emitted(b, "cond", [again, *values], sides)
        last = sides[0].block.terminator
        number = self.of(sides[0].block, sides[0].block.args[-1])
        assert number is not None
        last.set_operands([number])
        return found


def _has_checks(block: Block) -> bool:
    return any(isinstance(inner.defn, Check) for op in block.ops for inner in op.walk())


def _call(b: Builder, op: Operation, token: Value) -> Value:
    """Call the host in the place of a `notify`; return the status behind it."""
    assert isinstance(op.defn, Notify)
    address, *inputs = op.defn.told(op)
    found = b.emit(OPS["call_host"], address, token, *inputs, results=op.attrs.get("results", ()))
    token, *results = [found] if isinstance(found, Value) else found
    op.replace(results)
    return token


def _token(b: Builder, status: Value | None, found: Sequence[_Status]) -> Value:
    """The status behind these checks: the first that does not hold, if it was 0 before."""
    own: Value = b.full(0, TOKEN)
    for number, holds in reversed(found):
        own = b.where(holds, own, b.full(number, TOKEN))
    if status is None or not found:
        return own if status is None else status
    joined: Value = b.where(b.eq(status, b.full(0, TOKEN)), own, status)
    return joined
