"""Which operations belong to a contraction: what gives its result another shape, and what reads it alone."""

from __future__ import annotations

from tapec.ir.core import Operation
from tapec.ir.op import Elementwise
from tapec.ir.ops.movement import Reshape


def contraction_of(op: Operation) -> Operation | None:
    """The contraction that an operation is, or whose result it alone reads and gives another shape, rows being rows."""
    if op.defn.form == "contraction":
        return op
    source = op.operands[0].op if isinstance(op.defn, Reshape) else None
    if source is None or source.defn.form != "contraction" or len(source.result.users) != 1:
        return None
    return source if source.result.tensor.shape[-1:] == op.result.tensor.shape[-1:] else None


def ends_contraction(op: Operation) -> bool:
    """Whether an operation alone reads, element by element, what a contraction makes."""
    if not isinstance(op.defn, Elementwise):
        return False
    made = [v.op for v in op.operands if v.op is not None and len(v.users) == 1]
    return any(contraction_of(source) is not None for source in made)
