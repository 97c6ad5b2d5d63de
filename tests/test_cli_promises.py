"""What scripts rely on: JSON of every command that shows something, exit codes, no colours in pipes, completion."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from tapec import config
from tapec.cli import COMMANDS, main

STEP = """\
import tapec

w = tapec.Variable(tapec.ones([6, 3]), name="w")

@tapec.compile
def step(x):
    with tapec.GradientTape(persistent=True) as tape:
        loss = tapec.reduce_mean(tapec.tanh(x @ w))
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss

step(tapec.ones([4, 6]))
step(tapec.ones([5, 6]))
"""
PROGRAM = """\
func @f(%x: f32[4]) -> f32[4] {
  %0 = exp %x : f32[4]
  %1 = exp %0 : f32[4]
  return %1
}
"""
BUFFERS = "id,lower,upper,size\na,0,2,32\nb,1,3,64\n"

Type = type | tuple[type, ...]
_NUMBER = (int, float)
#: A command, and the shape of its JSON: a type, a list of one shape, or keys with theirs.
SHAPES: Mapping[str, Any] = {
    "bench {step} --seconds 0.01": {
        "seconds": {"trace": _NUMBER, "passes": _NUMBER, "machine code": _NUMBER, "steady call": _NUMBER},
        "calls": int, "kernels": int, "arena bytes": int,
        "by kernel": [{"kernel": int, "seconds": _NUMBER, "share": _NUMBER, "line": int}],
    },
    "build {step} --shapes f32[4,6] -o {folder} --emit c": {
        "files": dict, "bytes": {"state": int, "arena": int}, "stack": dict,
    },
    "cache clear": {"entries": int, "bytes": int},
    "cache info": {"folder": str, "used": bool, "entries": int, "bytes": int, "most": int},
    "config": {"settings": [{"variable": str, "value": str, "is": str, "meaning": str}]},
    "diff {step}@input {step}@dce": {"removed": [str], "added": [str], "shared": int},
    "doctor": {"works": bool, "checks": dict, "facts": {"tapec": str, "processor": str}},
    "flops {step}": {
        "lines": [{"part": str, "line": (int, type(None)), "flops": int, "bytes": int, "operations": int}],
        "flops": {"value": str, "adjoint": str, "update": str}, "ratio": float,
    },
    "ir {step} --all": [{
        "stage": str, "changed": bool, "milliseconds": _NUMBER, "operations": int,
        "lines": [{"text": str, "defines": [str], "reads": [str], "values": [str]}],
    }],
    "ir {step} --time --memory --cost": {
        "time": [{"pass": str, "milliseconds": float, "operations": (int, type(None))}],
        "memory": {"peak": int, "buffers": [{"name": str, "bytes": int, "line": int}]},
        "cost": {"flops": int, "kernels": [{"kernel": int, "runs": int, "flops": int, "operations": [str]}]},
    },
    "ir {step} --level asm": {"level": str, "text": str},
    "html {step} -o {page}": {"page": str, "bytes": int},
    "opt {program} --passes canonicalize": {
        "program": str, "passes": [{"pass": str, "milliseconds": float, "operations": int}],
    },
    "ir {step} --follow w": [{"value": str, "what": str, "stages": [{
        "stage": str, "names": [str], "lines": [str],
        "changes": [{"value": str, "instead": (str, type(None)), "rules": [str]}],
    }]}],
    "lint {step}": [{"rule": str, "file": str, "line": int, "message": str, "remedy": str}],
    "mem {step}": {"peak": int, "arena": int, "lower_bound": int, "states": int,
                   "buffers": [{"name": str, "bytes": int, "offset": int, "line": (int, type(None))}]},
    "nan {bad}": {"message": str, "file": str, "line": int, "text": str},
    "ops matmul": {"ops": [{"name": str, "level": str, "form": str, "derivative": str,
                            "cuda": str, "meaning": str}]},
    "passes": {"passes": [{"pass": str, "level": str, "options": str}],
               "pipelines": [{"pipeline": str, "passes": str}],
               "order": [{"before": str, "after": str, "because": str}]},
    "plan {buffers}": {"total": int, "lower_bound": int, "ratio": float, "optimal": bool, "offsets": {"a": int}},
    "profile {step}": {"seconds": float, "calls": int, "threads": int,
                       "kernels": [{"kernel": int, "seconds": float, "share": float, "operations": [str]}]},
    "reduce {program} --test false": {"program": str, "operations": int, "before": int},
    "retrace {script}": [{"function": str, "file": str, "line": int, "milliseconds": float,
                          "changes": [{"path": str, "cause": str, "old": str, "new": str}], "remedy": str}],
    "run {program}": {"results": [{"dtype": str, "shape": [int], "values": list}], "differences": [str]},
    "targets": {"targets": [{"name": str, "triple": str, "vector bytes": int, "lacks": str}]},
    "verify {step}": [{"check": str, "holds": bool, "detail": str}],
    "why {script}": [{"cause": str, "message": str, "remedy": str}],
}  # fmt: skip
#: Those that write a file, or print a program.


@pytest.fixture
def names(tmp_path: Path) -> dict[str, str]:
    """The files that commands are called with."""
    (tmp_path / "train.py").write_text(STEP)
    (tmp_path / "bad.py").write_text("import tapec\ntapec.math.log(tapec.constant(-1.0))\n")
    (tmp_path / "f.tir").write_text(PROGRAM)
    (tmp_path / "buffers.csv").write_text(BUFFERS)
    return {
        "step": f"{tmp_path / 'train.py'}:step",
        "script": str(tmp_path / "train.py"),
        "bad": str(tmp_path / "bad.py"),
        "program": str(tmp_path / "f.tir"),
        "page": str(tmp_path / "page.html"),
        "buffers": str(tmp_path / "buffers.csv"),
        "folder": str(tmp_path / "out"),
    }


def tapec(command: str, names: Mapping[str, str], *more: str) -> Result:
    argv = [word.format(**names) for word in command.split()]
    return CliRunner().invoke(main, [*argv, *more], catch_exceptions=False)


def fits(found: Any, shape: Any) -> bool:
    """Whether JSON has a shape; a list's items are all of one, and there may be more keys."""
    if isinstance(shape, dict):
        return isinstance(found, dict) and all(
            key in found and fits(found[key], part) for key, part in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(found, list) and all(fits(item, shape[0]) for item in found)
    return isinstance(found, shape)


def test_every_command_that_shows_something_has_json() -> None:
    assert {command.split()[0] for command in SHAPES} == set(COMMANDS)


@pytest.mark.parametrize("command", SHAPES)
def test_the_shape_of_json(
    command: str, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPEC_CACHE", str(tmp_path / "programs"))
    result = tapec(command, names, "--json")
    assert result.exit_code in (0, 1), result.stderr
    found = json.loads(result.stdout)
    assert fits(found, SHAPES[command]), result.stdout
    assert found or command.startswith("why")


# ---- exit codes


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("ir {step}", 0),
        ("verify {step}", 0),
        ("diff {program} {program}", 0),
        ("diff {step}@input {step}@dce", 1),
        ("lint {step}", 1),
        ("why {script}", 0),
        ("nan {script}", 0),
        ("retrace {script}", 0),
        ("plan {buffers} --capacity 1000", 0),
        ("plan {buffers} --capacity 8 --seconds 0.01", 1),
        ("run {program} --compare", 0),
        ("cache nothing", 2),
        ("ops nothing", 2),
        ("opt {program} --passes nothing", 2),
        ("opt nowhere.tir", 2),
        ("run nowhere.tir", 2),
        ("run {script}", 2),
        ("plan {program}", 2),
        ("reduce {program} --test true", 2),
        ("build {script}:nothing", 2),
        ("build {step} --target nothing", 2),
        ("build {step} --emit nothing", 2),
        ("diff {program}@nothing {program}", 2),
        *[(f"{name} {{script}}:nothing", 2) for name in
          ("bench", "flops", "html", "ir", "lint", "mem", "profile", "verify", "why")],
        *[(f"{name} nowhere.py", 2) for name in ("why", "nan", "retrace")],
        *[(f"{name} nowhere.py:step", 2) for name in ("ir", "html", "why", "build")],
    ],
)  # fmt: skip
def test_exit_codes(command: str, code: int, names: dict[str, str]) -> None:
    result = tapec(command, names)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    if code == 2:
        assert result.stdout == ""
        assert "Error: " in result.stderr
    elif not command.startswith("plan"):
        assert result.stderr == ""


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_how_it_is_used(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"], prog_name="tapec")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: tapec {name} ")
    wrong = CliRunner().invoke(main, [name, "--no-such-option"], catch_exceptions=False)
    assert wrong.exit_code == 2
    assert "Error: " in wrong.stderr


