"""Which line of the user's code is running: the nearest frame outside of tapec."""

from __future__ import annotations

import os
import site
import sys
from bisect import bisect_right
from functools import cache, lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tapec.instructions import kept_for
from tapec.ir.location import Location

#: Where an operation comes from, cheap to take: code object, instruction, name of the public function.
Origin = tuple[CodeType, int, str]


#: The files whose code is ours, and those of others: told by the module when a file is first met, for its name takes
#: longer.
_ours: set[str] = set()
_theirs: set[str] = set()

_getframe = sys._getframe

#: How many files of others are remembered, and how many places.
_FILES = 4096


def origin(skipped: int = 1) -> Origin | None:
    """The user's instruction that led here, and the outermost function of tapec on the way.

    A tuple rather than a Location: eager code takes one for every operation and resolves almost none. ``skipped`` is
    how many functions up the search begins: all below are known to be ours. Python makes an object for each frame that
    is looked at, which takes most of the time; so what is nearly always there, some functions of ours and then the
    user's, is looked for first.
    """
    frame: FrameType | None = _getframe(skipped)
    outermost: CodeType | None = None
    ours, theirs = _ours, _theirs
    while frame is not None and (code := frame.f_code).co_filename in ours:
        frame, outermost = frame.f_back, code
        if frame is not None and (code := frame.f_code).co_filename in theirs:
            return code, frame.f_lasti, outermost.co_name
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file not in ours and (file in _theirs or not _is_ours(frame)):
            if outermost is None and skipped > 1:
                outermost = _getframe(skipped - 1).f_code
            return code, frame.f_lasti, "" if outermost is None else outermost.co_name
        outermost = code
        frame = frame.f_back
    return None


def shown_as(name: str, method: Any) -> Any:
    """A method made by a function, under the name that explanations and reports are to show for it."""
    method.__code__ = method.__code__.replace(co_name=name, co_qualname=f"Tensor.{name}")
    method.__name__ = name
    return method


def nearest(skipped: int) -> Origin | None:
    """`origin` without the function's name, quick where ``skipped`` functions up is the user's."""
    frame = _getframe(skipped)
    if (code := frame.f_code).co_filename in _theirs:
        return code, frame.f_lasti, ""
    return origin(skipped + 1)


def _is_ours(frame: FrameType) -> bool:
    file, found = frame.f_code.co_filename, is_ours(frame.f_globals.get("__name__", ""))
    if (
        not file.startswith("<") and len(_theirs) < _FILES
    ):  # what was made from text has no file of its own
        (_ours if found else _theirs).add(file)
    return found


def is_ours(module: str) -> bool:
    """Whether a module is part of tapec."""
    return module == "tapec" or module.startswith("tapec.")


class Visit(NamedTuple):
    """How an installed package comes to ask for something.

    Attributes:
        origin: the line outside of all installed packages that led here.
        function: what that line called, ``scipy.special.softmax``; empty if the line itself asks.
    """

    origin: Origin | None
    function: str


def visit() -> Visit:
    """The line of the user's own code that led here through other packages, and the function of theirs that it called.

    Code that is itself installed has no other line than its nearest one.
    """
    nearest, function = origin(), ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_ours(frame.f_globals.get("__name__", "")):
            pass
        elif not is_installed(code.co_filename):
            return Visit((code, frame.f_lasti, ""), function) if function else Visit(nearest, "")
        else:
            function = _public_name(frame) or function
        frame = frame.f_back
    return Visit(nearest, "")


#: Folders of packages that are nobody's own code, wherever they lie.
_counted: list[str] = []


def count_as_installed(folder: str) -> None:
    """Take a package for an installed one: found by ``PYTHONPATH``, or a checkout that is installed as it is."""
    if folder + os.sep not in _counted:
        _counted.append(folder + os.sep)
        for known in (installed_places, is_installed):
            known.cache_clear()


@cache
def installed_places() -> tuple[str, ...]:
    """Where Python keeps its own modules, and packages; the module `sysconfig` is slow to say so."""
    return os.path.dirname(os.__file__), *site.getsitepackages(), *_counted


@lru_cache(maxsize=_FILES)
def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package or to Python."""
    parts = ("/site-packages/", "/dist-packages/", installed_places()[0] + os.sep, "<frozen ")
    return any(part in file for part in (*parts, *_counted))


def _public_name(frame: FrameType) -> str:
    """``scipy.linalg.inv`` of the frame of its code in ``scipy.linalg._basic``; empty for what has no public name."""
    code = frame.f_code
    module, name = frame.f_globals.get("__name__", ""), code.co_qualname
    if "<locals>" in name:  # a decorator's wrapper: what it wraps is in its closure
        wrapped = [frame.f_locals.get(v) for v in code.co_freevars]
        named = [f for f in wrapped if callable(f) and hasattr(f, "__qualname__")]
        if not named:
            return ""
        module, name = getattr(named[0], "__module__", module), named[0].__qualname__
    if name.rpartition(".")[2].startswith(("_", "<")):
        return ""
    public = [part for part in module.split(".") if not part.startswith("_")]
    return ".".join([*public, name])


def function_of(where: Origin | Location | None) -> str | None:
    """The public function that the user called; None for operators, which their operation names better."""
    name = where.composite if isinstance(where, Location) else where[2] if where else None
    return None if not name or name.startswith("_") else name


def resolve(origin: Origin | None) -> Location | None:
    """File and line of an origin."""
    if origin is None:
        return None
    code, instruction, composite = origin
    return _lines_of(code).at(instruction, composite)


class _Lines:
    """The lines of a piece of code."""

    def __init__(self, code: CodeType) -> None:
        self._file, self._first = code.co_filename, code.co_firstlineno
        ranges = [(start, line) for start, _, line in code.co_lines() if line is not None]
        self._starts = [start for start, _ in ranges]
        self._numbers = [line for _, line in ranges]
        self._known: dict[tuple[int, str], Location] = {}

    def at(self, instruction: int, composite: str) -> Location:
        """The place of an instruction."""
        found = self._known.get((instruction, composite))
        if found is None:
            n = bisect_right(self._starts, instruction) - 1
            line = self._numbers[n] if n >= 0 else self._first
            found = Location(self._file, line, composite or None)
            self._known[instruction, composite] = found
        return found


_lines_of = kept_for(_FILES)(_Lines)


def here() -> Location | None:
    """The user's line that is running now."""
    return resolve(origin())


def depth() -> int:
    """How many frames up the user's line is, as `warnings.warn` counts from its caller."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame, levels = frame.f_back, levels + 1
    return levels
