"""One value on its way through all passes: the lines that compute it, what removed it, what stands for it since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapec.inspection.lines import Line
from tapec.inspection.stages import Change, Snapshot

#: Lines of one stage that are shown, at most: loops that are written out compute a tensor in dozens of lines.
_MOST = 4


@dataclass(frozen=True)
class Station:
    """A value after one pass.

    Attributes:
        stage: the pass.
        names: what the value is called there; none if nothing stands for it.
        changes: what the pass did to it, by the names that it had before.
        in_loops: whether the names are of its elements, and of the buffers that hold it.
        lines: those that compute it.
    """

    stage: str
    names: tuple[str, ...]
    changes: tuple[tuple[str, Change], ...]
    in_loops: bool
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        """What was done, then the lines."""
        parts = [] if self.in_loops else [_told(name, change) for name, change in self.changes]
        if self.in_loops:
            parts = [f"computed in {len(self.lines)} lines of loops"]
        parts += [line.text.strip() for line in self.lines[:_MOST]]
        if len(self.lines) > _MOST:
            parts.append("…")
        head, *rest = parts
        return "\n".join([f"{self.stage:14}{head}", *(" " * 14 + part for part in rest)])


def _told(name: str, change: Change) -> str:
    rules = f" by {', then '.join(change.rules)}" if change.rules else ""
    if change.instead is None:
        return f"removes %{name}{rules or ': nobody reads it'}"
    if change.instead == name:
        return f"rewrites %{name}{rules}"
    return f"removes %{name}{rules}; %{change.instead} stands for it"


def followed(stages: Sequence[Snapshot], name: str) -> list[Station]:
    """Where a value is, and what is done to it: one entry for each pass that did something, and for the first.

    Args:
        stages: of one program.
        name: what the value is called in the first of them that has it.
    """
    names: dict[str, None] = {}
    shown: tuple[str, ...] = ()
    found: list[Station] = []
    for stage in stages:
        changes = [(n, stage.changes[n]) for n in names if n in stage.changes]
        in_loops = any(n in stage.elements for n in names)
        names = dict.fromkeys(_onwards(names, stage)) or ({name: None} if not found else {})
        lines = tuple(line for line in stage.lines if not names.keys().isdisjoint(line.values))
        texts = tuple(line.text.strip() for line in lines)
        if changes or (lines and texts != shown):
            found.append(Station(_short(stage), tuple(names), tuple(changes), in_loops, lines))
        shown = texts
    return found


def _onwards(names: dict[str, None], stage: Snapshot) -> Iterator[str]:
    """What values are called after a pass."""
    for name in names:
        change = stage.changes.get(name)
        if change is None:
            yield name
        elif change.instead is not None:
            yield change.instead
        yield from stage.elements.get(name, ())


def cotangents_of(stages: Sequence[Snapshot], name: str) -> list[tuple[str, str]]:
    """The cotangents of a value, each with the pass that made it."""
    names: dict[str, None] = {name: None}
    found: list[tuple[str, str]] = []
    for stage in stages:
        found += [(c, _short(stage)) for n in names for c in stage.cotangents.get(n, ())]
        names = dict.fromkeys(_onwards(names, stage))
    return list(dict.fromkeys(found))


def _short(stage: Snapshot) -> str:
    return stage.stage.partition("{")[0]
