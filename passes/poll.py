"""Mark the loops of the entry between whose turns a program may be stopped, by Ctrl-C say.

Where a program stops, Variables hold a whole step, or the last whole turn of a loop that updates them. So a loop may
be left between two turns only if nothing was written into an argument before it: neither earlier in the function, nor
earlier in the turn of a loop around it. What the loop itself has written until then are whole turns. Once a step has
begun to write otherwise, it runs to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.ops import loop


def run(module: Module, options: object = None) -> bool:
    """Set ``interruptible`` on such loops."""
    writes = {name: _written_arguments(f) for name, f in module.functions.items()}
    entry = module.entry
    updated = {entry.args[i] for i in entry.updates.values()}
    marked = [False]

    def visit(block: Block, begun: bool) -> bool:
        """Mark the loops of a block; return whether an argument is written to by its end."""
        for op in block.ops:
            blocks = [b for region in op.regions for b in region.blocks]
            if isinstance(op.defn, loop.For | loop.While) and not begun:
                op.attrs["interruptible"] = marked[0] = True
            inside = [visit(b, begun) for b in blocks]
            begun = begun or any(inside) or any(v in updated for v in _written(op, writes))
        return begun

    visit(entry.block, False)
    return marked[0]


def _written(op: Operation, writes: Mapping[str, Collection[int]]) -> Iterator[Value]:
    """The buffers, seen through views, that an operation of the entry writes to itself."""
    if isinstance(op.defn, loop.Launch):
        for i in writes[op.attrs["kernel"]]:
            yield _root(op.operands[i])
    elif isinstance(op.defn, loop.LoopOp):
        yield from map(_root, op.defn.written(op))


def _written_arguments(function: Function) -> set[int]:
    """Which arguments a kernel writes to."""
    roots = {
        _root(v)
        for op in function.walk()
        if isinstance(op.defn, loop.LoopOp)
        for v in op.defn.written(op)
    }
    return {i for i, arg in enumerate(function.args) if arg in roots}


def _root(buffer: Value) -> Value:
    """What a view is a part of."""
    while buffer.op is not None and isinstance(buffer.op.defn, loop.View):
        buffer = buffer.op.operands[0]
    return buffer
