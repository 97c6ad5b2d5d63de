"""The kernel operations that groups of operations become."""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Body, Function, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS
from tapec.passes.fusion.grouping import Group, sources


def write_kernels(function: Function | Body, items: list[Group | Operation]) -> None:
    """Make the function's block of kernels, reshapes and the return."""
    block = function.block
    old, terminator = block.ops[:-1], block.terminator
    position = {op: i for i, op in enumerate(old)}
    block.ops = []
    #: What is in memory, by the value that it was before.
    memory: dict[Value, Value] = {}
    for item in items:
        if isinstance(item, Operation):
            item.set_operands([memory.get(v, v) for v in item.operands])
            block.append(item)
            continue
        ops = sorted(item.ops, key=position.__getitem__)
        kernel = _kernel_of(sources(item), item.outputs, ops, item.in_memory)
        kernel.set_operands([memory.get(v, v) for v in kernel.operands])
        block.append(kernel)
        for value, result in zip(item.outputs, kernel.results, strict=True):
            result.name = value.name
            memory[value] = result
    terminator.set_operands([memory.get(v, v) for v in terminator.operands])
    block.append(terminator)
    kept = set(block.ops)
    for op in reversed(old):
        if op not in kept:
            op.drop()


def _kernel_of(
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    ops: Sequence[Operation] = (),
    core_reads: Sequence[Value] = (),
) -> Operation:
    """A kernel operation that computes outputs from inputs by copies of the operations.

    What reads just ``core_reads`` reads them from inputs, though they are computed inside as well.
    """
    body = Block([v.type for v in inputs], [v.name for v in inputs])
    arguments = dict(zip(inputs, body.args, strict=True))
    mapping = dict(arguments)
    for op in ops:
        copy = clone_operation(op, mapping)
        if core_reads and op.operands == core_reads:
            copy.set_operands([arguments[v] for v in core_reads])
        body.append(copy)
    Builder(body).emit("yield", *(mapping[v] for v in outputs))
    location = ops[-1].location if ops else None
    types = [v.type for v in outputs]
    return Operation(OPS["kernel"], inputs, types, {}, [Region([body])], location)
