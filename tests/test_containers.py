"""What branches and loops over tensors do to lists and dicts: what Python does to them, or it is refused."""

from __future__ import annotations

import linecache
from array import array
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_compiled import scalar

import tapec
from tapec import errors

LIST = "[a, a * 2, a * 3, a * 4]"
DICT = "{'p': a, 'q': a * 2}"

#: What is there, what either branch does to it, and what is asked for behind.
ALIKE = {
    "pop": (LIST, "h.pop()", "h.pop(0)", "h[0] + h[1] * 10"),
    "popped value": (LIST, "x = h.pop()", "x = h.pop(0)", "x + h[0] * 10"),
    "in an expression": (LIST, "x = 0", "x = 0", "(h.pop() if a > 0 else h.pop(0)) + h[0] * 10"),
    "insert": (LIST, "h.insert(0, a * 9)", "h.append(a * 7)", "h[0] + h[4]"),
    "insert a number": (LIST, "h.insert(0, 9.0)", "h.insert(1, 7.0)", "h[0] + h[1]"),
    "reverse": (LIST, "h.reverse()", "pass", "h[0]"),
    "del": (LIST, "del h[0]", "del h[1]", "h[0]"),
    "clear": (LIST, "h.clear(); h.append(a)", "h.clear(); h.append(a * 5)", "h[0]"),
    "slice": (LIST, "h[:2] = [a * 7]", "h[1:3] = [a * 8]", "h[0] + h[1]"),
    "in place": (LIST, "h += [a * 7]", "h += [a * 8]", "h[4]"),
    "another name": (LIST, "g = h; g.append(a * 7)", "g = h; g.pop(); g.insert(0, a); g.append(a)", "h[4]"),
    "part": (f"[{LIST}, [a]]", "g = h[0]; g.reverse()", "pass", "h[0][1]"),
    "deque": (f"deque({LIST})", "h.appendleft(a * 7)", "h.rotate(1); h.append(a)", "h[0]"),
    "dict": (DICT, "h |= {'p': a * 7}", "h.update(p=a * 8)", "h['p']"),
    "del key": (DICT, "del h['p']", "h.pop('p')", "len(h) * h['q']"),
    "new keys in another order": (DICT, "h['r'] = a; h['s'] = a * 3", "h['s'] = a; h['r'] = a * 5", "h['r'] - h['s']"),
    "order": (f"OrderedDict({DICT})", "h.move_to_end('p')", "h['p'] = h.pop('p')", "[*h.values()][0]"),
    "in a nested function": (f"{LIST}; g = lambda: h.pop()", "g()", "h.pop(0)", "h[0] + h[1] * 10"),
    "user's list": (f"UserList({LIST})", "h.pop()", "h.pop(0)", "h[0] + h[1] * 10"),
    "user's dict": (f"UserDict({DICT})", "h['r'] = a", "h['r'] = a * 7", "h['r'] + h['p']"),
    "array": ("np.zeros(2, 'f')", "h[0] = 1.0", "h += (1.0, 0.0)", "a * h.sum()"),
    "array that stays": ("np.ones(2, 'f')", "x = h[0]", "x = h.sum()", "a * x + h[1]"),
    "array with another shape": ("np.zeros((2, 1), 'f')", "h.resize(1, 2)", "h.resize(1, 2)", "a * h.shape[0]"),
    "array and a view of it": (
        "np.zeros(4, 'f'); g = h[:2]",
        "h[0] = 5.0; h[3] = 1.0; x = g[0]",
        "x = g[0]; h[0] = 5.0; h[3] = 1.0",
        "a * h.sum()",
    ),
    "array with a mask": ("np.ma.array([1.0, 2.0])", "h[0] = np.ma.masked", "h[:1] = np.ma.masked", "a * h.sum()"),
    "noted in a set": ("{1, 2}", "h.add(0)", "pass", "a * 2"),
    "bytes": ("bytearray(b'ab')", "h[0] = 9", "h[:1] = b'\t'", "a * sum(h)"),
}  # fmt: skip
#: The same, where the branches leave something that no program can choose between.
UNLIKE = {
    "pop": (LIST, "h.pop()", "pass", "h[-1]"),
    "del key": (DICT, "del h['p']", "pass", "h.get('p', a)"),
    "keys": (DICT, "h.pop('p')", "h.pop('q')", "[*h.values()][0]"),
    "order": (f"OrderedDict({DICT})", "h.move_to_end('p')", "pass", "[*h.values()][0]"),
    "set": ("{1, 2}", "h.discard(1)", "pass", "a * sum(h)"),
    "array": ("np.zeros(2)", "h[0] = 1.0", "h[1] = 1.0", "a * h.sum()"),
    "array in place": ("np.zeros(2)", "h += 1", "pass", "a * h.sum()"),
    "array filled": ("np.zeros(2)", "h.fill(1.0)", "h.fill(2.0)", "a * h.sum()"),
    "array copied to": ("np.zeros(2)", "np.copyto(h, 1.0)", "pass", "a * h.sum()"),
    "array sorted": ("np.array([2.0, 1.0])", "h.sort()", "pass", "a * h[0]"),
    "array's mask": ("np.ma.array([1.0, 2.0])", "h[0] = np.ma.masked", "pass", "a * h.sum()"),
    "array's sign": ("np.zeros(2)", "h *= -1.0", "pass", "a / h[0]"),
    "array of objects": ("np.full(2, None)", "h[1] = a", "h[1] = a * 2", "h[1]"),
    "array in a nested function": (
        "np.zeros(2); g = lambda: h.fill(1.0)",
        "g()",
        "pass",
        "a * h.sum()",
    ),
    "bytes": ("bytearray(2)", "h[0] = 1", "h[1] = 1", "a * h[0]"),
    "bytes of another": ("memoryview(bytearray(2))", "h[0] = 1", "pass", "a * h[0]"),
    "numbers": ("array('d', [1.0, 2.0])", "h.reverse()", "h.pop()", "a * h[0]"),
}

