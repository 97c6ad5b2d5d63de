"""Rows in which tapec does better than TensorFlow: what it says or gives, and a near miss that it must not concern.

Rows whose improvement is an explanation are in ``test_explained_rows.py``; together they are all there are.
"""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from row_programs import CODES, VERDICTS, as_tensorflow, run

import tapec

#: Rows of other features: layers, control flow written in Python.
LATER = {"KL"}

#: Rows of Keras optimizers, which are tapec's.
OURS = ("tf.keras.optimizers", "tf.optimizers")


def raised(row: str, *changes: tuple[str, str]) -> Exception:
    """The error of a row, which is one of tapec's and names the row's line."""
    with pytest.raises(tapec.errors.TapecError) as caught:
        run(row, *changes)
    assert f"<{row}>:" in str(caught.value)
    return caught.value


def says(row: str, kind: type[Exception], words: str, *changes: tuple[str, str]) -> None:
    """Hold the error of a row to its class and words."""
    error = raised(row, *changes)
    assert isinstance(error, kind)
    assert re.search(words, str(error)), str(error)


# ---- tapes


def test_gt_04_names_the_line_of_the_first_gradient() -> None:
    says("GT-04", RuntimeError, "they were taken at line 4")
    run("GT-04", ("GradientTape()", "GradientTape(persistent=True)"))


def test_gt_08_this_tape_never_recorded() -> None:
    says("GT-08", RuntimeError, "this tape never recorded")
    assert "never recorded" not in str(raised("GT-04"))


def test_wa_15_enter_the_tape_first() -> None:
    says("WA-15", RuntimeError, "enter the tape first")
    run("WA-15", ("t.watch(x)", "with t: t.watch(x)\n0"))


# ---- what gradients are asked of


@pytest.mark.parametrize(
    ("row", "words", "near"),
    [
        ("GR-15", "target must be a Tensor or Variable, got float", ("3.0", "y")),
        ("GR-16", r"target must be a Tensor(.|\n)*\.numpy\(\) left the tape", (".numpy()", "")),
        ("GR-17", "target is None", ("None", "y")),
        ("GR-18", r"sources\[1\] is None", ("None", "v")),
        ("GR-19", "source must be a Tensor or Variable, got float", ("(y, 2.0)", "(y, v)")),
    ],
)
def test_gr_15_to_19_what_is_no_tensor(row: str, words: str, near: tuple[str, str]) -> None:
    says(row, TypeError, words)
    values = run(row, near)
    assert all(value.numpy() == 4.0 for value in (values if isinstance(values, list) else [values]))


def test_gr_23_a_list_of_numbers_is_one_array() -> None:
    assert run("GR-23").numpy().tolist() == [20.0, 400.0]
    one = run("GR-23", ("[10.0, 100.0]", "[tf.constant([10.0, 100.0])]"))
    assert one.numpy().tolist() == [20.0, 400.0]


def test_gr_25_none_means_ones() -> None:
    assert run("GR-25").numpy().tolist() == [8.0, 10.0]
    both = run("GR-25", ("[None, tf.constant([2.0, 2.0])]", "[None, None]"))
    assert both.numpy().tolist() == [5.0, 7.0]


def test_gr_26_shapes_of_output_gradients() -> None:
    says("GR-26", ValueError, re.escape("output_gradients[0] has shape (3,), target has (2,)"))
    assert run("GR-26", (", 3.0", "")).numpy().tolist() == [2.0, 8.0]


def test_gr_27_a_scalar_counts_for_every_element() -> None:
    assert run("GR-27").numpy().tolist() == [4.0, 8.0]
    # Any other shape does not broadcast.
    says("GR-27", ValueError, "has shape", ("tf.constant(2.0)", "tf.constant([2.0])"))


def test_gr_28_counts_of_output_gradients() -> None:
    says("GR-28", ValueError, "2 targets, but 1 output_gradients")
    two = "[tf.constant([1.0, 1.0]), tf.constant([1.0, 1.0])]"
    assert run("GR-28", ("[tf.constant([1.0, 1.0])]", two)).numpy().tolist() == [5.0, 7.0]


