"""What programs print, and the Python functions that they call."""

from __future__ import annotations

import functools
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tapec
from tapec import debugging, errors

MATRIX = """[[0 1 2 ... 7 8 9]
 [10 11 12 ... 17 18 19]
 [20 21 22 ... 27 28 29]
 ...
 [70 71 72 ... 77 78 79]
 [80 81 82 ... 87 88 89]
 [90 91 92 ... 97 98 99]]
"""
CUBE = """[[[0 ... 3]
  [4 ... 7]]

 ...

 [[56 ... 59]
  [60 ... 63]]]
"""

#: Arguments of `tapec.print`, and what TensorFlow 2.21 prints for them.
PRINTED: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (
        (tapec.constant(3.14159265), tapec.constant([1.0, 2.5, 1e-5, 1e20, np.nan, -np.inf])),
        {"summarize": -1},
        "3.14159274 [1 2.5 1e-05 1e+20 nan -inf]\n",
    ),
    (
        (tapec.constant([0.1, 1 / 3, 1234567.0, 1e16], tapec.float64),),
        {"summarize": -1},
        "[0.1 0.33333333333333331 1234567 1e+16]\n",
    ),
    ((tapec.constant([0.1, 1 / 3], tapec.bfloat16),), {}, "[0.100097656 0.333984375]\n"),
    (
        (tapec.constant([True, False]), True, 2.5, 1 / 3, "abc", None),
        {},
        "[1 0] True 2.5 0.3333333333333333 abc None\n",
    ),
    ((tapec.range(10),), {}, "[0 1 2 ... 7 8 9]\n"),
    ((tapec.range(6),), {}, "[0 1 2 3 4 5]\n"),
    ((tapec.reshape(tapec.range(100), [10, 10]),), {}, MATRIX),
    ((tapec.reshape(tapec.range(64), [8, 2, 4]),), {"summarize": 1}, CUBE),
    (
        ({"a": tapec.constant([1, 2]), "b": (tapec.constant(1.0), [2, "x"])}, (3,), []),
        {},
        "{'a': [1 2], 'b': (1, [2, 'x'])} (3,) []\n",
    ),
    (("a", "b"), {"sep": ","}, "a,b\n"),
    (("a",), {"end": "!"}, "a!"),
    ((), {}, "\n"),
    ((tapec.Variable([1.0, -0.0]),), {}, "[1 -0]\n"),
    ((np.array([1.5, 2.5]), tapec.zeros([0])), {}, "array([1.5, 2.5]) []\n"),
]