#: What the programs name.
SPACE = {c.__name__: c for c in (OrderedDict, UserDict, UserList, array, deque)} | {"np": np}


def function(name: str, make: str, one: str, other: str, result: str) -> Callable[[Any], Any]:
    """A function that makes something, does one of two things to it, and computes with it."""
    lines = [
        "def f(a):",
        f"    h = {make}",
        "    if a > 0:",
        f"        {one}",
        "    else:",
        f"        {other}",
        f"    return {result}",
    ]
    file = f"<{name}>"
    linecache.cache[file] = (1, None, [line + "\n" for line in lines], file)
    space: dict[str, Any] = dict(SPACE)
    exec(compile("\n".join(lines), file, "exec"), space)
    found: Callable[[Any], Any] = space["f"]
    return found


@pytest.mark.parametrize("name", ALIKE)
def test_a_branch_changes_a_container_as_python_does(name: str) -> None:
    f = function(f"alike {name}", *ALIKE[name])
    step = tapec.compile(f)
    for value in (2.0, -2.0):
        assert float(step(scalar(value))) == float(f(scalar(value)))


@pytest.mark.parametrize("name", UNLIKE)
def test_branches_that_leave_unlike_containers_are_refused(name: str) -> None:
    f = function(f"unlike {name}", *UNLIKE[name])
    with pytest.raises(errors.TypeError, match=r"^h holds .*(?s:.*)if a > 0:"):
        tapec.compile(f)(scalar(2.0))


def test_what_is_only_noted_is_noted_once_for_each_branch() -> None:
    seen: list[str] = []

    @tapec.compile
    def f(x: Any) -> Any:
        y = x
        if x > 0:
            seen.append("one")
        else:
            seen.append("other")
            y = -x
        return y

    assert float(f(scalar(-2.0))) == 2.0
    assert seen == ["one", "other"]


def test_a_container_of_an_object_is_followed() -> None:
    class Memory:
        def __init__(self, x: Any) -> None:
            self.past = [x, x * 2.0]

        def __call__(self, x: Any) -> Any:
            if x > 0:
                self.past.pop(0)
                self.past.append(x)
            else:
                self.past.insert(0, self.past.pop())
            return self.past[0]

    step = tapec.compile(lambda x: Memory(x)(x))
    assert [float(step(scalar(v))) for v in (3.0, -3.0)] == [6.0, -6.0]


@pytest.mark.parametrize("change", ["h.pop()", "h.reverse()", "h.append(h.pop(0))", "h[:2] = []"])
@pytest.mark.parametrize("head", ["for i in tapec.range(2):", "while a < 9:"])
def test_a_loop_that_changes_a_container_is_refused(head: str, change: str) -> None:
    source = f"def f(a):\n    h = {LIST}\n    {head}\n        a = a + h[0]\n        {change}\n    return h[0]\n"
    file = f"<loop {head} {change}>"
    linecache.cache[file] = (1, None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"tapec": tapec}
    exec(compile(source, file, "exec"), space)
    with pytest.raises(errors.TypeError, match=r"^h holds 4 items before the loop"):
        tapec.compile(space["f"])(scalar(2.0))


def test_a_loop_that_writes_to_an_array_is_refused() -> None:
    @tapec.compile
    def f(a: Any) -> Any:
        h = np.zeros(2)
        while a < 9:
            a = a + 1
            h[0] += 1
        return a * h.sum()

    with pytest.raises(
        errors.TypeError, match=r"^h holds \[0., 0.\] before .*\[1., 0.\](?s:.*)while a < 9:"
    ):
        f(scalar(2.0))


def test_a_loop_reads_an_array_whose_fields_have_room_between_them() -> None:
    """Copies of an array need not have what lies there."""
    h = np.frombuffer(bytearray(range(32)), np.dtype("i1, f8", align=True))

    @tapec.compile
    def f(a: Any) -> Any:
        while a < 20:
            a = a + float(h["f0"][1])
        return a

    assert float(f(scalar(2.0))) == 34.0


def test_an_array_of_an_object_is_followed() -> None:
    class Counts:
        def __init__(self) -> None:
            self.h = np.zeros(2)

        def __call__(self, x: Any) -> Any:
            if x > 0:
                self.h.fill(1.0)
            return x * self.h.sum()

    step = tapec.compile(lambda x: Counts()(x))
    with pytest.raises(errors.TypeError, match=r"^self\.h holds \[1., 1.\] .*(?s:.*)if x > 0:"):
        step(scalar(3.0))


def test_a_function_that_calls_itself_for_ever_says_why() -> None:
    def halved(x: Any) -> Any:
        return x if x < 1 else halved(x * 0.5)

    with pytest.raises(RecursionError) as caught:
        tapec.compile(halved)(scalar(2.0))
    assert "use a while loop" in caught.value.__notes__[0]
