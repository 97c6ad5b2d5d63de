"""What functions change that a branch or loop over tensors calls: what Python does to that, or it is refused."""

from __future__ import annotations

import linecache
from collections import ChainMap, defaultdict, deque
from collections.abc import Callable, Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest
from both_compiled import scalar

import tapec
from tapec import errors

_METHOD = "class C:\n    h = {0}\n    def g(self, v):\n        self.h{1} = v\nc = C(); g = c.g"
_CLOSED = "def made():\n    h = {0}\n    def g(v):\n        {2}h{1} = v\n    return g, lambda: h{1}\ng, h = made()"

#: What is there, with a function ``g`` that changes it, and what is asked for behind.
CHANGES = {
    "list": ("H = [1.0]\ndef g(v): H[0] = v", "H[0]"),
    "two calls deep": ("H = [1.0]\ndef k(v): H[0] = v\ndef g(v): k(v)", "H[0]"),
    "popped": ("H = [1.0, 2.0]\ndef g(v): H.insert(0, H.pop() + v)", "H[0]"),
    "new key": ("H = defaultdict(float)\ndef g(v): H['k'] += v", "H['k']"),
    "chain": ("H = ChainMap({}, {'k': 1.0})\ndef g(v): H['k'] = v", "H['k']"),
    "mapping": ("H = Mapping()\ndef g(v): H.update(k=v)", "H['k']"),
    "deque": ("class D(deque):\n    def g(self, v): self[0] = v\nH = D([1.0]); g = H.g", "H[0]"),
    "method": (_METHOD.format("0.0", ""), "c.h"),
    "class": (
        "class C:\n    h = 0.0\n    @classmethod\n    def g(cls, v): cls.h = v\ng = C.g",
        "C.h",
    ),
    "slot": ("class C:\n    __slots__ = ('h',)\nc = C(); c.h = 0.0\ndef g(v): c.h = v", "c.h"),
    "property": (
        "class C:\n    _h = 0.0\n    h = property(lambda c: c._h, lambda c, v: setattr(c, '_h', v))\n"
        "c = C()\ndef g(v): c.h = v",
        "c.h",
    ),
    "by name": ("class C: pass\nc = C(); c.h = 0.0\ndef g(v): c.__dict__['h'] = v", "c.h"),
    "global": ("H = 1.0\ndef g(v):\n    global H\n    H += v", "H"),
    "closure": (_CLOSED.format("0.0", "", "nonlocal h; "), "h()"),
    "list in a closure": (_CLOSED.format("[0.0]", "[0]", ""), "h()"),
    "default": ("def g(v, h=[0.0]): h[0] = v; return h", "g.__defaults__[0][0]"),
    "of the function": ("def g(v): g.h = v\ng.h = 0.0", "g.h"),
    "method kept": ("H = [1.0]\nput = H.__setitem__\ndef g(v): put(0, v)", "H[0]"),
    "generator": ("H = [1.0]\ndef k(v):\n    H[0] = v; yield\ndef g(v): return [*k(v)]", "H[0]"),
    "context": ("H = ContextVar('H', default=0.0)\ndef g(v): H.set(v)", "H.get()"),
}
#: The same, where no program can choose between what two branches leave.
ARRAYS = {
    "array": ("H = np.zeros(1)\ndef g(v): H[0] = v", "H[0]"),
    "two calls deep": ("H = np.zeros(1)\ndef k(v): H.fill(v)\ndef g(v): k(v)", "H[0]"),
    "of a class": (_METHOD.format("np.zeros(1)", "[0]"), "c.h[0]"),
    "in a closure": (_CLOSED.format("np.zeros(1)", "[0]", ""), "h()"),
    "of an object in a list": (
        "class C: pass\nc = C(); c.h = np.zeros(1); L = [c]\ndef g(v):\n    for k in L: k.h[0] = v",
        "c.h[0]",
    ),
    "view": ("H = np.zeros(2); V = H[:1]\ndef g(v): V[0] = v", "H[0]"),
    "output": ("H = np.zeros(1)\ndef g(v): np.multiply(1.0, v, out=H)", "H[0]"),
}

#: What branches and loops call ``g`` in, and what they give is added to.
BRANCHES = {
    "one": "    g(5.0)\n    if a > 0:\n        g(2.0)\n",
    "if": "    if a > 0:\n        g(2.0)\n    else:\n        g(3.0)\n",
    "cond": "    tapec.cond(a > 0, lambda: [g(2.0), 0][1], lambda: [g(3.0), 0][1])\n",
    "case": "    tapec.case([(a > 0, lambda: [g(2.0), 0][1])], lambda: [g(3.0), 0][1])\n",
}
LOOPS = {
    "for": "    for i in tapec.range(3):\n        g(2.0)\n",
    "while_loop": "    tapec.while_loop(lambda i: i < 3, lambda i: [[g(2.0), i + 1][1]], [0])\n",
    "map_fn": "    tapec.map_fn(lambda e: [g(2.0), e][1], tapec.range(3))\n",
    "scan": "    tapec.scan(lambda s, e: [g(2.0), s + e][1], tapec.range(3), 0)\n",
}