def test_ex_28_no_sources() -> None:
    layer = ("tf.keras.layers.Dense(1)", "type('Layer', (), {'trainable_variables': []})()")
    target = ("y = l(tf.ones([1, 2]))", "y = tf.Variable(1.0) * 2.0")
    with pytest.warns(UserWarning, match="no sources"):
        assert run("EX-28", layer, target) == []
    made = ("{'trainable_variables': []}", "{'trainable_variables': [tf.Variable(1.0)]}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            run("EX-28", layer, made, target)
        except UserWarning as warning:
            pytest.fail(str(warning))


# ---- jacobians


def test_ja_08_needs_no_persistent_tape() -> None:
    assert run("JA-08").numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert (run("JA-08", ("=False", "=True")).numpy() == run("JA-08").numpy()).all()


def test_ja_09_one_target() -> None:
    says("JA-09", TypeError, "jacobian takes one Tensor or Variable as target, got list")
    stacked = run("JA-09", ("[x * x, x]", "tf.stack([x * x, x])"))
    assert stacked.shape == (2, 2, 2)


def test_ja_16_gradient_of_each_example() -> None:
    assert run("JA-16").numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]
    says("JA-16", ValueError, "rank at least 2", ("x * x, axis=1", "x * x"))


def test_ja_13_rows_that_depend_on_each_other() -> None:
    """What they contribute to one another is added up, as the docstring says; a jacobian keeps it apart."""
    found = run("JA-13").numpy()
    assert found.tolist() == [[[14.0, 4.0], [6.0, 16.0]]] * 2
    whole = run("JA-13", ("batch_jacobian", "jacobian")).numpy()
    np.testing.assert_allclose(whole.sum(0).transpose(1, 0, 2), found)
    assert "depend on each other" in (tapec.GradientTape.batch_jacobian.__doc__ or "")


# ---- Variables


def test_va_13_no_item_assignment() -> None:
    error = raised("VA-13")
    assert isinstance(error, TypeError)
    assert "assign" in str(error)
    run("VA-13", ("v[0] = 3.0", "v.assign([3.0, 2.0])"))


def test_va_38_length() -> None:
    assert run("VA-38") == 2
    says("VA-38", TypeError, "scalar", ("[1.0, 2.0]", "1.0"))


def test_sg_11_no_pair() -> None:
    says("SG-11", TypeError, r"f must return \(result, grad_fn\), got \w*Tensor")
    assert run("SG-11", ("a * 2.0", "a * 2.0, lambda d: d")).numpy() == 2.0


# ---- values where TensorFlow's are wrong, missing or an error


def test_ki_26_cumprod_behind_a_zero() -> None:
    assert run("KI-26").numpy().tolist() == [1.0, 8.0, 0.0]
    none = run("KI-26", ("0.0", "4.0"))  # without a zero: d(2 + 8 + 24)
    np.testing.assert_allclose(none.numpy(), [17.0, 8.0, 8.0])


def test_ki_45_the_adjugate() -> None:
    value, gradient = run("KI-45")
    assert value.numpy() == 0.0
    np.testing.assert_allclose(gradient.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-6)
    determinant, regular = run("KI-45", ("4.0]])", "5.0]])"))
    assert math.isclose(determinant.numpy(), 1.0, rel_tol=1e-6)
    np.testing.assert_allclose(regular.numpy(), [[5.0, -2.0], [-2.0, 1.0]], atol=1e-5)


def test_ki_47_cholesky_of_an_indefinite_matrix() -> None:
    says("KI-47", tapec.errors.InvalidArgumentError, "not positive definite")
    assert math.isclose(run("KI-47", ("[2.0, 1.0]]", "[2.0, 8.0]]")).numpy()[1, 1], 2.0)


def test_xt_03_second_derivative_of_softsign() -> None:
    assert math.isclose(run("XT-03").numpy(), -2 / 1.5**3, rel_tol=1e-6)
    assert math.isclose(run("XT-03", ("0.5", "-0.5")).numpy(), 2 / 1.5**3, rel_tol=1e-6)


