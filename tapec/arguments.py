"""Arguments that are no tensors: what another kind of thing in their place raises, in the user's line."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tapec.errors import TypeError
from tapec.frames import here


def integer(value: Any, what: str) -> int:
    """A whole number, which counts or names something: no float, even if it is whole.

    Raises:
        TypeError: it is none.
    """
    if type(value) is int:
        return value
    try:
        return value.__index__()  # type: ignore[no-any-return]
    except (AttributeError, builtins.TypeError) as error:
        if isinstance(error, TypeError):
            raise
        raise _expected(what, "an integer", value) from None


def number(value: Any, what: str) -> float:
    """A real number.

    Raises:
        TypeError: it is none, or several.
    """
    if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | bytes | complex | np.ndarray):
        raise _expected(what, "a number", value)
    try:
        return float(value)
    except (builtins.TypeError, builtins.ValueError) as error:
        if isinstance(error, TypeError):
            raise
        raise _expected(what, "a number", value) from None


def items(value: Any, what: str) -> list[Any]:
    """Several things in order; a text is one thing.

    Raises:
        TypeError: it is none, or one thing.
    """
    if isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
        raise _expected(what, "a list", value)
    try:
        return list(value)
    except builtins.TypeError as error:  # an array without axes
        if isinstance(error, TypeError):
            raise
        raise _expected(what, "a list", value) from None


def pairs(value: Any, what: str) -> list[tuple[Any, Any]]:
    """Pairs of things, from a list or a dict.

    Raises:
        TypeError: it is neither, or not of pairs.
    """
    found = list(value.items()) if isinstance(value, dict) else items(value, what)
    for pair in found:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise _expected(what, "a list of pairs", value)
    return [(first, second) for first, second in found]


def flag(value: Any, what: str) -> bool:
    """A truth value.

    Raises:
        TypeError: it is an array, which has none.
    """
    if type(value) is bool:
        return value
    try:
        return bool(value)
    except (builtins.TypeError, builtins.ValueError) as error:
        if isinstance(error, TypeError):
            raise
        raise _expected(what, "a bool", value) from None


def text(value: Any, what: str) -> str:
    """A text.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise _expected(what, "a string", value)
    return value


def function(value: Any, what: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Something to call; with these arguments, if any are given.

    Raises:
        TypeError: it cannot be called, or not with these.
    """
    if not callable(value):
        raise _expected(what, "a function", value)
    if args or kwargs:
        import inspect  # heavy

        try:
            inspect.signature(value).bind(*args, **kwargs)
        except builtins.ValueError:  # it has none to look at
            pass
        except builtins.TypeError as error:
            given = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in kwargs.items())])
            message = f"{what} must take ({given}): {error}"
            raise TypeError(message, location=here()) from None
    return value  # type: ignore[no-any-return]


def is_one_of(value: Any, options: Iterable[Any]) -> bool:
    """Whether an argument is one of a few texts, numbers or None; nothing is compared with an array."""
    return any(value is o or (isinstance(value, type(o)) and value == o) for o in options)


def shown(value: Any) -> str:
    """A value in a message, cut short."""
    whole = " ".join(repr(value).split())
    return whole if len(whole) <= 60 else f"{whole[:57]}..."


def _expected(what: str, wanted: str, value: Any) -> TypeError:
    return TypeError(
        f"{what} must be {wanted}, got {shown(value)} ({type(value).__name__})", location=here()
    )
