"""`TAPEC_DEBUG`: programs as shared objects that say, for each address, which line of the user's it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from custom_kernels import CASES, registered
from line_table import functions, lines
from toolchains import need

import tapec
from tapec.errors import TargetError

PROGRAM = """
import numpy as np
import tapec

@tapec.compile
def model(x, w):
    h = tapec.tanh(x @ w)
    z = tapec.sqrt(h * h + 2.0)
    return tapec.reduce_sum(z)

print(float(model(np.ones([3, 4], np.float32), np.ones([4, 5], np.float32))))
"""


def test_lines_of_a_program(tmp_path: Path) -> None:
    """A new process writes the file; each line that computes has addresses, in the functions of the program."""
    script, folder = tmp_path / "train.py", tmp_path / "debug"
    script.write_text(PROGRAM)
    said = {}
    for debug in ("0", str(folder), str(folder)):
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "TAPEC_DEBUG": debug, "TAPEC_CACHE": "0"},
            capture_output=True,
            text=True,
            check=True,
        )
        said[debug] = done.stdout
    assert said["0"] == said[str(folder)]
    (path,) = folder.glob("model-*.so")
    rows = lines(path)
    assert {file for _, file, _ in rows} == {"train.py"}
    places = {line: {a for a, _, n in rows if n == line} for line in (7, 8, 9)}
    found = functions(path)
    assert "model" in found
    kernels = [span for name, span in found.items() if name.startswith("model.k")]
    assert kernels
    for line, addresses in places.items():
        assert any(a in span for a in addresses for span in kernels), line


def test_gdb_stops_at_a_line_of_python_and_shows_it(tmp_path: Path) -> None:
    need("gdb")
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    asked = [
        "set breakpoint pending on",
        "set debuginfod enabled off",
        "break train.py:9",
        "run",
        "frame",
    ]
    done = subprocess.run(
        [
            "gdb",
            "-nx",
            "-batch",
            *(word for line in asked for word in ("-ex", line)),
            "--args",
            sys.executable,
            str(script),
        ],
        env={**os.environ, "TAPEC_DEBUG": str(tmp_path / "debug"), "TAPEC_CACHE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    _, stopped, after = done.stdout.partition("hit Breakpoint 1")
    assert stopped, done.stdout + done.stderr
    assert re.search(r"model.* \(\) at train\.py:9\n9\t    return tapec\.reduce_sum\(z\)\n", after)


@pytest.fixture
def debug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Compile with line tables from now on."""
    monkeypatch.setenv("TAPEC_DEBUG", str(tmp_path))
    return tmp_path


def both(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *inputs: Any) -> None:
    """The same bits with line tables and without."""
    results = []
    for setting in (os.environ["TAPEC_DEBUG"], "0"):
        monkeypatch.setenv("TAPEC_DEBUG", setting)
        found = tapec.compile(function)(*inputs)
        results.append([y.numpy() for y in (found if isinstance(found, tuple) else (found,))])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_code_runs(debug: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, branches and loops, constants, states and gradients."""
    monkeypatch.setenv("TAPEC_NUM_THREADS", "2")
    table = np.arange(64, dtype=np.float32)

    def large(x: Any) -> Any:
        return tapec.sin(x) * 2.0 + tapec.exp(-x)

    def control(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            _, y = tapec.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, tapec.tanh(v)), (0, x))
            z = tapec.cond(y[0] > 0.1, lambda: y * 2.0, lambda: y - 1.0)
            loss = tapec.reduce_sum(z * tapec.constant(table))
        return loss, tape.gradient(loss, x)

    both(large, monkeypatch, np.linspace(-1, 1, 1 << 19).astype(np.float32))
    monkeypatch.setenv("TAPEC_DEBUG", str(debug))
    both(control, monkeypatch, np.linspace(-1, 1, 64).astype(np.float32))
    assert len(list(debug.glob("*.so"))) == 2


def test_states_are_updated(debug: Path) -> None:
    v = tapec.Variable([1.0, 2.0])

    @tapec.compile
    def step(x: Any) -> Any:
        v.assign_add(x)
        return v * 2.0

    for n in (1, 2):
        assert step([1.0, 1.0]).numpy().tolist() == [2.0 + 2 * n, 4.0 + 2 * n]
    assert list(debug.glob("step-*.so"))


def test_users_kernels(debug: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with registered() as ops:
        for name in ("softplus", "horner", "running", "remainder"):
            monkeypatch.setenv("TAPEC_DEBUG", str(debug))
            both(ops[name], monkeypatch, *map(tapec.constant, CASES[name].operands))


def test_folders_of_others_are_refused(debug: Path) -> None:
    debug.chmod(0o777)
    with pytest.raises(TargetError, match="to which others may write"):
        tapec.compile(lambda x: x + 1.0)(1.0)
