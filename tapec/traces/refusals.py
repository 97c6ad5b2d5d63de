"""What a tensor without a value refused, for code that goes on: a handler runs to which no values would lead."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from types import FrameType

from tapec.frames import depth, here, is_installed, is_ours
from tapec.ir.location import Location
from tapec.recording import current_trace


def note_refusal(what: str) -> None:
    """Let the trace warn at its end, which it has only if the error is caught, where the user's code asks itself.

    Args:
        what: the question, as the user wrote it.
    """
    trace = current_trace()
    if trace is not None and _is_asked_by_user():
        trace.at_end.append(partial(_tell, trace.root.function.name, what, here()))


def _is_asked_by_user() -> bool:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if not is_ours(module) or module.startswith("tapec.keras"):
            return not is_ours(module) and not is_installed(frame.f_code.co_filename)
        frame = frame.f_back
    return False


def _tell(name: str, what: str, where: Location | None) -> None:
    from tapec.compiled.retraces import RetraceWarning  # which knows functions, and they tensors

    line = "" if where is None else f"\n  {where.describe()}"
    warnings.warn(
        f"{name} caught the error of {what} of a tensor, which has no value while it is traced: every call goes on "
        f"as its handler did{line}\n  remedy: ask outside of the function, or of tapec.py_function, which has values",
        RetraceWarning,
        stacklevel=depth(),
    )
