"""The commands that run a user's script and tell what they are asked about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tapec.cli import main
from tapec.recording import missing_listeners, program_listeners

SCRIPT = """
import sys
import tapec

w = tapec.Variable(2.0)
v = tapec.Variable(3.0)

@tapec.compile
def step(x):
    with tapec.GradientTape() as tape:
        y = tapec.stop_gradient(v * x) + w
    return tape.gradient(y, [w, v])[0]

step(tapec.ones([2]))
step(tapec.ones([3 if "--wide" in sys.argv else 2]))
with tapec.GradientTape() as tape:
    tape.watch(x := tapec.constant(float(sys.argv[1])))
    y = tapec.math.log(x)
tape.gradient(y, w)
sys.exit()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run(*argv: object, code: int) -> str:
    result = CliRunner().invoke(main, [str(a) for a in argv], catch_exceptions=False)
    assert result.exit_code == code, result.output
    # Nothing of a command stays behind.
    assert not missing_listeners
    assert not program_listeners
    return result.stdout


def test_why_explains_a_script(script: Path) -> None:
    text = run("why", script, "1.0", code=1)
    assert "the gradient of y with respect to v is None" in text
    assert "stop_gradient" in text
    assert "the gradient of y with respect to w is None" in text
    found = json.loads(run("why", script, "1.0", "--json", code=1))
    assert (found[0]["cause"], found[0]["line"]) == ("stop_gradient", 11)
    assert len(found) == 2


def test_why_explains_a_function(script: Path) -> None:
    text = run("why", f"{script}:step", code=1)
    assert text.count("is None") == 1


def test_why_has_nothing_to_say(tmp_path: Path) -> None:
    path = tmp_path / "good.py"
    path.write_text("import tapec\n")
    assert run("why", path, code=0) == "no gradient is None\n"


def test_nan_finds_the_first_bad_operation(script: Path) -> None:
    assert run("nan", script, "1.0", code=0) == "no operation made a NaN or an infinity\n"
    text = run("nan", script, "--", "-1.0", code=1)
    assert 'operation "log"' in text
    assert f"{script}:18" in text
    found = json.loads(run("nan", script, "--json", "--", "-1.0", code=1))
    assert found["line"] == 18


def test_retrace_lists_what_was_traced_again(script: Path) -> None:
    assert run("retrace", script, "1.0", code=0) == "0 retraces, 0 ms\n"
    text = run("retrace", script, "1.0", "--wide", code=0)
    assert "step was traced again" in text
    assert "x: f32[2] -> f32[3]" in text
    (found,) = json.loads(run("retrace", script, "1.0", "--wide", "--json", code=0))
    assert (found["function"], found["line"]) == ("step", 15)
    assert found["changes"][0]["cause"] == "shape"


def test_there_is_no_such_script() -> None:
    for command in ("nan", "retrace"):
        result = CliRunner().invoke(main, [command, "nowhere.py"])
        assert result.exit_code == 2
        assert "nowhere.py" in result.stderr
