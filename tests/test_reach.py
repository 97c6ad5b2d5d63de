"""What functions change that a branch or loop over tensors calls: what Python does to that, or it is refused."""

from __future__ import annotations

import linecache
from collections import ChainMap, defaultdict, deque
from collections.abc import Callable, Iterable, MutableMapping
from contextvars import ContextVar
from functools import cached_property
from io import StringIO
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from both_compiled import both, scalar

import tapec
from tapec import errors
from tapec.autograph.buffers import ArrayBuffer

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
    "view": ("H = {'k': 1.0}; V = H.values()\ndef g(v): H['k'] = v", "next(iter(V))"),
    "proxy": ("D = {'k': 1.0}; H = mappingproxy(D)\ndef g(v): D['k'] = v", "H['k']"),
    "weak": ("class C: pass\nc = C(); H = WeakKeyDictionary({c: 1.0})\ndef g(v): H[c] = v", "H[c]"),
    "default of another": ("def k(v=0.0): return v\ndef g(v): k.__defaults__ = (v,)", "k()"),
    "remembered": (
        "class C:\n    p = cached_property(lambda c: c.n)\nc = C(); c.n = 1.0\n"
        "def g(v): c.n = v; c.__dict__.pop('p', None); c.p",
        "c.p",
    ),
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
#: The same of what grows, or is made: somebody reads it behind.
COUNTED = {
    "list": ("H = []\ndef g(): H.append(1.0)", "float(len(H))"),
    "texts": ("H = []\ndef g(): H.append('one')", "float(len(H))"),
    "set": ("H = set()\ndef g(): H.add('one')", "float('one' in H)"),
    "bytes": ("H = bytearray()\ndef g(): H.extend(b'xy')", "float(len(H))"),
    "stream": ("H = StringIO()\ndef g(): H.write('xy')", "float(len(H.getvalue()))"),
    "queue": ("H = SimpleQueue()\ndef g(): H.put(1.0)", "float(H.qsize())"),
    "None": ("class C: h = None\nc = C()\ndef g(): c.h = 1.0", "(2.0 if c.h is None else c.h)"),
    "method": ("class C:\n    def m(c): return 1.0\nc = C()\ndef g(): c.m = lambda: 2.0", "c.m()"),
    "code": ("def k(): return 1.0\ndef j(): return 2.0\ndef g(): k.__code__ = j.__code__", "k()"),
    "class": (
        "class A: k = 1.0\nclass B: k = 2.0\nc = A()\ndef g(): c.__class__ = B",
        "c.k",
    ),
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


_CLASSES = (
    ChainMap,
    ContextVar,
    Mapping,
    MappingProxyType,
    SimpleQueue,
    StringIO,
    WeakKeyDictionary,
)
SPACE = {c.__name__: c for c in (*_CLASSES, cached_property, defaultdict, deque)}


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


@pytest.mark.parametrize("name", COUNTED)
def test_what_somebody_reads_behind_is_no_note(name: str) -> None:
    made, result = COUNTED[name]
    f = function(f"counted {name}", made, "    if a > 0:\n        g()\n", result)
    with pytest.raises(errors.TapecError, match=r"(?s)if a > 0:.*hint"):
        tapec.compile(f)(scalar(2.0))


#: Expressions that compute all their operands, and change something in one.
OPERANDS = ("a > 0 and g(a)", "a > 0 or g(a)", "not (a > 0 and g(a))", "0 < a < g(a)")


@pytest.mark.parametrize("expression", OPERANDS)
@pytest.mark.parametrize(
    "made",
    [
        "H = [1.0]\ndef g(v): H[0] = v; return v > 1",
        "H = tapec.Variable(1.0)\ndef g(v): H.assign(v); return v > 1",
    ],
)
def test_operands_that_all_are_computed_change_nothing(expression: str, made: str) -> None:
    made = made.replace("v > 1", "v") if "< a <" in expression else made
    result = "H[0]" if "[" in made else "H"
    f = function(f"operand {expression} {made[:5]}", made, f"    b = {expression}\n", result)
    with pytest.raises(errors.TypeError, match=r"to the right of(?s:.*)b = (?s:.*)an if statement"):
        tapec.compile(f)(scalar(2.0))


#: What a branch or loop changes goes on, where it does not run, with what was there at the call.
BEGINNINGS = {
    "called": (
        "class C:\n    h = 0.0\n    def g(c, v): c.h = v\nc = C()",
        "    if a > 0:\n        c.g(2.0)\n",
        "c.h",
    ),
    "assigned": (
        "class C:\n    h = 0.0\n    def r(c): return c.h\nc = C()",
        "    if a > 0:\n        c.h = 2.0\n",
        "c.r()",
    ),
    "global": (
        "H = 0.0\ndef r(): return H",
        "    global H\n    if a > 0:\n        H = 2.0\n",
        "r()",
    ),
    "closure": (
        _CLOSED.format("0.0", "", "nonlocal h; "),
        "    if a > 0:\n        g(2.0)\n",
        "h()",
    ),
    "loop": (
        "class C:\n    h = 0.0\n    def r(c): return c.h\nc = C()",
        "    for _ in tapec.range(tapec.cast(a > 0, tapec.int32)):\n        c.h = 2.0\n",
        "c.r()",
    ),
    "list": ("H = [0.0]\ndef g(v): H[0] = v", "    if a > 0:\n        g(2.0)\n", "H[0]"),
    "no branch": ("H = [0.0]", "    H[0] = H[0] + a\n", "H[0]"),
    "growing": ("H = []", "    H.append(a)\n", "sum(H)"),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_what_holds_a_tensor_of_a_call_is_refused_at_the_next(name: str) -> None:
    f = tapec.compile(function(f"beginning {name}", *BEGINNINGS[name]), jit=False)
    f(scalar(2.0))
    with pytest.raises(errors.TypeError, match="out of scope"):
        f(scalar(-2.0))


@pytest.mark.parametrize("statement", ["H += 2.0", "H[0] += 2.0; H[9] = 1.0", "H.fill(H[0] + 2.0)"])
@pytest.mark.parametrize(("size", "result"), [(10, "H[0]"), (10, "H"), (10000, "H[0]")])
def test_arrays_that_a_function_itself_changes_are_noticed(
    statement: str, size: int, result: str
) -> None:
    source = (
        f"H = np.ones({size}, np.float32)",
        f"    global H\n    {statement}\n",
        f"tapec.reduce_sum({result})",
    )
    f, eager = (function(f"changed {i}", *source) for i in range(2))
    program = tapec.compile(f, jit=False)
    for value in (2.0, -2.0):
        assert float(program(scalar(value))) == float(eager(scalar(value)))


def test_what_is_cleared_first_is_traced_twice_at_most() -> None:
    f = tapec.compile(
        function("cleared", "H = []", "    H.clear(); H.append(a)\n", "sum(H)"), jit=False
    )
    assert [float(f(scalar(v))) for v in (2.0, -3.0, 4.0, 5.0)] == [4.0, 9.0, 16.0, 25.0]
    assert len(f.programs) == 2


def test_variables_and_objects_of_the_call_are_no_state() -> None:
    def f(a: Any) -> Any:
        s, c = 1.0, Mapping()

        def put() -> None:
            nonlocal s
            s, c._held["k"] = 2.0, 3.0

        if a > 0:
            put()
        return a * s + c["k"]

    program = tapec.compile(f, jit=False)
    assert [float(program(scalar(v))) for v in (2.0, -2.0, 2.0)] == [7.0, -1.0, 7.0]
    assert len(program.programs) == 1


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


def test_branches_share_a_copy_of_an_array_in_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each thing that it held: not one for each branch, nested or one after the other."""
    held, made = np.zeros(3), []
    copied = ArrayBuffer._copy

    def copy(self: ArrayBuffer) -> Any:
        made.append(self.name)
        return copied(self)

    monkeypatch.setattr(ArrayBuffer, "_copy", copy)

    @tapec.compile
    def f(x: Any) -> Any:
        for _ in range(2):
            held[0] += 1.0  # Python's loop: written out
            for _ in tapec.range(2):
                if x > 1.0:
                    x = x + held[1]
            if x > 2.0:
                x = x - held[2]
        return x

    assert float(f(tapec.constant(1.5))) == 1.5
    assert made == ["held"] * 2
    assert held[0] == 2.0


class Slotted:
    """Keeps its attributes without a dict."""

    __slots__ = ("n", "v")
    n: int
    v: Any
    shared: Any = 0.0


def test_attributes_that_a_loop_assigns_may_be_in_slots_and_of_classes() -> None:
    def f(x: Any) -> Any:
        thing = Slotted()
        thing.v, thing.n, Slotted.shared = x, 0, x
        for _ in tapec.range(3):
            thing.v = thing.v * 2.0
            thing.n += 1
            Slotted.shared = Slotted.shared + thing.v
        if x > 0.0:
            thing.v = thing.v + Slotted.shared
        total, Slotted.shared = Slotted.shared, 0.0
        return thing.v, thing.n, total

    for v in (2.0, -2.0):
        both(f, scalar(v))


@pytest.mark.parametrize("v", [2.0, -2.0])
def test_defaults_of_functions_inside_are_changed_as_python_does(v: float) -> None:
    def step(x: Any) -> Any:
        def total(v: Any, held: list[Any] = [0.0]) -> Any:  # noqa: B006
            held[0] = held[0] + v
            return held[0]

        def kept(v: Any, *, held: list[Any] = [x]) -> Any:  # noqa: B006
            held.append(v)
            return held

        if x > 0.0:
            total(x)
            kept(x)
        else:
            y = total(-x)
            kept(y * 2.0)
        return total(0.0), kept(x)[1]

    both(step, scalar(v))
