"""What a tape keeps: its operations as flat entries, and the values that their derivatives will read.

Eager code adds an entry for each operation, so an entry is a plain tuple; beside it stands, in lists that are compared
without a walk, by what a loop that repeats itself is recognised. Whoever looks at operations one by one asks for
`Recording.records`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tapec.eager.signatures import Saving, Signature
from tapec.frames import Origin
from tapec.ir.core import Function, Operation
from tapec.ir.location import Location
from tapec.ir.op import OPS, Op
from tapec.ir.types import TensorType

if TYPE_CHECKING:
    from tapec.eager.composite import Kept, Plan
    from tapec.ir.dims import DimLike
    from tapec.tensor import Tensor
    from tapec.variable import Variable

#: An eager operation: what it is, ids of its operands and then of its results, the user's instruction. Or several that
#: ran as one: what is kept of them, ids of all their values.
Entry = tuple["Saving | Kept", tuple[int, ...], Origin | None]


@dataclass(slots=True)
class Record:
    """One operation on a tape; values are told apart by the ids of their tensors.

    ``saved`` holds the operands and results that the derivative reads, by id. ``operation`` is the operation itself
    where it was traced, ``callee`` the program where a compiled function was called, ``variables`` those that it
    reads after assigning them (`tapec.derivatives.replay`). ``pull`` is the user's own derivative: from the
    cotangents of the outputs (None where there is none; with a leading axis of a size, if that is not None) to those
    of the inputs; ``rule`` is where its code is.
    """

    defn: Op
    attrs: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_types: tuple[TensorType, ...]
    origin: Origin | None
    saved: Mapping[int, Tensor]
    operation: Operation | None = None
    callee: Function | None = None
    variables: Sequence[Variable] = ()
    pull: Callable[[list[Tensor | None], DimLike | None], list[Tensor | None]] | None = None
    rule: Location | None = None


class Recording:
    """What a tape knows.

    Attributes:
        entries: the operations in order: an `Entry` for each that ran eagerly, a `Record` for any other.
        saved: what is kept for each of them, tensors that its derivative reads.
        kinds: for each of them, what it is; how many operands and results it has goes with that.
        ends: the ids of operands and results of all of them, one after the other.
        active: ids of values that depend on something watched.
        variables: those read, by ``id``, each with the ids of what its reads gave.
        plain: all entries are of eager operations and of calls of programs.
        looks_up: there may be lookups among them (`tapec.derivatives.slices`).
    """

    __slots__ = (
        "_records",
        "_seen",
        "active",
        "ends",
        "entries",
        "kinds",
        "looks_up",
        "plain",
        "saved",
        "variables",
    )

    def __init__(self) -> None:
        """Know nothing."""
        self.entries: list[Entry | Record] = []
        self.saved: list[tuple[Tensor, ...]] = []
        self.kinds: list[Any] = []
        self.ends: list[int] = []
        self.active: set[int] = set()
        self.variables: dict[int, tuple[Variable, list[int]]] = {}
        self.plain = True
        self.looks_up = False
        self._records: list[Record] = []
        #: How many of the entries are among the records.
        self._seen = 0

    def follows(self, thing: Any, trainable_too: bool) -> bool:
        """Whether what is made of a Tensor or Variable depends on something watched.

        ``trainable_too``: whether a trainable Variable will be watched when it is read.
        """
        if hasattr(thing, "trainable"):
            return id(thing) in self.variables or (trainable_too and thing.trainable)
        return thing.id in self.active

    def add(
        self,
        signature: Signature,
        followed: tuple[bool, ...],
        ids: Sequence[int],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        origin: Origin | None,
    ) -> None:
        """Note an eager operation; ``ids`` are those of its operands, ``followed`` says which of them are active."""
        saving = signature.saving(followed)
        made = [y.id for y in outputs]
        ends = (*ids, *made)
        self.entries.append((saving, ends, origin))
        self.kinds.append(saving)
        self.ends += ends
        self.saved.append(saving.pick((*inputs, *outputs)))
        if signature.looks_up:
            self.looks_up = True
        flows = signature.flows
        self.active.update(made if len(flows) == len(made) else [made[i] for i in flows])

    def add_composite(
        self,
        plan: Plan,
        kept: Kept,
        ids: Sequence[int],
        saved: Sequence[Tensor],
        origin: Origin | None,
    ) -> None:
        """Note eager operations that ran as one; ``ids`` are those of all values, ``saved`` what derivatives read."""
        self.entries.append((kept, tuple(ids), origin))
        self.kinds.append(kept)
        self.ends += [ids[p] for p in plan.ends]
        self.saved.append(tuple(saved))
        self.looks_up |= kept.looks_up
        self.active.update([ids[p] for p in kept.flows])

    def add_operation(
        self,
        operation: Operation,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        origin: Origin | None,
    ) -> None:
        """Note an operation of a function that is being compiled."""
        self._append(
            Record(operation.defn, operation.attrs, *_ends(inputs, outputs), origin, {}, operation)
        )
        self.active.update(y.id for y in outputs if y.type.dtype.is_differentiable)

    def add_call(
        self,
        callee: Function,
        inputs: Sequence[Tensor],
        outputs: Sequence[int],
        origin: Origin | None,
        variables: Sequence[Variable] = (),
    ) -> None:
        """Note the call of a program: its gradient computes the program's values again from the inputs."""
        ids, types = tuple([x.id for x in inputs]), tuple([x.type for x in inputs])
        record = Record(
            OPS["call"],
            {},
            ids,
            tuple(outputs),
            types,
            origin,
            {},
            callee=callee,
            variables=variables,
        )
        self.entries.append(record)
        self.saved.append(tuple(inputs))
        self.kinds.append((callee, len(outputs)))
        self.ends += (*ids, *outputs)
        self.active.update(outputs)

    def add_custom(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        pull: Any,
        origin: Origin | None,
        rule: Location | None,
    ) -> None:
        """Note outputs whose derivative is the user's own."""
        ends = _ends(inputs, outputs)
        self._append(Record(OPS["custom"], {}, *ends, origin, {}, pull=pull, rule=rule))
        self.active.update(y.id for y in outputs if y.type.dtype.is_differentiable)

    def _append(self, record: Record) -> None:
        self.entries.append(record)
        self.saved.append(())
        self.kinds.append(None)
        self.ends += (*record.inputs, *record.outputs)
        self.plain = False
        self.looks_up = True

    @property
    def records(self) -> Sequence[Record]:
        """The operations, each with what is kept for it."""
        known = self._records
        for i in range(self._seen, len(self.entries)):
            entry, saved = self.entries[i], self.saved[i] if self.saved else ()
            values = {x.id: x for x in saved}
            if isinstance(entry, Record):
                known.append(replace(entry, saved=values) if values else entry)
                continue
            what, ends, origin = entry
            if isinstance(what, Saving):
                known.append(_record(what, ends, origin, values))
                continue
            for saving, places in what.followed:
                own = tuple([ends[p] for p in places])
                reads = {id: values[id] for id in saving.pick(own) if id in values}
                known.append(_record(saving, own, origin, reads))
        self._seen = len(self.entries)
        return known

    def release(self, room: int) -> None:
        """Forget what derivatives read, and all but the latest operations."""
        self.saved, self.kinds, self.ends, self._records = [], [], [], []
        del self.entries[:-room]
        self._seen = 0
        if not self.plain:
            self.entries = [
                replace(e, pull=None) if isinstance(e, Record) and e.pull else e
                for e in self.entries
            ]


