"""What a row of the table of passes is, and which pipelines keep to the order.

The table itself is in `tapec.passes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple

from tapec.ir.core import Module
from tapec.ir.errors import PassError

Level = Literal["tensor", "loop"]


@dataclass(frozen=True)
class NoOptions:
    """For passes that take no options."""


class Pass(NamedTuple):
    """A pass: a module of `tapec.passes`, imported at the first look at what it runs or takes as options."""

    module: str
    takes: Level
    leaves: Level
    summary: str

    @property
    def name(self) -> str:
        """What pipelines call it: its module's name, whatever room that is in."""
        return self.module.rpartition(".")[2]

    @property
    def run(self) -> Callable[[Module, Any], bool]:
        """``run(module, options)``: it works in place and tells whether it changed anything."""
        return self._module.run  # type: ignore[no-any-return]

    @property
    def options(self) -> type[Any]:
        """A frozen dataclass of bool, int, float and str fields, all with defaults."""
        return getattr(self._module, "Options", NoOptions)

    @property
    def _module(self) -> Any:
        return import_module(f"tapec.passes.{self.module}")


class Constraint(NamedTuple):
    """In a pipeline that has both passes, every ``earlier`` stands before every ``later``."""

    earlier: str
    later: str
    why: str


def violations(
    names: Sequence[str], passes: Mapping[str, Pass], order: Sequence[Constraint]
) -> Iterator[tuple[int, int, str]]:
    """Yield (i, j, why) where pass number i stands behind pass number j and must not."""
    for j, later in enumerate(names):
        for i in range(j + 1, len(names)):
            why = reason(names[i], later, passes, order)
            if why is not None:
                yield i, j, why


def reason(
    earlier: str, later: str, passes: Mapping[str, Pass], order: Sequence[Constraint]
) -> str | None:
    """Why one pass must stand before another; None if it need not."""
    for constraint in order:
        if (constraint.earlier, constraint.later) == (earlier, later):
            return constraint.why
    first, second = passes[earlier], passes[later]
    if (first.takes, second.leaves) == ("tensor", "loop") and earlier != later:
        return f"{earlier} works at tensor level, {later} leaves loops"
    return None


def corrected(
    names: Sequence[str], passes: Mapping[str, Pass], order: Sequence[Constraint]
) -> list[int]:
    """The positions of a pipeline's passes in an order that is allowed, moved as little as need be.

    Raises:
        PassError: there is none; the table contradicts itself.
    """
    left = list(range(len(names)))
    result = []
    while left:
        for i in left:
            if not any(reason(names[j], names[i], passes, order) for j in left if j != i):
                break
        else:
            raise PassError(f"no order of {', '.join(names[i] for i in left)} is allowed")
        left.remove(i)
        result.append(i)
    return result


def check(
    passes: Mapping[str, Pass], pipelines: Mapping[str, str], order: Sequence[Constraint]
) -> None:
    """Hold the table together: every name exists, no pipeline breaks the order.

    Raises:
        PassError: something does not hold.
    """
    for constraint in order:
        for name in constraint[:2]:
            if name not in passes:
                raise PassError(f"ORDER speaks of {name!r}, which is no pass")
    corrected(list(passes), passes, order)
    for pipeline, text in pipelines.items():
        names = re.findall(r"([\w-]+)(?:\{.*?\})?(?:,\s*|$)", text)  # options are the pass's own
        for name in names:
            if name not in passes:
                raise PassError(f"the pipeline {pipeline!r} has {name!r}, which is no pass")
        for i, j, why in violations(names, passes, order):
            raise PassError(
                f"in the pipeline {pipeline!r}, {names[i]} comes after {names[j]}: {why}"
            )
