"""Vectorised mapping: the operations of a block, each over a new leading axis of some of its operands.

`Op.batch` says it for one operation; here they are put together. What depends on nothing mapped is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.builder import Builder
from tapec.ir.core import Operation, Value, clone_operation
from tapec.ir.dims import DimLike
from tapec.ir.errors import NotDifferentiableError
from tapec.ir.op import repeated


def batch_operations(
    b: Builder, ops: Sequence[Operation], values: dict[Value, Value], batched: set[Value]
) -> None:
    """Write operations through ``b``, mapped over the leading axis of what ``values`` gives for the ``batched``.

    Args:
        b: where to write.
        ops: in program order, without the terminator.
        values: what the values that ``ops`` read become (themselves, if missing); the results are added to it.
        batched: the values whose counterpart has one leading axis more; the results that have it are added.

    Raises:
        NotDifferentiableError: an operation cannot be mapped.
    """
    for op in ops:
        flags = [v in batched for v in op.operands]
        if not any(flags):
            _refuse_captures(op, batched)
            b.insert(clone_operation(op, values))
            continue
        attrs = op.parameters | ({"regions": tuple(op.regions)} if op.regions else {})
        operands = [values.get(v, v) for v in op.operands]
        with b.at(op.location):
            results = op.defn.batch(b, operands, flags, **attrs)
        results = (results,) if isinstance(results, Value) else results
        for old, new in zip(op.results, results, strict=True):
            new.name = new.name or old.name
            values[old] = new
            batched.add(old)


def _refuse_captures(op: Operation, batched: set[Value]) -> None:
    if op.regions and any(v in batched for inner in op.walk() for v in inner.operands):
        raise NotDifferentiableError(
            f"{op.name} reads a value inside its region that is mapped over a batch axis",
            location=op.location,
            hint="hand the value to the operation as an operand",
        )


def batched_results(
    b: Builder,
    results: Sequence[Value],
    values: dict[Value, Value],
    batched: set[Value],
    size: DimLike,
) -> list[Value]:
    """What ``results`` became in `batch_operations`, all of them with the leading axis."""
    found = [(values.get(v, v), v in batched) for v in results]
    return [v if has else repeated(b, v, size) for v, has in found]
