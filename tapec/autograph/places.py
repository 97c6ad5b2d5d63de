"""Where the variables of converted code live, and what is in them: the state that branches and loops change.

A variable is the cell that the parts of a statement share, so reading and writing it here is what the code itself does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, Protocol

from tapec.autograph.names import Step
from tapec.compiled.guards.beginnings import (
    Before,
    attribute_before,
    item_before,
    shared_before,
    stored_by,
)
from tapec.compiled.guards.objects import closed_over
from tapec.compiled.guards.ownership import is_users_class
from tapec.structure import flatten
from tapec.tensor import Tensor
from tapec.variable import Variable


class Unbound:
    """What is in a variable without a value."""

    def __repr__(self) -> str:
        return "nothing"


UNBOUND = Unbound()

#: Says where attributes and items are: what a variable holds, and the steps from there.
Path = tuple[Callable[[], Any], tuple[Step, ...]]


class Place(Protocol):
    """Where a value is.

    Attributes:
        name: what messages call it.
        surely: whether the code assigns it; else it is one of those in a list or dict that it may assign.
    """

    name: str
    surely: bool

    @property
    def identity(self) -> tuple[int, str]:
        """What tells it from others: the ``id`` of what it is in, and where there."""

    def get(self) -> Any:
        """The value, or `UNBOUND`."""

    def set(self, value: Any) -> None:
        """Put a value there; `UNBOUND` to take it away."""

    def before(self, value: Any) -> Before | None:
        """The place with what was there, for what the program rests on; None if something else tells that."""


class _Cell:
    surely = True

    def __init__(self, name: str, cell: CellType, code: CodeType) -> None:
        self.name = name
        self._cell, self._code = cell, code

    @property
    def identity(self) -> tuple[int, str]:
        return id(self._cell), repr(self.name)

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

    def before(self, value: Any) -> Before:
        return shared_before(self._code, self.name, self._cell, value)


class _Item:
    """An item of a list or dict, or a global variable."""

    def __init__(self, name: str, holder: Any, key: Any, surely: bool = True) -> None:
        self.name = name
        self.surely = surely
        self.holder, self.key = holder, key

    @property
    def identity(self) -> tuple[int, str]:
        return id(self.holder), repr(self.key)

    def get(self) -> Any:
        try:
            return self.holder[self.key]
        except (KeyError, IndexError):
            return UNBOUND

    def set(self, value: Any) -> None:
        if value is not UNBOUND:
            self.holder[self.key] = value
        elif self.get() is not UNBOUND:
            del self.holder[self.key]

    def before(self, value: Any) -> Before | None:
        return None  # containers are watched as a whole


class _Global(_Item):
    def before(self, value: Any) -> Before:
        return item_before(self.holder, str, self.key, value)


class _Attribute:
    surely = True

    def __init__(self, name: str, holder: Any, key: str) -> None:
        self.name = name
        self._holder, self._key = holder, key

    @property
    def identity(self) -> tuple[int, str]:
        return id(self._holder), f".{self._key}"

    def get(self) -> Any:
        return getattr(self._holder, self._key, UNBOUND)

    def set(self, value: Any) -> None:
        # What a class of the user's does when it is assigned to, it did while the code ran.
        put, take = setattr, delattr
        if is_users_class(_owner_of("__setattr__", self._holder)):
            base: Any = type if isinstance(self._holder, type) else object
            put, take = base.__setattr__, base.__delattr__
        if value is not UNBOUND:
            put(self._holder, self._key, value)
        elif self.get() is not UNBOUND:
            take(self._holder, self._key)

    def before(self, value: Any) -> Before:
        return attribute_before(self._holder, lambda _: self.name, self._key, value)


class _New:
    """The items that a list or dict gets, if there are tensors of a trace among them; others stay where they are."""

    surely = False

    def __init__(self, name: str, holder: list[Any] | dict[Any, Any]) -> None:
        self.name = name
        self.holder = holder
        self._before = self._there()

    def _there(self) -> Any:
        return len(self.holder) if isinstance(self.holder, list) else set(self.holder)

    @property
    def identity(self) -> tuple[int, str]:
        return id(self.holder), "+"

    def get(self) -> Any:
        new: Any
        if isinstance(self.holder, list):
            new = self.holder[self._before :]
        else:
            new = {k: v for k, v in self.holder.items() if k not in self._before}
        if not any(isinstance(leaf, Tensor) for leaf in flatten(new)[0]):
            self._stay()
            return type(new)()
        return new

    def _stay(self) -> None:
        """Let the items that came stay where they are; what went is somebody else's affair."""
        now = self._there()
        self._before = self._before | now if isinstance(now, set) else max(self._before, now)

    def set(self, value: Any) -> None:
        if isinstance(self.holder, list):
            self.holder[self._before :] = value
            return
        for key in self.holder.keys() - self._before:
            del self.holder[key]
        self.holder.update(value)

    def before(self, value: Any) -> None:
        return None


