"""Gradients of what was only looked up: with respect to the slices that were read, not to the whole.

Where every way from the targets back to a source ends in a gather of its rows, the gradient of the source is known by
those of the rows: `IndexedSlices`. So it is the rows that the walk back is asked for, and no array of the size of the
source is made: eagerly, or in the program of a compiled function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapec.ir.ops.index import Lookup
from tapec.ir.types import TensorType
from tapec.recording import current_trace
from tapec.tapes.records import Record
from tapec.tensor import Tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.tracing import TracedTensor

#: From records, targets, sources with their types, seeds, and whether these are batched, to gradients.
Ask = Callable[..., list[Tensor | None]]
Gradient = Tensor | IndexedSlices


def gradients_by_slices(
    ask: Ask,
    records: Sequence[Record],
    targets: Sequence[Tensor],
    sources: Mapping[int, TensorType],
    seeds: Sequence[Tensor] | None,
    batched: bool,
) -> dict[int, Gradient | None]:
    """The gradient for each source, by id; slices for one that was only looked up, if seeds are not batched."""
    lookups = {} if batched else _lookups(records, targets, sources)
    asked = {id: type for id, type in sources.items() if id not in lookups}
    for reads in lookups.values():
        for record in reads:
            (row,) = record.outputs
            inferred: Any = record.defn.infer(*record.input_types, **record.attrs)
            asked[row] = inferred
    found = dict(
        zip(asked, ask(records, targets, list(asked.items()), seeds, batched), strict=True)
    )
    result: dict[int, Gradient | None] = {}
    for id, type in sources.items():
        result[id] = _joined(lookups[id], found, type) if id in lookups else found[id]
    return result


def _lookups(
    records: Sequence[Record], targets: Sequence[Tensor], sources: Mapping[int, TensorType]
) -> dict[int, list[Record]]:
    """The sources that the targets depend on by lookups alone, with these in order."""
    found: dict[int, list[Record]] = {
        r.inputs[0]: [] for r in records if isinstance(r.defn, Lookup) and r.inputs[0] in sources
    }
    wanted = {t.id for t in targets}
    for id in wanted & found.keys():
        del found[id]
    for record in reversed(records):
        if not found or wanted.isdisjoint(record.outputs):
            continue
        wanted.update(record.inputs)
        for id in found.keys() & set(record.inputs):
            if record.inputs[0] == id and isinstance(record.defn, Lookup):
                found[id].insert(0, record)
            else:
                del found[id]
    return {id: reads for id, reads in found.items() if reads}


def _joined(
    reads: Sequence[Record], found: Mapping[int, Tensor | None], type: TensorType
) -> IndexedSlices | None:
    parts: IndexedSlices | None = None
    for record in reads:
        values = found[record.outputs[0]]
        if values is not None:
            part = IndexedSlices(values, _indices(record), type.shape)
            part = IndexedSlices(*part.in_a_row(), type.shape)
            parts = part if parts is None else parts.joined(part)
    return parts


def _indices(record: Record) -> Tensor:
    """The indices of a lookup as a tensor: those that the record keeps, or the value in the trace."""
    trace = current_trace()
    if record.operation is not None:
        assert trace is not None
        return TracedTensor(record.operation.operands[1], trace)
    return record.saved[record.inputs[1]]
