"""Programs' text that nobody wrote with care: errors with a line, never a traceback, a hang or an exhausted machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tapec.cli import main
from tapec.errors import TapecError
from tapec.ir.parser import parse_module

GOLDEN = sorted((Path(__file__).parent / "golden").rglob("*.tir"))
TEXTS = [path.read_text(encoding="utf-8") for path in GOLDEN]
#: Pieces of programs, for what is put in the place of something else.
PIECES = [
    *[
        "%0",
        "%x",
        "f32[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "->",
        "into",
        "func",
        "@f",
        "99999999999999",
        "-1",
    ],
    *[
        "nan",
        '"',
        "//",
        "^(",
        ":",
        ",",
        "=",
        "loc(",
        "dense",
        "N in 1..",
        "where",
        "\x00",
        "é",
        "1e400",
    ],
    *["yield", "loop", "kernel"],
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A golden program in which some things were taken out, doubled, or put in the place of others."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        kind = draw(st.sampled_from(["piece", "cut", "twice", "swap"]))
        if kind == "piece":
            text = text[:start] + draw(st.sampled_from(PIECES)) + text[end:]
        elif kind == "cut":
            text = text[:start] + text[end:]
        elif kind == "twice":
            text = text[:end] + text[start:]
        else:
            lines = text.splitlines(keepends=True)
            i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2)) if lines else (0, 0)
            if lines:
                lines[i], lines[j] = lines[j], lines[i]
            text = "".join(lines)
    return text


@given(mutated())
def test_mutated_programs(text: str) -> None:
    """Every command reads them or says what is wrong."""
    for argv in (["opt", "-"], ["opt", "-", "--passes=canonicalize,cse,dce,adjoint,prune"]):
        result = CliRunner().invoke(main, argv, input=text)
        assert result.exit_code in (0, 2), (result.output, result.exception)
        if result.exit_code:
            assert "Error: " in result.stderr
            assert "Traceback" not in result.stderr


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    try:
        parse_module(text)
    except TapecError:
        pass


HEAD = "func @f(%x: f32[4]) -> f32[4] {\n"
HOSTILE = {
    "large result": HEAD
    + "  %0 = broadcast %x {axes = [1], shape = [1000000000000, 4]} : f32[1000000000000,4]\n"
    "  %1 = sum %0 {axes = [0]} : f32[4]\n  return %1\n}\n",
    "large constant": "func @f() -> f32[1000000000000] {\n"
    "  %0 = constant {value = 0.0} : f32[1000000000000]\n  return %0\n}\n",
    "large iota": "func @f() -> i64 {\n  %0 = iota {axis = 0} : i64[1000000000000]\n"
    "  %1 = sum %0 {axes = [0]} : i64\n  return %1\n}\n",
    "large argument": "func @f(%x: f32[1000000,1000000]) -> f32[1000000,1000000] {\n  return %x\n}\n",
    "deep brackets": HEAD + "  %0 = neg %x {a = " + "[" * 100_000 + "]" * 100_000 + "} : f32[4]\n",
    "deep regions": HEAD + "  %0 = cond %x {\n" * 100_000,
    "deep dims": "func @f(%x: f32[" + "(" * 100_000 + "N" + ")" * 100_000 + "]) {\n}\n",
    "long power": "func @f(%x: f32[" + "N*" * 50_000 + "N]) {\n}\n",
    "many dims": "func @f(%x: f32[" + ",".join("2" * 100_000) + "]) -> f32 {\n}\n",
    "large number": HEAD + "  %0 = constant {value = 1" + "0" * 100_000 + "} : i64\n",
}


#: Run by a process of its own: for each file the exit code and what the command complained.
RUNNER = """
import json, resource, sys
from click.testing import CliRunner
from tapec.cli import main
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
*argv, files = sys.argv[1:]
found = {}
for name, file in json.loads(files).items():
    result = CliRunner().invoke(main, [*argv, file])
    found[name] = [result.exit_code, repr(result.exception), result.stderr]
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    "argv",
    [["opt", "--passes=evaluated"], ["run"], ["verify"], ["ir", "--level=loop"]],
    ids=" ".join,
)
def test_hostile_programs(tmp_path: Path, argv: list[str]) -> None:
    """With 3 GB of memory and a minute of time for all of them."""
    files = {}
    for name, text in HOSTILE.items():
        path = tmp_path / f"{name}.tir"
        path.write_text(text)
        files[name] = str(path)
    command = [sys.executable, "-c", RUNNER, *argv, json.dumps(files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name, (code, exception, stderr) in json.loads(done.stdout).items():
        # Exceptions other than the end of a command are bugs.
        assert code in (0, 1, 2), (name, exception)
        assert exception.startswith(("SystemExit", "None")), (name, exception)
        assert "Error: " in stderr or code == 0, (name, stderr)
        assert len(stderr) < 2_000, (name, stderr)


def test_text_runs_no_python(tmp_path: Path) -> None:
    """What stands in a program is data, whatever it looks like."""
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    for text in (
        f"func @f(%x: f32[{code}]) {{\n}}\n",
        HEAD + f'  %0 = neg %x {{a = "{code}"}} : f32[4]\n  return %0\n}}\n',
        HEAD + f"  %0 = neg %x : f32[4] loc({code!r}:1)\n  return %0\n}}\n",
    ):
        path = tmp_path / "f.tir"
        path.write_text(text)
        for command in ("opt", "run", "verify"):
            CliRunner().invoke(main, [command, str(path)])
    assert not marker.exists()


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe\x00", b"func @f() {\x80", b'// tapec-ir 1, constants in "f.tir"\nfunc @f() {\n}\n',
     b'// tapec-ir 1, constants in "nowhere.npz"\n', b'// tapec-ir 1, constants in "/"\n', b""],
    ids=["binary", "latin", "no-archive", "missing", "folder", "empty"],
)  # fmt: skip
def test_files_that_are_no_programs(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "f.tir"
    path.write_bytes(data)
    for argv in (["opt"], ["run"], ["ir"], ["reduce", "--test", "false"], ["diff", str(path)]):
        result = CliRunner().invoke(main, [*argv, str(path)])
        assert result.exit_code == 2, (argv, result.exception)
        assert "Error: " in result.stderr


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "f.tir"
    path.write_text(HEAD + "  %0 = neg %x : f32[4]\n  return %0\n}\n")
    place = str(path / "below")  # a file has nothing below it
    for argv in (
        ["html", str(path), "-o", place],
        ["mem", str(path), "--svg", place],
        ["run", str(path), "--output", place],
        ["opt", str(path), "--passes=cse", "--dump", place],
        ["reduce", str(path), "--test", "false", "-o", place],
    ):
        result = CliRunner().invoke(main, argv)
        assert result.exit_code == 2, (argv, result.exception)
        assert place in result.stderr
