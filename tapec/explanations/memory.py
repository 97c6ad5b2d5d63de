"""What a tape holds: arrays that derivatives will read, by the line that made them, and why each is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

from tapec.explanations.trail import Trail
from tapec.frames import Origin, function_of, resolve
from tapec.ir.location import Location
from tapec.tables import Table
from tapec.tapes.records import Record, Recording
from tapec.tensor import Array, Tensor

#: How deep tensors are looked for in what a derivative of the user's own refers to.
_DEPTH = 8


@dataclass(frozen=True)
class Reason:
    """Why an array is kept: the derivative of ``op``, which ran at ``location``, reads it."""

    op: str
    location: Location | None

    def __str__(self) -> str:
        return f"derivative of {_at(self.op, self.location)}"


@dataclass(frozen=True)
class Held:
    """Arrays that one operation of one line made.

    Attributes:
        op: the operation, or where the values come from if none on the tape made them.
        location: the line of it; None for what was there before.
        type: dtype and shape, of all that are alike; else how many kinds there are.
        arrays: how many.
        bytes: how many they take, in all.
        reasons: why they are kept.
    """

    op: str
    location: Location | None
    type: str
    arrays: int
    bytes: int
    reasons: tuple[Reason, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table, as text."""
        place = "" if self.location is None else f"{self.location.file}:{self.location.line}"
        source = "" if self.location is None else self.location.text
        why = "; ".join(map(str, self.reasons))
        return f"{self.bytes:,}", str(self.arrays), self.type, self.op, place, source, why


@dataclass(frozen=True, repr=False)
class Memory:
    """Rows, the largest first; an array that several tensors share is counted once.

    Attributes:
        rows: one for each operation of each line that made something that is kept.
    """

    rows: tuple[Held, ...]

    @property
    def total(self) -> int:
        """The bytes of all rows."""
        return sum(row.bytes for row in self.rows)

    def _table(self) -> Table:
        columns = ("bytes", "arrays", "type", "made by", "line", "source", "kept for")
        arrays = sum(row.arrays for row in self.rows)
        caption = f"{self.total:,} bytes in {arrays} arrays"
        return Table(columns, [row.cells for row in self.rows], "what the tape holds", caption)

    def __str__(self) -> str:
        """A table, or that nothing is held."""
        return self._table().text() if self.rows else "the tape holds no arrays"

    def __repr__(self) -> str:
        return f"<Memory: {self._table().caption}>"

    def __rich__(self) -> Any:
        """A table of the rich library."""
        return self._table().rich() if self.rows else str(self)

    def _repr_html_(self) -> str:
        return self._table().html() if self.rows else f"<p>{self}</p>"


@dataclass
class _Buffer:
    """Memory that is held: of which tensor first, and for what."""

    tensor: Tensor
    owner: Any
    reasons: dict[Reason, None] = field(default_factory=dict)


def memory_of(recording: Recording | None, trail: Trail) -> Memory:
    """What the operations of a recording keep."""
    if recording is None:
        return Memory(())
    buffers: dict[int, _Buffer] = {}
    for record, kept in zip(recording.records, recording.saved, strict=False):
        reason = Reason(_name(record.defn.name, record.origin, record), resolve(record.origin))
        for tensor in (*kept, *_in_closures(record.pull, _DEPTH)):
            owner = _owner(tensor.array)
            buffer = buffers.setdefault(id(owner), _Buffer(tensor, owner))
            buffer.reasons[reason] = None
    makers = _makers(recording, trail)
    groups: dict[tuple[str, Location | None], list[_Buffer]] = {}
    for buffer in buffers.values():
        made = makers.get(buffer.tensor.id, ("from outside of the tape", None))
        groups.setdefault(made, []).append(buffer)
    rows = [_row(*made, held) for made, held in groups.items()]
    return Memory(tuple(sorted(rows, key=lambda row: -row.bytes)))


def _row(op: str, location: Location | None, buffers: Sequence[_Buffer]) -> Held:
    types = list(dict.fromkeys(str(b.tensor.type) for b in buffers))
    reasons = dict.fromkeys(reason for b in buffers for reason in b.reasons)
    size = sum(b.owner.nbytes for b in buffers)
    kind = types[0] if len(types) == 1 else f"{len(types)} types"
    return Held(op, location, kind, len(buffers), size, tuple(reasons))


def _makers(recording: Recording, trail: Trail) -> dict[int, tuple[str, Location | None]]:
    """What made values: an operation and its line, or the Variable that was read."""
    found: dict[int, tuple[str, Location | None]] = {}
    for step in trail.steps:
        place = step.origin if isinstance(step.origin, Location) else resolve(step.origin)
        op = (
            step.defn.name
            if isinstance(step.origin, Location)
            else _name(step.defn.name, step.origin)
        )
        found.update((id, (op, place)) for id in step.outputs)
    for record in recording.records:
        made = _name(record.defn.name, record.origin, record), resolve(record.origin)
        found.update((id, made) for id in record.outputs)
    for variable, reads in (*recording.variables.values(), *trail.reads.values()):
        found.update((id, (f"the Variable {variable.name}", None)) for id in reads)
    return found


def _name(op: str, origin: Origin | None, record: Record | None = None) -> str:
    """An operation by the public function that ran it; a call by its function."""
    if record is not None and record.callee is not None:
        return record.callee.name
    return function_of(origin) or op


def _at(op: str, location: Location | None) -> str:
    return op if location is None else f"{op} (line {location.line})"


def _owner(array: Array) -> Any:
    """The array whose memory a view shows."""
    owner: Any = array
    while owner.base is not None and hasattr(owner.base, "nbytes"):
        owner = owner.base
    return owner


def _in_closures(thing: Any, depth: int) -> Iterator[Tensor]:
    """The tensors that a function refers to, and the functions, lists and dicts in it."""
    if isinstance(thing, Tensor):
        if thing._array is not None:
            yield thing
        return
    if not depth or thing is None:
        return
    parts: Any = ()
    if isinstance(thing, FunctionType):
        parts = [c.cell_contents for c in thing.__closure__ or () if _is_filled(c)]
    elif isinstance(thing, partial):
        parts = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, list | tuple):
        parts = thing
    elif isinstance(thing, dict):
        parts = thing.values()
    for part in parts:
        yield from _in_closures(part, depth - 1)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the variable has no value (yet)
        return False
