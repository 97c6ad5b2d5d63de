"""What a compiled function notices of Python state that changes after it was traced."""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import csv
import gc
import importlib.util
import inspect
import logging
import queue
import socket
import sys
import timeit
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any
from uuid import uuid4

import attribute_scripts
import class_scripts
import kept_scripts
import library_scripts
import numpy as np
import package_scripts
import pytest
import state_scripts
from state_scripts import Script

import tapec
from tapec.compiled.guards.library import Library
from tapec.compiled.guards.runs import Run
from tapec.compiled.guards.trails import Trail

SCRIPTS = (
    state_scripts.SCRIPTS
    | attribute_scripts.SCRIPTS
    | class_scripts.SCRIPTS
    | library_scripts.SCRIPTS
    | package_scripts.SCRIPTS
    | kept_scripts.SCRIPTS
)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A script may silence all loggers, or change what the whole process has; other tests find it as it was."""
    thresholds, patience, longest = (
        gc.get_threshold(),
        socket.getdefaulttimeout(),
        csv.field_size_limit(),
    )
    yield
    logging.disable(logging.NOTSET)
    gc.set_threshold(*thresholds)
    socket.setdefaulttimeout(patience)
    csv.field_size_limit(longest)


def started(script: Script) -> dict[str, Any]:
    """The globals of a script after its first call."""
    space: dict[str, Any] = {"tapec": tapec, "np": np, "gc": gc, "__name__": "__main__"}
    exec(script.before, space)
    exec(f"@tapec.compile\ndef f(x): return {script.returns}", space)
    space["input"] = tapec.constant([1.0, -2.0])
    return space


def from_file(script: Script, folder: Path) -> dict[str, Any]:
    """As `started`, from a file, and with control flow over a tensor, so that what runs is converted code."""
    body = f"    if x[0] > 1e9:\n        x = x + 1\n    return {script.returns}\n"
    text = f"import numpy as np\nimport tapec\n{script.before}\n@tapec.compile\ndef f(x):\n{body}"
    file = folder / f"script_{uuid4().hex}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    module.__dict__["input"] = tapec.constant([1.0, -2.0])
    return module.__dict__


def call(space: dict[str, Any], f: Any) -> Any:
    """What ``f`` gives."""
    return f(space["input"]).numpy()


@pytest.mark.parametrize("name", SCRIPTS)
def test_changes_are_noticed(name: str) -> None:
    """The call after the change gives what eager code gives, and says what changed; calls without one trace nothing."""
    contextvars.copy_context().run(
        _test_a_change, name
    )  # settings of NumPy and `decimal` are context variables


def _test_a_change(name: str) -> None:
    script = SCRIPTS[name]
    compiled, eager = started(script), started(script)
    for space in (compiled, eager):
        if "clipnorm" in script.change:
            space["input"] = tapec.constant([3.0, 4.0])
    for _ in range(2):
        expected = call(eager, eager["f"].python_function)
        np.testing.assert_array_equal(call(compiled, compiled["f"]), expected)
    assert len(compiled["f"].programs) == 1
    for space in (compiled, eager):
        exec(script.change, space)
    guard = compiled["f"].programs[0].state
    assert script.names in "\n".join(str(change) for change in guard.changes())
    for _ in range(2):
        changed = call(eager, eager["f"].python_function)
        np.testing.assert_allclose(call(compiled, compiled["f"]), changed, rtol=1e-6)
        assert not np.array_equal(changed, expected)
    assert len(compiled["f"].programs) == 2


CONVERTED = (
    "global",
    "closure",
    "attribute",
    "nested attribute",
    "attribute by a name that is state",
    "attribute that appears",
    "property",
    "method replaced on the object",
    "list of an attribute",
    "objects behind zip",
    "dict entry by get",
    "set membership",
    "array that is input and read",
    "array rebound",
    "global of a function behind a decorator",
    "bound method",
    "keyword default",
    "partial",
    "dataclass field",
    "Variables of a Module",
    "compiled helper",
    "body of a loop",
)


@pytest.mark.parametrize("name", CONVERTED)
def test_changes_are_noticed_in_converted_code(name: str, tmp_path: Path) -> None:
    script = SCRIPTS[name]
    space = from_file(script, tmp_path)
    before = call(space, space["f"])
    np.testing.assert_array_equal(call(space, space["f"]), before)
    assert len(space["f"].programs) == 1
    exec(script.change, space)
    changed = call(space, space["f"].python_function if "loop" not in name else space["f"])
    assert not np.array_equal(changed, before)
    for _ in range(2):
        np.testing.assert_allclose(call(space, space["f"]), changed, rtol=1e-6)
    assert len(space["f"].programs) == 2


def test_what_converted_code_only_changes_is_no_state_that_it_reads(tmp_path: Path) -> None:
    script = Script(
        "calls, counts = [], [0]\ndef note(x):\n    calls.append(1)\n    counts[0] += 1\n    return x",
        "note(x)",
        "",
        "",
    )
    space = from_file(script, tmp_path)
    for _ in range(3):
        call(space, space["f"])
    space["calls"].append(5)
    call(space, space["f"])
    assert space["counts"] == [1]


def test_a_program_is_kept_for_state_that_changes_back() -> None:
    space = started(Script("k = 2.0", "x * k", "", ""))
    for k in (2.0, 3.0, 2.0, 3.0):
        space["k"] = k
        np.testing.assert_array_equal(call(space, space["f"]), np.array([k, -2 * k]))
    assert len(space["f"].programs) == 2


def test_equal_values_are_no_change() -> None:
    space = started(Script("k, t, g = 1000.5, (1, 'a'), lambda x: x", "g(x) * k * t[0]", "", ""))
    call(space, space["f"])
    space["k"], space["t"] = float("1000.5"), (int("1"), "a")
    call(space, space["f"])
    assert len(space["f"].programs) == 1


def test_what_a_function_only_changes_is_no_state_that_it_reads() -> None:
    space = started(
        Script(
            "calls, counts, seen = [], [0], {}\nclass Log: pass\nlog = Log()\nlog.n = 0\n"
            "def note(x):\n calls.append(1); counts[0] += 1; seen[x.shape] = 1; log.n += 1; log.x = x\n return log.x",
            "note(x) * 2",
            "",
            "",
        )
    )
    for _ in range(3):
        call(space, space["f"])
    space["calls"] = [5]
    space["log"].n = 10
    call(space, space["f"])
    assert len(space["f"].programs) == 1
    assert space["counts"] == [1]


def test_a_count_of_calls_counts_calls() -> None:
    """What a function changes and then computes with is traced anew for each call."""
    space = started(
        Script("n = [0]\ndef count():\n n[0] += 1\n return n[0]", "x * count()", "", "")
    )
    got = [call(space, space["f"])[0] for _ in range(3)]
    assert got == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("before", "update", "reads"),
    [
        ("n = 0", "global n; n += 1", "n"),
        ("class A: n = 0\na = A()", "a.n += 1", "a.n"),
        ("class A: n = 0\n", "A.n += 1", "A.n"),
        ("n = [0]", "n[0] += 1", "n[0]"),
    ],
)
def test_what_is_changed_in_place_and_read_counts_calls(
    before: str, update: str, reads: str
) -> None:
    space: dict[str, Any] = {"tapec": tapec, "__name__": "__main__"}
    exec(f"{before}\n@tapec.compile\ndef f(x):\n    {update}\n    return x * {reads}", space)
    assert [float(space["f"](tapec.constant(1.0))) for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_state_that_takes_up_a_tensor_is_refused() -> None:
    space = started(
        Script(
            "class Sum: total = 0.0\ns = Sum()\ndef add(x):\n s.total = s.total + x\n return s.total",
            "add(x)",
            "",
            "",
        )
    )
    call(space, space["f"])
    with pytest.raises(tapec.errors.TypeError, match="it left that function"):
        call(space, space["f"])


def test_elements_of_an_array_are_read_at_each_call() -> None:
    """An array that becomes a tensor is an input: other elements need no other program."""
    script = Script(
        "ks = np.ones(2, np.float32)\ndef g(x, k): return x * k\nclass C: pass\nc = C(); c.ks = ks",
        "tapec.add(x, ks) * len(ks) + (c.ks if x.shape[0] == ks.shape[0] else 0)",
        "",
        "",
    )
    space = started(script)
    for value in (1.0, 5.0, 7.0):
        space["ks"][:] = value
        np.testing.assert_array_equal(call(space, space["f"]), [2 + 3 * value, -4 + 3 * value])
    assert len(space["f"].programs) == 1


def test_large_arrays_are_no_constants() -> None:
    space = started(
        Script("ks = np.ones((300, 300), np.float32)", "x * tapec.reduce_sum(ks)", "", "")
    )
    call(space, space["f"])
    (program,) = space["f"].programs
    assert len(str(program.module)) < 2000
    assert any(c is space["ks"] for c in program.captures)


def test_a_global_tensor_is_taken_by_value_and_that_is_said() -> None:
    space = started(Script("k = tapec.constant(2.0)", "x * k", "", ""))
    before = call(space, space["f"])
    space["k"] = tapec.constant(3.0)
    with pytest.warns(UserWarning, match="goes on with the Tensor that k was"):
        np.testing.assert_array_equal(call(space, space["f"]), before)
    np.testing.assert_array_equal(call(space, space["f"]), before)  # once is enough
    space["k"] = 4.0
    np.testing.assert_array_equal(call(space, space["f"]), before * 2)


def test_guards_are_cheap() -> None:
    """Twenty places of every kind: below a microsecond, with room for a busy machine."""
    lines = "\n".join(f"k{i} = {i}.5" for i in range(8))
    space = started(
        Script(
            f"{lines}\nclass C:\n def __init__(self): self.k = 2.0\ncs = [C() for _ in range(8)]\n"
            "def g(x): return x",
            "g(x) * " + " * ".join(f"k{i} * cs[{i}].k" for i in range(8)),
            "",
            "",
        )
    )
    call(space, space["f"])
    guard = space["f"].programs[0].state
    assert len(guard.places) >= 20
    assert min(timeit.repeat(guard.holds, number=2000, repeat=20)) / 2000 < 1e-6


def test_the_profiler_of_the_user_goes_on() -> None:
    heard = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: heard.append(event))
    try:
        started(Script("", "x * 2", "", ""))["f"](tapec.constant(1.0))
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(before)
    assert "call" in heard


def test_programs_for_states_that_have_passed_are_few() -> None:
    space = started(Script("k = ''", "x * len(k)", "", ""))

    def run() -> None:
        for k in range(40):
            space["k"] = "k" * k
            call(space, space["f"])

    with pytest.warns(UserWarning, match="f was traced again 6 times"):
        run()
    assert len(space["f"].programs) <= 32
    assert len(space["f"].retraces()) == 39


def test_a_function_without_state_is_called_without_a_guard() -> None:
    f = tapec.compile(lambda x: x + 1)
    f(tapec.constant(1.0))
    (program,) = f.programs
    assert program.is_unconditional


def test_a_closure_is_found_though_it_is_frozen() -> None:
    """Nothing that is followed leads to the function, and Python's search leaves out what `gc.freeze` was told of."""

    def made() -> tuple[Any, Any]:
        factor = 2.0

        def scaled(x: Any) -> Any:
            return x * factor

        def change(value: float) -> None:
            nonlocal factor
            factor = value

        return scaled, change

    scaled, change = made()
    hidden = queue.SimpleQueue[Any]()
    for _ in range(2):
        hidden.put(scaled)
    f = tapec.compile(lambda x: hidden.get()(x))
    gc.freeze()
    try:
        assert float(f(tapec.constant(1.0))) == 2
        change(3.0)
        assert float(f(tapec.constant(1.0))) == 3
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_a_change_that_makes_no_difference_is_looked_at_once() -> None:
    """Native code compares identities; what is equal is taken over, and what never rests is left to Python."""
    text = "class C:\n def __init__(self): self.k = 2.5\nc = C()"
    space = started(Script(text, "x * c.k", "", ""))
    for turn in range(20):
        space["c"].k = float("2.5")  # another object each time
        space["c"].other = turn
        call(space, space["f"])
        assert space["f"].programs[0].state.holds()
    assert len(space["f"].programs) == 1
    guard = space["f"].programs[0].state
    space["C"].k = property(lambda self: 4.0, lambda self, value: None)
    assert not guard.holds()
    np.testing.assert_array_equal(call(space, space["f"]), [4.0, -8.0])


