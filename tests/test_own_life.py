"""What comes and goes in a process by itself, and what a registry has for others, is no change."""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import tapec
from tapec.compiled.retraces import RetraceWarning


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


#: A function that counts how often it runs.
_COUNTING = """
import functools
class Count: runs = 0
@functools.{how}
def g(k):
    Count.runs += 1
    return 2.0 * k
"""


@pytest.mark.parametrize("how", ["cache", "lru_cache(maxsize=4)"])
def test_a_function_behind_a_cache_runs_again_where_its_result_is_gone(how: str) -> None:
    """It may change state, as here; what the cache has for other arguments comes and goes."""
    space: dict[str, Any] = {"tapec": tapec, "__name__": "__main__"}
    exec(_COUNTING.format(how=how), space)
    g, counted, x = space["g"], space["Count"], tapec.constant(1.0)
    g(1)
    f = tapec.compile(eval("lambda x: x * g(3)", space))
    for other in range(10, 20):
        assert float(f(x)) == 6
        g(other)
        g(3)
    assert len(f.programs) == 1
    for gone in (g.cache_clear, lambda: [g(other) for other in range(30, 34)], g.cache_clear):
        gone()
        before, kept = counted.runs, g.cache_info().maxsize is None and gone != g.cache_clear
        assert float(f(x)) == float(f(x)) == 6
        assert counted.runs == before + (not kept)


@pytest.mark.parametrize("how", ["cache", "lru_cache(maxsize=1)"])
def test_what_a_function_behind_a_cache_counts_is_read_as_it_is(how: str) -> None:
    space: dict[str, Any] = {"tapec": tapec, "__name__": "__main__"}
    exec(_COUNTING.format(how=how), space)
    g, x = space["g"], tapec.constant(1.0)
    for text in ("x * g(3) + Count.runs", "x * g(3) + g.cache_info().misses"):
        f = tapec.compile(eval(f"lambda x: {text}", space))
        for change in (g.cache_clear, lambda: g(4)):
            change()
            assert float(f(x)) == float(f.python_function(x)) == float(f(x))


def test_what_a_function_makes_for_itself_ends_when_it_does() -> None:
    """So a weak container does not have it any more where the function looks."""
    space: dict[str, Any] = {"tapec": tapec, "weakref": weakref, "__name__": "__main__"}
    exec("class A:\n def __init__(self): every.add(self)\nevery = weakref.WeakSet()\nA()", space)
    f = tapec.compile(eval("lambda x: x * (A() is not None) + len(every)", space))
    assert float(f(tapec.constant(1.0))) == float(f.python_function(tapec.constant(1.0))) == 1


def test_of_very_many_objects_that_a_package_goes_over_the_first_are_watched_and_that_is_said() -> (
    None
):
    package: dict[str, Any] = {"__name__": "many"}
    code = "class Part: rate = 1.0\nparts = [Part() for _ in range(5000)]\n"
    code += (
        "def total():\n    found = 0.0\n    for part in parts: found += part.rate\n    return found"
    )
    exec(compile(code, "/site-packages/many.py", "exec"), package)
    space: dict[str, Any] = {"total": package["total"], "__name__": "__main__"}
    f, x = tapec.compile(eval("lambda x: x * total()", space), name="f"), tapec.constant(1.0)
    with pytest.warns(RetraceWarning, match=r"f is traced through total.*more than\s4096") as told:
        assert float(f(x)) == 5000
    assert "/site-packages/many.py:3" in str(told[0].message)
    assert told[0].filename == __file__
    package["parts"][7].rate = 2.0
    with pytest.warns(RetraceWarning):
        assert float(f(x)) == 5001


def test_what_was_closed_is_seen_by_who_reads_it() -> None:
    """A call that does not read it any more goes on; one that does gets Python's error, in its line."""
    space: dict[str, Any] = {"__name__": "__main__", "on": True, "data": bytearray(b"\x02")}
    exec(
        "import io, mmap\nview, text, map = memoryview(data), io.StringIO('3'), mmap.mmap(-1, 4)",
        space,
    )
    returns = "x * (view[0] + float(text.getvalue()) + map[0]) if on else x"
    f, x = tapec.compile(eval(f"lambda x: {returns}", space)), tapec.constant(1.0)
    assert float(f(x)) == 5
    view, space["on"] = space["view"], False
    for end in (view.release, space["text"].close, space["map"].close):
        end()
        assert float(f(x)) == 1
    assert ("view", "nothing") in {(c.path, c.new) for c in f.programs[0].state.changes()}
    space["on"] = True
    with pytest.raises(ValueError, match="released memoryview") as raised:
        f(x)
    assert raised.traceback[-1].name == "<lambda>"


#: What a function asks a dict for, by constant keys alone.
_ONE_KEY = {
    "h['k']": 2.0,
    "h.get('k', 1.0)": 2.0,
    "h.get('none', 1.0)": 1.0,
    "'k' in h": 1.0,
    "held.h['k']": 2.0,
    "inner()": 2.0,
}


@pytest.mark.parametrize("question", _ONE_KEY)
def test_other_keys_of_a_dict_come_and_go(question: str) -> None:
    """As the losses do that are collected beside the settings of a step."""
    space: dict[str, Any] = {"h": {"k": 2.0, "loss": []}, "__name__": "__main__"}
    exec("class Held: pass\nheld = Held(); held.h = h\ndef inner():\n d = h\n return d['k']", space)
    f, x, h = (
        tapec.compile(eval(f"lambda x: x * ({question})", space)),
        tapec.constant(1.0),
        space["h"],
    )
    for n in range(4):
        assert float(f(x)) == _ONE_KEY[question]
        h["loss"].append(n)
        h[n] = n
    assert len(f.programs) == 1
    h |= {"none": 5.0, "k": 5.0}
    assert float(f(x)) == float(f.python_function(x))
    h["k"] = 7.0
    assert float(f(x)) == float(f.python_function(x))


@pytest.mark.parametrize(
    ("before", "count", "read"),
    [
        ("n = 0.0", "global n; n += 1", "n"),
        ("class A: n = 0.0\na = A(); a.n = 0.0", "a.n += 1", "a.n"),
        ("d = {'n': 0.0}", "d['n'] += 1", "d['n']"),
        ("d = {'n': 0.0}\ne = d", "d['n'] += 1", "e['n']"),
        ("d = [0.0]", "d[0] += 1", "d[0]"),
        ("d = {'n': 0.0}", "d.setdefault('n', 5.0); d['n'] += 1", "d.get('n')"),
    ],
)
def test_a_number_that_a_function_counts_and_a_helper_reads(
    before: str, count: str, read: str
) -> None:
    """The helper is met after the number has changed: it is no input that each call would find as it was."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(f"{before}\ndef g(x): return x * {read}\ndef f(x):\n {count}\n return g(x)", space)
    f, x = tapec.compile(space["f"]), tapec.constant(1.0)
    assert [float(f(x)) for _ in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_module_that_is_loaded_again_has_functions_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code is equal to that of the functions before, and is not the same."""
    (tmp_path / "loaded_again.py").write_text(
        "def counted(x, seen=[]):\n    seen.append(1)\n    return x * len(seen)\n\n\n"
        "def f(x):\n    return counted(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module, x = importlib.import_module("loaded_again"), tapec.constant(1.0)
    for _ in range(3):
        f = tapec.compile(module.f)
        assert [float(f(x)) for _ in range(3)] == [1.0, 2.0, 3.0]
        importlib.reload(module)
