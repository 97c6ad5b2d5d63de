"""Which line of the user's code is running: the nearest frame outside of tapec."""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from tapec.ir.location import Location

#: Where an operation comes from, cheap to take: code object, instruction, name of the public function.
Origin = tuple[CodeType, int, str]


#: Whether the code of a file is ours: told by its module when the file is first met, for a module's name takes longer.
_ours: dict[str, bool] = {}


def origin() -> Origin | None:
    """The user's instruction that led here, and the outermost function of tapec on the way.

    A tuple rather than a Location: eager code takes one for every operation and resolves almost none.
    """
    frame: FrameType | None = sys._getframe(1)
    composite = ""
    while frame is not None:
        code = frame.f_code
        if not (_ours.get(code.co_filename) or _is_ours(frame)):
            return code, frame.f_lasti, composite
        composite = code.co_name
        frame = frame.f_back
    return None


def _is_ours(frame: FrameType) -> bool:
    file, found = frame.f_code.co_filename, is_ours(frame.f_globals.get("__name__", ""))
    if found and not file.startswith("<"):  # code that was made from text has no file of its own
        _ours[file] = True
    return found


def is_ours(module: str) -> bool:
    """Whether a module is part of tapec."""
    return module == "tapec" or module.startswith("tapec.")


def resolve(origin: Origin | None) -> Location | None:
    """File and line of an origin."""
    if origin is None:
        return None
    code, instruction, composite = origin
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return Location(code.co_filename, line, composite or None)


def here() -> Location | None:
    """The user's line that is running now."""
    return resolve(origin())


def depth() -> int:
    """How many frames up the user's line is, as `warnings.warn` counts from its caller."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame, levels = frame.f_back, levels + 1
    return levels
