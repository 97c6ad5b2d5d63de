"""What a fork waits for, so that nothing is half done in the child.

A child has the thread that forked and no other: a lock that another one held stays taken for ever. So who forks takes
all of them first, in one order: `Order` begins with what is held while the others are asked for. Imports come last.
They are held here: any thread may begin one at any time, by a function that imports what it seldom needs.
"""

from __future__ import annotations

import importlib._bootstrap
import os
import sys
import time
from _imp import acquire_lock, release_lock
from collections.abc import Callable
from enum import IntEnum
from threading import RLock, get_ident
from typing import Any, NamedTuple

#: Seconds that a fork waits at most for one thing, which might never end.
PATIENCE = 10.0


class Order(IntEnum):
    """What is waited for, first to last."""

    STEPS = 0
    COMPILING = 1
    LLVM = 2
    IMPORTS = 3


class _Hold(NamedTuple):
    take: Callable[[], object]
    give_back: Callable[[], None]
    give_back_in_child: Callable[[], None]


_holds: dict[Order, _Hold] = {}


def hold(
    order: Order,
    take: Callable[[], object],
    give_back: Callable[[], None],
    give_back_in_child: Callable[[], None] | None = None,
) -> None:
    """Have something taken before every fork, and given back after it in the parent and in the child."""
    _holds[order] = _Hold(take, give_back, give_back_in_child or give_back)


#: Held from before a fork until after it, as what was taken is.
_forking = RLock()
_taken: list[_Hold] = []


def _before() -> None:
    _forking.acquire()
    while True:
        for order in sorted(_holds):
            _taken.append(_holds[order])
            _taken[-1].take()
        if len(_taken) == len(_holds):
            return
        # A module whose import was waited for has brought another.
        while _taken:
            _taken.pop().give_back()


def _after_in_parent() -> None:
    while _taken:
        _taken.pop().give_back()
    _forking.release()


def _after_in_child() -> None:
    while _taken:
        _taken.pop().give_back_in_child()
    _forking.release()


#: Modules that are imported where they are needed first. Others' may take as long as their program runs.
_IMPORTED = {"tapec", "numpy", "llvmlite", "numba", *sys.stdlib_module_names}


def _take_imports() -> None:
    """Wait for modules that others import; none begins while the interpreter's own lock is held."""
    end = time.monotonic() + PATIENCE
    while True:
        acquire_lock()
        if not _are_others_importing() or time.monotonic() > end:
            return
        release_lock()
        time.sleep(0.001)


def _are_others_importing() -> bool:
    # Not public; where there is no such table, nobody is waited for.
    locks: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})
    taken = [
        getattr(lock, "owner", None)
        for name, reference in list(locks.items())
        if name.partition(".")[0] in _IMPORTED and (lock := reference()) is not None
    ]
    return any(owner not in (None, get_ident()) for owner in taken)


hold(Order.IMPORTS, _take_imports, release_lock)
os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