def _record(
    saving: Saving, ends: Sequence[int], origin: Origin | None, saved: Mapping[int, Tensor]
) -> Record:
    """The record of an eager operation."""
    call, count = saving.signature, len(saving.followed)
    inputs, outputs = tuple(ends[:count]), tuple(ends[count:])
    return Record(call.defn, call.attrs, inputs, outputs, call.inputs, origin, saved)


def _ends(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[TensorType, ...]]:
    """Ids of operands and results, and the operands' types."""
    ids = tuple([x.id for x in inputs]), tuple([y.id for y in outputs])
    return *ids, tuple([x.type for x in inputs])


def with_stand_ins(
    records: Sequence[Record], watched: Mapping[int, int], stand_in: Callable[[Tensor], Tensor]
) -> Sequence[Record]:
    """The records, reading stand-ins for tensors that were watched only after the operation ran.

    ``watched`` maps their ids to the time of the watch. What such an operation saved is not enough for them; a
    ``stand_in`` has the id ``~id``.
    """
    if not watched:
        return records
    result = []
    for record in records:
        late = {i for i in record.inputs if watched.get(i, 0) > max(record.outputs)}
        if late:
            inputs = tuple(~i if i in late else i for i in record.inputs)
            saved = {
                ~i if i in late else i: stand_in(x) if i in late else x
                for i, x in record.saved.items()
            }
            record = replace(record, inputs=inputs, saved=saved)
        result.append(record)
    return result
