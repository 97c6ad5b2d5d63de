"""Why a compiled function was traced again: each cause by a script, and by random changes of arguments."""

from __future__ import annotations

import copy
import functools
import logging
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tapec
from tapec.compiled.retraces import Cause, Retrace

X = tapec.ones([2, 3])


class Pair(NamedTuple):
    """Two things."""

    first: Any
    second: Any


@dataclass
class Settings:
    """Of a step."""

    rate: float
    mode: str


class Rows(list[Any]):
    """No structure: a class may hold more than its items."""


class Model:
    """An object that is like others of its class."""

    factor = 2.0

    def doubled(self) -> float:
        """Of this object."""
        return 2 * self.factor


def use(x: Any, extra: Any = None, *rest: Any, flag: bool = False, **named: Any) -> Any:
    """A function whose program depends on every argument."""
    total: Any = tapec.constant(0.0)
    for leaf in tapec.nest.flatten([x, extra, rest, flag, named]):
        if isinstance(leaf, tapec.Tensor | tapec.Variable):
            total = total + tapec.reduce_sum(tapec.cast(leaf, tapec.float32))
        elif isinstance(leaf, int | float):
            total = total + len(range(int(leaf)))
    return total


def calls(*pair: tuple[tuple[Any, ...], dict[str, Any]]) -> Retrace:
    """Why the last of these calls was traced again."""
    f = tapec.compile(use, dynamic=False)
    for args, kwargs in pair:
        f(*args, **kwargs)
    return f.retraces()[-1]


