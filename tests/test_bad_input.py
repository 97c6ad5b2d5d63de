"""Bad input of every public function: an exception in the words of tapec, and never the end of the process."""

from __future__ import annotations

import contextlib
import io
import resource
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_arguments import argument_lists, complaint, functions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wrong_calls import calls, names, wrong

import tapec
from tapec import errors

FUNCTIONS = functions()
#: Examples for each function or call; `--hypothesis-profile=search` does not change it.
EXAMPLES = 4


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    """2 GiB more than the process has: a hostile size is an error, and not all of the machine's memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**31, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_arguments(name: str) -> None:
    function = FUNCTIONS[name]

    @given(argument_lists(function))
    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    def call(arguments: list[Any]) -> None:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                function(*arguments)
            except Exception as error:
                wrong = complaint(error)
                assert wrong is None, f"{name}(*{arguments}): {wrong}"

    call()


@pytest.mark.parametrize("expression", calls())
def test_one_wrong_argument(expression: str) -> None:
    """A right call of a function or method with one argument replaced, or one more by its name."""
    eval(expression, names(expression))

    @given(wrong(expression))
    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    def call(case: tuple[str, dict[str, Any]]) -> None:
        text, known = case
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            try:
                eval(text, {**known})  # which gets Python's own names, too long for a report
            except Exception as error:
                complained = complaint(error)
                assert complained is None, f"{text} with {known['bad']!r}: {complained}"

    call()


def any_value(value: Any) -> Any:
    """A value that a type checker lets pass."""
    return value


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tapec.random.Generator(any_value([1, 2])), TypeError, "must be a Generator"),
        (lambda: tapec.unravel_index(["a"], [2]), errors.InvalidArgumentError, "expected integers"),
        (
            lambda: tapec.required_space_to_batch_paddings([2], [0]),
            errors.InvalidArgumentError,
            "must be positive",
        ),
        (lambda: tapec.ones([10**6] * 3), errors.ResourceExhaustedError, "no memory for 4,000,"),
        (lambda: tapec.range(10**14), errors.ResourceExhaustedError, "no memory"),
        (lambda: tapec.zeros([-1]), errors.InvalidArgumentError, "is no shape"),
        (lambda: tapec.zeros([2**70]), ValueError, "too large"),
        (lambda: tapec.reduce_sum([1.0], 0.0), TypeError, "dimension must be an integer, got 0.0"),
        (lambda: tapec.constant([1.0])[0.5], TypeError, "valid indices"),
        (lambda: tapec.gather([1.0], [0.0]), errors.InvalidArgumentError, "integer indices"),
        (lambda: tapec.concat(3, 0), TypeError, "must be a list, got 3"),
        (lambda: tapec.einsum(any_value(1), 2), TypeError, "equation of einsum must be a string"),
        (lambda: tapec.split([1, 2], 0), errors.InvalidArgumentError, "positive"),
        (
            lambda: tapec.ones([2, 3]) + tapec.ones([4]),
            errors.InvalidArgumentError,
            r"Incompatible shapes: \[2,3\] vs. \[4\]",
        ),
        (lambda: tapec.random.set_seed(any_value("a")), TypeError, "seed must be an integer"),
        (
            lambda: tapec.vectorized_map(any_value(3), tapec.ones([2])),
            TypeError,
            "fn must be a function",
        ),
        (lambda: bool(tapec.constant([1, 2])), ValueError, "ambiguous"),
        (
            lambda: tapec.signal.stft(tapec.ones([8]), 4, 2, window_fn=lambda n: tapec.ones([n])),
            TypeError,
            r"window_fn must take \(4, dtype=tapec.float32\)",
        ),
        (lambda: tapec.norm([1.0], [2]), TypeError, "'ord' must be a number or a name"),
    ],
)
def test_messages(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert "test_bad_input.py" in str(caught.value)  # the user's line


#: Run in another process, so that its end would be seen: calls that native code must stand, or refuse.
COMPILED = """
    import sys
    import numpy as np
    import tapec

    def tried(function, *arguments):
        try:
            return "value", str(np.asarray(tapec.function(function)(*arguments)).tolist())
        except Exception as error:
            assert isinstance(error, tapec.errors.TapecError), repr(error)
            return "error", type(error).__name__

    floats, ints = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([0, 5, -7, 2**31 - 1], np.int32)
    calls = {
        "gather": (tapec.gather, floats, ints),
        "gather of columns": (lambda x, i: tapec.gather(x, i, axis=1), floats, ints),
        "gather_nd": (tapec.gather_nd, floats, ints.reshape(2, 2)),
        "lookup of nothing": (tapec.gather, np.zeros((0, 3), np.float32), ints[:0]),
        "scatter_nd": (lambda i, u: tapec.scatter_nd(i, u, [3]), ints.reshape(4, 1), ints.astype(np.float32)),
        "tensor_scatter_nd_update": (
            lambda x, i: tapec.tensor_scatter_nd_update(x, i, x[0, :1]), floats, ints[:2].reshape(1, 2)
        ),
        "segments": (lambda x, i: tapec.math.unsorted_segment_sum(x, i, 2), ints.astype(np.float32), ints),
        "one_hot": (lambda i: tapec.one_hot(i, 3), ints),
        "integer division by 0": (lambda i: i // (i * 0), ints),
        "remainder by 0": (lambda i: i % (i * 0), ints),
        "the least integer over -1": (lambda i: i // -1, np.array([-(2**31)], np.int32)),
        "cast of what does not fit": (lambda x: tapec.cast(x * 1e30, tapec.int8), floats),
        "cholesky": (tapec.linalg.cholesky, -np.eye(3, dtype=np.float32)),
        "inv of nothing": (tapec.linalg.inv, np.zeros((0, 0), np.float32)),
        "sum of nothing": (tapec.reduce_max, np.zeros((0, 2), np.float32)),
        "x[i]": (lambda x, i: x[i], floats, np.int32(9)),
        "a huge tensor": (lambda x: tapec.ones([10**6] * 3) + x, np.float32(1)),
    }
    for name, (function, *arguments) in calls.items():
        print(name, *tried(function, *arguments), flush=True)
"""


def test_native_code_stands_bad_input() -> None:
    """Positions out of range, divisors of 0, sizes that no memory holds: the process goes on."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(COMPILED)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 17, done.stdout


@given(st.lists(st.integers(-3, 5), min_size=1, max_size=4), st.integers(-2, 3))
@settings(max_examples=settings().max_examples // 6)
def test_compiled_calls_refuse_what_eager_ones_do(shape: list[int], axis: int) -> None:
    """Shapes and axes are known when a function is compiled: both say no, or give the same."""

    def summed(x: Any) -> Any:
        return tapec.reduce_sum(tapec.reshape(x, shape), axis)

    x = np.arange(6, dtype=np.float32)
    outcomes = []
    for call in (summed, tapec.function(summed)):
        try:
            outcomes.append(np.asarray(call(x)).tolist())
        except errors.TapecError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]