class Mapping(MutableMapping[Any, Any]):
    """A user's own."""

    def __init__(self) -> None:
        self._held = {"k": 1.0}

    def __getitem__(self, key: Any) -> Any:
        return self._held[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._held[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._held[key]

    def __iter__(self) -> Any:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


SPACE = {c.__name__: c for c in (ChainMap, ContextVar, Mapping, defaultdict, deque)}


def function(name: str, made: str, statement: str, result: str) -> Callable[[Any], Any]:
    """A function that calls one which changes what is there; both are made anew."""
    source = f"{made}\ndef f(a):\n{statement}    return a * {result}\n"
    file = f"<{name}>"
    linecache.cache[file] = (1, None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {**SPACE, "np": np, "tapec": tapec, "__name__": "reached"}
    exec(compile(source, file, "exec"), space)
    found: Callable[[Any], Any] = space["f"]
    return found


def crossed(names: Iterable[str], forms: Iterable[str]) -> list[tuple[str, str]]:
    """The first of some forms with every name, the others with the first name."""
    names, (first, *others) = list(names), forms
    return [*((name, first) for name in names), *((names[0], form) for form in others)]


@pytest.mark.parametrize(("name", "branch"), crossed(CHANGES, BRANCHES))
def test_called_functions_change_what_python_says(name: str, branch: str) -> None:
    made, result = CHANGES[name]
    for value in (2.0, -2.0):
        f, eager = (function(f"{branch} {name}", made, BRANCHES[branch], result) for _ in range(2))
        program = tapec.compile(f, jit=False)
        assert float(program(scalar(value))) == float(eager(scalar(value)))


@pytest.mark.parametrize(("name", "branch"), crossed(ARRAYS, BRANCHES))
def test_arrays_that_called_functions_write_are_refused(name: str, branch: str) -> None:
    made, result = ARRAYS[name]
    f = function(f"array {branch} {name}", made, BRANCHES[branch], result)
    with pytest.raises(errors.TypeError, match=r"holds \[.*(?s:.*)(if a >|cond|case)"):
        tapec.compile(f)(scalar(2.0))


@pytest.mark.parametrize(
    ("name", "loop"), [*crossed(CHANGES, LOOPS), *crossed([f"array {n}" for n in ARRAYS], LOOPS)]
)
def test_a_loop_that_calls_what_changes_something_is_refused(name: str, loop: str) -> None:
    made, result = ({f"array {n}": case for n, case in ARRAYS.items()} | CHANGES)[name]
    f = function(f"{loop} {name}", made, LOOPS[loop], result)
    with pytest.raises(
        errors.TypeError, match=r"before the loop(?s:.*)(for i|while_loop|map|scan)"
    ):
        tapec.compile(f)(scalar(2.0))


def test_what_a_branch_makes_is_its_own() -> None:
    class Memory:
        def __init__(self) -> None:
            self.past: list[Any] = []
            self.total = 0.0

        def put(self, x: Any) -> Any:
            self.past.append(x)
            self.total = self.total + x
            return self

    def put(past: list[Any], x: Any) -> None:
        past.append(x)

    def both(x: Any) -> Any:
        past: list[Any] = []
        put(past, x)
        put(past, x * 3.0)
        return past[1] + Memory().put(x).put(x).total

    @tapec.compile
    def f(x: Any) -> Any:
        return both(x) if x > 0 else x

    assert [float(f(scalar(v))) for v in (2.0, -2.0)] == [10.0, -2.0]


def test_a_layer_is_built_in_a_branch() -> None:
    class Layer:
        built = False
        calls = 0

        def __call__(self, x: Any) -> Any:
            if not self.built:
                self.w = tapec.Variable(2.0)
                self.built, self.calls = True, self.calls + 1
            return x * self.w

    layer = Layer()
    f = tapec.compile(lambda x: layer(x) if x > 0 else layer(x * 3.0))
    assert [float(f(scalar(v))) for v in (2.0, -2.0)] == [4.0, -12.0]
    assert layer.calls == 1


def test_rows_that_choose_are_watched_where_nobody_compiles() -> None:
    table = np.zeros(1)

    def noted(x: Any) -> Any:
        table[0] = 1.0
        return x

    with pytest.raises(errors.TypeError, match=r"^table holds \[1"):
        tapec.vectorized_map(
            lambda x: tapec.cond(x > 0.0, lambda: noted(x), lambda: -x), tapec.constant([1.0, 2.0])
        )


#: Functions that keep notes of the trace for Python.
NOTES = {
    "count": "class C:\n    n = 0\n    def g(self, x):\n        self.n += 1\n        return x * 2\ng = C().g",
    "count that it reads": (
        "N = 0\ndef g(x):\n    global N\n    N += 1\n    if N % 100 == 0: print(N)\n    return x * 2"
    ),
    "history": "H = {}\ndef g(x):\n    H['n'] = H.get('n', 0) + 1; H['t'] = 1.5\n    return x * 2",
    "memory": (
        "M = {}\ndef m(k):\n    if k not in M: M[k] = k * 2.0\n    return M[k]\ndef g(x): return x * m(1)"
    ),
    "made once": (
        "class C:\n    n = None\n    def g(self, x):\n        if self.n is None: self.n = 2.0\n"
        "        return x * self.n\ng = C().g"
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_notes_that_the_program_does_not_read_are_left_alone(name: str) -> None:
    body = "    if a > 0:\n        a = g(a)\n    for _ in tapec.range(2):\n        a = g(a)\n    a = g(a)\n"
    f = tapec.compile(function(f"note {name}", NOTES[name], body, "1.0"), jit=False)
    assert [float(f(scalar(v))) for v in (2.0, -2.0)] == [32.0, -16.0]
