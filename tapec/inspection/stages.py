"""What becomes of a program: its text after each pass, with values that keep their names on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tapec.compiler import lowered
from tapec.inspection.lines import Line, argument_names, lines_of
from tapec.ir.core import Module, Value
from tapec.ir.history import Relation, Told, listening
from tapec.ir.printer import name_values
from tapec.passes.observers import count
from tapec.passes.pipeline import Observer, Stage


class Change(NamedTuple):
    """What a pass did to a value: ``instead`` stands for it now, itself if it was computed anew, None if nothing does.

    ``rules`` are those by which it was done, if it was by rules.
    """

    instead: str | None
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Snapshot:
    """The program after one pass.

    Attributes:
        stage: the pass with its options; ``input`` before the first one.
        changed: whether the pass changed anything.
        seconds: how long it took.
        ops: the number of operations.
        lines: of the program; those of the snapshot before if nothing changed.
        changes: what the pass did to values that it removed or replaced, by name.
        cotangents: for each value those that the pass made of it.
        elements: for each tensor the values in loops that are elements of it, and the buffers that hold it.
    """

    stage: str
    changed: bool
    seconds: float
    ops: int
    lines: tuple[Line, ...]
    changes: Mapping[str, Change] = field(default_factory=dict)
    cotangents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    elements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def values(self) -> frozenset[str]:
        """What all values are called for good."""
        return frozenset(name for line in self.lines for name in line.values)


class Named(Observer):
    """Gives values names that are theirs for good, so that one can be followed through passes.

    Copies that passes make keep the name, and what a pass makes anew gets one that is free. A pass that replaces a
    value by an equal one ends its name.
    """

    def __init__(self) -> None:
        """No name is taken yet."""
        self._number = 0
        self._taken: set[str] = set()

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Name all values as the program's text does."""
        for function in module.functions.values():
            for value, name in name_values(function.args, function.block.ops).items():
                value.name = f"v{name}" if name[0].isdigit() else name
        self._taken = {value.name or "" for value in values(module)}

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Name the values that the pass made."""
        for value in values(module) if changed else ():
            if value.name is None:
                value.name = self._fresh()
            self._taken.add(value.name)

    def _fresh(self) -> str:
        while f"n{self._number}" in self._taken:
            self._number += 1
        return f"n{self._number}"


class Record(Named):
    """Keeps a snapshot of the program before the first pass and after each."""

    def __init__(self, told: list[Told], *, locs: bool = False, costs: bool = False) -> None:
        """Nothing is kept yet.

        Args:
            told: where what passes tell can be read, see `tapec.ir.history.listening`; it is cleared.
            locs: write locations into the text.
            costs: let lines say what their operations cost.
        """
        super().__init__()
        self.snapshots: list[Snapshot] = []
        self._told = told
        self._options = {"locs": locs, "costs": costs}
        self._known: set[str] = set()

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Keep the input."""
        super().begin(module, stages)
        self._known = set(self._taken)
        lines = tuple(lines_of(module, **self._options))
        self.snapshots.append(Snapshot("input", True, 0.0, count(module), lines))

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Keep what the pass left."""
        super().after(module, index, stages, changed, seconds)
        stage, before = str(stages[index]), self.snapshots[-1]
        if not changed:
            self.snapshots.append(Snapshot(stage, False, seconds, before.ops, before.lines))
        else:
            now = {value: value.name or "" for value in values(module)}
            for function in module.functions.values():
                now.update(zip(function.args, argument_names(function), strict=True))
            heard = _Heard(self._told, now)
            lines = tuple(lines_of(module, **self._options))
            changes = heard.changes(self._known)
            self.snapshots.append(
                Snapshot(stage, True, seconds, count(module), lines, changes, *heard.relations())
            )
            self._known = set(now.values())
        self._told.clear()


class _Heard:
    """What a pass told, put in terms of names: the values themselves are gone, or will be changed."""

    def __init__(self, told: Sequence[Told], now: Mapping[Value, str]) -> None:
        """``now`` are the names of all values that there are after the pass."""
        self._told = told
        self._now = now
        self._names = set(now.values())
        self._instead = {t.old: t for t in told if t.relation is Relation.INSTEAD}
        #: What equal kernels share is told once: an element of the first is one of the others.
        self._elements: dict[Value, list[Value]] = {}
        for t in told:
            if t.relation is Relation.ELEMENT:
                self._elements.setdefault(t.old, []).append(t.new)

    def changes(self, known: set[str]) -> dict[str, Change]:
        """What became of the values that were ``known`` by these names, where it is not obvious."""
        found = {}
        for value in self._instead:
            if value.name in known and value not in self._now:
                new, rules = self._end(value)
                if new.name in self._names or value.name not in self._names:
                    name = new.name if new.name in self._names else None
                    found[value.name] = Change(name, tuple(filter(None, rules)))
        lost = known - self._names - found.keys()
        return found | {name: Change(None, ()) for name in lost}

    def relations(self) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
        """Cotangents and elements of values, by name."""
        cotangents: dict[str, dict[str, None]] = {}
        for t in self._told:
            if t.relation is Relation.COTANGENT and t.old.name:
                new = self._end(t.new)[0].name
                if new in self._names:
                    cotangents.setdefault(t.old.name, {})[new] = None
        elements: dict[str, dict[str, None]] = {}
        for value in self._elements:
            if value.name:
                own = elements.setdefault(value.name, {})
                own.update(dict.fromkeys(self._elements_of(value)))
        return (
            {name: tuple(found) for name, found in cotangents.items()},
            {name: tuple(found) for name, found in elements.items() if found},
        )

    def _end(self, value: Value) -> tuple[Value, list[str]]:
        """What stands for a value when the pass is done, and the rules on the way."""
        rules: dict[str, None] = {}
        seen = {value}
        while value in self._instead:
            told = self._instead[value]
            if told.new in seen:
                break
            value = told.new
            seen.add(value)
            rules[told.why] = None
        return value, list(rules)

    def _elements_of(self, value: Value, depth: int = 2) -> Iterator[str]:
        for new in self._elements.get(value, ()):
            name = self._now.get(new)
            if name is not None:
                yield name
            elif depth:
                yield from self._elements_of(new, depth - 1)


def values(module: Module) -> Iterator[Value]:
    """All values of a program."""
    for function in module.functions.values():
        yield from function.args
        for op in function.walk():
            yield from op.results
            for region in op.regions:
                for block in region.blocks:
                    yield from block.args


def snapshots(
    module: Module, *, locs: bool = False, costs: bool = False, pipeline: str = "default"
) -> list[Snapshot]:
    """The program as it is, and after each pass of a pipeline; the module is left alone."""
    return snapshots_to(module, locs=locs, costs=costs, pipeline=pipeline)[0]


def snapshots_to(
    module: Module, *, locs: bool = False, costs: bool = False, pipeline: str = "default"
) -> tuple[list[Snapshot], Module]:
    """The same, and what the passes have made: values have in it the names that they have in the snapshots."""
    with listening() as told:
        record = Record(told, locs=locs, costs=costs)
        made = lowered(module, observers=[record], pipeline=pipeline)
    return record.snapshots, made
