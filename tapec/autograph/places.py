"""Where the variables of converted code live, and what is in them: the state that branches and loops change.

A variable is the cell that the parts of a statement share, so reading and writing it here is what the code itself does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any, Protocol

from tapec.tensor import Tensor
from tapec.variable import Variable


class Unbound:
    """What is in a variable without a value."""

    def __repr__(self) -> str:
        return "nothing"


UNBOUND = Unbound()

#: Says where an attribute or item is: the object, ``"."`` or ``"[]"``, and its name or index.
Path = tuple[Callable[[], Any], str, Any]


class Place(Protocol):
    """Where a value is."""

    name: str

    def get(self) -> Any:
        """The value, or `UNBOUND`."""

    def set(self, value: Any) -> None:
        """Put a value there; `UNBOUND` to take it away."""


class _Cell:
    def __init__(self, name: str, cell: CellType) -> None:
        self.name = name
        self._cell = cell

    def get(self) -> Any:
        try:
            return self._cell.cell_contents
        except ValueError:
            return UNBOUND

    def set(self, value: Any) -> None:
        if value is not UNBOUND:
            self._cell.cell_contents = value
        elif self.get() is not UNBOUND:
            del self._cell.cell_contents


class _Item:
    """An item of a list or dict, or a global variable."""

    def __init__(self, name: str, holder: Any, key: Any) -> None:
        self.name = name
        self._holder, self._key = holder, key

    def get(self) -> Any:
        try:
            return self._holder[self._key]
        except (KeyError, IndexError):
            return UNBOUND

    def set(self, value: Any) -> None:
        if value is not UNBOUND:
            self._holder[self._key] = value
        elif self.get() is not UNBOUND:
            del self._holder[self._key]


class _Attribute:
    def __init__(self, name: str, holder: Any, key: str) -> None:
        self.name = name
        self._holder, self._key = holder, key

    def get(self) -> Any:
        return getattr(self._holder, self._key, UNBOUND)

    def set(self, value: Any) -> None:
        if value is not UNBOUND:
            setattr(self._holder, self._key, value)
        elif self.get() is not UNBOUND:
            delattr(self._holder, self._key)


def places_of(functions: Sequence[Any], names: Sequence[str], paths: Sequence[Path]) -> list[Place]:
    """The variables, which the functions share, and the attributes and items that exist."""
    cells: dict[str, CellType] = {}
    for function in functions:
        assert isinstance(function, FunctionType)
        cells |= zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found: list[Place] = []
    for name in names:
        cell = cells.get(name)
        at_top = functions[0].__globals__
        found.append(_Item(name, at_top, name) if cell is None else _Cell(name, cell))
    for holder, kind, key in paths:
        place = _place_in(holder, kind, key)
        if place is not None:
            found.append(place)
    return found


def _place_in(holder: Callable[[], Any], kind: str, key: Any) -> Place | None:
    try:
        thing = holder()
    except (NameError, AttributeError):
        return None  # it is made inside, if at all
    if isinstance(thing, Tensor | Variable):
        return None
    if kind == ".":
        return _Attribute(f"{type(thing).__name__}.{key}", thing, key)
    if isinstance(thing, dict | list):
        return _Item(f"{type(thing).__name__}[{key!r}]", thing, key)
    return None
