"""Rows about compiled functions in which tapec does better than TensorFlow, each with a near miss."""

from __future__ import annotations

import pytest
from row_programs import run, space
from test_better_rows import says

import tapec


def test_fn_01_a_size_that_changes_is_compiled_once_more() -> None:
    """Ranks differ, so two programs; of sizes there may be any number."""
    assert run("FN-01") == 3  # of rank 0, of size 1, of any size
    more = ("f(tf.constant([1.0, 2.0]))", "[f(tf.ones([n])) for n in range(1, 9)]")
    assert run("FN-01", more) == 3


def test_fn_02_numbers_in_arithmetic_are_inputs() -> None:
    assert run("FN-02") == 2  # the integer is of another type
    assert run("FN-02", ("f(3)", "[f(float(k)) for k in range(1000)]")) == 1
    assert run("FN-02", ("* x", "* int(x)"), ("f(3)", "f(2.5)")) == 2  # 2.0 and 2.5 alike


def test_fn_07_a_tensor_that_left_says_where_it_was_made() -> None:
    words = r"made in the compiled function f at <FN-07>:4   l.append\(x \+ 1\)"
    says("FN-07", TypeError, words)
    says("FN-07", TypeError, "return it from f")
    assert run("FN-07", ("l[0] + 1", "f(tf.constant(1)) + 1")).numpy() == 2


def test_fn_08_nor_has_it_elements() -> None:
    says("FN-08", TypeError, r"made in the compiled function f at <FN-08>:4")
    assert run("FN-08", ("l[0].numpy()", "f(tf.constant(1)).numpy()")) == 1


def test_fn_09_values_exist_only_at_run_time() -> None:
    says(
        "FN-09", TypeError, r"values exist only at run time\n  <FN-09>:3   return x.numpy\(\) \+ 1"
    )
    says("FN-09", TypeError, "tapec.print, or run the function eagerly")
    assert run("FN-09", ("x.numpy()", "x")).numpy() == 2


def test_fn_10_nor_is_there_a_number() -> None:
    says("FN-10", TypeError, r"values exist only at run time\n  <FN-10>:3")
    assert run("FN-10", ("float(x)", "tf.cast(x, tf.float64)")).dtype == tapec.float64


def test_fn_25_python_values_that_change_are_noticed() -> None:
    assert [float(y) for y in run("FN-25")] == [2.0, 10.0]
    assert [float(y) for y in run("FN-25", ("k = 10.0", "other = 10.0"))] == [2.0, 2.0]


def test_fn_27_arrays_are_inputs() -> None:
    assert [float(y[0]) for y in run("FN-27")] == [2.0, 10.0]
    assert [float(y[0]) for y in run("FN-27", ("k[0] = 10.0", "k.copy()[0] = 10.0"))] == [2.0, 2.0]


def test_fn_34_methods_keep_their_instance() -> None:
    assert float(run("FN-34")) == 6.0
    assert float(run("FN-34", ("A(2.0)", "A(4.0)"))) == 12.0


def test_fn_17_what_is_not_traced_again_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    f = space("FN-17")["f"]
    assert not f.retraces()
    assert not recwarn.list
    with pytest.warns(tapec.RetraceWarning, match=r"x: 0.0 -> 1.0 \(decided at <FN-17>:3"):
        space("FN-17", ("tf.constant(1.0) * x", "tf.constant(1.0) * int(x)"))
