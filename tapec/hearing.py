"""Who hears of the functions that are entered while a function is compiled: `tapec.compiled.guards.witness`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_WITNESS = "tapec.compiled.guards.witness"


def unheard(function: Callable[P, R]) -> Callable[P, R]:
    """Let the witness not hear of what a function enters, which is tapec's own: that would take most of its time.

    Profilers go on: one in C could not be set again.
    """

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        hook = sys.getprofile()
        if not (isinstance(hook, MethodType) and hook.__module__ == _WITNESS):
            return function(*args, **kwargs)
        sys.setprofile(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.setprofile(hook)

    return quiet
