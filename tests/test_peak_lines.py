"""What is in memory at the peak, and the lines that own it, where that lies inside of a loop or branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tapec
from tapec import errors
from tapec.cli import main
from tapec.ir.dims import typical

SCRIPT = """\
import numpy as np
import tapec

x = np.ones((32, 32), np.float32)
turns = tapec.constant(3)


@tapec.compile(memory_budget=BUDGET)
def loop(x, n):
    y = x
    while n > 0:
        a = tapec.tanh(y @ x)
        b = tapec.sin(a @ x)
        y = a @ b + y
        n = n - 1
    return tapec.reduce_sum(y)


@tapec.compile(memory_budget=BUDGET)
def nested(x, n):
    while n > 0:
        if n > 1:
            a = tapec.tanh(x @ x)
            x = a @ tapec.sin(a @ x)
        n = n - 1
    return x


@tapec.compile(memory_budget=BUDGET)
def trained(x, n):
    with tapec.GradientTape() as tape:
        tape.watch(x)
        rows = tapec.random.normal([24, 32], seed=1)
        y = tapec.foldl(lambda y, r: tapec.tanh(tapec.linalg.matvec(x, y) + r), rows, x[0])
        loss = tapec.reduce_sum(y)
    return tape.gradient(loss, x)


if __name__ == "__main__":
    for f in (loop, nested, trained):
        f(x, turns)
"""

ERRORS = {
    "loop": """\
loop cannot run within a memory_budget of 100 bytes: the least that was found is 12,352, of which
           4,096 bytes  f32[32,32]  peak.py:14   y = a @ b + y
           4,096 bytes  f32[32,32]  peak.py:12   a = tapec.tanh(y @ x)
           4,096 bytes  f32[32,32]  peak.py:13   b = tapec.sin(a @ x)
               4 bytes  i32  peak.py:15   n = n - 1
  peak.py:14   y = a @ b + y
  hint: memory_budget=12352 can be met, which is proven to be the least; smaller batches take less""",
    "nested": """\
nested cannot run within a memory_budget of 100 bytes: the least that was found is 12,416, of which
           4,096 bytes  f32[32,32]  peak.py:24   x = a @ tapec.sin(a @ x)
           4,096 bytes  f32[32,32]  peak.py:23   a = tapec.tanh(x @ x)
           4,096 bytes  f32[32,32]  peak.py:24   x = a @ tapec.sin(a @ x)
               4 bytes  i32  peak.py:25   n = n - 1
               1 bytes  bool  peak.py:22   if n > 1:
  peak.py:24   x = a @ tapec.sin(a @ x)
  hint: memory_budget=12416 can be met, and none below 8,256 can, for peak.py:24; smaller batches take less""",
}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script, without a budget, as errors and reports name it."""
    monkeypatch.chdir(tmp_path)
    Path("peak.py").write_text(SCRIPT.replace("BUDGET", "None"), encoding="utf-8")
    return Path("peak.py")


def functions(budget: int | None) -> dict[str, Any]:
    """The functions of the script, held to a budget."""
    names: dict[str, Any] = {"__name__": "peak"}
    exec(compile(SCRIPT.replace("BUDGET", str(budget)), "peak.py", "exec"), names)
    return names


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_lines_inside_of_loops_and_branches(script: Path, name: str) -> None:
    names = functions(100)
    with pytest.raises(errors.ResourceExhaustedError) as caught:
        names[name](names["x"], names["turns"])
    assert str(caught.value) == ERRORS[name]


@pytest.mark.parametrize("name", ["loop", "nested", "trained"])
def test_all_that_is_alive_has_a_line(script: Path, name: str) -> None:
    """What passes write into a loop that runs turns again, too; together it is the bound, but for alignment."""
    names = functions(None)
    plain = names[name].memory(names["x"], names["turns"])
    if name == "trained":
        names = functions(int(0.92 * plain.arena))
    f = names[name]
    f(names["x"], names["turns"])
    memory = f.memory(names["x"], names["turns"])
    assert all(b.line.startswith("peak.py:") for b in memory.buffers)
    used = sum(b.bytes for b in memory.alive)
    assert used <= memory.lower_bound < used + 64 * len(memory.alive)


def test_the_command_names_lines_inside_of_a_loop(script: Path) -> None:
    done = CliRunner().invoke(main, ["mem", f"{script}:loop"])
    assert done.exit_code == 0
    alive = done.stdout[done.stdout.index("alive when") :].splitlines()[2:-1]
    lines = [row.split("peak.py:")[1].split(maxsplit=1) for row in alive]
    assert lines == [
        ["14", "y = a @ b + y"],
        ["12", "a = tapec.tanh(y @ x)"],
        ["13", "b = tapec.sin(a @ x)"],
        ["15", "n = n - 1"],
    ]
    marker, rows = done.stdout.split("0 B └")[1].index("┴"), done.stdout.splitlines()
    columns = [row.split("│")[1] for row in rows if "│" in row]
    assert "".join(c[marker] for c in columns if len(c) > marker).strip("ABC") == ""


def test_branches_are_not_in_memory_together() -> None:
    """Only what the larger one makes is alive at the peak."""

    @tapec.compile
    def f(x: Any, n: Any) -> Any:
        if n > 0:
            a = tapec.tanh(x @ x)
            y = a @ tapec.sin(a @ x)
        else:
            b = tapec.cos(tapec.tile(x @ x, [3, 1]))
            y = b[:16] @ (x @ x)
        return tapec.reduce_sum(y @ x)

    x = np.ones((16, 16), np.float32)
    memory = f.memory(x, tapec.constant(1))
    assert sum(typical(b.bytes) for b in memory.alive) <= typical(memory.lower_bound)
    assert {"tile", "cos"} & {b.made_by for b in memory.alive}
    assert "tanh" not in {b.made_by for b in memory.alive}


def test_what_takes_functions_bears_its_name() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        return tapec.foldl(lambda a, row: tapec.tanh(a @ x) + row, x, x)

    f(np.ones((8, 8), np.float32))
    found = {op.location.composite for op in f.ir().walk() if op.location is not None}
    assert "foldl" in found
    assert not any(name.startswith("_conv") or name == "called" for name in found if name)


def test_how_many_turns_there_were_is_the_line_of_the_loop() -> None:
    """A gradient of a loop that ends when it likes reads it; no line of the body makes it."""

    @tapec.compile
    def f(x: Any, n: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x
            while n > 0:
                y = tapec.tanh(y @ x)
                n = n - 1
        return tape.gradient(y, x)

    memory = f.memory(np.ones((4, 4), np.float32), tapec.constant(2))
    assert any(b.type == "i32" for b in memory.buffers)
    assert all(b.line for b in memory.buffers)