# ---- in a process of its own


def on_a_terminal(argv: list[str], **environment: str) -> str:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | environment
    command = [sys.executable, "-m", "tapec", *argv]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=env) as running:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
        running.wait()
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_colours_are_for_terminals_that_want_them(
    names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured = on_a_terminal(["opt", names["program"]], TERM="xterm")
    assert "\x1b[" in coloured
    assert click.unstyle(coloured) == f"// tapec-ir 1\n{PROGRAM}"
    assert tapec("opt {program}", names).stdout == f"// tapec-ir 1\n{PROGRAM}"  # no terminal
    monkeypatch.setenv("TERM", "xterm")
    assert config.colours()
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not config.colours()


@pytest.mark.parametrize(
    ("words", "start", "offered"),
    [
        ([], "", set(COMMANDS)),
        ([], "ht", {"html"}),
        (["ir"], "--lev", {"--level"}),
        (["ir", "--level"], "a", {"asm"}),
        (["cache"], "", {"clear", "info"}),
    ],
)
def test_completion(words: list[str], start: str, offered: set[str]) -> None:
    shell = ShellComplete(main, {}, "tapec", "_TAPEC_COMPLETE")
    assert {item.value for item in shell.get_completions(words, start)} == offered


def test_places_are_completed(tmp_path: Path) -> None:
    """Files, and behind the colon what they decorate."""
    (tmp_path / "f.py").write_text(
        "import tapec\n@tapec.compile\ndef step(x): return x\n@tapec.compile\ndef go(x): return x\n"
    )
    shell = ShellComplete(main, {}, "tapec", "_TAPEC_COMPLETE")
    for command in ("ir", "html", "why", "diff"):
        (item,) = shell.get_completions([command], "f")
        assert item.type == "file"
        found = shell.get_completions([command], f"{tmp_path}/f.py:s")
        assert [item.value for item in found] == [f"{tmp_path}/f.py:step"]
    assert not shell.get_completions(["ir"], f"{tmp_path}/nowhere.py:s")


def test_the_shell_asks_and_is_answered(tmp_path: Path) -> None:
    """The script that bash evaluates, and what it then calls."""
    code = "from tapec.cli import start; import sys; sys.argv[0] = 'tapec'; start()"

    def asked(**variables: str) -> str:
        command, env = [sys.executable, "-c", code], os.environ | variables
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
        return done.stdout

    script = tmp_path / "tapec.bash"
    script.write_text(asked(_TAPEC_COMPLETE="bash_source"))
    assert "complete -o nosort -F _tapec_completion tapec" in script.read_text()
    subprocess.run(["bash", "-n", script], check=True)
    answer = asked(_TAPEC_COMPLETE="bash_complete", COMP_WORDS="tapec re", COMP_CWORD="1")
    assert answer == "plain,reduce\nplain,retrace\n"
