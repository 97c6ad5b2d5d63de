"""Make one kernel of a loop that launches small ones at each of its turns.

A device takes longer to launch a kernel than to do some thousand additions, and a loop over time launches its kernels
again and again. Where every size is known, the whole loop is better a kernel in two cases. Where a turn's kernels have
no more to do than one block of threads does in passing, one block runs it, and waits at barriers where it would have
waited for launches. And where they treat each row of a batch by itself (`tapec.passes.device.rows`), as the cells of a
recurrent network do, every row has a block of its own that takes it through all turns.

Which loops can be kernels, and how they are written as one, says `tapec.passes.loops.enclosure`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tapec.ir.core import Block, Function, Module, Operation
from tapec.ir.ops import loop
from tapec.passes.device.rows import FEW, ROW_WORK, Rows
from tapec.passes.loops.enclosure import Enclosed, drop_unlaunched
from tapec.passes.loops.parts import turns_of


@dataclass(frozen=True)
class Options:
    """How many times the innermost statements of a turn's kernels run at most, to be done by one block.

    ``row``: the same, of each row that a block has.
    """

    work: int = 2048
    row: int = ROW_WORK


def run(module: Module, options: Options) -> bool:
    """Enclose the outermost loops of the entry that fit; a kernel that nothing launches any more goes."""
    made = 0
    for block in module.entry.block.nested():
        for op in list(block.ops):
            found = enclosed(op, module, options)
            if found is not None:
                module.add(found.write(f"loop{made}"))
                made += 1
    if made:
        drop_unlaunched(module)
    return bool(made)


def enclosed(op: Operation, module: Module, options: Options) -> Enclosed | None:
    """A loop, if it can and should become a kernel."""
    found = Enclosed.possible(op, module)
    if found is None:
        return None
    turn = sum(_work(module.functions[one.attrs["kernel"]]) for one in found.launches)
    rows = Rows.of(found.launches, module)
    if rows >= FEW and turn // rows <= options.row:
        found.rows = rows
    return found if found.rows or turn <= options.work else None


def _work(kernel: Function) -> int:
    """How often its innermost statements run."""

    def of(block: Block) -> int:
        total = 1
        for op in block.ops:
            inner = sum(of(region.block) for region in op.regions)
            turns = turns_of(op) if isinstance(op.defn, loop.For) else 1
            total += inner * (1 << 30 if turns is None else turns)
        return total

    return of(kernel.block)
