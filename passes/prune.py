"""After the adjoint: take down what guided it, and drop the adjoint work that nobody needs.

The marks of the tape (`watch`, `read`, `stop_gradient`, `custom`) become the values that they mark. Rules
write the cotangents of all that is active on the way; whatever leads to no result goes.
"""

from __future__ import annotations

from tapec.ir.core import Block, Module
from tapec.ir.errors import PassError
from tapec.ir.ops.control import Gradient
from tapec.passes import dce


def run(module: Module, options: object = None) -> bool:
    """Unmark and sweep every function.

    Raises:
        PassError: a ``gradient`` is left; it would lose its way without the marks.
    """
    changed = False
    for function in module.functions.values():
        changed |= _unmark(function.block)
        changed |= dce.sweep(function.block)
    return changed


def _unmark(block: Block) -> bool:
    changed = False
    kept = []
    for op in block.ops:
        if isinstance(op.defn, Gradient):
            raise PassError(
                "prune meets a gradient that is not expanded",
                location=op.location,
                hint="run adjoint before prune",
            )
        marked = op.defn.stands_for(op)
        if marked is not None:
            for result, value in zip(op.results, marked, strict=True):
                value.name = value.name or result.name
                result.replace_all_uses(value)
            op.drop()
            op.block = None
        else:
            kept.append(op)
            for region in op.regions:
                for inner in region.blocks:
                    changed |= _unmark(inner)
    changed |= len(kept) < len(block.ops)
    block.ops = kept
    return changed
