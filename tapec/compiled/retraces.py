"""Retraces: why a compiled function was traced once more, what that cost, and what to do about it.

A `Change` is one difference between two calls: of an argument, or of Python state that the function reads. Whatever
notices a difference (`tapec.compiled.comparison` for arguments, guards for state) says it in these words.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from tapec.frames import depth
from tapec.ir.location import Location

#: After how many retraces a function says once that it is traced too often.
PATIENCE = 5


class RetraceWarning(UserWarning):
    """A compiled function is traced again and again, so that compiling may cost more than it saves."""


class Cause(StrEnum):
    """What kind of difference made a function be traced again; each equals its text."""

    # of arguments
    SHAPE = "shape"
    RANK = "rank"
    DTYPE = "dtype"
    NUMBER = "number"
    KIND = "kind of value"
    NONE = "None"
    LENGTH = "length"
    KEY = "keys"
    STRUCTURE = "structure"
    ARGUMENT = "arguments"
    FLAG = "flag"
    VALUE = "value"
    OBJECT = "object"
    FUNCTION = "function"
    METHOD = "method"
    VARIABLE = "Variable"
    # of settings of tapec
    CONFIGURATION = "configuration"
    # of numbers that are not arguments, and of what Python decided by them
    BRANCH = "decision"
    # of conditions over tensors whose branches give different shapes
    OUTCOME = "outcome"
    # of Python state that the function reads
    GLOBAL = "global"
    CLOSURE = "closure"
    ATTRIBUTE = "attribute"
    ITEM = "list item"
    ENTRY = "dict entry"
    CONTENTS = "contents"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return _REMEDIES[self]


_KEEP = "keep what varies in a tapec.Variable, or pass it as an argument"
_REMEDIES = {
    Cause.SHAPE: "declare the size: dims={...}, or None in input_signature; or pad to one shape",
    Cause.RANK: "reshape to one rank before the call",
    Cause.DTYPE: "cast to one dtype before the call",
    Cause.NUMBER: "let the number flow into arithmetic only, or pass a Tensor: tapec.constant",
    Cause.KIND: "pass the same kind of thing at each call: tapec.constant makes a Tensor of a number",
    Cause.NONE: "pass a tensor at each call, or make two functions",
    Cause.LENGTH: "pass a sequence of one length, or one tensor: tapec.stack",
    Cause.KEY: "pass the same keys in the same order at each call",
    Cause.STRUCTURE: "pass the same kind of structure at each call",
    Cause.ARGUMENT: "pass the same arguments at each call",
    Cause.FLAG: "none is needed: a flag has two programs at most",
    Cause.VALUE: "pass few different values; what varies from call to call should be a Tensor",
    Cause.OBJECT: "pass the same object at each call, not a new one that is like it",
    Cause.FUNCTION: "define the function once, outside of the loop, and pass that one",
    Cause.METHOD: "pass the same method of the same object at each call",
    Cause.VARIABLE: "assign to one Variable rather than passing another one",
    Cause.CONFIGURATION: "choose the settings of tapec before the first call",
    Cause.BRANCH: "choose between tensors with tapec.where or tapec.cond",
    Cause.OUTCOME: "give both branches one shape: pad to one, or mask what does not count",
    Cause.GLOBAL: _KEEP,
    Cause.CLOSURE: _KEEP,
    Cause.ATTRIBUTE: _KEEP,
    Cause.ITEM: _KEEP,
    Cause.ENTRY: _KEEP,
    Cause.CONTENTS: _KEEP,
}


class Change(NamedTuple):
    """One difference between a call and the nearest earlier one.

    Attributes:
        path: what differs: ``batch["x"]``, ``kwargs["lr"]``, ``self.layers[0].rate``.
        cause: of which kind the difference is.
        old: what it was, as text.
        new: what it is.
        location: where the program came to depend on it, if that is known.
    """

    path: str
    cause: Cause
    old: str
    new: str
    location: Location | None = None

    def __str__(self) -> str:
        where = "" if self.location is None else f" (decided at {self.location.describe()})"
        return f"{self.path}: {self.old} -> {self.new}{where}"


class Retrace(NamedTuple):
    """Why a function was traced again.

    Attributes:
        function: its name.
        location: the line that called it.
        changes: all differences from the nearest earlier signature, those of arguments first.
        milliseconds: what tracing and compiling took.
    """

    function: str
    location: Location | None
    changes: tuple[Change, ...]
    milliseconds: float

    @classmethod
    def of(
        cls,
        function: str,
        location: Location | None,
        changes: Sequence[Change],
        milliseconds: float,
    ) -> Retrace:
        """A retrace whose texts tell what was from what is, where both look alike."""
        told = (c._replace(new=f"another {c.new}") if c.old == c.new else c for c in changes)
        return cls(function, location, tuple(told), milliseconds)

    @property
    def cause(self) -> Cause:
        """The kind of the first difference."""
        return self.changes[0].cause

    @property
    def path(self) -> str:
        """What the first difference is of."""
        return self.changes[0].path

    @property
    def old(self) -> str:
        """What that was."""
        return self.changes[0].old

    @property
    def new(self) -> str:
        """What that is."""
        return self.changes[0].new

    @property
    def remedy(self) -> str:
        """What to do, for each kind of difference once."""
        return "; ".join(dict.fromkeys(change.cause.remedy for change in self.changes))

    @property
    def text(self) -> str:
        """The function, the user's line, the differences, the remedy."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [f"{self.function} was traced again, {self.milliseconds:.0f} ms"]
        if self.location is not None:
            lines.append(f"  {self.location.describe()}")
        lines += [f"  {change}" for change in self.changes]
        return [*lines, f"  remedy: {self.remedy}"]

    def __str__(self) -> str:
        return self.text

    def __rich__(self) -> str:
        """The text as markup for the console of the rich library."""
        first, *rest = (line.replace("[", r"\[") for line in self._lines())
        return "\n".join([f"[bold]{first}[/bold]", *rest])

    def _repr_html_(self) -> str:
        from html import escape  # for notebooks

        return "<pre>" + escape(self.text) + "</pre>"


def announce(retraces: Sequence[Retrace]) -> None:
    """Log the latest retrace of a function; warn, once, of a function that has too many."""
    latest = retraces[-1]
    # Without the module nobody listens to what is not a warning. It is slow to import, and imported while another
    # thread forks, it would release a lock there that it never took.
    if (logging := sys.modules.get("logging")) is not None:
        logging.getLogger("tapec.compile").info("%s", latest)
    if len(retraces) == PATIENCE + 1:
        total = sum(r.milliseconds for r in retraces)
        reasons = dict.fromkeys(str(change) for r in retraces for change in r.changes[:1])
        remedies = dict.fromkeys(r.changes[0].cause.remedy for r in retraces)
        lines = [
            f"{latest.function} was traced again {len(retraces)} times, {total:.0f} ms:",
            *(f"  {reason}" for reason in reasons),
            *(f"  remedy: {remedy}" for remedy in remedies),
        ]
        warnings.warn("\n".join(lines), RetraceWarning, stacklevel=depth())
