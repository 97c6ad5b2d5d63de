"""Classes that a trace meets: what code names of them, and the special methods that Python asks them for.

An operator, a test for truth, a call of `super`, an object that the function makes: all of these find what a class has
without that a name leads from the function to the class. So a class is watched as a whole, its base classes and its
metaclass too, but only under names that matter: those that code names, and special ones, which seldom change and are
asked for in many ways. CPython gives a class another version whenever something changes (`version_of`), so to look at a
class is to compare one number.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tapec.compiled.guards.asked import Asked
from tapec.compiled.guards.equality import is_or_same
from tapec.compiled.guards.ownership import is_our_class, is_users_class
from tapec.compiled.guards.places import Place, text_of
from tapec.compiled.guards.runs import inherited
from tapec.compiled.retraces import Cause, Change
from tapec.runtime.cpu.guards.looks import NOTHING, Kind, Look
from tapec.runtime.cpu.guards.versions import version_of

#: Special names that say nothing of what a class does, or that Python fills in when it likes.
_NO_METHODS = {
    "__abstractmethods__",
    "__annotations__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__static_attributes__",
    "__weakref__",
}
#: CPython's flag of classes that are made while a program runs, so that they, and of which class their objects are,
#: may change (Py_TPFLAGS_HEAPTYPE).
_HEAP_TYPE = 1 << 9


class Classes:
    """The classes that one trace met, as they were then."""

    def __init__(self) -> None:
        """None yet."""
        self._met: dict[type, dict[type, dict[str, Any]]] = {}
        #: The same of classes of packages, which the user's code may ask for an attribute.
        self._others: dict[type, list[dict[str, Any]]] = {}
        #: Those whose registered classes, or whose derived classes, count.
        self._registries: dict[type, Registry] = {}

    def meet(self, kind: type) -> None:
        """Take note of a class of the user's, its metaclass and all that it is derived from."""
        if kind not in self._met and any(map(is_users_class, kind.__mro__)):
            self._met[kind] = {owner: dict(vars(owner)) for owner in _owners(kind)}
            if type(kind) is not type:
                self.meet(type(kind))
        elif kind not in self._others and may_change(kind):
            self._others[kind] = [dict(vars(owner)) for owner in reversed(kind.__mro__)]

    def asked(self, kind: type) -> None:
        """Take note of a class of which it may be asked what is an instance of it."""
        if isinstance(kind, abc.ABCMeta) and kind not in self._registries:
            self._registries[kind] = Registry(kind)

    def places(self, names: Collection[str], derived: bool, asks: bool) -> Iterator[Place]:
        """What of them to watch.

        Args:
            names: what code names, of attributes.
            derived: whether it asks for the classes that are derived from others.
            asks: whether it asks what objects are instances of.
        """
        for kind, before in self._met.items():
            yield ClassState(kind, before, names)
            if derived:
                yield Derived(kind)
        for kind, spaces in self._others.items():
            held = {name: value for own in spaces for name, value in own.items()}
            now = {name: held.get(name, NOTHING) for name in names}
            # What the trace itself changed is no state of its own.
            same = {name: value for name, value in now.items() if inherited(kind, name) is value}
            if same:
                yield ClassNames(kind, same)
        if asks:
            yield from self._registries.values()


def is_made(kind: type) -> bool:
    """Whether a class was made while the program ran, rather than in C."""
    return bool(kind.__flags__ & _HEAP_TYPE)


def may_change(kind: type) -> bool:
    """Whether a class may get other attributes: none in C does, and tapec's own are no state."""
    return is_made(kind) and not is_our_class(kind)


def _owners(kind: type) -> Iterator[type]:
    return filter(is_users_class, kind.__mro__)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _NO_METHODS


class ByVersion(Asked):
    """What hangs on a class: nobody has to look at it again before the class has another version."""

    #: The class's version when it was looked at last; 0 says nothing.
    version = 0

    def _holds(self) -> bool:
        """Whether all is as it was."""
        raise NotImplementedError

    def holds(self) -> bool:
        """Whether all is as it was; if so, nobody has to look again before the class has another version."""
        version = version_of(self.owner)
        if not self._holds():
            return False
        self.version = version
        return True

    def source(self, owner: str, value: str) -> str:
        """Whether nothing of the class changed, or nothing that matters."""
        return f"(version_of({owner}) == {value}.version != 0 or {value}.holds())"

    def native(self) -> Look | None:
        """The version of the class."""
        version = version_of(self.owner)
        return Look(Kind.VERSION, self.owner, None, version) if version else None


