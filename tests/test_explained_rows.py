"""Rows in which TensorFlow gives None without a word, and what tapec says; each with a near miss.

A near miss is the row with as little changed as makes the gradient not None.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import pytest
from row_programs import CODES, run, space

import tapec
from tapec.explanations.explanation import Cause, Explanation, Explanations


@dataclass(frozen=True)
class Case:
    """What is said of a row.

    ``line``: the row's line with the cut. ``says``: what stands in the text. ``near``: what is replaced for the near
    miss.
    """

    row: str
    cause: Cause
    line: int
    says: tuple[str, ...]
    near: tuple[tuple[str, str], ...]


CASES = [
    Case(
        "GT-02",
        Cause.NOT_WATCHED,
        1,
        ("x is a Tensor", "never watched by the tape at line 2", "call tape.watch(x)"),
        (("    y =", "    t.watch(x); y ="),),
    ),
    Case(
        "GT-11",
        Cause.GRADIENT_AFTER,
        4,
        ("g was computed by gradient() at line 4", "no tape recorded it"),
        (("g = t.", "    g = t."),),
    ),
    Case(
        "GT-12",
        Cause.AFTER,
        4,
        ("z was computed at line 4, outside of the block of the tape", "y is the last value"),
        (("z =", "    z ="),),
    ),
    Case(
        "WA-04",
        Cause.NOT_TRAINABLE,
        1,
        ("v has trainable=False", "call tape.watch(v)"),
        ((", trainable=False", ""),),
    ),
    Case(
        "WA-08",
        Cause.WATCHED_LATE,
        4,
        ("x was watched at line 4, but y was computed at line 3, before",),
        (("    y = x * x\n    t.watch(x)", "    t.watch(x)\n    y = x * x"),),
    ),
    Case(
        "WA-13",
        Cause.INTEGER_SOURCE,
        1,
        ("x is int32, which is not differentiable",),
        (("constant(3)", "constant(3.0)"),),
    ),
    Case(
        "WA-14",
        Cause.INTEGER_SOURCE,
        1,
        ("v is int32, which is not differentiable", "make v float32"),
        (("Variable(3)", "Variable(3.0)"),),
    ),
    Case(
        "WA-17",
        Cause.BEFORE,
        2,
        ("v was read at line 2, before the tape recorded (line 3)", "r is a constant to the tape"),
        (("y = r * r", "y = r * r * v"),),
    ),
    Case(
        "WA-20",
        Cause.DEPARTED,
        3,
        ("x left the tape by .numpy() at line 3", "nothing computed by Python or NumPy"),
        (("float(x.numpy())", "x"),),
    ),
    Case(
        "WA-21",
        Cause.DEPARTED,
        3,
        ("x left the tape by NumPy (__array__) at line 3", "use tapec.square for np.square"),
        (),
    ),
    Case(
        "GR-29",
        Cause.NOT_READ,
        2,
        ("x was not read while the tape recorded (line 2)", "z depends on: y"),
        (("z = y * y", "z = tf.reduce_sum(x) * y"),),
    ),
    Case(
        "GR-36",
        Cause.CAST,
        3,
        ("cut by cast float32 -> int32 at line 3",),
        (("tf.int32", "tf.float64"),),
    ),
    Case(
        "HO-03",
        Cause.GRADIENT_AFTER,
        5,
        ("dy was computed by gradient() at line 5, outside of the block of the tape at line 2",),
        (("dy =", "    dy ="),),
    ),
    Case(
        "HO-15",
        Cause.GRADIENT_AFTER,
        7,
        ("grad was computed by gradient() at line 7", "inside the block of the outer tape"),
        (("grad =", "    grad ="), ("gp =", "    gp =")),
    ),
    Case(
        "KI-31",
        Cause.CAST,
        3,
        ("cut by cast float32 -> int32 at line 3",),
        (("tf.one_hot(tf.cast(x, tf.int32), 3)", "x"),),
    ),
    Case(
        "EX-01",
        Cause.NOT_WATCHED,
        1,
        ("x is a Tensor, made at line 1, that was never watched", "call tape.watch(x) inside the"),
        (("as t: y", "as t: t.watch(x); y"),),
    ),
    Case(
        "EX-02",
        Cause.NOT_TRAINABLE,
        1,
        ("v has trainable=False", "call tape.watch(v)"),
        (("as t: y", "as t: t.watch(v); y"),),
    ),
    Case(
        "EX-03",
        Cause.UNWATCHED_VARIABLES,
        2,
        ("the tape at line 2 does not watch Variables by itself",),
        (("as t: y", "as t: t.watch(v); y"),),
    ),
    Case(
        "EX-04",
        Cause.WATCHED_LATE,
        4,
        ("x was watched at line 4, but y was computed at line 3",),
        (("    t.watch(x)", "    t.watch(x); y = x * x"),),
    ),
    Case(
        "EX-05",
        Cause.NOT_READ,
        2,
        ("v was not read while the tape recorded", "y depends on: w"),
        (("w * 1.0", "w * v"),),
    ),
    Case(
        "EX-06",
        Cause.UNRELATED,
        3,
        ("v was read at line 3, but y does not depend on z",),
        (("w * 1.0", "w * z"),),
    ),
    Case(
        "EX-07",
        Cause.DEPARTED,
        2,
        ("v left the tape by .numpy() at line 2", "use tapec.square for np.square"),
        (("tf.constant(np.square(v.numpy()))", "tf.square(v)"),),
    ),
    Case(
        "EX-08",
        Cause.DEPARTED,
        2,
        ("v left the tape by float() at line 2",),
        (("tf.constant(float(v) * 2)", "v * 2"),),
    ),
    Case(
        "EX-09",
        Cause.DEPARTED,
        2,
        ("v left the tape by NumPy (__array__) at line 2", "use tapec.tanh for np.tanh"),
        (),
    ),
    Case(
        "EX-10",
        Cause.STOP_GRADIENT,
        3,
        ("the path v -> mul (line 3) -> stop_gradient (line 3) is cut by stop_gradient at line 3",),
        (("tf.stop_gradient(v * v)", "tf.stop_gradient(v * v) + v"),),
    ),
    Case(
        "EX-11",
        Cause.STOP_RECORDING,
        3,
        ("a was computed at line 3 under stop_recording",),
        (("y = a * 3.0", "y = a * v"),),
    ),
    Case(
        "EX-12",
        Cause.RESET,
        3,
        ("a was recorded at line 3, before reset() at line 4",),
        (("    a = v * v\n    t.reset()", "    t.reset()\n    a = v * v"),),
    ),
    Case(
        "EX-13",
        Cause.INTEGER_SOURCE,
        1,
        ("v is int32, which is not differentiable", "make v float32"),
        (("Variable(2)", "Variable(2.0)"),),
    ),
    Case(
        "EX-14",
        Cause.CAST,
        2,
        ("cut by cast float32 -> int32 at line 2",),
        (("tf.int32", "tf.float16"),),
    ),
    Case(
        "EX-15",
        Cause.NO_DERIVATIVE,
        2,
        ("cut by argmax at line 2, which has no derivative", "consider softmax"),
        (("tf.argmax(v)", "tf.reduce_max(v)"),),
    ),
    Case(
        "EX-16",
        Cause.NO_DERIVATIVE,
        2,
        ("cut by round at line 2, whose derivative is zero", "v + stop_gradient(round(v) - v)"),
        (("tf.round(v)", "(v + tf.stop_gradient(tf.round(v) - v))"),),
    ),
    Case(
        "EX-17",
        Cause.NO_DERIVATIVE,
        2,
        ("cut by greater at line 2",),
        (("tf.cast(v > 1.5, tf.float32)", "tf.where(v > 1.5, v, 0.0)"),),
    ),
    Case(
        "EX-18",
        Cause.AFTER,
        3,
        ("y was computed at line 3, outside of the block", "a is the last value on the tape"),
        (("t.gradient(y, v)", "t.gradient(a, v)"),),
    ),
    Case(
        "EX-19",
        Cause.BEFORE,
        2,
        ("v was read at line 2, before the tape recorded (line 3)",),
        (
            (
                "a = v * v\nwith tf.GradientTape() as t: y",
                "with tf.GradientTape() as t: a = v * v; y",
            ),
        ),
    ),
    Case(
        "EX-20",
        Cause.GRADIENT_AFTER,
        4,
        ("g was computed by gradient() at line 4, outside of the block of the tape at line 2",),
        (("g = i", "    g = i"),),
    ),
    Case(
        "EX-21",
        Cause.REPLACED,
        2,
        ("v is a Tensor made at line 2, not a Variable", "v.assign_add("),
        (("v = v + 1.0", "v.assign_add(1.0)"),),
    ),
    Case(
        "EX-22",
        Cause.ASSIGNED,
        3,
        ("went into b by assign at line 3: gradients do not flow through assign",),
        (("y = b * 3.0", "y = b * a"),),
    ),
    Case(
        "EX-23",
        Cause.BRANCH,
        2,
        ("b was not read in this run", "line 2"),
        (("x > 0.0", "x < 0.0"),),
    ),
    Case(
        "EX-24",
        Cause.OTHER_VARIABLE,
        1,
        ("y depends on c, made at line 1, another Variable that began as a copy, not on v",),
        (("c * c", "c * v"),),
    ),
    Case(
        "EX-25",
        Cause.CUSTOM,
        5,
        ("the grad function of f, called at line 5, returned None for v",),
        (("lambda d: None", "lambda d: d * 2.0"),),
    ),
    Case(
        "EX-26",
        Cause.NO_DERIVATIVE,
        2,
        ("cut by numpy_function at line 2, which has no derivative", "tapec.custom_gradient"),
        (("tf.numpy_function(lambda a: a * a, [v], tf.float32)", "v * v"),),
    ),
    Case(
        "EX-27",
        Cause.OTHER_THREAD,
        4,
        ("o[0] was computed at line 4 in another thread",),
        (
            (
                "threading.Thread(target=lambda: o.append(v * v)); th.start(); th.join()",
                "o.append(v * v)",
            ),
        ),
    ),
    Case(
        "EX-29",
        Cause.LINEAR,
        4,
        (
            "g, from gradient() at line 4, does not depend on v: the derivative is zero (y is linear in v)",
        ),
        (("3.0 * v", "3.0 * v * v"),),
    ),
]

#: NumPy's functions stay on the tape, so that these rows need another cut: an array asked for by name.
NUMPY_STAYS = {
    "WA-21": ("np.square(x)", "np.square(np.asarray(x))"),
    "EX-09": ("np.tanh(v)", "np.tanh(np.asarray(v))"),
}

IDS = [case.row for case in CASES]


def the_one(answer: Any) -> Explanation:
    """The explanation of the None in a row's answer, which may have more than one value."""
    if isinstance(answer, Explanation):
        return answer
    found = answer.missing if isinstance(answer, Explanations) else answer
    explanations = [e for e in found if isinstance(e, Explanation) and e.cause != "connected"]
    assert len(explanations) == 1
    return explanations[0]


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.filterwarnings("ignore:.*__array__")
def test_explained(case: Case) -> None:
    changes = [NUMPY_STAYS[case.row]] if case.row in NUMPY_STAYS else []
    value = run(case.row, *changes)
    values = value if isinstance(value, tuple) else (value,)
    assert values[-1] is None
    found = the_one(run(case.row, *changes, explain=True))
    assert found.cause is case.cause
    for words in case.says:
        assert words in found.text
    assert found.location is not None
    assert (found.location.file, found.location.line) == (f"<{case.row}>", case.line)
    assert CODES[case.row].splitlines()[case.line - 1].strip() in found.text or changes


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_near_miss(case: Case) -> None:
    value = run(case.row, *case.near)
    values = value if isinstance(value, tuple) else (value,)
    assert values[-1] is not None
    answer = run(case.row, *case.near, explain=True)
    last = answer[-1] if isinstance(answer, tuple) else answer
    assert last.cause is Cause.CONNECTED


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_an_optimizer_says_the_same(case: Case) -> None:
    changes = [NUMPY_STAYS[case.row]] if case.row in NUMPY_STAYS else []
    names = space(case.row, *changes)
    source = CODES[case.row].rstrip(")").rsplit(", ", 1)[1]
    variable = names[source]
    if not isinstance(variable, tapec.Variable):
        return  # an optimizer takes Variables
    other = tapec.Variable(1.0)
    pairs = [(None, variable), (tapec.constant(1.0), other)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tapec.optimizers.SGD(0.1).apply_gradients(pairs)
    (warning,) = caught
    for words in case.says:
        assert words in str(warning.message)


# ---- rows that ask for more than one gradient, or have no single line


def test_each_of_several_targets_names_the_operation() -> None:
    for found in run("KI-28", explain=True):
        assert found.cause is Cause.NO_DERIVATIVE
        assert "cut by argmax at line 3" in found.text


def test_the_branch_that_was_not_taken() -> None:
    found = run("CF-02", explain=True)
    assert [e.cause for e in found] == [Cause.CONNECTED, Cause.BRANCH]
    assert "b was not read in this run: it is used at line 6" in found.text
    other = run("CF-02", ("x > 0.0", "x < 0.0"), explain=True)
    assert [e.cause for e in other] == [Cause.BRANCH, Cause.CONNECTED]


def test_one_of_two_sources_is_stopped() -> None:
    connected, stopped = run("SG-01", explain=True)
    assert (connected.cause, stopped.cause) == (Cause.CONNECTED, Cause.STOP_GRADIENT)
    assert "cut by stop_gradient at line 3" in stopped.text


def test_one_of_two_sources_was_assigned() -> None:
    found = run("VA-18", explain=True)
    assert [e.cause for e in found] == [Cause.ASSIGNED, Cause.CONNECTED]
    assert "went into b by assign at line 3: gradients do not flow through assign" in found.text


def test_a_name_bound_anew() -> None:
    first, second, third = run("GR-46", explain=True)
    assert (first.cause, second.cause) == (Cause.CONNECTED, Cause.CONNECTED)
    assert "v is a Tensor made at line 4, and y does not depend on it" in third.text


@pytest.mark.parametrize("read", ["float(x)", "x.numpy()", "np.asarray(x)", "int(x)", "bool(x)"])
@pytest.mark.filterwarnings("ignore:.*__array__")
def test_reads_that_left_the_tape_are_listed(read: str) -> None:
    """The gradient is that of the other factor; what it does not count is said."""
    found = run("WA-19", ("float(x)", f"float({read})"), explain=True)
    assert found.cause is Cause.CONNECTED
    assert "it does not count what left the tape by" in found.message
    assert "at line 3" in found.message
    assert "left the tape" not in run("WA-19", ("float(x)", "3.0"), explain=True).message


def test_inside_of_a_compiled_function() -> None:
    asked = ("return t.gradient(y, [v, w])", "told.append(t.explain(y, [v, w]))")
    found = space("EX-30", ("@tf", "told = []\n@tf"), asked)["told"][0]
    assert [e.cause for e in found] == [Cause.STOP_GRADIENT, Cause.CONNECTED]
    assert found.location.file == "<EX-30>"
    assert found.location.line == 5  # one more than in the row
    assert "the path v -> stop_gradient (line 5) is cut by stop_gradient at line 5" in found.text
    near = space("EX-30", ("@tf", "told = []\n@tf"), asked, ("tf.stop_gradient(v)", "v"))["told"][0]
    assert not near.missing


def test_after_a_compiled_function() -> None:
    """What the function says of its None is known where its gradients are applied."""
    names = space("EX-30")
    gradient, other = names["answer"]
    with pytest.warns(UserWarning, match=r"v is None: the path v -> stop_gradient .line 4."):
        tapec.optimizers.SGD(0.1).apply_gradients([(gradient, names["v"]), (other, names["w"])])
