"""State that Python keeps in C: asked for by functions that give the same until somebody changes it.

No name leads to the recursion limit, to the rounding of `decimal` or to whether a lock is taken. So the question is
kept: a guard asks again, and compares the answers.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from io import BytesIO, StringIO
from queue import SimpleQueue
from types import BuiltinFunctionType, ModuleType
from typing import Any

from tapec import garbage
from tapec.compiled.guards.places import Place
from tapec.compiled.retraces import Cause

#: Functions without arguments that only tell, by name: the modules or the classes that have them.
_TELLING = {
    "_get_extobj_dict": ("numpy._core._multiarray_umath", "_multiarray_umath"),
    "_ncallbacks": ("atexit",),
    "cache_info": ("_lru_cache_wrapper",),
    "empty": ("SimpleQueue",),
    "get_debug": ("gc",),
    "get_int_max_str_digits": ("sys",),
    "get_traceback_limit": ("_tracemalloc",),
    "getdefaulttimeout": ("_socket",),
    "getrecursionlimit": ("sys",),
    "getswitchinterval": ("sys",),
    "getvalue": ("BytesIO", "StringIO"),
    "is_enabled": ("faulthandler",),
    "is_tracing": ("_tracemalloc",),
    "isenabled": ("gc",),
    "localeconv": ("_locale",),
    "locked": ("lock", "RLock"),
    "qsize": ("SimpleQueue",),
}


def _locale() -> Any:
    module: Any = sys.modules["_locale"]
    return module.setlocale(module.LC_ALL)


def _handlers() -> Any:
    return [signal.getsignal(number) for number in sorted(signal.valid_signals())]


def rounding_of(context: Any) -> Any:
    """How a context of `decimal` computes; not the flags, which computing sets."""
    return (
        context.prec,
        context.rounding,
        context.Emin,
        context.Emax,
        context.capitals,
        context.clamp,
        tuple(context.traps.values()),
    )


def _decimal() -> Any:
    return rounding_of(sys.modules["decimal"].getcontext())


def _longest_field() -> Any:
    return sys.modules["_csv"].field_size_limit()


#: Functions that take arguments, which are not seen: what to ask in their place, and how to call it.
_INSTEAD: dict[tuple[str, str], tuple[Callable[[], Any], str]] = {
    ("_locale", "setlocale"): (_locale, "locale.setlocale(locale.LC_ALL)"),
    ("_locale", "strcoll"): (_locale, "locale.setlocale(locale.LC_ALL)"),
    ("_locale", "strxfrm"): (_locale, "locale.setlocale(locale.LC_ALL)"),
    ("_csv", "field_size_limit"): (_longest_field, "csv.field_size_limit()"),
    ("gc", "get_threshold"): (garbage.thresholds, "gc.get_threshold()"),
    ("_signal", "getsignal"): (_handlers, "signal.getsignal"),
}
#: What is somebody's own, and holds what code puts into it.
_HOLDING = (BytesIO, StringIO, SimpleQueue, type(lru_cache(len)))
#: The names of all of them.
NAMES = frozenset([*_TELLING, *(name for _, name in _INSTEAD)])


class Settings:
    """What one trace asked."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._answers: dict[Any, Answer] = {}
        #: The same of things that code changes in place, before it does; nobody need ask.
        self._held: dict[Any, Answer] = {}

    def called(self, function: BuiltinFunctionType) -> None:
        """Hear of a call of a function in C."""
        name = function.__name__
        owner = function.__self__
        if name == "get_threshold":
            garbage.as_usual()  # of which it is about to tell
        named = owner.__name__ if isinstance(owner, ModuleType | type) else type(owner).__name__
        if named in _TELLING.get(name, ()):
            self._ask((id(owner), name), function, f"{named}.{name}()")
        elif (named, name) in _INSTEAD:
            question, path = _INSTEAD[named, name]
            self._ask(question, question, path)

    def found(self, thing: Any) -> None:
        """Hear of an object in reach."""
        if isinstance(thing, _HOLDING) and not getattr(thing, "closed", False):
            kind = type(thing).__name__
            for name in (name for name, kinds in _TELLING.items() if kind in kinds):
                answer = Answer(getattr(thing, name), f"{kind}.{name}()")
                self._held.setdefault((id(thing), name), answer)
        decimal = sys.modules.get("decimal")
        if decimal is None:
            return
        if isinstance(thing, decimal.Context):
            self._ask(id(thing), lambda: rounding_of(thing), "a decimal.Context")
        elif thing is decimal or thing is decimal.Decimal or type(thing) is decimal.Decimal:
            self._ask(_decimal, _decimal, "decimal.getcontext()")

    def _ask(self, key: Any, question: Callable[[], Any], path: str) -> None:
        if key not in self._answers:
            self._answers[key] = Answer(question, path)

    def places(self) -> Iterator[Place]:
        """What to ask before each call; what the trace itself changed of Python's is no state of its own."""
        for key, answer in self._answers.items():
            if key in self._held:
                yield self._held[key]
            elif answer.holds():
                yield answer


class Answer(Place):
    """What a function without arguments gives."""

    def __init__(self, question: Callable[[], Any], path: str) -> None:
        super().__init__(question, None, question(), path, Cause.CONTENTS)

    def now(self) -> Any:
        """What it gives now."""
        return self.owner()

    def source(self, owner: str, value: str) -> str:
        """A comparison of both."""
        return f"{owner}() == {value}"

    def holds(self) -> bool:
        """Whether it is the same; what is closed gives nothing."""
        try:
            return bool(self.owner() == self.value)
        except ValueError:
            return False
