"""How a call's arguments stand for a function's parameters: `f(x, 1.0)`, `f(x, k=1.0)` and a default are the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: What stands for a parameter without a default.
_REQUIRED = inspect.Parameter.empty

#: The kinds of parameters that may be given by position.
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(function: Callable[..., Any], follow_wrapped: bool) -> list[inspect.Parameter]:
    try:
        found = inspect.signature(function, follow_wrapped=follow_wrapped)
    except (TypeError, ValueError):
        return []
    return list(found.parameters.values())


def _is_python(function: Any) -> bool:
    """Whether a function, or what is called in its place, has code of Python's."""
    while isinstance(function, functools.partial):
        function = function.func
    call = inspect.getattr_static(type(function), "__call__", None)
    return isinstance(function, type) or any(hasattr(f, "__code__") for f in (function, call))


class Parameters:
    """The parameters of a function.

    Attributes:
        names: of those that may be given by position.
        shown: all of them, as Python shows them: of what a decorator made, those of the function behind it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Ask the function for its signature; one that has none takes what comes.

        What a decorator made (`functools.wraps`) is called as it takes its arguments itself: it may hand them on more
        than once, or others. Only the names that it is shown with are those of the function behind it.
        """
        self._function = getattr(function, "__name__", function)
        found = _parameters(function, follow_wrapped=False)
        if not _is_python(function):  # such look at which arguments there are
            found = [p.replace(default=_REQUIRED) for p in found]
        kinds = inspect.Parameter
        positional = [p for p in found if p.kind in _BY_PLACE]
        self.names = [p.name for p in positional]
        self._defaults = [p.default for p in positional]
        self._by_name = {
            p.name: i for i, p in enumerate(positional) if p.kind is kinds.POSITIONAL_OR_KEYWORD
        }
        named = [p for p in found if p.kind is kinds.KEYWORD_ONLY]
        self._keyword_defaults = {p.name: p.default for p in named if p.default is not _REQUIRED}
        self._only_names = bool(named)
        #: The defaults that complete so many arguments.
        self._tails: dict[int, list[Any]] = {}
        for count in range(0 if named else len(positional)):
            if all(default is not _REQUIRED for default in self._defaults[count:]):
                self._tails[count] = self._defaults[count:]
        #: What arguments beyond the named ones are called.
        self.rest = next((p.name for p in found if p.kind is kinds.VAR_POSITIONAL), "args")
        self.others = next((p.name for p in found if p.kind is kinds.VAR_KEYWORD), "kwargs")
        self._own = {p.name for p in named}
        self.shown = _parameters(function, follow_wrapped=True)
        self._shown = [p.name for p in self.by_place()]
        self._keywords = {
            p.name
            for p in self.shown
            if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        }

    def by_place(self) -> list[inspect.Parameter]:
        """Those shown that may be given by position."""
        return [p for p in self.shown if p.kind in _BY_PLACE]

    def takes(self, kind: Any) -> bool:
        """Whether one of those shown is of a kind: ``*args`` or ``**kwargs``."""
        return any(p.kind is kind for p in self.shown)

    def __str__(self) -> str:
        return f"{self._function}({', '.join(p.name for p in self.shown)})"

    def completed(self, args: Sequence[Any]) -> Sequence[Any]:
        """Arguments with the defaults behind them, if there are only such by position, and all are known."""
        defaults = self._tails.get(len(args))
        return args if defaults is None else [*args, *defaults]

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Arguments by position as far as they can be, defaults included; the others by name.

        Arguments that do not fit are left as they are: the function itself will say so.

        Raises:
            TypeError: one is given by position and by name.
        """
        for name in kwargs:
            if self._by_name.get(name, len(args)) < len(args):
                raise TypeError(f"{self._function}() got multiple values for argument {name!r}")
        if not kwargs and len(args) >= len(self.names) and not self._only_names:
            return args, {}
        values, left = list(args), dict(kwargs)
        for i in range(len(args), len(self.names)):
            name = self.names[i]
            value = (
                left.pop(name, self._defaults[i]) if name in self._by_name else self._defaults[i]
            )
            if value is _REQUIRED:
                return args, dict(kwargs)
            values.append(value)
        return values, {**self._keyword_defaults, **left}

    def order(self, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        """The names that the function sees in the caller's order: those that end up in its ``**kwargs``."""
        return tuple([name for name in kwargs if name not in self._own])

    def name(self, place: int | str) -> str:
        """What the user calls an argument: by position or by name."""
        if isinstance(place, str):
            return place if place in self._keywords else f'{self.others}["{place}"]'
        if place < len(self._shown):
            return self._shown[place]
        return f"{self.rest}[{place - len(self._shown)}]"
