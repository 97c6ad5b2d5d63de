"""What comes and goes in a process by itself, and what a registry has for others, is no change."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest

import tapec


class Thing:
    """Something that weak references may lead to."""

    k = 2.0


class Registry:
    """What many things share."""

    def __init__(self) -> None:
        self.thing = Thing()
        self.weak = weakref.WeakSet([self.thing])
        self.by_thing = weakref.WeakKeyDictionary({self.thing: 2.0})
        self.by_name = weakref.WeakValueDictionary({"thing": self.thing})
        self.end = weakref.finalize(self.thing, print)
        self.end.atexit = False

    def take(self, other: Thing) -> None:
        """Enter another thing everywhere."""
        self.weak.add(other)
        self.by_thing[other] = 5.0
        self.by_name["other"] = other
        weakref.finalize(other, int).atexit = False


#: What a function asks of a registry, and how that is made to be something else.
QUESTIONS = {
    "r.end.alive": "r.end.detach()",
    "r.end.peek() is not None": "r.end.detach()",
    "r.thing in r.weak": "r.weak.discard(r.thing)",
    "r.thing in r.by_thing": "del r.by_thing[r.thing]",
    "r.by_thing[r.thing] - 1": "r.by_thing[r.thing] = 4.0",
    "r.by_thing.get(r.thing, 0.0) - 1": "del r.by_thing[r.thing]",
    "'thing' in r.by_name": "del r.by_name['thing']",
    "r.by_name['thing'].k - 1": "r.by_name['thing'].k = 4.0",
    "r.by_name.get('thing') is not None": "del r.by_name['thing']",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_others_have_in_a_registry_is_no_change(question: str) -> None:
    """Other objects come, go and end between the calls; then the one that was asked for does."""
    space: dict[str, Any] = {"tapec": tapec, "r": Registry(), "__name__": "__main__"}
    exec(f"@tapec.compile\ndef f(x): return x * ({question})", space)
    r, f, x = space["r"], space["f"], tapec.constant(2.0)
    assert float(f(x)) == 2
    for _ in range(2):
        other = Thing()
        r.take(other)
        assert float(f(x)) == 2
        del other
        gc.collect()
        assert float(f(x)) == 2
    assert len(f.programs) == 1, f.retraces()
    exec(QUESTIONS[question], space)
    assert float(f(x)) == float(f.python_function(x)) != 2
    assert len(f.programs) == 2


def test_no_program_keeps_what_a_weak_container_has() -> None:
    space: dict[str, Any] = {"tapec": tapec, "r": Registry(), "__name__": "__main__"}
    exec("@tapec.compile\ndef f(x): return x * sum(t.k for t in r.weak)", space)
    space["r"].take(other := Thing())
    assert float(space["f"](tapec.constant(1.0))) == 4
    ended = weakref.ref(other)
    del other
    gc.collect()
    assert ended() is None
    assert float(space["f"](tapec.constant(1.0))) == 2


#: One who finds modules for Python's import, of a package that is installed.
_FINDER = """
class Finder:
    asked = 0
    def find_spec(self, name, path=None, target=None):
        return self.known() if self.asked else None
    def known(self): return None
"""


def test_who_finds_modules_is_no_state_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test runner, or a debugger, has such objects, which change all the time."""
    package: dict[str, Any] = {"__name__": "finding"}
    exec(compile(_FINDER, "/site-packages/finding.py", "exec"), package)
    finder = package["Finder"]()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    space: dict[str, Any] = {"tapec": tapec, "__name__": "__main__"}
    exec("@tapec.compile\ndef f(x):\n    import colorsys\n    return x * colorsys.ONE_SIXTH", space)
    for asked in range(3):
        finder.asked = asked
        space["f"](tapec.constant(6.0))
    assert len(space["f"].programs) == 1
