"""What becomes of a program: its text after each pass, with values that keep their names on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapec.compiler import lowered
from tapec.inspection.lines import Line, lines_of
from tapec.ir.core import Module, Value
from tapec.ir.printer import name_values
from tapec.passes.observers import count
from tapec.passes.pipeline import Observer, Stage


@dataclass(frozen=True)
class Snapshot:
    """The program after one pass.

    Attributes:
        stage: the pass with its options; ``input`` before the first one.
        changed: whether the pass changed anything.
        seconds: how long it took.
        ops: the number of operations.
        lines: of the program; those of the snapshot before if nothing changed.
    """

    stage: str
    changed: bool
    seconds: float
    ops: int
    lines: tuple[Line, ...]

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

    def __init__(self, *, locs: bool = False) -> None:
        """Nothing is kept yet; ``locs`` writes locations into the text."""
        super().__init__()
        self.snapshots: list[Snapshot] = []
        self._locs = locs

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Keep the input."""
        super().begin(module, stages)
        self._keep(module, "input", True, 0.0)

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Keep what the pass left."""
        super().after(module, index, stages, changed, seconds)
        self._keep(module, str(stages[index]), changed, seconds)

    def _keep(self, module: Module, stage: str, changed: bool, seconds: float) -> None:
        lines = tuple(lines_of(module, locs=self._locs)) if changed else self.snapshots[-1].lines
        self.snapshots.append(Snapshot(stage, changed, seconds, count(module), lines))


def values(module: Module) -> Iterator[Value]:
    """All values of a program."""
    for function in module.functions.values():
        yield from function.args
        for op in function.walk():
            yield from op.results
            for region in op.regions:
                for block in region.blocks:
                    yield from block.args


def snapshots(module: Module, *, locs: bool = False, pipeline: str = "default") -> list[Snapshot]:
    """The program as it is, and after each pass of a pipeline; the module is left alone."""
    record = Record(locs=locs)
    lowered(module, observers=[record], pipeline=pipeline)
    return record.snapshots
