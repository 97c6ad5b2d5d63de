"""Merge pure operations that compute the same thing from the same values.

Forwards, once: what an operation reads has been merged already, so equal operations have the same
operands. The first one stays, in the block where it is or for the regions inside that block.

Left alone, because somebody wants them twice: what a tape marked (`Op.marks_path`), what
rematerialisation computes again (the attr ``recompute``), and operations with regions.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, MutableMapping

import numpy as np

from tapec.ir.compare import exact
from tapec.ir.core import Block, Module, Operation
from tapec.ir.ops.control import Gradient
from tapec.ir.ops.source import Constant

Seen = MutableMapping[Hashable, Operation]


def run(module: Module, options: object = None) -> bool:
    """Merge equal operations in every function."""
    changed = False
    for function in module.functions.values():
        # max(x, y) and max(y, x) are the same, but on a tie their derivatives are not.
        ordered = any(isinstance(op.defn, Gradient) for op in function.walk())
        changed |= _merge(function.block, {}, ordered)
    return changed


def _merge(block: Block, seen: Seen, ordered: bool) -> bool:
    """Merge the operations of a block with each other and with what ``seen`` holds from outside.

    The order of operands counts even for commutative operations if ``ordered``.
    """
    changed = False
    kept = []
    for op in block.ops:
        key = _key(op, ordered) if _mergeable(op) else None
        first = seen.setdefault(key, op) if key is not None else op
        if first is not op:
            for old, new in zip(op.results, first.results, strict=True):
                old.replace_all_uses(new, "both compute the same")
                new.name = new.name or old.name
            op.drop()
            op.block = None
            changed = True
            continue
        for region in op.regions:
            outer: Seen = {} if op.defn.isolated else seen
            for inner in region.blocks:
                changed |= _merge(inner, ChainMap({}, outer), ordered)
        kept.append(op)
    block.ops = kept
    return changed


def _mergeable(op: Operation) -> bool:
    defn = op.defn
    marked = defn.marks_path or op.attrs.get("recompute")
    return bool(op.results) and defn.pure and not op.regions and not marked


def _key(op: Operation, ordered: bool) -> Hashable:
    """Equal for operations that compute the same."""
    operands = [id(v) for v in op.operands]
    if op.defn.commutative and not ordered:
        operands.sort()
    if isinstance(op.defn, Constant):
        # As stored, not as written: 1 and 1.0 are the same float, 0.1 has one f32 nearest to it.
        target = op.attrs["type"]
        return op.defn, target, exact(np.asarray(op.attrs["value"]).astype(target.dtype.numpy))
    types = tuple(r.type for r in op.results)
    return op.defn, tuple(operands), exact(op.attrs), types