def places_of(
    functions: Sequence[Any], names: Sequence[str], paths: Sequence[Path], branches: bool = False
) -> list[Place]:
    """The variables, which the functions share, and the attributes and items that exist.

    Args:
        functions: the parts of a statement.
        names: the variables.
        paths: to attributes and items.
        branches: whether lists and dicts may get items: the same number either way.
    """
    cells: dict[str, tuple[CellType, CodeType]] = {}
    for function in functions:
        assert isinstance(function, FunctionType)
        cells |= {n: (cell, function.__code__) for n, cell in closed_over(function)}
    found: list[Place] = []
    for name in names:
        cell = cells.get(name)
        at_top = functions[0].__globals__
        found.append(_Global(name, at_top, name) if cell is None else _Cell(name, *cell))
    within: dict[tuple[int, str], Place] = {}
    for variable, steps in paths:
        try:
            thing = variable()
        except NameError:
            continue  # it is made inside, if at all
        for place in _places_within(thing, steps):
            if branches or not isinstance(place, _New):
                within.setdefault(place.identity, place)
    return [*found, *within.values()]


def _owner_of(name: str, thing: Any) -> type:
    """The class that has an attribute of a thing's class."""
    return next((owner for owner in type(thing).__mro__ if name in vars(owner)), object)


def _stored_for(thing: Any, name: str, passed: Collection[str] = ()) -> Iterator[str]:
    """The attributes that assigning to one assigns: itself, or what the setter of a property stores.

    What another descriptor of the user's stores is not known before it runs: `tapec.autograph.reach` sees that.
    """
    found = vars(_owner_of(name, thing)).get(name)
    if isinstance(found, property) and isinstance(found.fset, FunctionType):
        passed = {*passed, name}
        for stored in stored_by(found.fset.__code__) - passed:
            yield from _stored_for(thing, stored, passed)
    elif not (is_users_class(type(found)) and hasattr(type(found), "__set__")):
        yield name


def items_of(holder: Any, places: Sequence[Place]) -> tuple[set[Any], bool]:
    """The indices or keys of a list or dict that places stand for, and whether one stands for what it gets."""
    keys, grows = set(), False
    for place in places:
        if isinstance(place, _Item) and place.holder is holder:
            keys.add(place.key % len(holder) if isinstance(holder, list) and holder else place.key)
        grows |= isinstance(place, _New) and place.holder is holder
    return keys, grows


def _places_within(thing: Any, steps: Sequence[Step]) -> Iterator[_Item | _Attribute | _New]:
    """The places that steps lead to; none where they end early."""
    (kind, key), *rest = steps
    kinds = dict | list | tuple if rest else dict | list
    places: list[_Item | _Attribute] = []
    name = type(thing).__name__
    if isinstance(thing, Tensor | Variable):
        return
    if kind == ".":
        stored = [key] if rest else _stored_for(thing, key)
        places = [_Attribute(f"{name}.{k}", thing, k) for k in stored]
    elif isinstance(thing, kinds) and kind == "[]":
        places = [_Item(f"{name}[{key!r}]", thing, key)]
    elif isinstance(thing, kinds) and kind == "[*]":
        keys = list(thing) if isinstance(thing, dict) else range(len(thing))
        places = [_Item(f"{name}[{k!r}]", thing, k, surely=False) for k in keys]
    if not rest:
        yield from places
        if kind in ("[*]", "[+]") and isinstance(thing, kinds):
            yield _New(f"what the {name} gets", thing)
        return
    for place in places:
        if (
            kind != "[]" or not isinstance(thing, dict) or key in thing
        ):  # one with defaults makes none
            value = place.get()
            yield from () if value is UNBOUND else _places_within(value, rest)
