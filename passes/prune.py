"""After the adjoint: take down what guided it, and drop the adjoint work that nobody needs.

The marks of the tape (`watch`, `read`, `stop_gradient`, `keep`, `custom`) become the values that they mark. Rules
write the cotangents of all that is active on the way; whatever leads to no result goes. Marks that no derivative
passes (`read`, `stop_gradient`), or one of its own (`custom`), stay on request, for a program that will be
differentiated again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tapec.ir.core import Block, Module
from tapec.ir.errors import PassError
from tapec.ir.ops.control import Gradient
from tapec.passes import dce
from tapec.passes.loops.joining import join_sums


@dataclass(frozen=True)
class Options:
    """``keep_cuts``: leave the marks that no derivative passes, or one of the user's."""

    keep_cuts: bool = False


def run(module: Module, options: Options = Options()) -> bool:
    """Unmark and sweep every function.

    Raises:
        PassError: a ``gradient`` is left; it would lose its way without the marks.
    """
    changed = False
    for function in module.functions.values():
        changed |= _unmark(function.block, options.keep_cuts)
        changed |= dce.sweep(function.block)
        changed |= join_sums(function)
    return changed


def _unmark(block: Block, keep_cuts: bool) -> bool:
    changed = False
    kept = []
    for op in block.ops:
        if isinstance(op.defn, Gradient):
            raise PassError(
                "prune meets a gradient that is not expanded",
                location=op.location,
                hint="run adjoint before prune",
            )
        is_kept = keep_cuts and (not op.defn.differentiable or bool(op.regions))
        marked = None if is_kept else op.defn.stands_for(op)
        if marked is not None:
            mark = getattr(op.defn, "leaves_mark", None)
            for result, value in zip(op.results, marked, strict=True):
                if mark is not None and value.op is not None:
                    value.op.attrs[mark] = True
                value.name = value.name or result.name
                result.replace_all_uses(value, f"{op.name} is a mark of the tape")
            op.drop()
            op.block = None
        else:
            kept.append(op)
            for region in op.regions:
                for inner in region.blocks:
                    changed |= _unmark(inner, keep_cuts)
    changed |= len(kept) < len(block.ops)
    block.ops = kept
    return changed
