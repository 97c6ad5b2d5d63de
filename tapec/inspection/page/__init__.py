"""One self-contained page that shows a program after each pass, beside the user's source.

`page.html` has the frame, `page.css` the looks, `page.js` what can be clicked; `html_of` puts the program between them.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Any

from tapec.compiled.buffers import ProgramMemory, memory_of
from tapec.compiler import lowered
from tapec.inspection.lines import Line
from tapec.inspection.stages import Named, Snapshot, snapshots
from tapec.ir.core import Module

#: How many lines of source are shown around those that operations come from.
_AROUND = 3


def html_of(module: Module) -> str:
    """The page of a program, as text: UTF-8, without references to anything outside of it; the module is left alone.

    Args:
        module: as traced.
    """
    name, stages = module.entry.name, snapshots(module)
    # Its buffers go by the names that they have after `plan`, which are the same at each run.
    memory = memory_of(lowered(module, "plan", observers=[Named()]))
    data = {
        "name": name,
        "stages": [_stage(stage) for stage in stages],
        "gone": _gone(stages),
        "sources": _sources(stages),
        "memory": _memory(memory, stages),
    }
    # "</" would end the script in which the data stands.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    page = _part("page.html")
    for mark, part in (
        ("/*STYLE*/", _part("page.css")),
        ("TITLE", escape(name)),
        ("/*DATA*/", text),
        ("/*SCRIPT*/", _part("page.js")),
    ):
        page = page.replace(mark, part, 1)
    return page


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _stage(stage: Snapshot) -> dict[str, Any]:
    return {
        "name": stage.stage,
        "changed": stage.changed,
        "ms": round(stage.seconds * 1e3, 2),
        "ops": stage.ops,
        "lines": [_line(line) for line in stage.lines] if stage.changed else [],
    }


def _line(line: Line) -> list[Any]:
    """Text, the values that are defined here as they are called for good, file and line; as short as can be."""
    renamed = {p: v for p, v in zip(line.defines, line.values, strict=True) if p != v}
    place = line.location
    packed: list[Any] = [
        line.text,
        list(line.defines),
        renamed or 0,
        0 if place is None else f"{place.file}:{place.line}",
    ]
    while packed and not packed[-1]:
        packed.pop()
    return packed


def _gone(stages: Sequence[Snapshot]) -> dict[str, list[Any]]:
    """For each value that a pass removed: the pass, and by which value it was replaced, where that can be seen."""
    found: dict[str, list[Any]] = {}
    changed = [stage for stage in stages if stage.changed]
    for before, after in pairwise(changed):
        lost = before.values - after.values
        if not lost:
            continue
        instead = _replaced(before, after)
        for value in lost:
            found[value] = [after.stage, instead.get(value)]
    return found


def _replaced(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """Which value readers of a value read instead, after a pass."""
    now = {line.values: line for line in after.lines if line.op is not None and line.values}
    found: dict[str, str] = {}
    for line in before.lines:
        same = now.get(line.values) if line.op is not None and line.values else None
        if same is None or same.op != line.op or len(same.reads) != len(line.reads):
            continue
        for old, new in zip(line.reads, same.reads, strict=True):
            if old != new:
                found.setdefault(old, new)
    return found


def _sources(stages: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """The lines of the user's files that operations come from, and some around them."""
    wanted: dict[str, set[int]] = {}
    for line in stages[0].lines:
        if line.location is not None:
            wanted.setdefault(line.location.file, set()).add(line.location.line)
    return [
        {"file": file, "lines": list(_shown(file, numbers))}
        for file, numbers in wanted.items()
        if linecache.getline(file, min(numbers))
    ]


def _shown(file: str, numbers: set[int]) -> Iterator[list[Any]]:
    for i in range(max(1, min(numbers) - _AROUND), max(numbers) + _AROUND + 1):
        text = linecache.getline(file, i)
        if text:
            yield [i, text.rstrip("\n")]


def _memory(memory: ProgramMemory, stages: Sequence[Snapshot]) -> dict[str, Any]:
    """The arena as rectangles: of buffers whose places are known, under the names of their values."""
    lines = next((stage.lines for stage in stages if stage.stage == "plan"), ())
    values = {p: v for line in lines for p, v in zip(line.defines, line.values, strict=True)}
    return {
        "arena": memory.arena,
        "bound": memory.lower_bound,
        "buffers": [
            [values.get(b.name, b.name), b.bytes, b.offset, b.first, b.last, b.type, b.made_by]
            for b in memory.buffers
            if isinstance(b.bytes, int) and isinstance(b.offset, int)
        ],
    }