def test_xt_05_labels_that_broadcast() -> None:
    value, (labels, logits) = run("XT-05")
    losses = math.log(math.e + math.e**2) - np.array([[1.0, 2.0]])
    assert value.shape == (2,)
    np.testing.assert_allclose(labels.numpy(), np.repeat(losses, 2, 0), rtol=1e-5)
    # softmax(z) - l, added up over the rows that share the logits
    share = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    np.testing.assert_allclose(logits.numpy(), [2 * share - [1.5, 0.5]], rtol=1e-5)
    _, (_, own) = run("XT-05", ("[[1.0, 2.0]])", "[[1.0, 2.0], [1.0, 2.0]])"))
    assert own.shape == (2, 2)


def test_cf_12_and_13_one_loop_variable() -> None:
    for row in ("CF-12", "CF-13"):
        (value,) = run(row)
        assert value.numpy() == 5
        (fewer,) = run(row, ("maximum_iterations=5", "maximum_iterations=2"))
        assert fewer.numpy() == 2


# ---- gradients of lookups


def test_is_02_and_05_lookups_have_sparse_gradients() -> None:
    found = run("IS-02")
    assert isinstance(found, tapec.IndexedSlices)
    assert (found.indices.numpy().tolist(), found.values.numpy().tolist()) == ([0, 2, 0], [1.0] * 3)
    assert tapec.convert_to_tensor(found).numpy().tolist() == [2.0, 0.0, 1.0]
    rows = run("IS-05")
    assert isinstance(rows, tapec.IndexedSlices)
    assert rows.indices.numpy().tolist() == [1, 1, 2, 1]
    assert tapec.convert_to_tensor(rows).numpy().tolist() == [[0.0], [3.0], [1.0]]
    assert isinstance(run("IS-02", ("tf.gather(x, [0, 2, 0])", "x * x")), tapec.Tensor)


def test_is_11_and_16_arithmetic_on_slices() -> None:
    doubled = run("IS-16")
    assert tapec.convert_to_tensor(doubled).numpy().tolist() == [[6.0], [8.0]]
    norm, clipped = run("IS-11")
    assert norm.numpy() == 5.0  # of the slices, as TensorFlow's: the same row twice counts twice
    np.testing.assert_allclose(clipped.values.numpy(), [[0.6], [0.8]], rtol=1e-6)


# ---- gradients that are None or bad, where they are used


def test_cl_21_a_gradient_that_is_none() -> None:
    says("CL-21", ValueError, "gradient is None")
    assert run("CL-21", ("None", "3.0")).numpy() == 1.0


def test_cl_06_which_gradient_is_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    clipped, norm = run("CL-06")
    assert np.isnan(norm.numpy())
    assert all(np.isnan(c.numpy()).all() for c in clipped)
    v, w = tapec.Variable([3.0, 0.0]), tapec.Variable(4.0)
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum(v * tapec.constant([1.0, float("nan")])) + w
    assert [row.nan for row in tape.report(loss, [v, w]).rows] == [1, 0]


def test_cn_05_what_is_none() -> None:
    says("CN-05", ValueError, "m is None, not a tensor")
    assert run("CN-05", ("None", "1.0")).numpy() == 1.0


def test_cn_02_where_it_is_not_finite() -> None:
    words = r"loss_check : Tensor had NaN values.* 1 of 2 .*f32\[2\].* at \[1\]"
    says("CN-02", tapec.errors.InvalidArgumentError, words)
    run("CN-02", ("float('nan')", "2.0"))


def test_cn_03_and_04_kinds() -> None:
    kind = tapec.errors.InvalidArgumentError
    says("CN-03", kind, "Tensor had Inf values")
    says("CN-04", kind, "Tensor had -Inf and NaN values")
    assert "-Inf" not in str(raised("CN-03"))
    run("CN-03", ("float('inf')", "2.0"))


