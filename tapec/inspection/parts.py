"""What a train step spends on its value, on the way back, and on updates; by line of the user's code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tapec.compiled.cost import arithmetic
from tapec.compiler import lowered
from tapec.inspection.stages import Named, values
from tapec.ir.core import Block, Module, Operation
from tapec.ir.dims import DimLike
from tapec.ir.location import Location
from tapec.ir.ops.control import Gradient
from tapec.ir.ops.regions import RegionOp
from tapec.passes.pipeline import Stage
from tapec.tables import Table, counted


class Part(StrEnum):
    """What an operation is for; each equals its text."""

    VALUE = "value"  # the user's own computation
    ADJOINT = "adjoint"  # what a gradient asked for
    UPDATE = "update"  # what is computed of gradients: clipping, optimizers


@dataclass(frozen=True)
class LineCost:
    """What one line of the user's code costs in one part of the program.

    Attributes:
        part: value, adjoint or update.
        location: the line; None for what no line is known of.
        flops: floating-point operations, functions of many instructions counted as one.
        bytes: of the results.
        ops: how many operations, as they are written: those of a loop count once.
    """

    part: Part
    location: Location | None
    flops: Any
    bytes: Any
    ops: int


@dataclass(frozen=True, repr=False)
class Spending:
    """Static costs of a program before fusion, by part and line.

    Attributes:
        lines: one entry for each line in each part, in program order.
    """

    lines: tuple[LineCost, ...]

    def flops(self, part: Part) -> Any:
        """Floating-point operations of a part."""
        return sum(line.flops for line in self.lines if line.part is part)

    def bytes(self, part: Part) -> Any:
        """Bytes of the results of a part."""
        return sum(line.bytes for line in self.lines if line.part is part)

    @property
    def ratio(self) -> Any:
        """(value + adjoint) / value, in floating-point operations; None if the value needs none or sizes are open."""
        value, adjoint = self.flops(Part.VALUE), self.flops(Part.ADJOINT)
        if not isinstance(value, int) or not isinstance(adjoint, int) or not value:
            return None
        return (value + adjoint) / value

    def __str__(self) -> str:
        """A table, the sums below it."""
        rows = [
            (
                line.part.value,
                counted(line.flops),
                counted(line.bytes),
                str(line.ops),
                "" if line.location is None else f"{line.location.file}:{line.location.line}",
                "" if line.location is None else line.location.text,
            )
            for line in self.lines
        ]
        sums = [
            f"{p.value}: {counted(self.flops(p))} flops, {counted(self.bytes(p))} bytes"
            for p in Part
        ]
        if self.ratio is not None:
            sums.append(f"(value + adjoint) / value: {self.ratio:.2f}")
        return Table(
            ("part", "flops", "bytes", "ops", "line", "source"), rows, "", "\n".join(sums)
        ).text()


def spending(module: Module) -> Spending:
    """What the parts of a program cost, as it is before operations are fused; the module is left alone."""
    asked = _Asked()
    program = lowered(module, "dce", observers=[asked])
    costs: dict[tuple[Part, Any], list[Any]] = {}
    places: dict[tuple[Part, Any], Location | None] = {}
    runs = dict(_runs(program.entry.block, 1))
    for op, part in _parts(program.entry.block, asked).items():
        place = op.location
        key = part, None if place is None else (place.file, place.line)
        places.setdefault(key, place)
        one, many = arithmetic(op) if op.results and not op.regions else (0, 0)
        size = sum((r.tensor.bytes for r in op.results), 0)
        sums = costs.setdefault(key, [0, 0, 0])
        sums[0] += runs[op] * (one + many)
        sums[1] += runs[op] * size
        sums[2] += 1
    order = sorted(costs, key=lambda key: list(Part).index(key[0]))
    return Spending(tuple(LineCost(key[0], places[key], *costs[key]) for key in order))


class _Asked(Named):
    """Remembers where values come from: the last program that only asks for gradients, or the first that computes them.

    Attributes:
        names: of the values of the former.
        made: the names of those that the latter has besides.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str | None] = set()
        self.made: set[str | None] = set()
        self._asks = False

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Note the values of the input."""
        super().begin(module, stages)
        self.names = {value.name for value in values(module)}
        self._asks = _asks(module)

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Note the values while gradients are only asked for."""
        super().after(module, index, stages, changed, seconds)
        if not self._asks:
            return
        self._asks = _asks(module)
        names = {value.name for value in values(module)}
        if self._asks:
            self.names = names
        else:
            self.made = names - self.names


def _asks(module: Module) -> bool:
    return any(isinstance(op.defn, Gradient) for op in module.walk())


def _runs(block: Block, times: DimLike) -> Iterator[tuple[Operation, DimLike]]:
    """How often each operation runs in a call: in a loop at each turn, once if nothing says how many there are."""
    for op in block.ops:
        yield op, times
        turns = op.defn.turns(op) if isinstance(op.defn, RegionOp) else 1
        for region in op.regions:
            yield from _runs(region.block, times if turns is None else times * turns)


def _parts(block: Block, asked: _Asked) -> dict[Operation, Part]:
    """The part of each operation: what the adjoint pass made, what is only there for updates, and the rest.

    What a later pass made anew, such as a loop with less in it, belongs to what it is computed from.
    """
    parts: dict[Operation, Part] = {}
    late: set[Operation] = set()
    for op in block.ops:
        if op.defn.terminator:
            continue
        names = {r.name for r in op.results}
        before = {parts[v.op] for v in op.operands if v.op is not None}
        made = bool(names & asked.made) and not names & asked.names
        if op.results and not names & (asked.names | asked.made):
            late.add(op)
            made = Part.ADJOINT in before
        derived = before - {Part.VALUE}
        parts[op] = Part.ADJOINT if made else Part.UPDATE if derived else Part.VALUE
    for op in reversed(block.ops):
        users = [parts.get(user) for r in op.results for user in r.users]
        if parts.get(op) is Part.VALUE and users and set(users) == {Part.UPDATE}:
            parts[op] = Part.UPDATE
        elif op in late and set(users) == {Part.ADJOINT}:
            parts[op] = Part.ADJOINT
    for op in list(parts):
        for region in op.regions:
            inner = _parts(region.block, asked)
            # All that a part's branch or loop does belongs to it.
            parts |= {
                o: part if parts[op] is Part.VALUE else parts[op] for o, part in inner.items()
            }
    return parts