@pytest.mark.parametrize(("values", "options", "text"), PRINTED, ids=[p[2][:20] for p in PRINTED])
def test_print(
    values: Any, options: dict[str, Any], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tapec.print(*values, **options)
    tapec.compile(lambda: tapec.print(*values, **options))()
    assert capsys.readouterr().err == text * 2


def test_streams(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    tapec.print("out", output_stream=sys.stdout)
    tapec.print("error", output_stream=sys.stderr)
    assert capsys.readouterr() == ("out\n", "error\n")
    file = tmp_path / "log"
    for _ in range(2):
        tapec.print("line", output_stream=f"file://{file}")
    assert file.read_text() == "line\nline\n"
    tapec.print("logged", output_stream=logging.warning)
    tapec.print("too", output_stream="error")
    assert [r.message for r in caplog.records] == ["logged", "too"]
    with pytest.raises(errors.ValueError, match="Unsupported output stream 3"):
        tapec.print("x", output_stream=3)


def test_a_compiled_function_prints_at_each_call_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    total = tapec.Variable(0.0)

    @tapec.compile
    def step(x: Any) -> Any:
        tapec.print("x", x)
        total.assign_add(tapec.reduce_sum(x))
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            tapec.print("y", y, "total", total)
        return tape.gradient(y, x)

    for _ in range(2):
        assert_array_equal(step(tapec.constant([1.0, 2.0])), [2, 4])
    first, second = "x [1 2]\ny [1 4] total 3\n", "x [1 2]\ny [1 4] total 6\n"
    assert capsys.readouterr().err == first + second


def test_what_comes_before_a_failed_check_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        tapec.print("before")
        y = tapec.math.log(x)
        debugging.check_numerics(y, "log")
        tapec.print("after")
        return y

    for enabled in (False, True):
        if enabled:
            debugging.enable_check_numerics()
        try:
            with pytest.raises(errors.InvalidArgumentError):
                f(tapec.constant(-1.0))
            assert capsys.readouterr().err == "before\n"
            f(tapec.constant(1.0))
            assert capsys.readouterr().err == "before\nafter\n"
        finally:
            debugging.disable_check_numerics()


def test_a_tape_around_a_compiled_function_prints_once(capsys: pytest.CaptureFixture[str]) -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        tapec.print("once")
        return x * x

    x = tapec.Variable(3.0)
    with tapec.GradientTape() as tape:
        y = f(x)
    assert_array_equal(tape.gradient(y, x), 6)
    assert capsys.readouterr().err == "once\n"


def test_printing_rows_that_are_mapped_is_refused() -> None:
    def row(x: Any) -> Any:
        tapec.print(x)
        return x

    with pytest.raises(errors.NotImplementedError, match="print inside of"):
        tapec.vectorized_map(row, tapec.ones([3]))


# ---- Python functions


def test_py_function_is_recorded() -> None:
    x = tapec.Variable(3.0)
    with tapec.GradientTape() as tape:
        y, z = tapec.py_function(lambda v: (v * v, 2), [x], [tapec.float32, tapec.int32])
    assert_array_equal(tape.gradient(y, x), 6)
    assert z.dtype == tapec.int32


def test_py_function_holds_results_to_their_dtypes() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="requested dtype float64"):
        tapec.py_function(lambda v: v, [tapec.constant(1.0)], tapec.float64)
    with pytest.raises(errors.InvalidArgumentError, match="2 results were announced, 1 came"):
        tapec.py_function(lambda v: v, [1.0], [tapec.float32, tapec.float32])
    assert tapec.py_function(lambda v: None, [1.0], []) == []


def test_numpy_function_gets_arrays_and_stops_gradients() -> None:
    seen: list[Any] = []

    def square(a: Any) -> Any:
        seen.append(type(a))
        return a * a

    x = tapec.Variable([3.0])
    with tapec.GradientTape() as tape:
        y = tapec.numpy_function(square, [x], tapec.float32)
    assert seen == [np.ndarray]
    assert tape.gradient(y, x) is None
    text = str(tape.explain(y, x))
    assert "is cut by numpy_function at line" in text
    assert "tapec.numpy_function(square, [x], tapec.float32)" in text


def test_numpy_function_as_a_decorator() -> None:
    @tapec.numpy_function(Tout=tapec.float32)  # type: ignore[untyped-decorator]
    def both(a: Any, b: Any) -> Any:
        return a + b, a - b

    found = both(tapec.constant([1.0]), tapec.constant([2.0]))
    assert [y.numpy().tolist() for y in found] == [[3.0], [-1.0]]
    with pytest.raises(errors.TypeError, match="as a decorator"):
        tapec.numpy_function(None, [1.0], tapec.float32)


def test_a_function_without_result_is_called_when_the_compiled_one_has_run() -> None:
    seen: list[Any] = []

    @tapec.compile
    def f(x: Any) -> Any:
        tapec.py_function(lambda v: seen.append(("tensor", float(v))), [x + 1.0], [])
        tapec.numpy_function(lambda v: seen.append(("array", float(v))), [x + 2.0], [])
        return x

    f(tapec.constant(1.0))
    f(tapec.constant(2.0))
    assert seen == [("tensor", 2.0), ("array", 3.0), ("tensor", 3.0), ("array", 4.0)]


class Scaled:
    def __init__(self, factor: Any) -> None:
        self.parts = {"factor": [factor]}

    def __call__(self, x: Any) -> Any:
        return np.float32(x * self.parts["factor"][0])


@pytest.mark.parametrize(
    "host",
    [
        lambda r: lambda x: np.float32(x * r),
        lambda r: lambda x, r=r: np.float32(x * r),
        lambda r: functools.partial(lambda r, x: np.float32(x * r), r),
        Scaled,
        lambda r: Scaled(r).__call__,
    ],
    ids=["closure", "default", "partial", "object", "method"],
)
def test_what_a_callback_holds_is_never_the_number_of_another_call(host: Any) -> None:
    @tapec.compile
    def f(x: tapec.Tensor, rate: float) -> Any:
        return tapec.numpy_function(host(rate), [x], tapec.float32)

    assert [float(f(tapec.constant(2.0), rate)) for rate in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
