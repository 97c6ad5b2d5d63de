"""Question: everything that is known about targets and one source, and what to call it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from tapec.explanations.causes import operation_name
from tapec.explanations.connections import Connections, Cut, Remembered
from tapec.explanations.names import Names, of_variable
from tapec.explanations.trail import Value
from tapec.frames import resolve
from tapec.ir.location import Location
from tapec.variable import Variable

#: Ids of the reads that Variables get as targets begin here: below all others.
_FRESH = -(2**62)


def is_fresh(id: int) -> bool:
    """Whether it is the read that a Variable gets as a target: later than all others."""
    return id < _FRESH // 2


class Question:
    """What is known about one question.

    Attributes:
        ways: how the values hang together.
        source_ids, target_ids: the values that stand for source and targets.
        variables: the Variable behind each value that a read gave.
        block, opened, began: where and when the tape began to record.
    """

    def __init__(
        self, remembered: Remembered, names: Names, targets: Sequence[Value], source: Value
    ) -> None:
        """Gather what is known."""
        self._remembered = remembered
        trail = self.trail = remembered.trail
        self.recording = remembered.recording
        self.targets = targets
        self.source = source
        self.names = names
        self.variables = self._variable_reads()
        self.source_ids = self.ids(source)
        self.target_ids: list[int] = []
        for number, target in enumerate(targets):
            if isinstance(target.thing, Variable):
                fresh = _FRESH + number
                self.target_ids.append(fresh)
                self.variables[fresh] = target.thing
                if target.thing is source.thing:
                    self.source_ids.add(fresh)
            else:
                self.target_ids.append(target.thing)
        self.ways = Connections(remembered, self.source_ids, self.target_ids)
        start = trail.opened
        self.block = start.origin if start else None
        self.opened = resolve(self.block)
        self.began = start.time if start else 0
        self.source_name = names.of(source, "the source")
        self.target_name = ", ".join(dict.fromkeys(names.of(t, "the target") for t in targets))

    def _variable_reads(self) -> dict[int, Variable]:
        reads: dict[int, Variable] = {}
        for variable, ids in [*self.recording.variables.values(), *self.trail.reads.values()]:
            reads.update((id, variable) for id in ids)
        return reads

    def ids(self, value: Value) -> set[int]:
        """The values that stand for a source: a Variable's are all its reads."""
        if isinstance(value.thing, int):
            return {value.thing}
        return {id for id, variable in self.variables.items() if variable is value.thing}

    # -- words

    def describe(self, id: int) -> str:
        """What to call a value in a sentence."""
        if id in self.names.tensors:
            return self.names.tensors[id]
        if id in self.variables:
            return of_variable(self.variables[id], self.names)
        if id in self.target_ids:
            return "the target"
        node = self.ways.makers.get(id)
        if node is not None:
            return f"the result of {operation_name(node)} ({self.line(node.location)})"
        return "a Tensor"

    def line(self, location: Location | None) -> str:
        """``line 3``, and of which file if it is not the one with the tape's block."""
        if location is None:
            return "an unknown line"
        if self.opened is None or location.file == self.opened.file:
            return f"line {location.line}"
        return f"line {location.line} of {PurePath(location.file).name}"

    def bindings(self, name: str) -> list[Location]:
        """The lines above the tape's block that give a name its value, in order."""
        found = self.names.bindings(name, self.block[0] if self.block else None)
        return [place for place in found if self.opened and place.line < self.opened.line]

    def made(self, name: str) -> Location | None:
        """The last line above the tape's block that gave a name its value."""
        return next(reversed(self.bindings(name)), None)

    def made_source(self) -> Location | None:
        """The line that gave the source its name: above the block, or in it if the source is a Tensor from there."""
        thing, name = self.source.thing, self.source_name
        if isinstance(thing, Variable) or thing < self.began:
            return self.made(name)
        found = self.names.bindings(name, self.block[0] if self.block else None)
        inside = [place for place in found if self.opened and place.line >= self.opened.line]
        return inside[0] if len(inside) == 1 else None

    # -- what the targets depend on

    def matters(self, ids: Sequence[int]) -> bool:
        """Whether the targets depend on one of the values."""
        return not self.ways.needed.isdisjoint(ids)

    def cuts_before(self, id: int) -> list[Cut]:
        """Where the ways from the source to some value end."""
        return Connections(self._remembered, self.source_ids, [id]).cuts

    def is_from_source(self, thing: int | Variable) -> bool:
        """Whether a value depends on the source, or a Variable is it."""
        return thing in self.ways.touched if isinstance(thing, int) else thing is self.source.thing

    def is_unknown(self, id: int) -> bool:
        """Whether the tape knows of a value neither what made it nor which Variable it was."""
        return id not in self.variables and id not in self.recording.active

    def variables_needed(self) -> list[Variable]:
        """The Variables that the targets depend on."""
        needed = {v.number: v for id, v in self.variables.items() if id in self.ways.needed}
        return list(needed.values())

    def dependence(self) -> str:
        """What the targets depend on, as far as it has a name."""
        known = [of_variable(v, self.names) for v in self.variables_needed()]
        for id in self.ways.roots():
            if id in self.recording.active and id not in self.variables:
                known.append(self.describe(id))
            elif id in self.names.tensors and id not in self.target_ids:
                before = " (made before the block)" if id < self.began else ""
                known.append(self.names.tensors[id] + before)
        if not known:
            return f"{self.target_name} depends on nothing that the tape knows"
        return f"{self.target_name} depends on: {', '.join(dict.fromkeys(known))}"
