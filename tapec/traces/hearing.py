"""Who hears of the functions that are entered while a function is compiled.

One is `tapec.compiled.guards.witness`, for what a program rests on; others are told of the user's functions alone, for
what a branch or loop may change.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar

from tapec.frames import is_ours

P = ParamSpec("P")
R = TypeVar("R")

Listener = Callable[[FrameType], None]

_WITNESS = "tapec.compiled.guards.witness"


class _Listeners(threading.local):
    """Those of this thread."""

    def __init__(self) -> None:
        self.all: list[Listener] = []


_listeners = _Listeners()
#: Files whose code is ours, of which listeners do not hear.
_passed: set[str] = set()


def entered(frame: FrameType) -> None:
    """Tell those who listen of a function that is entered, unless it is ours."""
    listeners = _listeners.all
    if not listeners or (file := frame.f_code.co_filename) in _passed:
        return
    if is_ours(frame.f_globals.get("__name__") or ""):
        if not file.startswith("<"):
            _passed.add(file)
        return
    for listener in listeners:
        listener(frame)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell somebody of each function of others that this thread enters inside of the block, before it runs."""
    hook: Any = sys.getprofile()
    heard = _is_witness(hook) or hook is _alone
    _listeners.all.append(listener)
    if not heard:
        sys.setprofile(_alone)
    try:
        yield
    finally:
        _listeners.all.remove(listener)
        if not heard:
            _set_again(hook)


def _alone(frame: FrameType, event: str, _: Any) -> None:
    """Hear of functions where no witness does."""
    if event == "call":
        entered(frame)


def _set_again(hook: Any) -> None:
    if hook is None or callable(hook):
        sys.setprofile(hook)
    else:
        hook.enable()  # a profiler in C, which sets itself


def _is_witness(hook: Any) -> bool:
    return isinstance(hook, MethodType) and hook.__module__ == _WITNESS


def unheard(function: Callable[P, R]) -> Callable[P, R]:
    """Let nobody hear of what a function enters, which is tapec's own: that would take most of its time.

    Profilers go on: one in C could not be set again.
    """

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        hook = sys.getprofile()
        if not (_is_witness(hook) or (isinstance(hook, FunctionType) and hook is _alone)):
            return function(*args, **kwargs)
        sys.setprofile(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setprofile(hook)

    return quiet
