"""One self-contained page that shows a program after each pass, beside the user's source.

`page.html` has the frame, `page.css` the looks; `page.js` follows what is clicked, `columns.js` draws. `html_of` puts
the program between them.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from tapec.compiled.buffers import ProgramMemory, memory_of
from tapec.compiler import lowered
from tapec.errors import TargetError
from tapec.inspection.lines import Line
from tapec.inspection.machine_code import MachineLine, machine_code
from tapec.inspection.stages import Named, Snapshot, snapshots_to
from tapec.ir.core import Module
from tapec.ir.location import Location
from tapec.passes import PASSES

#: How many lines of source are shown around those that operations come from.
_AROUND = 3
#: Lines of machine code that a page has at most: a browser should not be kept waiting for them.
_MOST_MACHINE_LINES = 6000


def html_of(module: Module) -> str:
    """The page of a program, as text: UTF-8, without references to anything outside of it; the module is left alone.

    Args:
        module: as traced.
    """
    name = module.entry.name
    stages, loops = snapshots_to(module)
    places = _Places()
    # Its buffers go by the names that they have after `plan`, which are the same at each run.
    memory = memory_of(lowered(module, "plan", observers=[Named()]))
    data = {
        "name": name,
        "example": _example(stages),
        "stages": [_stage(stage, places) for stage in stages],
        "memory": _memory(memory, stages),
        "machine": _machine(loops, places),
        "sources": _sources(stages),
        "places": places.listed,
    }
    # "</" would end the script in which the data stands.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    page = _part("page.html")
    for mark, part in (
        ("/*STYLE*/", _part("page.css")),
        ("TITLE", escape(name)),
        ("/*DATA*/", text),
        ("/*SCRIPT*/", _part("columns.js") + _part("page.js")),
    ):
        page = page.replace(mark, part, 1)
    return page


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _example(stages: Sequence[Snapshot]) -> str:
    """A value that is worth a click: one that has an adjoint and is there to the end, else the first of all."""
    made = [line.values[0] for line in stages[0].lines if line.op is not None and line.values]
    adjoined = {name for stage in stages for name in stage.cotangents}
    computed = adjoined & {name for stage in stages for name in stage.elements}
    return next((name for name in made if name in computed), made[0] if made else "")


class _Places:
    """Lines of source by number, counted from 1: a place is named once, however many operations come from it."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._known: dict[tuple[str, int], int] = {}

    def number(self, place: Location | None) -> int:
        """The number of a place; 0 if there is none."""
        if place is None:
            return 0
        key = place.file, place.line
        if key not in self._known:
            self.listed.append(f"{_shown_file(place.file)}:{place.line}")
            self._known[key] = len(self.listed)
        return self._known[key]


def _shown_file(file: str) -> str:
    """A file as the page has it: machine code knows it by its whole path, operations as Python does."""
    path = Path(file)
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return file


def _stage(stage: Snapshot, places: _Places) -> dict[str, Any]:
    pass_name = stage.stage.partition("{")[0]
    summary = (
        PASSES[pass_name].summary if pass_name in PASSES else "What your lines say, as traced."
    )
    common = {
        "name": stage.stage,
        "summary": summary,
        "changed": stage.changed,
        "ms": round(stage.seconds * 1e3, 2),
        "ops": stage.ops,
    }
    if not stage.changed:
        return common
    return common | {
        "lines": [_line(line, places) for line in stage.lines],
        "changes": {
            name: [change.instead, ", then ".join(change.rules)]
            for name, change in stage.changes.items()
        },
        "cotangents": stage.cotangents,
        "elements": stage.elements,
    }


def _line(line: Line, places: _Places) -> list[Any]:
    """Text, number of the place, values that are defined here, what these are called for good; as short as can be."""
    renamed = {p: v for p, v in zip(line.defines, line.values, strict=True) if p != v}
    packed: list[Any] = [line.text, places.number(line.location), line.defines, renamed]
    while packed and not packed[-1]:
        packed.pop()
    return packed


def _machine(loops: Module, places: _Places) -> dict[str, Any]:
    """The machine code, or why it is not shown."""
    try:
        lines: Sequence[MachineLine] = machine_code(loops)
    except TargetError as error:
        return {"lines": [], "note": error.message}
    shown = [
        [line.text, places.number(line.location), *line.values]
        for line in lines[:_MOST_MACHINE_LINES]
    ]
    left = len(lines) - len(shown)
    note = f"{left} more lines: tapec ir --level asm shows all" if left else ""
    return {"lines": shown, "note": note}


def _sources(stages: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """The lines of the user's files that operations come from, and some around them."""
    wanted: dict[str, set[int]] = {}
    for line in stages[0].lines:
        if line.location is not None:
            wanted.setdefault(line.location.file, set()).add(line.location.line)
    return [
        {"file": _shown_file(file), "lines": list(_shown(file, numbers))}
        for file, numbers in wanted.items()
        if linecache.getline(file, min(numbers))
    ]


def _shown(file: str, numbers: set[int]) -> Iterator[list[Any]]:
    for i in range(max(1, min(numbers) - _AROUND), max(numbers) + _AROUND + 1):
        text = linecache.getline(file, i)
        if text:
            yield [i, text.rstrip("\n")]


def _memory(memory: ProgramMemory, stages: Sequence[Snapshot]) -> dict[str, Any]:
    """The arena as rectangles: of buffers whose places are known, under the names of their values.

    An arena whose size only a call tells is as large as the places that are known.
    """
    lines = next((stage.lines for stage in stages if stage.stage == "plan"), ())
    values = {p: v for line in lines for p, v in zip(line.defines, line.values, strict=True)}
    known = [
        (b, b.offset, b.bytes)
        for b in memory.buffers
        if isinstance(b.bytes, int) and isinstance(b.offset, int)
    ]
    most = max((offset + size for _, offset, size in known), default=0)
    return {
        "arena": memory.arena if isinstance(memory.arena, int) else most,
        "bound": memory.lower_bound if isinstance(memory.lower_bound, int) else most,
        "buffers": [
            [values.get(b.name, b.name), size, offset, b.first, b.last, b.type, b.made_by]
            for b, offset, size in known
        ],
    }