def test_cn_12_and_13_name_the_operation_and_its_operands() -> None:
    error = raised("CN-12")
    assert isinstance(error, tapec.errors.InvalidArgumentError)
    assert "<CN-12>:3" in str(error)
    assert 'operation "log"' in str(error)
    run("CN-12", ("-1.0", "1.0"))
    text = run("CN-13")
    for part in ('"div"', "output 0", "float32", "shape: ()", "# of +Inf elements: 1", "<CN-13>:4"):
        assert part in text
    assert "operand 0: f32, 1.0" in text
    assert "operand 1: f32, 0.0" in text
    assert run("CN-13", ("tf.constant(0.0)", "tf.constant(2.0)")) == ""


def test_cn_14_names_the_operation_whose_gradient_it_is() -> None:
    text = run("CN-14", ("[:200]", ""))
    assert 'in the gradient of "sqrt", made at <CN-14>:5' in text
    assert run("CN-14", ("tf.Variable(0.0)", "tf.Variable(4.0)")) == ""


def test_cn_16_does_not_blame_who_was_given_a_nan() -> None:
    assert run("CN-16") == "no error"
    made = run("CN-16", ("tf.constant([float('nan')]) + 1.0", "tf.constant([0.0]) / 0.0"))
    assert "InvalidArgumentError" in made


def test_ki_10_and_22_are_named_where_numbers_are_checked() -> None:
    """The values are TensorFlow's NaN; checks say which function and line they come from."""
    tapec.debugging.enable_check_numerics()
    try:
        assert "norm" in str(raised("KI-10"))
        assert "<KI-22>:4" in str(raised("KI-22"))
        run("KI-10", ("[0.0, 0.0]", "[3.0, 4.0]"))
        run("KI-22", ("[0.0, 4.0]", "[0.5, 0.25]"))
    finally:
        tapec.debugging.disable_check_numerics()


def test_xt_11_gradients_against_differences() -> None:
    ours = ("tf.test.compute_gradient", "tf.debugging.compute_gradient")
    (by_tape,), (by_differences,) = run("XT-11", ours)
    assert by_tape.tolist() == by_differences.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert tapec.debugging.check_gradients(lambda x: x**2, [tapec.constant([1.0, 2.0])]) < 1e-2
    wrong: Any = tapec.custom_gradient(lambda x: (x**2, lambda d: d * 3.0))
    with pytest.raises(
        tapec.errors.InvalidArgumentError, match="the gradient by argument 0 is wrong"
    ):
        tapec.debugging.check_gradients(wrong, [tapec.constant([1.0, 2.0])])


def test_xt_13_a_tape_from_outside_did_not_record_the_function() -> None:
    assert run("XT-13") is None
    inside = ("return t.gradient(x * 1.0, x)", "return t.gradient(y, y)")
    assert run("XT-13", inside) is not None


def test_op_33_variables_may_come_later() -> None:
    assert run("OP-33", OURS).numpy() == 2
    with pytest.raises(tapec.errors.AttributeError):
        run("OP-33", OURS, ("(tf.constant(1.0), b)", "(tf.constant(1.0), 1.0)"))


def test_op_35_and_36_say_why() -> None:
    reason = "b = tf.Variable(1.0, name='b')", "b = tf.Variable(1.0, name='b', trainable=False)"
    taken = "(None, b)", "(g, b)"
    tape = "o = ", "t = tf.GradientTape()\nwith t: y = b * a\ng = t.gradient(y, b)\no = "
    with pytest.warns(UserWarning, match=r"\['b:0'\](.|\n)*b has trainable=False"):
        run("OP-35", OURS, reason, tape, taken)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        run("OP-35", OURS, tape, taken)
    alone = "o = ", "t = tf.GradientTape()\nwith t: y = tf.round(a)\ng = t.gradient(y, a)\no = "
    says("OP-36", ValueError, "cut by round at line 2", OURS, alone, ("(None, a)", "(g, a)"))
    run("OP-36", OURS, alone, ("round", "square"), ("(None, a)", "(g, a)"))


def test_op_40_names_the_variable() -> None:
    says(
        "OP-40", tapec.errors.InvalidArgumentError, r"variable 'Variable:0' with shape \[2\]", OURS
    )
    run("OP-40", OURS, ("tf.constant(1.0)", "tf.constant([1.0, 1.0])"))


