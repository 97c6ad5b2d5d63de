"""What gives something else each time it is asked is told with its line, unless nothing of it gets into the program."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapec

X = tapec.constant([1.0, -2.0])


def made(folder: Path, before: str, returns: str) -> Any:
    """A compiled function of a file, as converted code."""
    file = folder / "made.py"
    body = f"@tapec.compile\ndef f(x):\n    return {returns}\n"
    file.write_text(f"import numpy as np\nimport tapec\n{before}\n{body}")
    return runpy.run_path(str(file))["f"]


@pytest.mark.parametrize(
    ("before", "returns", "names"),
    [
        ("it = iter([1.0, 2.0])", "x * next(it)", "iterator it"),
        ("it = zip([1.0, 2.0], [3.0, 4.0])", "x * next(it)[0]", "iterator it"),
        ("it = (k for k in (1.0, 2.0))", "x * sum(it)", "iterator it"),
        ("import random", "x * random.uniform(1.0, 2.0)", "random.random"),
        ("r = np.random.default_rng(0)", "x * r.random()", "from r"),
        ("import time", "x * (time.time() - 1e9)", "time.time"),
        ("import time", "x * float(time.localtime().tm_sec)", "time.localtime"),
        (
            "import os; lines = open(os.open(os.devnull, os.O_RDONLY), closefd=False)",
            "x * len(lines.readline())",
            "TextIOWrapper.readline",
        ),
        ("import os", "x * len(os.listdir('/'))", "os.listdir"),
        ("import os", "x * os.times().elapsed", "os.times"),
        ("import time", "x * hash(time.strftime('%c'))", "time.strftime"),
        ("import uuid", "x * (uuid.uuid4().int % 7)", "os.urandom"),
        ("import random", "x * random.Random().random()", "random.random"),
        ("import random", "x * random.sample([1.0, 2.0, 3.0], 2)", "random.getrandbits"),
        ("", "x * float(np.random.RandomState().rand())", "os.urandom"),
        ("", "x * float(np.random.default_rng().random())", "os.urandom"),
    ],
)
def test_what_gives_something_else_each_time_is_told(
    tmp_path: Path, before: str, returns: str, names: str
) -> None:
    f = made(tmp_path, before, returns)
    with pytest.warns(tapec.RetraceWarning, match=names):
        first = f(X)
    np.testing.assert_array_equal(f(X), first)


@pytest.mark.parametrize(
    "lines",
    [
        # seeds
        ["y = x * random.Random(3).random()"],
        ["random.seed(0)", "y = x * random.random()"],
        ["y = x * float(np.random.RandomState(0).rand() + np.random.default_rng(3).random())"],
        # what is printed or kept
        ["y = x", "kept.append(random.random())"],
        [
            "start = time.time()",
            "y = x",
            "if tapec.reduce_sum(x) > -9.0:",
            "    first = time.time()",
            "    y = y * 2.0",
            "    print(time.time() - first)",
            "for _ in tapec.range(2):",
            "    y = y + 1.0",
            "print(f'{time.time() - start:.3f}')",
        ],
    ],
)
def test_what_is_the_same_each_time_or_only_told_is_no_warning(
    tmp_path: Path, lines: list[str]
) -> None:
    body = "".join(f"    {line}\n" for line in lines)
    f = made(tmp_path, f"import random, time\nkept = []\ndef g(x):\n{body}    return y", "g(x)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X)


def test_what_a_branch_asks_and_others_read_gets_into_the_program(tmp_path: Path) -> None:
    branch = "    if tapec.reduce_sum(x) > 0.0:\n        factor = time.time()\n"
    lines = f"import time\ndef g(x):\n    factor = 1.0\n{branch}    return x * factor"
    with pytest.warns(tapec.RetraceWarning, match=r"time\.time"):
        made(tmp_path, lines, "g(x)")(X)


@pytest.mark.parametrize(
    "question", ["int(y)", "float(y)", "complex(y)", "bool(y)", "y.numpy()", "y.item()"]
)
def test_a_refusal_that_the_function_catches_is_told(tmp_path: Path, question: str) -> None:
    catching = "    try:\n        return x * {0}\n    except TypeError:\n        return x * 7.0\n"
    f = made(tmp_path, f"def g(x, y):\n{catching.format(question)}", "g(x, x[0])")
    what = question.replace("y", "").strip("()")
    with pytest.warns(tapec.RetraceWarning, match=rf"f caught the error of .*{what}.*(?s:.*)made"):
        f(X)


def test_a_refusal_that_others_catch_is_none_of_the_function(tmp_path: Path) -> None:
    lines = "def g(x):\n    print(repr(x), f'{x}')\n    return x * hasattr(x, 'numpy')\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(tmp_path, lines, "g(x)")(X)
        with pytest.raises(TypeError):
            made(tmp_path, "", "x * int(x[0])")(X)
