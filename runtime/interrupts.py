"""Whether Python runs in the middle of native code: signal handlers where a loop looks for them, functions called back.

What runs there must not write into memory that the native code around it is using.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: How many loops of the main thread let signal handlers run now; native code counts (`tapec.runtime.cpu.text.polling`).
handling = ctypes.c_int64()


class _Depth(threading.local):
    calls = 0


_depth = _Depth()


@contextmanager
def called_back() -> Iterator[None]:
    """What a function does that native code calls."""
    _depth.calls += 1
    try:
        yield
    finally:
        _depth.calls -= 1


def inside_native() -> bool:
    """Whether native code is around the caller, in this thread. Signal handlers run in the main thread only."""
    if _depth.calls:
        return True
    return handling.value > 0 and threading.current_thread() is threading.main_thread()
