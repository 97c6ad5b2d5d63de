"""Functions that keep their results (`functools.cache`, `functools.lru_cache`): as long as they do, they do not run.

A program goes on with what such a function gave, and with what it changed while it ran. That is right for a call whose
result is still kept: once it is not, the function would run again, and count once more.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from typing import Any, NamedTuple

from tapec.compiled.guards.asked import Asked
from tapec.compiled.guards.entries import Entry
from tapec.compiled.guards.equality import is_or_same
from tapec.compiled.guards.places import Place
from tapec.compiled.retraces import Cause, Change

_CACHE: type = type(functools.cache(len))


class _Inside(NamedTuple):
    """What a cache consists of, as Python's collector knows of it.

    Attributes:
        kept: what is under each key: a result, or what the key and the result of a bounded cache hang on.
        results: the keys and the results, oldest first.
    """

    kept: dict[Any, Any]
    results: list[tuple[Any, Any]]


def _inside(cache: Any) -> _Inside | None:
    """What Python's collector is told of: of a bounded cache keys, results and links, then dict and function."""
    held = gc.get_referents(cache)
    at = next((i for i, thing in enumerate(held) if thing is cache.__wrapped__), 0)
    if at < 2 or type(held[at - 1]) is not dict:
        return None
    kept, links = held[at - 1], held[1 : at - 1]
    results = list(zip(links[::3], links[1::3], strict=True)) if links else list(kept.items())
    return _Inside(kept, results)


def is_cache(thing: Any) -> bool:
    """Whether a function keeps its results, so that what it calls need not run."""
    return isinstance(thing, _CACHE) and hasattr(thing, "__wrapped__")


def results_in(cache: Any) -> list[Any]:
    """What a cache keeps: keys and results."""
    inside = _inside(cache)
    return [] if inside is None else [thing for pair in inside.results for thing in pair]


class Cached:
    """A cache that a trace met.

    Attributes:
        function: the cache.
        path: how the user would call it.
    """

    def __init__(self, function: Any, path: str) -> None:
        """Take down how often it was asked."""
        self.function, self.path = function, path
        self._before = function.cache_info()

    def places(self) -> Iterator[Place]:
        """What it has to keep for what the trace asked it: what was asked last, if it knows the order."""
        before, now = self._before, self.function.cache_info()
        found, ran = now.hits - before.hits, now.misses - before.misses
        inside = _inside(self.function)
        if inside is None or not (found or ran):
            return
        if found < 0 or ran < 0:  # it was cleared
            found = ran = len(inside.results)
        if now.maxsize is not None:
            asked = inside.results[-(found + ran) :]
            if asked:
                yield Kept(self.function, asked, self.path)
            return
        for key, result in inside.results if found else inside.results[-ran:]:
            path = f"what {self.path} keeps for {key!r}"
            yield Entry(inside.kept, key, result, path, Cause.CONTENTS)


class Kept(Asked):
    """Some of what a bounded cache keeps."""

    def __init__(self, owner: Any, asked: list[tuple[Any, Any]], path: str) -> None:
        """``asked``: keys and results."""
        super().__init__(owner, None, asked, f"what {path} keeps", Cause.CONTENTS)
        self._look()

    def _look(self) -> bool:
        """Whether all is there; if so, what to compare the next time."""
        misses, inside = self.owner.cache_info().misses, _inside(self.owner)
        results = {} if inside is None else dict(inside.results)
        for key, result in self.value:
            if key not in results or not is_or_same(results[key], result):
                return False
        if inside is not None:
            # While nothing was entered since, what hangs on the same link is what was there.
            self.misses, self.get = misses, inside.kept.get
            self.keys = [key for key, _ in self.value]
            self.links = [*map(self.get, self.keys)]
        return True

    def now(self) -> Any:
        """The keys and results of now."""
        inside = _inside(self.owner)
        return [] if inside is None else inside.results

    def holds(self) -> bool:
        """Whether all is kept."""
        same = self.owner.cache_info().misses == self.misses
        return (same and [*map(self.get, self.keys)] == self.links) or self._look()

    def source(self, owner: str, value: str) -> str:
        """The same; the number of misses is the second that a cache tells."""
        links = f"[*map({value}.get, {value}.keys)] == {value}.links"
        return f"({owner}.cache_info()[1] == {value}.misses and {links} or {value}.holds())"

    def change(self) -> Change:
        """The first key whose result it keeps no longer, or another one."""
        now = dict(self.now())
        key, old = next((k, v) for k, v in self.value if k not in now or not is_or_same(now[k], v))
        new = repr(now[key]) if key in now else "nothing"
        return Change(f"{self.path} for {key!r}", self.cause, repr(old), new)
