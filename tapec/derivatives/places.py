"""Where the operations on a tape are from, for checks that blame a line."""

from __future__ import annotations

from typing import Any

from tapec.frames import Origin, resolve
from tapec.ir.location import Location
from tapec.recording import inspectors
from tapec.tapes.records import Entry, Record


def place_of(record: Record) -> Location | None:
    """The user's line from which a record is; of what an inner gradient ran, that of the operation behind it."""
    place = inspectors[0].place(record.outputs[-1]) if inspectors else None
    return place or resolve(record.origin)


def mark(result: int, origin: Origin | None) -> Any:
    """Equal for operations at the same `place_of`, and found quicker than that."""
    place = inspectors[0].place(result) if inspectors else None
    if place is not None:
        return place.file, place.line, place.composite
    return origin and (origin, origin[0].co_filename)


def mark_of_entry(entry: Entry | Record) -> Any:
    """The `mark` of what a tape keeps of an operation."""
    if isinstance(entry, Record):
        return mark(entry.outputs[-1], entry.origin)
    _, ends, origin = entry
    return mark(ends[-1], origin)
