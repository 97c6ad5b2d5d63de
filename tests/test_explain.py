"""A gradient that is None says why: one program for each cause, its line marked ``# here``."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.explanations.explanation import Explanation

#: What a program leaves: the tape, the target, the source.
Asked = tuple[tapec.GradientTape, Any, Any]
Program = Callable[..., Asked]


def marked(program: Callable[..., Any]) -> int:
    """The line of a function that ends with ``# here``."""
    lines, first = inspect.getsourcelines(program)
    return first + next(i for i, line in enumerate(lines) if line.rstrip().endswith("# here"))


def check(found: Explanation, program: Callable[..., Any], cause: str, words: str) -> None:
    """Hold an explanation to its cause, its line and words of its remedy."""
    assert found.cause == cause
    assert found.location is not None
    assert found.location.line == marked(program)
    assert words in found.remedy
    assert f":{found.location.line} " in str(found)
    assert found.message in str(found)


def ask(program: Program, *arguments: Any, compiled: bool = False) -> Explanation:
    """The explanation of a gradient that is None, the same before and after it is asked for."""
    explanations: list[Explanation] = []

    def run() -> tapec.Tensor:
        tape, target, source = program(*arguments)
        before: Explanation = tape.explain(target, source)
        assert tape.gradient(target, source) is None
        after = tape.explain(target, source)
        # What an eager custom gradient returns is known only when it was asked.
        assert before.cause == "connected" or before == after
        explanations.append(after)
        return tapec.constant(0.0)

    (tapec.compile(run) if compiled else run)()
    return explanations[-1]


# ---- programs that mean the same eagerly and compiled; their arguments are Variables


def unwatched(v: Any, w: Any) -> Asked:
    x = tapec.constant(2.0)
    with tapec.GradientTape() as tape:  # here
        y = x * x
    return tape, y, x


def unwatched_variable(v: Any, w: Any) -> Asked:
    with tapec.GradientTape(watch_accessed_variables=False) as tape:  # here
        y = v * v
    return tape, y, v


def watched_late(v: Any, w: Any) -> Asked:
    x = tapec.constant(2.0)
    with tapec.GradientTape() as tape:
        y = x * x
        tape.watch(x)  # here
    return tape, y, x


def variable_watched_late(v: Any, w: Any) -> Asked:
    with tapec.GradientTape(watch_accessed_variables=False) as tape:
        y = v * v
        tape.watch(v)  # here
    return tape, y, v


def watched_after_the_block(v: Any, w: Any) -> Asked:
    x = tapec.constant(2.0)
    with tapec.GradientTape() as tape:
        y = x * x
    tape.watch(x)  # here
    return tape, y, x


