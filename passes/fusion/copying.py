"""Copies are made by kernels that are there anyway.

What a function or a turn of a loop returns has memory of its own (`tapec.passes.memory.ownership`), so a loop over time
that keeps its states, for the way back or as results, copies them in each turn. Such a copy computes nothing and waits
for memory, and threads begin and end one more loop for it. So another kernel writes it, too, and computes meanwhile:

* a kernel's result is copied by that kernel;
* an argument is copied by one whose loops run over the same elements. It has to be one that runs before the argument's
  memory gets its new value, or the one that puts it there.
"""

from __future__ import annotations

from tapec.ir.core import Body, Function, Operation, Value
from tapec.ir.op import OPS
from tapec.ir.ops.control import KernelOp
from tapec.passes.fusion.grouping import has_loops
from tapec.passes.memory.ownership import stored, writers

#: Results that a kernel has at most with the copies: a processor keeps few streams of writes apart.
_MOST_RESULTS = 8


def join_copies(body: Function | Body) -> None:
    """Let other kernels of a function or region make the copies that it returns."""
    for copy in [op for op in body.block.ops if _is_copy(op)]:
        (source,) = copy.operands
        fitting = [op for op in _possible(body, source) if _fits(op, copy)]
        if fitting:
            # What it reads anyway is not read once more; the last one is nearest to where the copy was.
            reading = [op for op in fitting if source in op.operands]
            _write_too((reading or fitting)[-1], copy)


def _is_copy(op: Operation) -> bool:
    """Whether a kernel gives its one operand as it is, for nobody else than who returns it."""
    if not isinstance(op.defn, KernelOp) or len(op.regions[0].block.ops) > 1:
        return False
    assert op.block is not None
    alone = len(op.operands) == len(op.results) == 1
    return alone and list(op.result.users) == [op.block.terminator]


def _possible(body: Function | Body, source: Value) -> list[Operation]:
    """The kernels by which a value may be copied."""
    if source.op is not None:
        return [source.op] if isinstance(source.op.defn, KernelOp) else []
    ops = body.block.ops
    for result, place in body.updates.items():
        if body.args[place] is source:
            *_, first = [None, *writers(stored(body.block.terminator.operands[result]))]
            if first is not None:
                ops = ops[: ops.index(first) + 1]
    return [op for op in ops if isinstance(op.defn, KernelOp)] if source in body.args else []


def _fits(kernel: Operation, copy: Operation) -> bool:
    """Whether a kernel's loops go through its results, and are those of a copy."""
    ops = kernel.regions[0].block.ops[:-1]
    wanted = copy.result.tensor
    return (
        bool(ops)
        and len(kernel.results) < _MOST_RESULTS
        and all(r.tensor.shape == wanted.shape for r in kernel.results)
        and any(r.tensor.dtype == wanted.dtype for r in kernel.results)
        and not any(op.defn.form == "nest" for op in ops)
        and (copy.operands[0].op is kernel or not any(has_loops(op) for op in ops))
    )


def _write_too(kernel: Operation, copy: Operation) -> None:
    """Put a kernel that writes a copy, too, in the place of one that does not."""
    (source,), block = copy.operands, kernel.block
    assert block is not None
    (region,) = kernel.regions
    inner, operands = region.block, list(kernel.operands)
    if source.op is kernel:
        value = inner.terminator.operands[source.index]
    elif source in operands:
        value = inner.args[operands.index(source)]
    else:
        value = inner.add_arg(source.type, source.name)
        operands.append(source)
    inner.terminator.set_operands([*inner.terminator.operands, value])
    types = [r.type for r in (*kernel.results, copy.result)]
    wider = Operation(OPS["kernel"], operands, types, kernel.attrs, [region], kernel.location)
    block.insert_before(kernel, wider)
    for old, new in zip((*kernel.results, copy.result), wider.results, strict=True):
        new.name = old.name
    kernel.regions = []
    *kept, copied = wider.results
    copy.replace([copied])
    kernel.replace(kept)
