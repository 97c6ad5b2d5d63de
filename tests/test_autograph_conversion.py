"""Which functions are converted, what stays the same about them, and what is said of those that are not."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from both_compiled import both, scalar

import tapec
from tapec import errors

FACTOR = 2.0


def helper(x: Any) -> Any:
    if x > 0:
        return x * FACTOR
    return x


def test_closures_globals_and_defaults_stay_the_same_objects() -> None:
    total = scalar(0.0)

    def add(x: Any, scale: Any = FACTOR) -> Any:
        nonlocal total
        if x > 0:
            total = total + x * scale
        return total

    step = tapec.compile(lambda x: add(x) * 1.0)
    assert float(step(scalar(2.0))) == 4.0
    assert isinstance(total, tapec.Tensor)


def annotated(x: Any) -> Any:
    y: Any
    if x > 0:
        y: Any = x * FACTOR  # type: ignore[no-redef]
    else:
        y = x
    return y


def test_locals_may_have_annotations() -> None:
    step = tapec.compile(annotated)
    assert [float(step(scalar(x))) for x in (2.0, -2.0)] == [4.0, -2.0]


def doubled(turns: int, x: Any) -> Any:
    if turns == 0:
        return x
    return doubled(turns - 1, x * 2.0) if x < 100 else doubled(turns - 1, x)


class Named:
    factor = 3.0

    @staticmethod
    def tripled(turns: int, x: Any) -> Any:
        if turns and x < 100:
            x = Named.tripled(turns - 1, x * Named.factor)
        return x


def test_functions_that_name_themselves_or_their_class_are_converted() -> None:
    assert float(tapec.compile(doubled)(2, scalar(5.0))) == 20.0
    assert float(tapec.compile(doubled)(2, scalar(50.0))) == 100.0
    assert float(tapec.compile(Named.tripled)(2, scalar(5.0))) == 45.0


def test_a_loop_that_only_a_return_leaves_returns() -> None:
    def first_above(x: Any) -> Any:
        while True:
            x = x * 2.0
            if x > 5:
                return x, x - 5.0

    found = tapec.compile(first_above)(scalar(0.75))
    assert [float(v) for v in found] == [6.0, 1.0]


def test_functions_that_functions_of_tapec_call_are_converted() -> None:
    x = tapec.constant([-1.0, 2.0])
    found = tapec.compile(lambda x: tapec.map_fn(helper, x))(x)
    assert found.numpy().tolist() == [-1.0, 4.0]
    pick = tapec.compile(
        lambda x: tapec.cond(x > 0, functools.partial(helper, x), lambda: helper(-x))
    )
    assert float(pick(scalar(-1.0))) == 2.0


class Scoped(tapec.Module):
    @tapec.Module.with_name_scope
    def __call__(self, x: Any) -> Any:
        if x > 0:
            return x * 5.0
        return x


@tapec.custom_gradient
def clipped(x: Any) -> Any:
    if x > 1.0:
        y = tapec.ones_like(x)
    else:
        y = x

    def gradient(upstream: Any) -> Any:
        if x > 1.0:
            return upstream * 0.5
        return upstream

    return y, gradient


def test_functions_under_decorators_of_tapec_are_converted() -> None:
    def slope(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = clipped(x)
        return tape.gradient(y, x)

    assert float(tapec.compile(slope)(scalar(2.0))) == 0.5
    assert float(tapec.compile(Scoped())(scalar(2.0))) == 10.0
    assert float(tapec.compile(tapec.recompute_grad(helper))(scalar(2.0))) == 4.0
    mapped = tapec.compile(lambda x: tapec.vectorized_map(helper, x))
    assert mapped(tapec.constant([1.0, -1.0])).numpy().tolist() == [2.0, -1.0]


def test_do_not_convert() -> None:
    plain = tapec.autograph.experimental.do_not_convert(helper)
    assert float(plain(scalar(1.0))) == 2.0
    with pytest.raises(errors.OperatorNotAllowedInGraphError, match="do_not_convert"):
        tapec.compile(lambda x: plain(x))(scalar(1.0))
    with pytest.raises(errors.OperatorNotAllowedInGraphError, match="autograph=False"):
        tapec.compile(helper, autograph=False)(scalar(1.0))


def test_without_source_python_decides_and_the_refusal_says_so() -> None:
    names: dict[str, Any] = {}
    exec("def f(x, flag):\n    if flag: return x\n    return x if x > 0 else -x", names)
    assert float(tapec.compile(names["f"])(scalar(1.0), True)) == 1.0
    with pytest.raises(errors.OperatorNotAllowedInGraphError, match="its source is not available"):
        tapec.compile(names["f"])(scalar(1.0), False)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: [v for v in (1.0, 2.0) if x > v], "conditions in comprehensions"),
        (lambda x: bool(x > 0), r"bool\(\)"),
        (lambda x: max(x, 1.0), "tapec.maximum"),
        (lambda x: list(enumerate(x)), "tapec.unstack"),
        (lambda x: [a for (a,) in zip(x)], "tapec.unstack"),
    ],
)
def test_what_only_python_can_decide_is_refused(function: Any, words: str) -> None:
    x = tapec.constant([1.0, 2.0]) if "unstack" in words else scalar(1.0)
    with pytest.raises(errors.OperatorNotAllowedInGraphError, match=words) as caught:
        tapec.compile(function)(x)
    assert "test_autograph_conversion.py:" in str(caught.value)


@pytest.mark.parametrize("v", [1.0, 3.0])
def test_a_condition_may_have_one_element_of_any_rank(v: float) -> None:
    def f(x: Any) -> Any:
        y = x * 2.0 if tapec.reshape(x, [1, 1]) > 2.0 else x
        while tapec.reshape(y, [1]) < 9.0:
            y = y * 2.0
        for i in tapec.range(9):
            y = y + 1.0
            if tapec.reshape(y, [1]) > 14.0 + tapec.cast(i, y.dtype):
                break
        return y

    both(f, scalar(v))


def test_conditions_are_bools() -> None:
    for function in (lambda x: 1 if x else 2, lambda x: 1 if tapec.stack([x, x]) > 0 else 2):
        with pytest.raises(errors.ValueError, match="expected to be a bool scalar"):
            tapec.compile(function)(scalar(1.0))
    with pytest.raises(errors.TypeError, match="take bools, got float32"):
        tapec.compile(lambda x: not x)(scalar(1.0))


def test_errors_of_user_code_pass_with_its_lines() -> None:
    def f(x: Any) -> Any:
        for i in tapec.range(3):
            if x > 0:
                raise KeyError("mine")
        return x

    with pytest.raises(KeyError, match="mine") as caught:
        tapec.compile(f)(scalar(1.0))
    frames = traceback.extract_tb(caught.value.__traceback__)
    inner = [f.line for f in frames[[f.name for f in frames].index("f") :]]
    assert inner == ["for i in tapec.range(3):", "if x > 0:", 'raise KeyError("mine")']
    last = frames[-1]
    assert (last.filename, last.name, last.line) == (__file__, "f", 'raise KeyError("mine")')


def test_operations_know_the_users_lines() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        if x > 0:
            y = x * 3.0
        else:
            y = x
        return y

    f(scalar(1.0))
    lines = {op.name: op.location.text for op in f.ir().walk() if op.location is not None}
    assert lines["mul"] == "y = x * 3.0"
    assert lines["cond"] == "if x > 0:"


def test_code_that_is_shown() -> None:
    text = tapec.autograph.to_code(helper)
    assert "ag__.if_stmt(x > 0" in text
    graph = tapec.autograph.to_graph(helper)
    assert float(graph(scalar(2.0))) == 4.0
    assert "x > 0" in tapec.autograph.to_code(tapec.compile(helper))
    with pytest.raises(errors.ValueError, match="installed package"):
        tapec.autograph.to_code(traceback.print_exc)


def test_nothing_of_it_is_loaded_at_the_start() -> None:
    code = "import sys, tapec; print([m for m in sys.modules if 'autograph.rewriting' in m or 'autograph.loops' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


KEPT = """
import sys
import tapec


@tapec.compile
def f(x):
    if x > 0:
        return x * 2
    return -x


print(f(tapec.constant(3.0)).numpy(), f(tapec.constant(-3.0)).numpy(), "tapec.autograph.rewriting" in sys.modules)
"""


def test_converted_code_is_found_by_other_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    environment = {**os.environ, "TAPEC_CACHE": str(tmp_path / "programs")}

    def printed(text: str) -> str:
        script.write_text(text)
        command = [sys.executable, str(script)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert printed(KEPT) == "6.0 3.0 True"
    assert printed(KEPT) == "6.0 3.0 False"
    assert printed(KEPT.replace("x * 2", "x * 4")) == "12.0 3.0 True"
    assert printed(KEPT) == "6.0 3.0 False"