class ClassState(ByVersion):
    """What a class, and those that it is derived from, have under some names and under all special ones."""

    def __init__(
        self, owner: type, before: Mapping[type, Mapping[str, Any]], names: Collection[str]
    ) -> None:
        """``before``: what the classes had when the trace met them."""
        self._names = frozenset(names)
        #: What the trace itself changed is no state of its own: the function does that at each call.
        self._own: Collection[tuple[type | None, str]] = ()
        super().__init__(owner, None, self._of(before), owner.__qualname__, Cause.ATTRIBUTE)
        now = self.now()
        self.value = {key: value for key, value in now.items() if self.value.get(key) is value}
        self._own = self.value.keys() ^ now.keys()

    def _of(self, spaces: Mapping[type, Mapping[str, Any]]) -> dict[tuple[type | None, str], Any]:
        found: dict[tuple[type | None, str], Any] = {
            (owner, name): value
            for owner, held in spaces.items()
            for name, value in held.items()
            if _is_special(name) or name in self._names
        }
        found[None, "__mro__"] = tuple(spaces)
        return found

    def now(self) -> Any:
        """The same of now."""
        found = self._of({owner: vars(owner) for owner in _owners(self.owner)})
        return {key: value for key, value in found.items() if key not in self._own}

    def _holds(self) -> bool:
        return not self._differences()

    def _differences(self) -> list[tuple[type | None, str]]:
        now = self.now()
        return [
            key
            for key in {**self.value, **now}
            if not is_or_same(self.value.get(key, NOTHING), now.get(key, NOTHING))
        ]

    def change(self) -> Change:
        """The first name under which something else is."""
        owner, name = self._differences()[0]
        key, now = (owner, name), self.now()
        old, new = (text_of(of[key]) if key in of else "nothing" for of in (self.value, now))
        return Change(f"{(owner or self.owner).__qualname__}.{name}", self.cause, old, new)


class ClassNames(ByVersion):
    """What a class of a package has under some names, of its own or from those that it is derived from."""

    def __init__(self, owner: type, names: Mapping[str, Any]) -> None:
        """``names``: with what was under them."""
        super().__init__(owner, None, dict(names), owner.__qualname__, Cause.ATTRIBUTE)

    def now(self) -> Any:
        """The same of now."""
        return {name: inherited(self.owner, name) for name in self.value}

    def _holds(self) -> bool:
        now = self.now()
        return all(is_or_same(now[name], held) for name, held in self.value.items())

    def change(self) -> Change:
        """The first name under which something else is."""
        now = self.now()
        name = next(n for n, held in self.value.items() if not is_or_same(now[n], held))
        old, new = (
            "nothing" if held is NOTHING else text_of(held)
            for held in (self.value[name], now[name])
        )
        return Change(f"{self.path}.{name}", self.cause, old, new)


class Registry(Asked):
    """The classes that were registered with an abstract one, or with one that is derived from it."""

    is_note = True

    def __init__(self, owner: type, *, users: bool = False) -> None:
        """``users``: whether only classes of the user's count, of those that packages register, too."""
        path = f"the classes registered with {owner.__qualname__}"
        self._are_users = users
        super().__init__(owner, None, (), path, Cause.CONTENTS)
        self.value = self.now()
        #: Python's when they were looked at last: another one once something is registered anywhere.
        self.token = abc.get_cache_token()

    def now(self) -> Any:
        """Weak references to those of now."""
        found: set[Any] = set()
        waiting, known = [self.owner], {self.owner}
        while waiting:
            kind = waiting.pop()
            found |= abc._get_dump(kind)[0]  # type: ignore[attr-defined]
            below = {k for k in type.__subclasses__(kind) if isinstance(k, abc.ABCMeta)}
            waiting += below - known
            known |= below
        if self._are_users:
            found = {ref for ref in found if (kind := ref()) is not None and is_users_class(kind)}
        return frozenset(found)

    def holds(self) -> bool:
        """Whether they are the same; if so, nobody has to look again before something is registered somewhere."""
        token = abc.get_cache_token()
        if token == self.token:
            return True
        if self.now() != self.value:
            return False
        self.token = token
        return True

    def source(self, owner: str, value: str) -> str:
        """Whether nothing was registered anywhere, or not here."""
        return f"(token() == {value}.token or {value}.holds())"

    def change(self) -> Change:
        """How many there are."""
        return Change(self.path, self.cause, str(len(self.value)), str(len(self.now())))


class Derived(Place):
    """The classes that are derived from another."""

    def __init__(self, owner: type) -> None:
        path = f"{owner.__qualname__}.__subclasses__()"
        super().__init__(owner, None, type.__subclasses__(owner), path, Cause.CONTENTS)

    def now(self) -> Any:
        """Those of now."""
        return type.__subclasses__(self.owner)

    def holds(self) -> bool:
        """Whether they are the same."""
        return bool(self.now() == self.value)

    def source(self, owner: str, value: str) -> str:
        """The same."""
        return f"{owner}.__subclasses__() == {value}"


#: What the source of guards calls.
COMPARISONS = {"token": abc.get_cache_token, "version_of": version_of}
