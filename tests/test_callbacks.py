"""Functions of Python that compiled programs call: what they give, in which order, and what they raise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tapec
from tapec import debugging, errors

X = tapec.constant([3.0, 1.0, 2.0])


def test_a_function_of_arrays_gives_results() -> None:
    seen = []

    def sort(array: Any) -> Any:
        seen.append(array.tolist())
        return np.sort(array)

    @tapec.compile
    def f(x: Any) -> Any:
        return tapec.numpy_function(sort, [x * 2], tapec.float32) + 1

    assert_array_equal(f(X), [3, 5, 7])
    assert_array_equal(f(X + 1), [5, 7, 9])
    assert seen == [[6, 2, 4], [8, 4, 6]]


def test_shapes_and_dtypes_are_announced() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        specs = [tapec.TensorSpec([], tapec.float32), tapec.int32, tapec.TensorSpec([2], "int64")]
        return tapec.numpy_function(
            lambda a: (a.sum(), a.astype(np.int32), np.array([7, 8])), [x], specs
        )

    total, whole, pair = f(X)
    assert float(total) == 6
    assert_array_equal(whole, [3, 1, 2])
    assert_array_equal(pair, [7, 8])


OTHERS: list[tuple[Any, str]] = [
    (lambda a: a.sum(), r"announced as f32\[3\], got float32\[\]"),
    (lambda a: a.astype(np.float64), r"announced as f32\[3\], got float64\[3\]"),
    (lambda a: (a, a), r"announced as f32\[3\], got float32\[2, 3\]"),
]


@pytest.mark.parametrize(("function", "said"), OTHERS)
def test_other_results_are_refused(function: Any, said: str) -> None:
    f = tapec.compile(lambda x: tapec.numpy_function(function, [x], tapec.float32))
    with pytest.raises(errors.InvalidArgumentError, match=said):
        f(X)


def test_other_tensors_are_refused() -> None:
    def called(function: Any) -> Any:
        return tapec.compile(lambda x: tapec.py_function(function, [x], tapec.float32))

    for function in (tapec.reduce_sum, lambda a: tapec.cast(a, tapec.int32)):
        with pytest.raises(errors.TapecError):
            called(function)(X)
    f = tapec.compile(lambda x: tapec.py_function(lambda a: (a, a), [x], [tapec.float32] * 3))
    with pytest.raises(errors.InvalidArgumentError, match="3 results were announced, 2 came"):
        f(X)


def after(effect: Any, value: Any) -> Any:
    """A value, once something was done."""
    effect()
    return value


def test_open_shapes_are_refused() -> None:
    f = tapec.compile(
        lambda x: tapec.numpy_function(lambda a: a, [x], tapec.TensorSpec([None], tapec.float32))
    )
    with pytest.raises(errors.NotImplementedError, match="which is open"):
        f(X)


def test_sizes_that_a_call_decides() -> None:
    f = tapec.compile(
        lambda x: tapec.numpy_function(lambda a: a[::-1], [x], tapec.float32), dims={"x": ("N",)}
    )
    assert_array_equal(f(tapec.constant([1.0, 2.0])), [2, 1])
    assert_array_equal(f(X), [2, 1, 3])
    assert len(f.programs) == 1


def test_a_function_of_tensors_has_a_gradient() -> None:
    w = tapec.Variable(2.0)

    def inner(a: Any, n: Any) -> Any:
        return tapec.sin(a) * a * tapec.cast(n, tapec.float32)

    def step(x: Any, call: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = call(x * w, tapec.constant(3))
            z = tapec.reduce_sum(y * y)
        return tape.gradient(z, [x, w])

    def called(a: Any, n: Any) -> Any:
        return tapec.py_function(inner, [a, n], tapec.float32)

    expected = step(X, inner)
    for found in (step(X, called), tapec.compile(lambda x: step(x, called))(X)):
        for a, b in zip(found, expected, strict=True):
            assert_allclose(a, b, rtol=1e-5)


def test_no_gradient_goes_through_a_function_of_arrays() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tapec.numpy_function(np.sin, [x], tapec.float32)
            z = y * x
        return tape.gradient(y, x), tape.gradient(z, x)

    nothing, found = f(X)
    assert nothing is None
    assert_allclose(found, np.sin(X.numpy()), rtol=1e-6)


def test_order_in_loops_and_branches(capsys: pytest.CaptureFixture[str]) -> None:
    count = tapec.Variable(0.0)

    def step(x: Any) -> Any:
        tapec.print("start", x)

        def body(i: Any, y: Any) -> Any:
            tapec.print("turn", i, y)
            z = tapec.numpy_function(lambda a: a + 1, [y], tapec.float32)
            tapec.cond(i % 2 == 0, lambda: after(lambda: tapec.print("even", z), 0.0), lambda: 1.0)
            count.assign_add(1.0)
            return i + 1, z

        _, y = tapec.while_loop(lambda i, y: i < 3, body, (0, x))
        tapec.print("end", y)
        return y

    f = tapec.compile(step)
    eager = [float(step(tapec.constant(v))) for v in (1.0, 5.0)]
    said = capsys.readouterr().err
    assert [float(f(tapec.constant(v))) for v in (1.0, 5.0)] == eager
    assert capsys.readouterr().err == said
    assert float(count) == 12


def test_in_scans_and_maps(capsys: pytest.CaptureFixture[str]) -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        def add(total: Any, row: Any) -> Any:
            return tapec.numpy_function(np.add, [total, row], tapec.float32)

        def show(row: Any) -> Any:
            tapec.print(row)
            return row * 2

        return tapec.scan(add, x, initializer=tapec.constant(0.0)), tapec.map_fn(show, x)

    sums, doubles = f(X)
    assert_array_equal(sums, [3, 4, 6])
    assert_array_equal(doubles, [6, 2, 4])
    assert capsys.readouterr().err == "3\n1\n2\n"


def test_what_a_function_raises_comes_through_and_nothing_is_updated() -> None:
    v = tapec.Variable(1.0)
    error = KeyError("mine")

    def fails(a: Any) -> Any:
        if a > 2:
            raise error
        return a

    @tapec.compile
    def f(x: Any) -> Any:
        v.assign(100.0)
        # Without end but for the error.
        return tapec.while_loop(
            lambda y: y < 1000.0,
            lambda y: (tapec.numpy_function(fails, [tapec.minimum(y + 1, 3.0)], tapec.float32),),
            (x,),
        )

    with pytest.raises(KeyError) as caught:
        f(tapec.constant(0.0))
    assert caught.value is error
    assert float(v) == 1.0


def test_calls_and_checks_in_the_order_of_the_program() -> None:
    seen: list[Any] = []

    @tapec.compile
    def f(x: Any) -> Any:
        debugging.assert_greater(x, 0.0)
        y = tapec.numpy_function(
            lambda a: after(lambda: seen.append(float(a)), a), [x], tapec.float32
        )
        debugging.assert_less(y, 10.0)
        tapec.numpy_function(lambda a: seen.append("after"), [y], [])
        return y

    for value in (-1.0, 11.0):
        with pytest.raises(errors.InvalidArgumentError, match="did not hold"):
            f(tapec.constant(value))
    f(tapec.constant(2.0))
    assert seen == [11.0, 2.0, "after"]


def test_each_is_called_once_where_numbers_are_looked_at() -> None:
    seen: list[float] = []

    @tapec.compile
    def f(x: Any) -> Any:
        y = tapec.numpy_function(
            lambda a: after(lambda: seen.append(float(a)), a), [x], tapec.float32
        )
        return tapec.math.log(y)

    debugging.enable_check_numerics()
    try:
        with pytest.raises(errors.InvalidArgumentError, match="log"):
            f(tapec.constant(-1.0))
    finally:
        debugging.disable_check_numerics()
    assert seen == [-1.0]


def test_a_derivative_does_not_tell_again(capsys: pytest.CaptureFixture[str]) -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.map_fn(lambda r: after(lambda: tapec.print(r), r * r), x)
        return tape.gradient(y, x)

    assert_array_equal(f(X), [6, 2, 4])
    assert capsys.readouterr().err == "3\n1\n2\n"


def test_tapes_outside_do_not_tell_again(capsys: pytest.CaptureFixture[str]) -> None:
    """In a loop, in a branch, and in one that is known to be taken."""

    @tapec.compile
    def f(x: Any) -> Any:
        for i in tapec.range(2):
            x = x * 2.0
            tapec.print("turn", i)
        if x > 0.0:
            tapec.print("branch")
        if tapec.size(x) > 0:
            tapec.print("known")
        return x * x

    x = tapec.constant(1.0)
    for _ in range(3):  # the last time the derivative is native code
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert float(tape.gradient(y, x)) == 32.0
    told = capsys.readouterr().err.splitlines()
    assert told == ["turn 0", "turn 1", "branch", "known"] * 3


def test_a_derivative_that_would_ask_again_is_refused() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.map_fn(lambda r: r * tapec.numpy_function(lambda a: a, [r], tapec.float32), x)
        return tape.gradient(y, x)

    with pytest.raises(errors.TapecError, match="would be called again"):
        f(X)


def test_random_state_and_callbacks() -> None:
    """A generator that a callback draws from is the host's; the program's own goes on by itself."""
    rng = np.random.default_rng(0)

    @tapec.compile
    def f() -> Any:
        spec = tapec.TensorSpec([], tapec.float64)
        return tapec.numpy_function(rng.random, [], spec), tapec.random.uniform([])

    (a, b), (c, d) = f(), f()
    assert float(a) != float(c)
    assert float(b) != float(d)


def test_programs_of_the_cache_call_the_functions_of_this_process(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPEC_CACHE", str(tmp_path))
    for n in (1.0, 2.0):
        f = tapec.compile(
            lambda x, n=n: tapec.numpy_function(lambda a: a * np.float32(n), [x], tapec.float32)
        )
        assert_array_equal(f(X), X.numpy() * n)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "int8", "uint16", "bool", "float64", "complex64"]
)
def test_dtypes(dtype: str) -> None:
    x = tapec.cast(tapec.constant([1, 0, 1, 2]), dtype)
    if dtype == "complex64":
        x *= 1 + 2j
    f = tapec.compile(lambda x: tapec.numpy_function(lambda a: a[::-1] * a[0], [x], x.dtype) * x)
    if dtype == "bool":
        f = tapec.compile(lambda x: tapec.numpy_function(lambda a: a[::-1], [x], x.dtype))
        assert_array_equal(f(x), x.numpy()[::-1])
        return
    array = x.numpy()
    assert_allclose(f(x).numpy(), array[::-1] * array[0] * array, rtol=1e-6)


def test_complex_numbers_are_told_in_branches(capsys: pytest.CaptureFixture[str]) -> None:
    @tapec.compile
    def f(z: Any) -> Any:
        tapec.cond(
            tapec.math.real(z) > 0, lambda: tapec.print("right", z), lambda: tapec.print("left")
        )
        return z

    for z in (1 + 2j, -1 + 0j):
        f(tapec.constant(z))
    assert capsys.readouterr().err == "right (1+2j)\nleft\n"


def test_what_gives_something_back_cannot_run_for_all_rows_at_once() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        return tapec.vectorized_map(lambda r: tapec.numpy_function(np.sin, [r], tapec.float32), x)

    with pytest.raises(errors.TapecError, match=r"use tapec\.map_fn"):
        f(X)
