"""Places of single keys: what a dict has under one, or whether a container has it; other keys may come and go."""

from __future__ import annotations

from typing import Any

from tapec.compiled.guards.places import Place, text_of
from tapec.compiled.retraces import Cause, Change
from tapec.runtime.cpu.guards.looks import NOTHING, Kind, Look

#: Keys that Python's source has words for.
_LITERALS = (str, bytes, int, bool, type(None))


class Keyed(Place):
    """What a container has under one key."""

    def source(self, owner: str, value: str) -> str:
        """An expression for a key that has a word, else a call."""
        return self._written(owner, value) if type(self.key) in _LITERALS else f"{value}.holds()"

    def _written(self, owner: str, value: str) -> str:
        return super().source(owner, value)

    @property
    def bound(self) -> Any:
        """What the source calls the value."""
        return self.value if type(self.key) in _LITERALS else self


class Entry(Keyed):
    """A value in a dict, by its key: a global's, a module's attribute."""

    def now(self) -> Any:
        """The value under the key."""
        return self.owner[self.key]

    def look(self, owner: str) -> str:
        """A subscript."""
        return f"{owner}[{self.key!r}]"

    def native(self) -> Look | None:
        """The entry of the dict."""
        return _look(self, self.value)

    def follow(self) -> bool:
        """Take another value that is equal."""
        return self._follow()


class Gap(Keyed):
    """A key that a dict does not have, so that the value is a builtin or missing."""

    is_note = True

    def now(self) -> Any:
        """None while there is no such key."""
        return self.owner.get(self.key)

    def holds(self) -> bool:
        """Whether it is still not there."""
        return self.key not in self.owner

    def _written(self, owner: str, value: str) -> str:
        return f"{self.key!r} not in {owner}"

    def native(self) -> Look | None:
        """No entry of the dict."""
        return _look(self, NOTHING)

    def change(self) -> Change:
        """From nothing to something."""
        return Change(self.path, self.cause, "nothing", text_of(self.now()))


class Member(Keyed):
    """Whether a dict or a set has a key, whatever it has under that."""

    is_note = True

    def __init__(self, owner: Any, key: Any, path: str) -> None:
        super().__init__(owner, key, key in owner, path, Cause.CONTENTS)
        self._held: Any = None
        self.follow()

    def now(self) -> bool:
        """Whether it has the key now."""
        return self.key in self.owner

    def look(self, owner: str) -> str:
        """A test of membership."""
        return f"({self.key!r} in {owner})"

    def native(self) -> Look | None:
        """The entry of a dict as it is now; another value is no change, but has to be looked at."""
        return _look(self, self._held) if isinstance(self.owner, dict) else None

    def follow(self) -> bool:
        """Take what the dict has now for what to look for."""
        if not isinstance(self.owner, dict):
            return False
        before, self._held = self._held, dict.get(self.owner, self.key, NOTHING)
        return before is not self._held

    def change(self) -> Change:
        """Whether it had the key, and has."""
        path, had, has = f"{text_of(self.key)} in {self.path}", self.value, self.now()
        return Change(path, self.cause, str(had), str(has))


def _is_plain(key: Any) -> bool:
    """Whether to hash a key and to compare it runs no code of the user's."""
    kind: Any = type(key)
    if kind is tuple:
        return all(map(_is_plain, key))
    by_identity = kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__
    return kind in _LITERALS or by_identity


def _look(place: Place, held: Any) -> Look | None:
    """The entry of a dict that looks its keys up as Python's own do."""
    kind = type(place.owner)
    plain = kind is dict or (
        isinstance(place.owner, dict) and getattr(kind, "__getitem__", None) is dict.__getitem__
    )
    plain = plain and _is_plain(place.key)
    return Look(Kind.ENTRY, place.owner, place.key, held) if plain else None
