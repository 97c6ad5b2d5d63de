"""Checks in compiled functions: they raise with the user's line, and a failed one leaves all state as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tapec
from tapec import debugging
from tapec.errors import InvalidArgumentError, PassError
from tapec.ir.errors import CheckError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.verifier import verify
from tapec.passes import adjoint, commit


def failure(function: object, *args: object) -> InvalidArgumentError:
    """The error that a call raises."""
    with pytest.raises(InvalidArgumentError) as caught:
        function(*args)  # type: ignore[operator]
    return caught.value


def test_a_compiled_check_says_line_kinds_and_counts() -> None:
    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        return debugging.check_numerics(tapec.math.log(x), "logarithm")

    assert_array_equal(f(tapec.ones([2])), [0, 0])
    error = failure(f, tapec.constant([-1.0, 0.0, 1.0, 2.0]))
    assert "logarithm : Tensor had -Inf and NaN values: 2 of 4 elements of a f32[4]" in str(error)
    assert 'check_numerics(tapec.math.log(x), "logarithm")' in str(error)


def test_a_check_is_made_where_nobody_reads_its_result() -> None:
    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        debugging.check_numerics(x, "unread")
        return x * 2.0

    assert "unread" in str(failure(f, tapec.constant([np.inf])))


@pytest.mark.parametrize("compiled", [False, True])
def test_check_numerics_checks_its_gradient(compiled: bool) -> None:
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.sqrt(debugging.check_numerics(x, "here"))
        return tape.gradient(y, x)

    run = tapec.compile(f) if compiled else f
    assert_array_equal(run(tapec.constant(4.0)), 0.25)
    error = failure(run, tapec.constant(0.0))
    assert "detected in gradient. here : Tensor had Inf values" in str(error)


def test_an_eager_gradient_checks_when_it_is_native_too() -> None:
    def gradient(value: float) -> Any:
        x = tapec.constant([value, 2.0])
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.sqrt(debugging.check_numerics(x, "native"))
        return tape.gradient(y, x)

    for _ in range(4):
        gradient(1.0)
    assert "gradient. native : Tensor had Inf values: 1 of 2" in str(failure(gradient, 0.0))
    assert gradient(1.0) is not None


def test_second_derivatives_pass_a_check() -> None:
    @tapec.compile
    def f(x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                y = debugging.check_numerics(x**3, "cube")
            slope = inner.gradient(y, x)
        return outer.gradient(slope, x)

    assert_array_equal(f(tapec.constant(2.0)), 12.0)


def test_a_failed_check_leaves_the_state_of_the_last_whole_step() -> None:
    w = tapec.Variable([1.0, 2.0])
    steps = tapec.Variable(0)
    optimizer = tapec.optimizers.Adam(0.1)

    @tapec.compile
    def step(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(tapec.math.log(x) * w)
        gradients = tape.gradient(loss, [w])
        optimizer.apply_gradients(zip(gradients, [w], strict=True))
        steps.assign_add(1)
        debugging.check_numerics(w.read_value(), "weights")
        return loss

    step(tapec.constant([1.0, 2.0]))
    state = [v.numpy() for v in (w, steps, *optimizer.variables)]
    assert "weights : Tensor had NaN values: 1 of 2" in str(
        failure(step, tapec.constant([-1.0, 2.0]))
    )
    for before, variable in zip(state, (w, steps, *optimizer.variables), strict=True):
        assert_array_equal(variable.numpy(), before)
    step(tapec.constant([1.0, 2.0]))
    assert steps.numpy() == 2


def test_the_first_failed_check_in_program_order_is_told() -> None:
    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        debugging.assert_positive(x, "first")
        debugging.check_numerics(tapec.math.log(x), "second")
        debugging.assert_less(x, 10.0, "third")
        return x

    assert "first" in str(failure(f, tapec.constant([-1.0])))
    assert "second" in str(failure(f, tapec.constant([np.inf])))
    error = failure(f, tapec.constant([3.0, 11.0]))
    assert "third Condition x < y did not hold. Indices of first 1 different values: [[1]]" in str(
        error
    )
    assert "Corresponding x values: [11.0] Corresponding y values: [10.0]" in str(error)


def test_assert_shows_its_data() -> None:
    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        tapec.Assert(tapec.reduce_sum(x) < 3, ["sum", tapec.reduce_sum(x), "of", x])
        return x

    assert "Summarized data: sum 4 of [1 3]" in str(failure(f, tapec.constant([1, 3])))


def test_what_is_known_is_asserted_while_the_function_is_compiled() -> None:
    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        debugging.assert_equal(tapec.shape(x)[0], 3)
        return x

    f(tapec.ones([3]))
    assert f.programs[0].executable.checks == 0
    assert "Corresponding x values: [2]" in str(failure(f, tapec.ones([2])))


def test_a_check_is_mapped_over_rows() -> None:
    def row(x: tapec.Tensor) -> tapec.Tensor:
        debugging.assert_less(x, 2.0, "row")
        return debugging.check_numerics(1.0 / x, "row") * 2.0

    mapped = tapec.compile(lambda x: tapec.vectorized_map(row, x))
    assert_array_equal(mapped(tapec.ones([3])), [2, 2, 2])
    assert "row Condition x < y" in str(failure(mapped, tapec.constant([1.0, 3.0])))
    assert "row : Tensor had Inf" in str(failure(mapped, tapec.constant([1.0, 0.0])))


def test_without_checks_a_program_has_no_status() -> None:
    f = tapec.compile(lambda x: x + 1)
    f(tapec.ones([2]))
    assert f.programs[0].executable.checks == 0
    assert len(f.programs[0].executable.outputs) == 1


# ---- branches and loops


def test_checks_in_a_branch_count_if_it_runs() -> None:
    count = tapec.Variable(0)

    def checked(x: Any) -> Any:
        debugging.assert_positive(x, "branch")
        return x * 2.0

    @tapec.compile
    def f(x: Any) -> Any:
        count.assign_add(1)
        return tapec.cond(tapec.reduce_sum(x) > 0.0, lambda: checked(x), lambda: x)

    assert_array_equal(f(tapec.constant([1.0, 2.0])), [2, 4])
    assert_array_equal(f(tapec.constant([-1.0, -2.0])), [-1, -2])
    assert "branch Condition x > y" in str(failure(f, tapec.constant([3.0, -2.0])))
    assert count.numpy() == 2


def test_checks_in_a_loop_are_made_at_each_turn() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            debugging.assert_less(i, 4, "turns")
            return i + 1, debugging.check_numerics(tapec.math.log(y), "logarithm")

        debugging.assert_less(x, 1e6, "before")
        i, y = tapec.while_loop(lambda i, y: y > -2.0, body, [tapec.constant(0), x])
        debugging.assert_positive(y, "after")
        return i

    assert "before" in str(failure(f, tapec.constant(1e7)))
    assert "logarithm : Tensor had NaN" in str(failure(f, tapec.constant(4.0)))
    assert "after Condition" in str(failure(f, tapec.constant(-3.0)))


def test_a_check_in_a_loop_checks_its_gradient_there() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.scan(lambda a, b: tapec.sqrt(debugging.check_numerics(a * b, "turn")), x)[-1]
        return tape.gradient(y, x)

    assert_array_equal(f(tapec.constant([4.0, 1.0])), [0.25, 1.0])
    assert "gradient. turn : Tensor had Inf" in str(failure(f, tapec.constant([4.0, 0.0])))


def test_a_check_in_a_loop_in_a_branch() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        def sums() -> Any:
            return tapec.map_fn(lambda r: debugging.check_numerics(1.0 / r, "row"), x)

        return tapec.cond(x[0] > 0.0, sums, lambda: x)

    assert_array_equal(f(tapec.constant([1.0, 2.0])), [1, 0.5])
    assert_array_equal(f(tapec.constant([-1.0, 0.0])), [-1, 0])
    assert "row : Tensor had Inf" in str(failure(f, tapec.constant([1.0, 0.0])))


def test_a_check_in_the_condition_of_a_loop_ends_it() -> None:
    v = tapec.Variable(0.0)

    def goes_on(y: Any) -> Any:
        debugging.assert_positive(y, message="in the condition")
        return y < 3.0

    def turn(y: Any) -> Any:
        v.assign_add(1.0)
        return (y * 2.0 if y > 1.5 else y - 3.0,)

    def loop(x: Any, most: Any = None) -> Any:
        return tapec.while_loop(goes_on, turn, [x], maximum_iterations=most)

    for jit in (True, False):
        f = tapec.compile(loop, jit=jit)
        v.assign(0.0)
        assert float(f(tapec.constant(2.0))[0]) == 4.0
        assert "in the condition" in str(failure(f, tapec.constant(1.0)))
        assert float(v) == 1.0
        # After the most turns nobody asks whether there is another one.
        assert float(f(tapec.constant(1.0), 1)[0]) == -2.0
        assert float(v) == 2.0


def test_checks_are_told_apart_behind_a_condition_with_checks() -> None:
    @tapec.compile
    def f(x: Any, y: Any) -> Any:
        def goes_on(z: Any) -> Any:
            debugging.assert_less(z, 9.0, message="condition")
            return z < 3.0

        def turn(z: Any) -> Any:
            debugging.assert_none_equal(z, 2.0, message="body")
            return (z + 1.0,)

        (z,) = tapec.while_loop(goes_on, turn, [x])
        debugging.assert_positive(y, message="behind")
        return z

    one = tapec.constant(1.0)
    for x, y, where in ((9.5, 1.0, "condition"), (1.0, 1.0, "body"), (2.5, -1.0, "behind")):
        assert where in str(failure(f, one * x, one * y))
    assert float(f(one * 2.5, one)) == 3.5


# ---- the operations and the pass

PROGRAM = """
func @f(%x: f32[2], %w: f32[2]) -> (f32[2], f32[2] into %w) {
  %0 = check_numerics %x {message = "x"} : f32[2]
  %1 = lt %x, %w : bool[2]
  assert %1, %x, %w {message = "", sign = "<", texts = []}
  %2 = add %w, %0 : f32[2]
  return %0, %2
}
"""


def test_commit_makes_a_status_and_guards_updates() -> None:
    module = parse_module(PROGRAM)
    verify(module)
    assert commit.run(module)
    verify(module)
    assert module.entry.attrs["checks"] == 2
    cases = [([1, 1], 0), ([1, np.nan], 1), ([1, 9], 2)]
    for x, status in cases:
        w = np.array([2, 3], np.float32)
        _, new, found = evaluate_module(module, [np.array(x, np.float32), w])
        assert found == status
        assert_array_equal(new, [3, 4] if status == 0 else w)


def test_the_evaluator_raises() -> None:
    module = parse_module(PROGRAM)
    with pytest.raises(CheckError, match="x : Tensor had NaN"):
        evaluate_module(module, [np.full(2, np.nan, np.float32), np.zeros(2, np.float32)])


def test_the_cotangent_of_a_check_is_checked() -> None:
    module = parse_module(
        """
        func @f(%x: f64) -> f64 {
          %0 = check_numerics %x {message = "m"} : f64
          %1 = sqrt %0 : f64
          %2 = gradient %1, %x {segments = [1, 0, 1, 0]} : f64
          return %2
        }
        """
    )
    adjoint.run(module)
    verify(module)
    with pytest.raises(CheckError, match=r"detected in gradient\. m : Tensor had Inf"):
        evaluate_module(module, [np.array(0.0)])


def test_a_check_inside_of_a_kernel_comes_too_late() -> None:
    module = parse_module(
        """
        func @f(%x: f32) -> f32 {
          %0 = kernel %x : f32 {
          ^(%a: f32):
            %b = check_numerics %a {message = ""} : f32
            yield %b
          }
          return %0
        }
        """
    )
    with pytest.raises(PassError, match="check_numerics stands inside of kernel"):
        commit.run(module)


# ---- indices


@pytest.mark.parametrize("compiled", [False, True])
def test_indices_out_of_range_are_refused(compiled: bool) -> None:
    steps = tapec.Variable(0)
    table = tapec.Variable([[1.0, -0.0], [3.0, 4.0], [5.0, 6.0]])
    before = table.numpy()

    def fails(function: Callable[..., Any], indices: Any) -> None:
        def f(i: Any) -> Any:
            steps.assign_add(1)
            return function(i)

        error = failure(tapec.compile(f) if compiled else f, tapec.constant(indices))
        assert "is not in [0, 3)" in str(error)

    rows = tapec.ones([2, 2])
    for wrong in ([0, 3], [-1, 2]):
        fails(lambda i: tapec.gather(table, i), wrong)
        fails(lambda i: tapec.gather(tapec.transpose(table), i, axis=1), wrong)
        fails(lambda i: tapec.gather_nd(table, i[:, None]), wrong)
        fails(lambda i: tapec.scatter_nd(i[:, None], rows, [3, 2]), wrong)
        fails(lambda i: tapec.tensor_scatter_nd_add(table, i[:, None], rows), wrong)
        for name in ("scatter_nd_update", "scatter_nd_add", "scatter_nd_max"):
            fails(lambda i, name=name: getattr(table, name)(i[:, None], rows), wrong)
    fails(lambda i: table[i], 3)
    fails(lambda i: table[i], -4)
    if compiled:
        assert steps.numpy() == 0
    assert_array_equal(table, before)
    assert_array_equal(np.signbit(table.numpy()), np.signbit(before))


@pytest.mark.parametrize("update", ["add", "sub", "mul", "div", "max", "min", "update"])
def test_a_failed_check_leaves_rows_as_they_are(update: str) -> None:
    """Also where a step changes a few rows of a table in place."""
    table = tapec.Variable([[1.0, -0.0], [3.0, 4.0], [5.0, 6.0]])
    before = table.numpy()

    @tapec.compile
    def step(x: Any) -> Any:
        slices = tapec.IndexedSlices(x[:, None] * 2.0 + tapec.zeros([2, 2]), tapec.constant([0, 2]))
        getattr(table, f"scatter_{update}")(slices)
        return debugging.check_numerics(tapec.math.log(x), "log")

    failure(step, tapec.constant([-1.0, 2.0]))
    assert_array_equal(table, before)
    assert_array_equal(np.signbit(table.numpy()), np.signbit(before))
    step(tapec.constant([3.0, 0.25]))
    eager = tapec.Variable(before)
    slices = tapec.IndexedSlices(tapec.constant([[6.0, 6.0], [0.5, 0.5]]), tapec.constant([0, 2]))
    getattr(eager, f"scatter_{update}")(slices)
    assert_array_equal(table, eager)


def test_a_known_index_out_of_range_is_refused_while_the_function_is_compiled() -> None:
    f = tapec.compile(lambda x: tapec.gather(x, [0, 3]))
    assert "indices[1] = 3 is not in [0, 2)" in str(failure(f, tapec.ones([2])))
    f = tapec.compile(lambda x: tapec.gather(x, [0, 1]))
    f(tapec.ones([2]))
    assert f.programs[0].executable.checks == 0


def test_bounds_of_every_integer_dtype() -> None:
    for dtype in (tapec.int8, tapec.uint8, tapec.int32, tapec.int64, tapec.uint64):
        f = tapec.compile(lambda i: tapec.gather(tapec.range(100), i))
        assert_array_equal(f(tapec.cast([99, 0], dtype)), [99, 0])
        assert "indices[0] = 100 is not" in str(failure(f, tapec.cast([100, 0], dtype)))
