"""`custom`: values whose derivative the user wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.batching import batch_operations, batched_results
from tapec.ir.builder import Builder
from tapec.ir.core import Block, Region, clone_operation
from tapec.ir.errors import ShapeError
from tapec.ir.op import Cotangents, Op, spread
from tapec.ir.types import Type

if TYPE_CHECKING:
    from tapec.ir.core import Operation, Value


class Custom(Op):
    """The first ``outputs`` operands, with a derivative of its own.

    Operands are outputs, then inputs, then whatever else the derivative reads. The region computes cotangents of
    operands: its arguments are the outputs' cotangents and the other operands, one for one, and it yields the
    cotangents of the operands whose positions are in ``flows``. Nothing flows to the others, so not to the outputs.
    """

    name = "custom"
    form = "structural"
    isolated = True

    def infer(self, *types: Any, outputs: int, flows: tuple[int, ...]) -> tuple[Type, ...]:
        """The types of the outputs."""
        if not 0 < outputs <= len(types):
            raise ShapeError(f"custom: {outputs} outputs among {len(types)} operands")
        if any(not outputs <= i < len(types) for i in flows):
            raise ShapeError(f"custom: flows {list(flows)} go to no input")
        return types[:outputs]

    def evaluate(self, *arrays: Any, outputs: int, **attrs: Any) -> Any:
        """The outputs."""
        return arrays[0] if outputs == 1 else arrays[:outputs]

    def stands_for(self, op: Operation) -> Sequence[Value] | None:
        """The outputs."""
        return op.operands[: op.attrs["outputs"]]

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The region's program; zeros stand for cotangents that do not exist."""
        given = [
            b.full_like(0, r) if ct is None else ct for r, ct in zip(op.results, cts, strict=True)
        ]
        block = op.regions[0].block
        values = [*given, *op.operands[len(given) :]]
        mapping = dict(zip(block.args, values, strict=True))
        for inner in block.ops[:-1]:
            b.insert(clone_operation(inner, mapping))
        cotangents: list[Value | None] = [None] * len(op.operands)
        for position, value in zip(op.attrs["flows"], block.terminator.operands, strict=True):
            cotangents[position] = mapping.get(value, value)
        return tuple(cotangents)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """Outputs and region mapped: every operand gets the axis."""
        (region,) = attrs.pop("regions")
        operands = spread(b, operands, batched)
        old, new = region.block, Block([v.type for v in operands])
        values = dict(zip(old.args, new.args, strict=True))
        mapped = set(old.args)
        inner = Builder(new)
        batch_operations(inner, old.ops[:-1], values, mapped)
        size = operands[0].tensor.shape[0]
        last = old.terminator
        yielded = batched_results(inner, last.operands, values, mapped, size)
        inner.emit(last.defn, *yielded, **last.attrs)
        return b.emit(self, *operands, regions=[Region([new])], **attrs)