#: What Python itself gives of an object, or makes when it is asked for.
GIVEN = {
    "methods of a function": Script(
        "def g(): return 1.0\nnames = ['__call__', '__str__']",
        "x * sum(callable(getattr(g, n)) for n in names)",
        "",
        "",
    ),
    "annotations of a class": Script(
        "import inspect\nclass Base: pass\nclass A(Base): k = 2.0\na = A()\n"
        "def g():\n try: return a.scale\n except AttributeError: return a.k + isinstance(a, Base)\n"
        "def h(): return len(inspect.signature(g).parameters)",
        "x * g() + h() + len(type(a).__mro__)",
        "",
        "",
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_python_gives_is_no_change(name: str) -> None:
    space = started(GIVEN[name])
    for _ in range(3):
        call(space, space["f"])
    assert len(space["f"].programs) == 1


@pytest.mark.parametrize("module", [argparse, inspect, logging])
def test_a_walk_over_code_asks_for_nothing_that_is_not_known_to_lead_to_state(module: Any) -> None:
    """What calls gave is kept for instructions that lead to state, and for no others."""
    members = list(vars(module).values())
    for kind in [member for member in members if isinstance(member, type)]:
        members += vars(kind).values()
    found = [member for member in members if isinstance(member, FunctionType)]
    assert len(found) > 50
    for function in found:
        trail = Trail(function.__code__)
        run = Run(trail, function.__globals__, {}, {}, Library())
        run.look()
        assert run._known.keys() <= trail.told | trail.leading


def test_a_function_may_run_coroutines() -> None:
    """Tasks of asyncio are kept in C, whatever their class says of a ``__dict__``."""

    async def twice(x: Any) -> Any:
        await asyncio.sleep(0)
        return x * 2.0

    async def both(x: Any) -> Any:
        first, second = await asyncio.gather(twice(x), twice(x + 1.0))
        return first + second

    f = tapec.compile(lambda x: asyncio.run(both(x)))
    assert [float(f(tapec.constant(v))) for v in (1.0, 2.0)] == [6.0, 10.0]