def of(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


v, w = tapec.Variable(1.0, name="v"), tapec.Variable(1.0, name="w")
#: Earlier call, later call, path, cause, what the texts have in them.
ARGUMENTS: dict[str, tuple[Any, Any, str, Cause, str, str]] = {
    "shape": (of(X), of(tapec.ones([2, 4])), "x", Cause.SHAPE, "f32[2,3]", "f32[2,4]"),
    "rank": (of(X), of(tapec.ones([2])), "x", Cause.RANK, "f32[2,3]", "f32[2]"),
    "dtype": (
        of(X),
        of(tapec.ones([2, 3], tapec.float64)),
        "x",
        Cause.DTYPE,
        "f32[2,3]",
        "f64[2,3]",
    ),
    "an array's dtype": (
        of(np.ones(2, "f4")),
        of(np.ones(2, "i4")),
        "x",
        Cause.DTYPE,
        "f32[2]",
        "i32[2]",
    ),
    "a weak scalar": (of(2.0), of(tapec.constant(2.0)), "x", Cause.KIND, "2.0 (float)", "f32"),
    "a number's type": (of(2), of(2.0), "x", Cause.KIND, "2 (int)", "2.0 (float)"),
    "a number's value": (of(X, 2), of(X, 3), "extra", Cause.NUMBER, "2", "3"),
    "None": (of(X, None), of(X, X), "extra", Cause.NONE, "None", "f32[2,3]"),
    "a list's length": (of([X, X]), of([X]), "x", Cause.LENGTH, "2 items", "1 items"),
    "a dict's keys": (of({"a": X}), of({"b": X}), "x", Cause.KEY, "keys 'a'", "keys 'b'"),
    "inside of a dict": (of({"a": [X, X]}), of({"a": [X, X[0]]}), 'x["a"][1]', Cause.RANK, "", ""),
    "a list or a tuple": (of([X]), of((X,)), "x", Cause.STRUCTURE, "list of 1", "tuple of 1"),
    "a named tuple": (
        of(Pair(X, 1)),
        of(Pair(X, X)),
        "x.second",
        Cause.KIND,
        "1 (int)",
        "f32[2,3]",
    ),
    "a dataclass": (
        of(Settings(0.1, "a")),
        of(Settings(0.1, "b")),
        "x.mode",
        Cause.VALUE,
        "'a'",
        "'b'",
    ),
    "a keyword": (of(X), of(X, k=X), "arguments", Cause.ARGUMENT, "x, extra, flag", 'named["k"]'),
    "more arguments": (of(X, X), of(X, X, X), "arguments", Cause.ARGUMENT, "", "rest[0]"),
    "given instead of the default": (of(X), of(X, flag=True), "flag", Cause.FLAG, "False", "True"),
    "a text": (of(X, "sum"), of(X, "mean"), "extra", Cause.VALUE, "'sum'", "'mean'"),
    "a dtype object": (
        of(X, tapec.float32),
        of(X, tapec.int32),
        "extra",
        Cause.VALUE,
        "float32",
        "int32",
    ),
    "a spec": (
        of(X, tapec.TensorSpec([2])),
        of(X, tapec.TensorSpec([3])),
        "extra",
        Cause.VALUE,
        "(2,)",
        "(3,)",
    ),
    "a new lambda": (
        of(X, lambda a: a),
        of(X, lambda a: -a),
        "extra",
        Cause.FUNCTION,
        "<lambda>",
        "line",
    ),
    "a new object": (
        of(X, Model()),
        of(X, Model()),
        "extra",
        Cause.OBJECT,
        "Model object",
        "another Model object",
    ),
    "a method of another object": (
        of(X, Model().doubled),
        of(X, Model().doubled),
        "extra",
        Cause.METHOD,
        "of Model object",
        "another",
    ),
    "a list of a class of one's own": (
        of([X]),
        of(Rows([X])),
        "x",
        Cause.STRUCTURE,
        "list of 1",
        "(Rows)",
    ),
    "slices": (
        of(tapec.IndexedSlices(tapec.ones([2]), [0, 1])),
        of(tapec.IndexedSlices(tapec.ones([2, 1]), [0, 1])),
        "x.values",
        Cause.RANK,
        "f32[2]",
        "f32[2,1]",
    ),
    "another Variable": (of(v), of(w), "x", Cause.VARIABLE, "'v:0'", "'w:0'"),
    "a class of the same name": (
        of(namedtuple("Pair", "a")(X)),
        of(namedtuple("Pair", "a")(X)),
        "x",
        Cause.STRUCTURE,
        "Pair of 1",
        "another Pair",
    ),
    "another named argument": (of(X, k=X), of(X, k=X[0]), 'named["k"]', Cause.RANK, "", ""),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_changes_of_arguments(name: str) -> None:
    earlier, later, path, cause, old, new = ARGUMENTS[name]
    retrace = calls(earlier, later)
    assert (retrace.path, retrace.cause) == (path, cause)
    assert old in retrace.old
    assert new in retrace.new
    assert retrace.function == "use"
    assert retrace.location is not None
    assert retrace.location.text == "f(*args, **kwargs)"
    assert retrace.milliseconds > 0
    assert cause.remedy in retrace.remedy


def positional(f: Any) -> None:
    f(X, 2.0)


@pytest.mark.parametrize(
    "again",
    [
        lambda f: f(X, extra=2.0),
        lambda f: f(extra=2.0, x=X),
        lambda f: f(X, 2.0, flag=False),
        lambda f: f(np.ones((2, 3), np.float32), 2.0),
    ],
)
def test_what_is_the_same_call_is_not_traced_again(again: Callable[[Any], Any]) -> None:
    f = tapec.compile(use)
    positional(f)
    again(f)
    assert not f.retraces()


def test_an_argument_given_twice_is_pythons_error() -> None:
    f: Any = tapec.compile(use)
    with pytest.raises(TypeError, match=r"use\(\) got multiple values for argument 'x'"):
        f(X, x=X)


# ---- state

FACTOR = 1.0
LIST = [1.0, 2.0]
DICT = {"a": 1.0}
TEXT = "a"


@pytest.mark.filterwarnings("ignore:.*was traced again")  # there are many reasons here
def test_changes_of_state(monkeypatch: pytest.MonkeyPatch) -> None:
    here, model, factor = sys.modules[__name__], Model(), 1.0
    model.factor = 2.0

    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        return x * FACTOR * LIST[0] * DICT["a"] * model.factor * factor * len(TEXT)

    def reason(change: Callable[[], Any]) -> tuple[str, str, str, str]:
        change()
        f(X)
        retrace = f.retraces()[-1]
        return retrace.path, retrace.cause, retrace.old, retrace.new

    monkeypatch.setattr(here, "LIST", [1.0, 2.0])
    monkeypatch.setattr(here, "DICT", {"a": 1.0})
    f(X)
    rebound = lambda: monkeypatch.setattr(here, "FACTOR", 3.0)  # noqa: E731
    assert reason(rebound) == ("FACTOR", Cause.GLOBAL, "1.0", "3.0")
    assert reason(lambda: LIST.__setitem__(0, 5.0)) == ("LIST[0]", Cause.ITEM, "1.0", "5.0")
    assert reason(lambda: DICT.update(a=7.0)) == ("DICT['a']", Cause.ENTRY, "1.0", "7.0")
    attribute = reason(lambda: setattr(model, "factor", 9.0))
    assert attribute == ("model.factor", Cause.ATTRIBUTE, "2.0", "9.0")
    assert reason(lambda: monkeypatch.setattr(here, "TEXT", "ab")) == (
        "TEXT",
        Cause.GLOBAL,
        "'a'",
        "'ab'",
    )
    factor = 4.0
    assert reason(lambda: None) == ("factor", Cause.CLOSURE, "1.0", "4.0")


# ---- what is said


def test_the_nearest_earlier_call_is_compared_with() -> None:
    big = tapec.ones([2, 3, 4])
    retrace = calls(of(X, X, flag=True), of(big, [X]), of(big, [X, X]))
    assert [(c.path, c.cause) for c in retrace.changes] == [("extra", Cause.LENGTH)]
    retrace = calls(of(big, [X]), of(X, X, flag=True), of(big, [X, X]))
    assert [(c.path, c.cause) for c in retrace.changes] == [("extra", Cause.LENGTH)]


def test_a_decorators_function_gets_its_arguments_as_they_were_given() -> None:
    def twice(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def both(*args: Any, **kwargs: Any) -> Any:
            return f(f(*args, **kwargs), **kwargs)

        return both

    @twice
    def scaled(x: Any, s: float = 3.0) -> Any:
        return x * s

    compiled = tapec.compile(scaled)
    x = tapec.constant(1.0)
    assert [float(compiled(x)), float(compiled(x, s=5.0)), float(compiled(x, 5.0))] == [9, 25, 15]
    compiled(tapec.constant([1.0]))
    assert compiled.retraces()[-1].path == "x"


def test_a_retrace_in_all_forms(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tapec.compile"):
        retrace = calls(of({"x": X}), of({"x": X[0]}))
    text = str(retrace)
    assert text in caplog.text
    assert "use was traced again, " in text
    assert 'x["x"]: f32[2,3] -> f32[3]' in text
    assert "f(*args, **kwargs)" in text
    assert "remedy: reshape to one rank before the call" in text
    assert r"x\[" in retrace.__rich__()
    assert "x[&quot;x&quot;]" in retrace._repr_html_()


def test_more_than_five_retraces_warn_once() -> None:
    f = tapec.compile(lambda x, text: x * len(text))
    for n in range(6):
        f(X, "a" * n)
    words = r"traced again 6 times(?s:.*)remedy: pass few"
    with pytest.warns(tapec.RetraceWarning, match=words) as said:
        f(X, "a" * 6)
    assert said[0].filename == __file__
    f(X, "a" * 7)  # once is enough: warnings are errors here
    assert len(f.retraces()) == 7


# ---- random changes of arguments

LEAVES: dict[str, tuple[Callable[[], Any], Cause]] = {
    "f32[2]": (lambda: tapec.ones([2]), Cause.SHAPE),
    "f32[3]": (lambda: tapec.ones([3]), Cause.SHAPE),
    "f32[2,2]": (lambda: tapec.ones([2, 2]), Cause.RANK),
    "i32[2]": (lambda: tapec.ones([2], tapec.int32), Cause.DTYPE),
    "None": (lambda: None, Cause.NONE),
    "a": (lambda: "a", Cause.VALUE),
    "b": (lambda: "b", Cause.VALUE),
    "True": (lambda: True, Cause.FLAG),
    "False": (lambda: False, Cause.FLAG),
}
KINDS = {"f32[2]": "tensor", "f32[3]": "tensor", "f32[2,2]": "tensor", "i32[2]": "tensor"}
KINDS |= {"a": "text", "b": "text", "True": "flag", "False": "flag", "None": "None"}
Tree = Any


def trees() -> st.SearchStrategy[Tree]:
    """Nested lists and dicts of names of leaves."""
    below = st.sampled_from(list(LEAVES))
    return st.recursive(
        below,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3),
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
        ),
        max_leaves=6,
    )


def built(tree: Tree) -> Any:
    if isinstance(tree, list):
        return [built(t) for t in tree]
    if isinstance(tree, dict):
        return {k: built(t) for k, t in tree.items()}
    return LEAVES[tree][0]()


def places(tree: Tree, path: str) -> list[tuple[str, list[Any]]]:
    """The path of each leaf, and the way to it."""
    if isinstance(tree, list):
        return [(p, [i, *way]) for i, t in enumerate(tree) for p, way in places(t, f"{path}[{i}]")]
    if isinstance(tree, dict):
        return [(p, [k, *way]) for k, t in tree.items() for p, way in places(t, f'{path}["{k}"]')]
    return [(path, [])]


def changed(tree: Tree, way: list[Any], leaf: str) -> tuple[Tree, str]:
    """The tree with another leaf, and the one that was there."""
    if not way:
        return leaf, tree
    found = copy.copy(tree)
    found[way[0]], old = changed(tree[way[0]], way[1:], leaf)
    return found, old


def expected(old: str, new: str) -> Cause:
    """Why one leaf in the place of another makes a difference."""
    if "None" in (old, new):
        return Cause.NONE
    if KINDS[old] != KINDS[new]:
        return Cause.KIND
    if KINDS[old] != "tensor":
        return LEAVES[new][1]
    if "i32[2]" in (old, new):
        return Cause.DTYPE
    return Cause.RANK if "f32[2,2]" in (old, new) else Cause.SHAPE


@settings(max_examples=settings().max_examples // 2)
@given(st.data(), trees())
def test_random_changes(data: st.DataObject, tree: Tree) -> None:
    """One leaf of a random structure becomes another: the reason has its path, its kind, and both texts."""
    path, way = data.draw(st.sampled_from(places(tree, "x")))
    leaf = data.draw(st.sampled_from(list(LEAVES)))
    later, old = changed(tree, way, leaf)
    f = tapec.compile(lambda x: tapec.constant(1.0), dynamic=False, jit=False)
    f(built(tree))
    f(built(later))
    if old == leaf:
        assert not f.retraces()
        return
    (retrace,) = f.retraces()
    (change,) = retrace.changes
    assert (change.path, change.cause) == (path, expected(old, leaf))
    assert leaf in change.new
    assert old in change.old


def test_settings_of_tapec() -> None:
    """Another number of threads is other code; that of the number before is kept."""
    functions = [tapec.compile(lambda x: x + 1), tapec.compile(lambda x: x + v)]
    for f in functions:
        f(X), f(X)
    before = tapec.config.threading.get_intra_op_parallelism_threads()
    now = tapec.config.threads()
    try:
        tapec.config.threading.set_intra_op_parallelism_threads(now + 1)
        for f in functions:
            f(X), f(X)
            (retrace,) = f.retraces()
            assert (retrace.path, retrace.cause) == ("config.threads", Cause.CONFIGURATION)
            assert (retrace.old, retrace.new) == (f"{now} threads", f"{now + 1} threads")
    finally:
        tapec.config.threading.set_intra_op_parallelism_threads(before)
    for f in functions:
        assert f(X).numpy().tolist() == f(X).numpy().tolist() == [[2.0] * 3] * 2
        assert len(f.retraces()) == 1
        assert len(f.programs) == 2


@pytest.mark.parametrize(
    ("module", "name", "value", "remedy"),
    [
        ("", "threads", 2, "call tapec.config.threading.set_intra_op_parallelism_threads(2)"),
        ("", "run_functions_eagerly", True, "call it: tapec.config.run_functions_eagerly(True)"),
        ("", "cache_folder", "/tmp", "set TAPEC_CACHE "),
        ("", "num_threads", 2, "`tapec config` lists the settings"),
        (".threading", "set_intra_op_parallelism_threads", 2, "call it: tapec.config.threading."),
        (".threading", "get_intra_op_parallelism_threads", 2, "call set_intra_op"),
        (".experimental", "enable_op_determinism", True, "call it: tapec.config.experimental."),
        (".experimental", "get_memory_growth", True, "it only tells"),
    ],
)
def test_a_setting_is_not_assigned_to(module: str, name: str, value: Any, remedy: str) -> None:
    """That would take a function away, and set nothing."""
    space: dict[str, Any] = {"tapec": tapec}
    with pytest.raises(AttributeError) as told:
        exec(f"tapec.config{module}.{name} = {value!r}", space)
    assert remedy in str(told.value)
    assert tapec.config.threads() > 0


def test_a_function_of_the_settings_may_have_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapec.config, "threads", lambda: 3)
    assert tapec.config.threads() == 3
