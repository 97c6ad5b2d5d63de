"""Branches, and loops that may end early, as LLVM text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tapec.ir.core import Operation
from tapec.runtime.cpu.text import polling, spelling
from tapec.runtime.cpu.text.function import Affine

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import KernelWriter


def while_op(k: KernelWriter, op: Operation) -> None:
    """A counted loop that its condition may end."""
    low, high = (k.position(v) for v in op.operands)
    condition, body = (region.block for region in op.regions)

    def holds(i: Affine) -> str:
        k.affine[condition.args[0]] = i
        (value,) = k.block(condition)
        return k.name(value)

    def turn(i: Affine) -> None:
        k.affine[body.args[0]] = i
        k.block(body)
        if op.attrs.get("interruptible"):
            polling.poll(k, op)

    k.define(op.result, k.loop_while(low, high, holds, turn))


def if_op(k: KernelWriter, op: Operation) -> None:
    """A branch; a missing second side yields nothing."""
    sides = [region.block for region in op.regions]
    types = [spelling.register(r.type) for r in op.results]

    def side(n: int) -> Callable[[], Sequence[str]]:
        if n >= len(sides):
            return lambda: ()
        return lambda: [k.name(v) for v in k.block(sides[n])]

    condition = k.name(op.operands[0])
    rare = op.attrs.get("rare", False)
    k.define_all(op.results, k.branch(condition, types, side(0), side(1), rare=rare))
