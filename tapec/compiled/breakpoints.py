"""``breakpoint()`` in a function that is being traced: it stops, and says where values are to be seen."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tapec import config
from tapec.frames import is_ours
from tapec.recording import current_trace

_lock = threading.Lock()
#: How many traces are being made, and the hook that was there before the first.
_state: dict[str, Any] = {"traces": 0, "hook": None}


@contextmanager
def explained_breakpoints() -> Iterator[None]:
    """While a function is traced, let ``breakpoint()`` say why its tensors have no values."""
    with _lock:
        if not _state["traces"]:
            _state["hook"], sys.breakpointhook = sys.breakpointhook, _hook
        _state["traces"] += 1
    try:
        yield
    finally:
        with _lock:
            _state["traces"] -= 1
            if not _state["traces"] and sys.breakpointhook is _hook:
                sys.breakpointhook = _state["hook"]


def _hook(*args: Any, **kwargs: Any) -> Any:
    hook = _state["hook"]
    trace = current_trace()
    plain = hook is sys.__breakpointhook__
    if trace is None or (plain and config.breakpoints_off()):
        return hook(*args, **kwargs)
    while trace.parent is not None:
        trace = trace.parent
    note = (
        f"breakpoint() in {trace.function.name}, which is being compiled: its tensors have no values, and once it is "
        "compiled this line is not run again.\nTo stop here with values at every call, run it eagerly: TAPEC_EAGER=1 "
        "in the environment, or tapec.config.run_functions_eagerly(True)."
    )
    if plain and not config.own_debugger():
        return _debug(note)
    sys.stderr.write(f"{note}\n")
    return hook(*args, **kwargs)


def _debug(note: str) -> None:
    """Python's debugger, in the user's frame: called by the usual way it would stop in this module."""
    import pdb

    frame: FrameType | None = sys._getframe()
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    debugger = pdb.Pdb()
    debugger.message(note)
    debugger.set_trace(frame)