def test_op_45_and_46_pairs() -> None:
    for row in ("OP-45", "OP-46"):
        says(row, AttributeError, re.escape("pairs are (gradient, variable)"), OURS)
    run("OP-46", OURS, ("(a, tf.constant(1.0))", "(tf.constant(1.0), a)"))


# ---- Tensors


def test_dt_04_dtypes_do_not_mix() -> None:
    says("DT-04", tapec.errors.InvalidArgumentError, "cast")
    assert run("DT-04", ("constant(1)", "constant(1.0)")).numpy() == 2.0


def test_dt_40_casts_stay_in_range() -> None:
    """NaN is 0 and what is too large the greatest number, in eager and in native code."""
    assert run("DT-40").numpy().tolist() == [0, 2**31 - 1]
    values = tapec.constant([float("nan"), 1e20, -1e20, 1.5])
    expected = [0, 2**31 - 1, -(2**31), 1]
    assert tapec.cast(values, tapec.int32).numpy().tolist() == expected
    assert tapec.compile(lambda x: tapec.cast(x, tapec.int32))(values).numpy().tolist() == expected


def test_dt_53_numpy_gives_a_copy() -> None:
    assert run("DT-53") == ("ndarray", "float32", True)
    tensor = tapec.constant([1.0, 2.0])
    tensor.numpy()[0] = 5.0
    assert tensor.numpy().tolist() == [1.0, 2.0]


def test_dt_57_repr() -> None:
    assert run("DT-57") == "<tapec.Tensor: shape=(2,), dtype=float32, numpy=[1., 2.]>"


def test_dt_59_item() -> None:
    assert run("DT-59") == 1.0
    assert isinstance(run("DT-59"), float)


def test_dt_61_round() -> None:
    absolute, negative, rounded = run("DT-61")
    assert (absolute.numpy(), negative.numpy(), rounded.numpy()) == (1.5, -1.0, 2.0)
    assert round(tapec.constant(1.25), 1).numpy() == np.float32(1.2)
    assert run("DT-61", ("tf.constant(1.5)))", "tf.constant(2)))"))[2].dtype == tapec.int32


def test_dt_73_nan_is_the_maximum() -> None:
    assert all(math.isnan(value.numpy()) for value in run("DT-73"))
    assert [v.numpy() for v in run("DT-73", ("float('nan')", "2.0"))] == [2.0, 2.0]


def test_dt_79_errors() -> None:
    names = run("DT-79")
    assert [n for n in names if n in ("InvalidArgumentError", "OpError", "Exception")] == [
        "InvalidArgumentError",
        "OpError",
        "Exception",
    ]
    assert not issubclass(tapec.errors.InvalidArgumentError, ValueError)  # as TensorFlow's


# ---- what may or may not be


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("VA-32", "tapec has no 'VariableAggregation'"),
        ("DT-75", "cannot make a tensor of str 'abc'"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the script's own files
def test_optional_rows_are_as_in_tensorflow_or_say_what_is_missing(row: str, words: str) -> None:
    found, wanted = as_tensorflow(row)
    assert found.get("value") == wanted.get("value") or words in found["message"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the script's own files
def test_tensors_have_what_arrays_have() -> None:
    found, wanted = as_tensorflow("DT-78")  # of the array API standard, with no behaviour to enable
    assert (found["value"], wanted["value"]) == ("True", "False")


# ---- the list is complete


def test_every_better_row_has_a_test() -> None:
    asked = {
        row
        for row, verdict in VERDICTS.items()
        if row[:2] not in LATER
        and "tf.keras" not in CODES[row]
        and ("BETTER" in verdict or not verdict.startswith("EQUAL"))
    }
    tests = Path(__file__).parent
    text = "".join(
        (tests / name).read_text("utf-8")
        for name in (
            "test_better_rows.py",
            "test_explained_rows.py",
            "test_compiled_rows.py",
            "test_autograph_rows.py",
        )
    )
    named = set(re.findall(r'"([A-Z]{2}-\d\d)"', text))
    assert asked <= named, asked - named