def unread(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:  # here
        y = w * 1.0
    return tape, y, v


def not_by_the_target(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        z = v * 3.0  # here
        y = w * 1.0
    assert z is not y
    return tape, y, v


def stopped_gradient(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        a = v * v
        b = tapec.stop_gradient(a)  # here
        y = b * 3.0
    return tape, y, v


def stopped_recording(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        with tape.stop_recording():
            a = v * v  # here
        y = a * 3.0
    return tape, y, v


def forgotten(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        a = v * v  # here
        tape.reset()
        y = a * 3.0
    return tape, y, v


def cast_to_integers(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        i = tapec.cast(v * 2.0, tapec.int32)  # here
        y = tapec.cast(i, tapec.float32)
    return tape, y, v


def argmax(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        i = tapec.argmax(tapec.stack([v, w]))  # here
        y = tapec.cast(i, tapec.float32)
    return tape, y, v


def rounded(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        y = tapec.round(v)  # here
        z = y * 2.0
    return tape, z, v


def compared(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        above = v > 1.5  # here
        y = tapec.cast(above, tapec.float32)
    return tape, y, v


def after_the_block(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        a = v * v
    y = a * 2.0  # here
    return tape, y, v


def inner_gradient_outside(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as outer, tapec.GradientTape() as inner:
        y = v**3
    g = inner.gradient(y, v)  # here
    return outer, g, v


def own_gradient_outside(v: Any, w: Any) -> Asked:
    with tapec.GradientTape(persistent=True) as tape:
        y = v * v
    g = tape.gradient(y, v)  # here
    return tape, g, v


def linear(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as outer:
        with tapec.GradientTape() as inner:
            y = 3.0 * v
        g = inner.gradient(y, v)  # here
    return outer, g, v


def bound_anew(v: Any, w: Any) -> Asked:
    with tapec.GradientTape(persistent=True) as tape:
        y = v * 2.0
        v = v + 1.0  # here
    return tape, y, v


@tapec.custom_gradient
def without_gradient(x: Any) -> Any:
    return x * 2.0, lambda upstream: None


def custom(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        y = without_gradient(v)  # here
        z = y * 3.0
    return tape, z, v


def assigned(v: Any, w: Any) -> Asked:
    with tapec.GradientTape() as tape:
        w.assign(v * v)  # here
        y = w * 3.0
    return tape, y, v


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("program", "cause", "words"),
    [
        (unwatched, "not watched", "tape.watch("),
        (unwatched_variable, "watch_accessed_variables=False", "tape.watch("),
        (watched_late, "watched after use", "before its first use"),
        (variable_watched_late, "watched after use", "before its first use"),
        (watched_after_the_block, "watched after use", "before its first use"),
        (unread, "not read", "inside the block"),
        (not_by_the_target, "not used by the target", "leave"),
        (stopped_gradient, "stop_gradient", "take stop_gradient away"),
        (stopped_recording, "stop_recording", "out of the stop_recording block"),
        (forgotten, "reset", "call reset() before"),
        (cast_to_integers, "cast to integers", "stay in floating point"),
        (argmax, "no derivative", "softmax"),
        (rounded, "no derivative", "v + stop_gradient(round(v) - v)"),
        (compared, "no derivative", "sigmoid"),
        (after_the_block, "outside the block", "into the block"),
        (inner_gradient_outside, "gradient outside the block", "inside the block of the outer"),
        (own_gradient_outside, "gradient outside the block", "inside the block of the outer"),
        (linear, "linear", "unconnected_gradients='zero'"),
        (bound_anew, "not used by the target", "leave"),
        (custom, "custom gradient", "return a gradient"),
        (assigned, "assign", "after the block"),
    ],
    ids=lambda p: p.__name__ if callable(p) else "",
)
def test_cause(program: Program, cause: str, words: str, compiled: bool) -> None:
    v, w = tapec.Variable(2.0, name="v"), tapec.Variable(1.0, name="w")
    check(ask(program, v, w, compiled=compiled), program, cause, words)


# ---- the other causes


def test_not_trainable() -> None:
    def program() -> Asked:
        v = tapec.Variable(2.0, trainable=False)
        with tapec.GradientTape() as tape:  # here
            y = v * v
        return tape, y, v

    check(ask(program), program, "trainable=False", "tape.watch(")


def test_integer_source() -> None:
    def program() -> Asked:
        v = tapec.Variable(2)
        with tapec.GradientTape() as tape:  # here
            y = tapec.cast(v, tapec.float32) * 2.0
        return tape, y, v

    found = ask(program)
    check(found, program, "integer source", "float32")
    assert "int32" in found.message


@pytest.mark.parametrize(
    ("read", "how"),
    [
        (lambda v: v.numpy(), ".numpy()"),
        (lambda v: v.read_value().numpy(), ".numpy()"),
        (lambda v: v.read_value().item(), ".item()"),
        (float, "float()"),
        (int, "int()"),
        (bool, "bool()"),
        (np.asarray, "__array__"),
    ],
)
def test_left_the_tape(read: Callable[[Any], Any], how: str) -> None:
    def program() -> Asked:
        v = tapec.Variable(2.0)
        with tapec.GradientTape() as tape:
            a = numbers(v)
            y = tapec.constant(np.square(a), tapec.float32)
        return tape, y, v

    def numbers(v: tapec.Variable) -> Any:
        return read(v)  # here

    found = ask(program)
    assert found.cause == "left the tape"
    assert how in found.message
    assert "the functions of tapec" in found.remedy
    assert found.location is not None
    if "<lambda>" not in repr(read):
        assert found.location.line == marked(numbers)


def test_left_the_tape_further_on() -> None:
    def program() -> Asked:
        v = tapec.Variable(2.0)
        with tapec.GradientTape() as tape:
            a = v * v
            b = a.numpy()  # here
            y = tapec.constant(b) * 3.0
        return tape, y, v

    found = ask(program)
    check(found, program, "left the tape", "use the functions of tapec")
    assert "the result of mul" in found.message


def test_reads_for_logging_are_not_blamed() -> None:
    def program() -> Asked:
        v, w = tapec.Variable(2.0), tapec.Variable(1.0)
        with tapec.GradientTape() as tape:  # here
            y = w * w
            assert v.numpy() == 2.0
        return tape, y, v

    check(ask(program), program, "not read", "inside the block")


def test_other_thread() -> None:
    def program() -> Asked:
        v = tapec.Variable(2.0)
        found = []

        def square() -> None:
            found.append(v * v)

        with tapec.GradientTape() as tape:
            thread = threading.Thread(target=square)
            thread.start()
            thread.join()
        return tape, found[0], v

    found = ask(program)
    assert found.cause == "other thread"
    assert found.location is not None
    assert found.location.text == "found.append(v * v)"
    assert "in the thread" in found.remedy


def test_branch_not_taken() -> None:
    a, b = tapec.Variable(2.0, name="a"), tapec.Variable(3.0, name="b")
    with tapec.GradientTape() as tape:
        y = a if bool(tapec.constant(1.0) > 0.0) else b
    found = tape.explain(y, b)
    assert found.cause == "branch not taken"
    assert "b was not read in this run" in found.message


def test_variable_replaced_by_a_tensor() -> None:
    v: Any = tapec.Variable(2.0)
    v = v + 1.0
    with tapec.GradientTape() as tape:
        y = v * v
    found = tape.explain(y, v)
    assert found.cause == "replaced by a tensor"
    assert found.location is not None
    assert found.location.text == "v = v + 1.0"
    assert "v.assign_add(" in found.remedy


def test_read_before_the_block() -> None:
    v = tapec.Variable(2.0)
    a = v * v
    with tapec.GradientTape() as tape:
        y = a * 2.0
    found = tape.explain(y, v)
    assert found.cause == "read before the block"
    assert found.location is not None
    assert found.location.text == "a = v * v"
    assert found.remedy == "compute a inside the block"


def test_gradient_of_a_copy() -> None:
    v = tapec.Variable(2.0)
    c = tapec.Variable(v)
    with tapec.GradientTape() as tape:
        y = c * c
    found = tape.explain(y, v)
    assert found.cause == "another variable"
    assert found.location is not None
    assert found.location.text == "c = tapec.Variable(v)"
    assert "y depends on c" in found.message
    assert "gradient of c" in found.remedy


def test_watched_after_use_with_what_is_followed() -> None:
    def program() -> Asked:
        x, w = tapec.constant(2.0), tapec.Variable(3.0)
        with tapec.GradientTape(persistent=True) as tape:
            y = x * w
            tape.watch(x)  # here
        assert tape.gradient(y, w).numpy() == 2.0
        with tape:
            z = y * x
        assert tape.gradient(z, x).numpy() == 6.0
        return tape, y, x

    check(ask(program), program, "watched after use", "before its first use")


def test_rule_that_gives_none() -> None:
    x = tapec.constant([1.0, 2.0])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.reduce_sum(tapec.gather(tapec.ones([3]), tapec.argmax(x)))
    assert tape.explain(y, x).cause == "no derivative"


# ---- compiled functions


@tapec.compile
def detached(x: tapec.Tensor) -> tapec.Tensor:
    a = x * 2.0
    return tapec.stop_gradient(a) * 3.0  # here


def test_cut_inside_of_a_compiled_function() -> None:
    def program() -> Asked:
        v = tapec.Variable(2.0)
        with tapec.GradientTape() as tape:
            y = detached(v.read_value()) + 1.0
        return tape, y, v

    found = ask(program)
    check(found, detached.python_function, "stop_gradient", "stop_gradient away")
    assert found.path[0].startswith("mul (line ")
    assert "inside of detached" in found.message


def test_gradient_inside_of_a_compiled_function() -> None:
    v = tapec.Variable(2.0)

    @tapec.compile
    def slope(squared: bool) -> Any:
        with tapec.GradientTape() as tape:
            y = v * v if squared else 3.0 * v
        return tape.gradient(y, v)

    for squared, cause in ((True, "connected"), (False, "linear")):
        with tapec.GradientTape() as outer:
            dy = slope(squared)
        before = outer.explain(dy, v).cause
        assert (outer.gradient(dy, v) is None) == (cause == "linear")
        assert before == outer.explain(dy, v).cause == cause


def test_compiled_function_of_nothing_watched() -> None:
    def program() -> Asked:
        x = tapec.constant(2.0)
        with tapec.GradientTape() as tape:  # here
            y = detached(x)
        return tape, y, x

    check(ask(program), program, "not watched", "tape.watch(")
