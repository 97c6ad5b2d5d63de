"""The command line: what commands print, and how they fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from tapec.cli import COMMANDS, HELP, kept_help, main
from tapec.ir import OPS
from tapec.passes import PASSES
from tapec.runtime import Cache

PROGRAM = """\
// tapec-ir 1
func @f(%x: f32[4], %w: f32[4]) -> (f32[4], f32[4] into %w) {
  %0 = add %x, %w : f32[4]
  %1 = add %x, %w : f32[4]
  return %0, %1
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.tir"
    path.write_text(PROGRAM)
    return path


def tapec(*argv: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(a) for a in argv], input=stdin, catch_exceptions=False)


def works(*argv: object, stdin: str | None = None) -> str:
    """What a command prints that must succeed."""
    result = tapec(*argv, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*argv: object, stdin: str | None = None) -> str:
    """What a command complains that must fail, without a traceback."""
    result = tapec(*argv, stdin=stdin)
    assert result.exit_code != 0, result.output
    return result.stderr


# ---- the command itself


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from tapec.cli import main\n"
        "try: main(['--help'])\n"
        "finally: print([m for m in sys.modules if m.startswith('tapec.cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, last = done.stdout.splitlines()
    assert last == "[]"


def helped(name: str, program: str = "tapec") -> str:
    """What a command itself says of its use."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [name, "--help"], prog_name=program).stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_that_is_kept_is_what_the_command_says(name: str) -> None:
    """Else: ``python tests/test_cli.py``."""
    assert kept_help(["/bin/tapec", name, "--help"]) == helped(name)
    module = kept_help(["/lib/tapec/__main__.py", name, "--help"])
    assert module == helped(name, "python -m tapec")


def test_help_is_kept_for_wide_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_help(["tapec", "ir", "-h"]) is not None
    for argv in (
        ["tapec", "ir"],
        ["tapec", "nothing", "-h"],
        ["tapec", "--help"],
        ["main", "ir", "-h"],
    ):
        assert kept_help(argv) is None
    monkeypatch.setenv("COLUMNS", "40")
    assert kept_help(["tapec", "ir", "-h"]) is None


def test_help_of_a_command_imports_none() -> None:
    code = (
        "import sys, os; sys.argv = ['tapec', 'ir', '--help']; from tapec.cli import start\n"
        "os._exit = lambda code: print([m for m in sys.modules if m.startswith('tapec.cli.')]) or sys.exit()\n"
        "start()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: tapec ir [OPTIONS]")
    assert done.stdout.splitlines()[-1] == "[]" or done.stdout.startswith("[]")


def test_the_list_of_commands_says_what_they_say() -> None:
    for name, (place, summary) in COMMANDS.items():
        module, attribute = place.split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        assert command.name == name
        assert (command.help or "").startswith(summary.removesuffix(".")), name
        assert name in works("--help")


def test_as_a_module(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tapec", "opt", program, "--passes=nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("PassError: unknown pass 'nonsense'\n  hint: passes: inline, ")
    assert "Traceback" not in done.stderr


def test_an_unknown_command() -> None:
    assert "there is no command 'optimise': bench, build, " in fails("optimise")


# ---- opt


def test_opt_prints_the_program(program: Path) -> None:
    assert works("opt", program) == PROGRAM
    assert works("opt", "-", stdin=PROGRAM) == PROGRAM
    assert works("opt", program, "--passes=cse").count("add") == 1


def test_opt_stops_where_told(program: Path) -> None:
    once = works("opt", program, "--passes=cse,fuse", "--stop-after=1")
    assert once == works("opt", program, "--passes=cse")


def test_opt_dumps_what_can_be_continued(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    end = works("opt", program, "--passes=canonicalize,cse,dce", f"--dump={folder}")
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["00-input.tir", "01-canonicalize.tir", "02-cse.tir", "03-dce.tir"]
    command = (folder / "01-canonicalize.tir").read_text().splitlines()[1]
    assert command == "// RUN: tapec opt --passes=cse,dce 01-canonicalize.tir"
    assert works("opt", "--passes=cse,dce", folder / "01-canonicalize.tir") == end


def test_opt_narrates(program: Path) -> None:
    text = works("opt", program, "--passes=canonicalize,cse", "--dump=-")
    assert "// ----- after canonicalize: unchanged" in text
    assert "// ----- after cse: 3 → 2 ops" in text


def test_opt_tells_the_time(program: Path) -> None:
    result = tapec("opt", program, "--passes=cse,dce", "--time", "--verify-each", "--evaluate-each")
    assert [line.split()[-1] for line in result.stderr.splitlines()] == ["cse", "dce", "total"]


def test_opt_refuses_a_broken_program() -> None:
    assert fails("opt", "-", stdin="func @f() {\n}").startswith("VerifyError: invariant 2: @f")
    assert "<stdin>:1:1" in fails("opt", "-", stdin="fun @f() {\n}")


# ---- run


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("options", [[], ["--passes=default"], ["--backend=cpu"]], ids=str)
def test_run(program: Path, tmp_path: Path, by_name: bool, options: list[str]) -> None:
    given, taken = tmp_path / "in.npz", tmp_path / "out.npz"
    x, w = np.float32([1, 2, 3, 4]), np.float32([1, 1, 1, 1])  # type: ignore[arg-type]
    if by_name:
        np.savez(given, w=w, x=x)
    else:
        np.savez(given, x, w)
    text = works("run", program, f"--input={given}", f"--output={taken}", *options)
    assert text == "result 0: [2., 3., 4., 5.]\nresult 1: [2., 3., 4., 5.]\n"
    with np.load(taken) as results:
        assert [results[name].tolist() for name in results] == [[2, 3, 4, 5]] * 2


def test_run_with_random_arrays(program: Path) -> None:
    assert works("run", program) == works("run", program)
    assert works("run", program) != works("run", program, "--seed=1")


def test_run_needs_an_array_for_each_argument(program: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros(4, np.float32))
    message = fails("run", program, f"--input={tmp_path / 'in.npz'}")
    assert "has the arrays x; @f takes x, w" in message


def test_modules_with_custom_ops_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_ops.py").write_text(
        "import tapec\n@tapec.custom_op('acme.twice')\ndef twice(x):\n    return x + x\n"
    )
    monkeypatch.chdir(tmp_path)
    text = 'func @f(%x: f32[2]) -> f32[2] {\n  %0 = acme.twice %x {content = "0"} : f32[2]\n  return %0\n}\n'
    assert "acme.twice is a custom op" in fails("opt", "-", stdin=text)
    assert "No module named 'acme_oops'" in fails("opt", "-", "--import=acme_oops", stdin=text)
    try:
        said = fails("opt", "-", "--import=acme_ops", stdin=text)
        content = re.search(r"the one registered here has (\w+)", said)
        assert content is not None
        right = text.replace('"0"', f'"{content[1]}"')
        assert content[1] in works("opt", "-", "--import=acme_ops", stdin=right)
    finally:
        OPS.pop("acme.twice", None)
        sys.modules.pop("acme_ops", None)


# ---- tables


def test_ops() -> None:
    lines = works("ops").splitlines()
    assert {line.split()[0] for line in lines[1:]} == set(OPS)
    assert all(len(line.split()) > 3 for line in lines)
    described = works("ops", "sum", "mul")
    assert described.startswith("sum  (tensor level, index form)")
    assert "attributes  axes" in described
    assert "mul  (both levels, index form)" in described
    assert "cuda        no: a device cannot call functions of Python's" in works("ops", "invoke")
    assert "vjp" in described
    assert "no operation is called summ" in fails("ops", "summ")


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_operation_can_be_described(name: str) -> None:
    assert works("ops", name).startswith(f"{name}  (")


def test_passes() -> None:
    text = works("passes")
    assert all(f"\n{name} " in text for name in PASSES)
    assert "\ndefault " in text
    assert "without the marks a gradient walks too far" in text


def test_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    monkeypatch.setenv("TAPEC_CACHE", str(folder))
    monkeypatch.setenv("TAPEC_CACHE_SIZE", "7")
    assert works("cache", "info").splitlines() == [
        f"folder  {folder}",
        "used    yes",
        "holds   0 programs, 0.0 MiB, of 7 MiB at most",
    ]
    Cache(folder).put("a", bytes(3 << 20))
    assert "holds   1 programs, 3.0 MiB" in works("cache", "info")
    folder.chmod(0o777)
    assert "used    no: others may write to it" in works("cache", "info")
    assert "others may write to it" in fails("cache", "clear")
    folder.chmod(0o700)
    assert works("cache", "clear") == "removed 1 programs, 3.0 MiB\n"
    assert "holds   0 programs" in works("cache", "info")
    monkeypatch.setenv("TAPEC_CACHE", "0")
    assert "no programs are kept" in fails("cache", "info")


def test_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_CHECK", "2")
    (line,) = [line for line in works("config").splitlines() if line.startswith("TAPEC_CHECK")]
    assert line.split()[:3] == ["TAPEC_CHECK", "2", "set"]


# ---- JSON


@pytest.mark.parametrize(
    ("argv", "holds"),
    [
        (["ops"], lambda found: {row["name"] for row in found["ops"]} == set(OPS)),
        (["ops", "add"], lambda found: [row["name"] for row in found["ops"]] == ["add"]),
        (["passes"], lambda found: [row["pass"] for row in found["passes"]] == list(PASSES)),
        (["config"], lambda found: "TAPEC_CHECK" in {r["variable"] for r in found["settings"]}),
        (["cache", "info"], lambda found: isinstance(found["used"], bool) and found["most"] > 0),
        (["doctor"], lambda found: found["works"] and "processor" in found["facts"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv: list[str], holds: Callable[[Any], bool]
) -> None:
    monkeypatch.setenv("TAPEC_CACHE", str(tmp_path / "programs"))
    assert holds(json.loads(works(*argv, "--json")))


def test_run_as_json(tmp_path: Path) -> None:
    path = tmp_path / "f.tir"
    path.write_text(
        "func @f() -> (f32, i32[2]) {\n  %0 = constant {value = nan} : f32\n"
        "  %1 = iota {axis = 0} : i32[2]\n  return %0, %1\n}\n"
    )
    found = json.loads(works("run", path, "--json"))
    assert found["results"] == [
        {"dtype": "float32", "shape": [], "values": "nan"},
        {"dtype": "int32", "shape": [2], "values": [0, 1]},
    ]


def test_run_compares_backends(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "differ" not in works("run", program, "--compare")
    monkeypatch.setattr(
        "tapec.cli.run.native_results", lambda p, arrays: [np.zeros(4, np.float32)] * 2
    )
    result = tapec("run", program, "--compare")
    assert result.exit_code == 1
    assert "result 0 differs by 1.0e+00" in result.stdout


def test_run_makes_the_checks_of_a_program(tmp_path: Path) -> None:
    """Whether they hold is no result; where one does not, no backend has results."""
    path, arrays = tmp_path / "f.tir", tmp_path / "f.npz"
    path.write_text(
        "func @f(%x: f32[4], %i: i32) -> f32 {\n  check_bounds %i {size = 4}\n"
        "  %0 = lookup %x, %i {axis = 0} : f32\n  return %0\n}\n"
    )
    for index in (3, 7):
        np.savez(arrays, x=np.ones(4, np.float32), i=np.int32(index))
        for options in (
            [],
            ["--compare"],
            ["--backend=cpu"],
            ["--backend=cpu", "--passes=default"],
        ):
            result = tapec("run", path, "--input", arrays, *options)
            if index < 4:
                assert (result.exit_code, result.stdout) == (0, "result 0: 1.\n"), options
            else:
                assert (result.exit_code, result.stdout) == (2, ""), options
                assert "Error: " in result.stderr
    assert "evaluates: 1 result," in works("verify", path)


if __name__ == "__main__":
    HELP.write_text("".join(map(helped, COMMANDS)), encoding="utf-8")
