"""Where in a kernel's loops a value is read: what fusion may compute again, and what may be updated in place.

A kernel's loops run over the axes of its results. An *access* tells, for each axis of a value, which loop indexes it
there; a reduction inside the kernel runs over axes of its own (`RUNS`). A value that is read with two accesses is
computed twice if it is computed in the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from tapec.ir.core import Block, Operation, Value
from tapec.ir.op import RUNS, AxesRead
from tapec.ir.types import Shape
from tapec.passes.fusion.totals import total_of

#: As `AxesRead`, with the kernel's loops in place of a result's axes. None: in no simple way.
Access = AxesRead


def identity(rank: int) -> Access:
    """Each axis by the loop of the same number."""
    return tuple(range(rank))


def compose(outer: Access, inner: AxesRead) -> Access:
    """The access of an operand whose result is accessed by ``outer``."""
    if outer is None or inner is None:
        return None
    return tuple(axis if axis < 0 else outer[axis] for axis in inner)


def operand_accesses(op: Operation, accesses: Iterable[Access]) -> list[tuple[Value, Access]]:
    """How an operation that is computed at these places reads its operands."""
    found = []
    for access in accesses:
        for operand, inner in zip(op.operands, op.defn.axes_read(op), strict=True):
            found.append((operand, compose(access, inner)))
    return found


def block_accesses(block: Block) -> dict[Value, list[Access]]:
    """How the values of a kernel's block are read, when what it yields is computed at the loops' index."""
    found: dict[Value, list[Access]] = {}
    for value in block.terminator.operands:
        _add(found, value, identity(value.tensor.rank))
    total = total_of(block.ops[:-1], block.terminator.operands)
    for op in reversed(block.ops[:-1]):
        if op is total:
            # The kernel's own loops add up.
            _add(found, op.operands[0], identity(op.operands[0].tensor.rank))
            continue
        read = dict.fromkeys(access for result in op.results for access in found.get(result, ()))
        for operand, access in operand_accesses(op, read):
            _add(found, operand, access)
    return found


def _add(found: dict[Value, list[Access]], value: Value, access: Access) -> None:
    known = found.setdefault(value, [])
    if access not in known:
        known.append(access)


def loops_of(kernel: Operation) -> Shape:
    """The extents of a kernel's loops: the shape of its largest result, of which the others' are the first axes.

    Where the loops also add up what they run over to one number, it is the shape of that.
    """
    total = total_of(kernel.regions[0].block.ops[:-1], kernel.results)
    if total is not None:
        return total.operands[0].tensor.shape
    return max((r.tensor.shape for r in kernel.results), key=len)


def is_own(access: Access, shape: Shape, space: Shape) -> bool:
    """Whether an element is read exactly where the loops are that write a value of this shape.

    They are all loops, or the outermost ones for a value of fewer axes.
    """
    return (
        access is not None
        and shape == space[: len(shape)]
        and all(a == i or n == 1 for i, (a, n) in enumerate(zip(access, shape, strict=True)))
    )


def is_by_rows(access: Access, shape: Shape, space: Shape) -> bool:
    """Whether elements are read where the loops are that write the value, or all of a row of these by a loop inside."""
    if access is None or shape != space[: len(shape)]:
        return False
    own = next((n for n, axis in enumerate(access) if axis == RUNS), len(access))
    return set(access[own:]) <= {RUNS} and is_own(access[:own], shape[:own], space)


def is_once(access: Access, space: Shape) -> bool:
    """Whether no element is computed twice: all turning loops index it, or only outer ones do.

    What inner loops do not index is computed outside of them.
    """
    if access is None:
        return False
    turning = [loop for loop, n in enumerate(space) if n != 1]
    used = {a for a in access if a >= 0} & set(turning)
    return used == set(turning[: len(used)])
