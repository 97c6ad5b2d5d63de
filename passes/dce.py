"""Remove pure operations whose results nobody reads, and results of regions that nobody reads.

Backwards, once: when an operation is looked at, all that could read it has been looked at.
"""

from __future__ import annotations

from tapec.ir.core import Block, Module, Operation, Region, Value
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp


def run(module: Module, options: object = None) -> bool:
    """Remove what nobody needs from every function."""
    changed = False
    for function in module.functions.values():
        changed |= sweep(function.block)
    return changed


def sweep(block: Block) -> bool:
    """Remove what nobody needs from a block and the regions in it; return whether it changed."""
    changed = False
    kept: list[Operation] = []
    for op in reversed(block.ops):
        if not needed(op):
            op.drop()
            op.block = None
            changed = True
            continue
        if isinstance(op.defn, KernelOp):
            narrowed = _narrow(op)
            changed |= narrowed is not op
            op = narrowed
        elif isinstance(op.defn, RegionOp):
            narrowed = _without_unneeded(op, op.defn)
            changed |= narrowed is not op
            op = narrowed
        for region in op.regions:
            for inner in region.blocks:
                changed |= sweep(inner)
        kept.append(op)
    if changed:
        block.ops = kept[::-1]
    return changed


def needed(op: Operation) -> bool:
    """Whether somebody reads a result, or running it (or its regions) has an effect."""
    return any(r.users for r in op.results) or not all(
        inner.defn.pure or (inner is not op and inner.defn.terminator) for inner in op.walk()
    )


def _without_unneeded(op: Operation, defn: RegionOp) -> Operation:
    """A branch or loop without what nobody reads, turn after turn: operands, results, and what is between."""
    operands, results = defn.needs(op)
    if len(operands) == len(op.operands) and len(results) == len(op.results):
        return op
    kept = [op.results[i] for i in results]
    block = op.block
    narrow = defn.with_parts(op, operands, results)
    narrow.block = block
    for old, new in zip(kept, narrow.results, strict=True):
        old.replace_all_uses(new)
    op.drop()
    op.block = None
    return narrow


def _narrow(kernel: Operation) -> Operation:
    """The kernel without unread results, and without operands that it does not read."""
    (region,) = kernel.regions
    keep = [r for r in kernel.results if r.users]
    if len(keep) < len(kernel.results):
        kernel = _without_results(kernel, region, keep)
        sweep(region.block)
    unread = [i for i, arg in enumerate(region.block.args) if not arg.users]
    if unread:
        kernel.set_operands([v for i, v in enumerate(kernel.operands) if i not in unread])
        for i in reversed(unread):
            region.block.remove_arg(i)
    return kernel


def _without_results(kernel: Operation, region: Region, keep: list[Value]) -> Operation:
    """A kernel in the place of another that yields ``keep`` alone; it takes the region over."""
    last = region.block.terminator
    last.set_operands([last.operands[r.index] for r in keep])
    kernel.regions = []
    narrow = Operation(
        kernel.defn,
        kernel.operands,
        [r.type for r in keep],
        kernel.attrs,
        [region],
        kernel.location,
    )
    narrow.block = kernel.block
    for old, new in zip(keep, narrow.results, strict=True):
        new.name = old.name
        old.replace_all_uses(new)
    kernel.drop()
    kernel.block = None
    return narrow
