"""Builtins that look behind the objects which stand for Python's values while a function is traced.

A number that is an input passes for a float, an open size for an int. Python asks them, where it can; these functions
do not ask.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any

from tapec.traces.open_size import GuessedShape, OpenSize
from tapec.traces.scalars import HostNumber


def _type(*args: Any, **kwargs: Any) -> Any:
    """The type of the value that an object stands for: all values for which the program serves have it."""
    if len(args) == 1 and not kwargs:
        if type(args[0]) is HostNumber:
            return type(args[0].value)
        if type(args[0]) is OpenSize:
            return int
    return type(*args, **kwargs)


def _print(*values: Any, **kwargs: Any) -> None:
    """Show open sizes as None: what is printed while a function is traced is for all of them."""
    builtins.print(*map(_shown, values), **kwargs)  # noqa: T201  the user's own


def _shown(value: Any) -> Any:
    if isinstance(value, GuessedShape):
        return tuple(None if isinstance(size, OpenSize) else size for size in value)
    return None if isinstance(value, OpenSize) else value


#: What converted code calls in their place.
STAND_INS: Mapping[Callable[..., Any], Callable[..., Any]] = {type: _type, builtins.print: _print}
