"""Explanation: why one gradient is None. Explanations: the same for a structure of sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tapec.ir.location import Location


class Cause(StrEnum):
    """Why a gradient is None; each equals its text."""

    CONNECTED = "connected"  # it is not None
    INTEGER_SOURCE = "integer source"
    NOT_WATCHED = "not watched"
    NOT_TRAINABLE = "trainable=False"
    UNWATCHED_VARIABLES = "watch_accessed_variables=False"
    WATCHED_LATE = "watched after use"
    REPLACED = "replaced by a tensor"
    NOT_READ = "not read"
    NOT_USED = "not used"
    BRANCH = "branch not taken"
    UNRELATED = "not used by the target"
    OTHER_VARIABLE = "another variable"
    BEFORE = "read before the block"
    DEPARTED = "left the tape"
    HOST_CALL = "host callback"
    ASSIGNED = "assign"
    STOP_GRADIENT = "stop_gradient"
    NO_DERIVATIVE = "no derivative"
    CAST = "cast to integers"
    NO_RULE = "rule without gradient"
    CUSTOM = "custom gradient"
    STOP_RECORDING = "stop_recording"
    RESET = "reset"
    AFTER = "outside the block"
    GRADIENT_AFTER = "gradient outside the block"
    OTHER_THREAD = "other thread"
    LINEAR = "linear"
    NO_SOURCES = "no sources"


@dataclass(frozen=True)
class Explanation:
    """Why a gradient is None.

    Attributes:
        cause: by name; `Cause.CONNECTED` if the gradient is not None.
        message: what happened, in one sentence.
        location: the line at which the way from source to target ends, or the nearest to it that is known.
        remedy: what to change.
        change: the line to change; the same as ``location`` in most cases.
        path: the operations from the source to the cut, with their lines; of a long way the first and last ones.
        further: other places where ways from the source end, in the order in which they ran.
    """

    cause: Cause
    message: str
    location: Location | None
    remedy: str
    change: Location | None = None
    path: tuple[str, ...] = ()
    further: tuple[Explanation, ...] = ()

    @property
    def text(self) -> str:
        """The message, the user's line, the remedy; then the same of each further cut."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [self.message]
        if self.location is not None:
            lines.append(f"  {self.location.describe()}")
        where = ""
        if self.change is not None and self.change != self.location:
            where = f" ({self.change.describe()})"
        lines.append(f"  remedy: {self.remedy}{where}")
        for other in self.further:
            first, *others = other._lines()
            lines += [f"also: {first}", *others]
        return lines

    def __str__(self) -> str:
        return self.text

    def __rich__(self) -> str:
        """The text as markup for the console of the rich library."""
        return _markup(self._lines())

    def _repr_html_(self) -> str:
        return _html(self._lines())


class Explanations(Sequence[Explanation]):
    """Why gradients of several sources are None: a sequence of the explanations, in the order of the sources.

    Attributes:
        structure: the explanations, arranged as the sources were.
    """

    def __init__(self, structure: Any, leaves: Sequence[Explanation]) -> None:
        """Keep explanations in the structure of their sources."""
        self.structure = structure
        self._leaves = tuple(leaves)

    def __getitem__(self, key: Any) -> Any:
        """The explanation of a source, by its number or as in the structure of the sources."""
        if isinstance(self.structure, list | tuple | dict):
            return self.structure[key]
        return self._leaves[key]

    def __len__(self) -> int:
        return len(self._leaves)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self._leaves)

    @property
    def missing(self) -> tuple[Explanation, ...]:
        """Those whose gradient is None."""
        return tuple(e for e in self._leaves if e.cause is not Cause.CONNECTED)

    @property
    def cause(self) -> Cause:
        """The cause of the first gradient that is None; `Cause.CONNECTED` if none is."""
        if not self._leaves:
            return Cause.NO_SOURCES
        return self.missing[0].cause if self.missing else Cause.CONNECTED

    @property
    def location(self) -> Location | None:
        """The line of the first cut."""
        return self.missing[0].location if self.missing else None

    @property
    def text(self) -> str:
        """How many gradients are None, and why, one after the other."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        if not self._leaves:
            return [
                "there are no sources: the list was empty when it was made; ask for variables after "
                "whatever holds them has made them"
            ]
        lines = [f"{len(self.missing)} of {len(self)} gradients are None"]
        for explanation in self.missing:
            lines += explanation._lines()
        return lines

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Explanations({self.structure!r})"

    def __rich__(self) -> str:
        """The text as markup for the console of the rich library."""
        return _markup(self._lines())

    def _repr_html_(self) -> str:
        return _html(self._lines())


def _markup(lines: Sequence[str]) -> str:
    """Sentences in bold; what stands below them is indented."""
    safe = [line.replace("[", "\\[") for line in lines]
    return "\n".join(line if line.startswith(" ") else f"[bold]{line}[/bold]" for line in safe)


def _html(lines: Sequence[str]) -> str:
    from html import escape  # for notebooks

    safe = [escape(line) for line in lines]
    return "<pre>{}</pre>".format(
        "\n".join(line if line.startswith(" ") else f"<b>{line}</b>" for line in safe)
    )
