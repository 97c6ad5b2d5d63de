"""Rows of control flow in which tapec does better than TensorFlow, and those where it differs on purpose."""

from __future__ import annotations

import numpy as np
import pytest
from row_programs import run

import tapec
from tapec import errors


def test_ag_04_a_variable_of_one_branch() -> None:
    with pytest.raises(
        errors.ValueError, match=r"'y' must also be initialized in the else branch"
    ) as caught:
        run("AG-04")
    assert "<AG-04>:3   if x > 0:" in str(caught.value)
    assert float(run("AG-04", ("    if x > 0:", "    y = x\n    if x > 0:"))) == 1.0


def test_ag_06_shapes_of_branches() -> None:
    assert run("AG-06").numpy().tolist() == [1.0, 1.0]
    assert run("AG-06", ("x > 0", "x > 1")).numpy().tolist() == [1.0, 1.0, 1.0]
    assert run("AG-06", ("tf.ones([3])", "tf.ones([2]) * 2.0")).numpy().tolist() == [1.0, 1.0]


def test_ag_13_14_loop_variables() -> None:
    for row, kind, words in (
        ("AG-13", TypeError, "AG-13>:4   for i in tf.range"),
        ("AG-14", ValueError, "'s' has shape(.|\n)*shape_invariants"),
    ):
        with pytest.raises(kind, match=words):
            run(row)
    assert float(run("AG-13", ("s = 0", "s = 0.0"))) == 1.5
    assert run("AG-14", ("[s, s], 0", "[s[:0], s], 0")).shape == [1]


def test_ag_17_lists_and_arrays() -> None:
    with pytest.raises(errors.InaccessibleTensorError, match=r"(?s)<AG-17>:4.*tapec.TensorArray"):
        run("AG-17")
    near = run("AG-17", ("tf.range(3)", "range(3)"))
    assert near == [0, 1, 2]


def test_ag_20_variables_that_are_passed() -> None:
    assert [float(g) for g in run("AG-20")] == [4.0, 3.0]


def test_ag_29_a_comprehension_over_rows() -> None:
    assert run("AG-29").numpy().tolist() == [2.0, 4.0]
    changes = ("@tf.function", "@tf.function(autograph=False)")
    with pytest.raises(errors.OperatorNotAllowedInGraphError, match="autograph=False"):
        run("AG-29", changes)


def test_ag_31_32_35_say_what_to_use() -> None:
    for row, kind, words in (
        ("AG-26", errors.OperatorNotAllowedInGraphError, "tapec.debugging.Assert"),
        ("AG-31", errors.OperatorNotAllowedInGraphError, r"tapec.unstack\(x\)"),
        ("AG-32", errors.OperatorNotAllowedInGraphError, r"tapec.range\(n\)"),
        ("AG-35", errors.NotImplementedError, "use break"),
    ):
        with pytest.raises(kind, match=words):
            run(row)
    assert float(run("AG-31", ("a, b = x", "a, b = tf.unstack(x)"))) == 3.0
    assert isinstance(run("AG-32", ("enumerate(x)", "zip(tf.range(3), x)")), tapec.Tensor)
    kept = run("AG-35", ("if r > 1.5: return r", "if r > 1.5: break"))
    assert np.asarray(kept).tolist() == [-1.0, -1.0]
