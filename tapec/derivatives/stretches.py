"""Gradients of a tape that holds derivatives of the user's own: the programs between them, one after the other.

Going backwards, each stretch of ordinary records is differentiated by `eager_gradient`, seeded with the cotangents
found so far; then the user's function is called for the next record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tapec.ir.dims import DimLike
from tapec.ir.types import TensorType
from tapec.tapes.records import Record
from tapec.tensor import Tensor, apply

#: `tapec.derivatives.eager_gradient.eager_gradient`.
Ask = Callable[
    [
        Sequence[Record],
        Sequence[Tensor],
        Sequence[tuple[int, TensorType]],
        Sequence[Tensor] | None,
        bool,
    ],
    list[Tensor | None],
]


@dataclass
class _Walk:
    """Cotangents so far, by id; ``active`` are the ids that depend on a source."""

    ask: Ask
    size: DimLike | None
    active: set[int]
    sources: set[int]
    cotangents: dict[int, Tensor] = field(default_factory=dict)

    def add(self, id: int, cotangent: Tensor | None) -> None:
        """One more contribution."""
        if cotangent is not None and id in self.active:
            known = self.cotangents.get(id)
            self.cotangents[id] = cotangent if known is None else known + cotangent

    def stretch(self, records: Sequence[Record]) -> None:
        """Go back through ordinary records."""
        made = {id for r in records for id in r.outputs}
        ends = {id: ct for id, ct in self.cotangents.items() if id in made}
        starts = {
            id: type
            for r in records
            for id, type in zip(r.inputs, r.input_types, strict=True)
            if id in self.active
            and type.dtype.is_differentiable
            and (id in self.sources or id not in made)
        }
        starts |= {id: type for r in records for id, type in _reads(r) if id in self.sources}
        if not ends or not starts:
            return
        targets = [Tensor(None, self._type(ct), id) for id, ct in ends.items()]
        found = self.ask(
            records, targets, list(starts.items()), list(ends.values()), self.size is not None
        )
        for id, cotangent in zip(starts, found, strict=True):
            if id in ends:
                del self.cotangents[id]  # what was known is the seed, and so is part of the answer
            self.add(id, cotangent)

    def _type(self, cotangent: Tensor) -> TensorType:
        """The type of what a cotangent belongs to."""
        type = cotangent.type
        return type if self.size is None else type.with_shape(type.shape[1:])

    def custom(self, record: Record) -> None:
        """Call the user's function, if anything reaches the record."""
        given = [self.cotangents.get(id) for id in record.outputs]
        if record.pull is not None and any(ct is not None for ct in given):
            for id, cotangent in zip(record.inputs, record.pull(given, self.size), strict=True):
                self.add(id, cotangent)


def _reads(record: Record) -> list[tuple[int, TensorType]]:
    """What the program called in a record reads of Variables that it assigned before: sources among its results."""
    if record.callee is None or not record.variables:
        return []
    found = zip(record.outputs, record.callee.returns, strict=True)
    return [(id, value.tensor) for id, value in found][-len(record.variables) :]


def gradient_in_stretches(
    ask: Ask,
    records: Sequence[Record],
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool,
) -> list[Tensor | None]:
    """As ``ask``, for the records that the targets depend on, some of them with a derivative of their own."""
    ids = {id for id, _ in sources}
    active = set(ids)
    for record in records:
        if not active.isdisjoint((*record.inputs, *(id for id, _ in _reads(record)))):
            active.update(record.outputs)
    size = seeds[0].type.shape[0] if batched and seeds else None
    walk = _Walk(ask, size, active, ids)
    for i, target in enumerate(targets):
        walk.add(target.id, seeds[i] if seeds else apply("constant", value=1, type=target.type))
    stretch: list[Record] = []
    for record in reversed(records):
        if record.pull is None:
            stretch.insert(0, record)
            continue
        walk.stretch(stretch)
        walk.custom(record)
        stretch = []
    walk.stretch(stretch)
    return [walk.cotangents.get(id) for id, _ in sources]
