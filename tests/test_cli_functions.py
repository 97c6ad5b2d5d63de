"""The commands that look at a compiled function in a user's file."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tapec.cli import main
from tapec.ir.core import Module
from tapec.ir.parser import parse_module
from tapec.passes import cse

TRAINING = """
import sys
import tapec

print("from", __name__, sys.argv)
w = tapec.Variable([1.0, 2.0])

class Trainer:
    @tapec.compile
    def other(x):
        return x + 1.0

@tapec.compile
def step(x):
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum(tapec.tanh(x * w) * 2.0)
    gradient = tape.gradient(loss, w)
    w.assign_sub(gradient * tapec.constant(0.1))
    return loss

@tapec.compile(input_signature=[tapec.TensorSpec([None, 5])])
def declared(x):
    return tapec.exp(x)

if __name__ == "__main__":
    step(tapec.constant([1.0, 2.0]))
    print("never reached")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    return path


def tapec(*argv: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in argv], catch_exceptions=False)


def works(*argv: object, code: int = 0) -> str:
    """What a command prints that must end with this code."""
    result = tapec(*argv)
    assert result.exit_code == code, result.output
    return result.stdout


def refused(*argv: object) -> str:
    """The one line by which a command says what there is instead."""
    result = tapec(*argv)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    message = result.stderr.splitlines()[-1]
    assert message.startswith("Error: "), result.stderr
    return message


# ---- which function


def test_the_file_runs_until_it_calls_the_function(file: Path) -> None:
    result = tapec("ir", f"{file}:step")
    assert (
        "func @step(%x: f32[2], %Variable: f32[2]) -> (f32, f32[2] into %Variable)" in result.stdout
    )
    assert "from __main__" in result.stderr
    assert "never reached" not in result.stderr


def test_with_types_it_is_only_imported(file: Path) -> None:
    for types in (["--shapes=f64[3,5]"], ["--arg", "x=f64[3,5]"]):
        result = tapec("ir", f"{file}:Trainer.other", *types)
        assert "(%x: f64[3,5]) -> f64[3,5] {" in result.stdout
        assert "from train" in result.stderr
    planned = works("ir", f"{file}:Trainer.other", "--shapes=f64[N,5]", "--after=plan")
    assert "<N in 1..>(%x: f64[N,5]) -> f64[N,5]" in planned


def test_a_function_that_nobody_calls_has_its_own_signature(file: Path) -> None:
    assert re.search(r"@declared<.* in 1\.\.>\(%x: f32\[.*,5\]\)", works("ir", f"{file}:declared"))


@pytest.mark.parametrize(
    ("where", "options", "says"),
    [
        ("{}:stop", [], "has no compiled function stop: it has declared, step"),
        ("{}:Trainer.other", [], "does not call Trainer.other: give the types"),
        ("{}", [], "expected FILE:FUNCTION"),
        ("nowhere.py:step", [], "there is no file nowhere.py"),
        ("{}:step", ["--shapes=&f32[3]"], "expected a type such as f32[32,784], got '&f32[3]'"),
        ("{}:step", ["--shapes=f33"], "expected a type, got 'f33'"),
        ("{}:step", ["--arg=3=f32"], "expected NAME=TYPE"),
        (
            "{}:step",
            ["--around=%nothing"],
            "the program has no value %nothing: it has %x, %Variable",
        ),
        ("{}:step", ["--grep=("], "is no regular expression"),
    ],
)
def test_what_there_is_not(file: Path, where: str, options: list[str], says: str) -> None:
    assert says in refused("ir", where.format(file), *options)


def test_a_pass_that_there_is_not(file: Path) -> None:
    result = tapec("ir", f"{file}:step", "--after=nonsense")
    assert result.exit_code == 2
    assert "has no pass 'nonsense'" in result.stderr


# ---- what a file does

SCRIPTS = {
    "x = 1 / 0\n": "file.py raises ZeroDivisionError: division by zero",
    "def f(:\n": "file.py raises SyntaxError: invalid syntax",
    "import nowhere\n": "file.py raises ModuleNotFoundError: No module named 'nowhere'",
    "raise SystemExit(3)\n": "ended before it called f: exit code 3; what it is to be called with follows",
}


@pytest.mark.parametrize("options", [[], ["--shapes=f32[3]"]], ids=["run", "types"])
@pytest.mark.parametrize("text", SCRIPTS)
def test_a_file_that_fails(tmp_path: Path, text: str, options: list[str]) -> None:
    """Its own error in a line, then the way there from its first line on, not through ours."""
    path = tmp_path / "file.py"
    path.write_text(text)
    result = tapec("ir", f"{path}:f", *options)
    assert result.exit_code == 2
    if "Exit" not in text:
        assert SCRIPTS[text] in result.stderr
        assert "cli" not in result.stderr
    else:
        assert (SCRIPTS[text] if not options else "file.py ended: exit code 3") in result.stderr


def test_a_file_gets_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(
        "import argparse, tapec\np = argparse.ArgumentParser()\np.add_argument('--size', type=int, required=True)\n"
        "size = p.parse_args().size\n@tapec.compile\ndef f(x): return x * 2.0\nf(tapec.ones([size]))\n"
    )
    for command in ("ir", "flops", "mem", "verify", "why"):
        works(command, f"{path}:f", "--", "--size", "5")
    assert "(%x: f32[5])" in works("ir", f"{path}:f", "--run", "--", "--size=5")
    assert "--size" in tapec("ir", f"{path}:f").stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--arg=x="], "--arg x: expected a type such as f32[32,784], got ''"),
        (["--arg=x=f32[2]", "--arg=x=f32[3]"], "--arg: x is given twice"),
        (["--arg=y=f32[2]"], "step takes (x): missing a required argument: 'x'"),
        (["--shapes=f32[2] f32[2]"], "step takes (x): too many positional arguments"),
        (["--run", "--shapes=f32[2]"], "--run takes the types of the call"),
    ],
)
def test_types_of_other_arguments(file: Path, options: list[str], says: str) -> None:
    assert says in refused("ir", f"{file}:step", *options)


def test_nobody_wrote_the_line_of_a_command(file: Path) -> None:
    """An error about given types is at no line of the user's, nor at one of those that read them."""
    result = tapec("ir", f"{file}:declared", "--shapes=f32[3,4]")
    assert result.exit_code == 2
    assert "click" not in result.stderr


@pytest.mark.parametrize("command", ["html", "verify", "flops", "mem", "ir"])
def test_sizes_that_are_open(file: Path, tmp_path: Path, command: str) -> None:
    output = ["-o", str(tmp_path / "page.html")] if command == "html" else []
    works(command, f"{file}:Trainer.other", "--shapes=f32[N,5]", *output)


def test_differences_of_a_function_that_nobody_calls(file: Path) -> None:
    where = f"{file}:Trainer.other"
    text = works("diff", f"{where}@input", f"{where}@canonicalize", "--shapes=f32[3]", code=1)
    assert "-  %v1 = broadcast %v0" in text
    assert "the programs are the same" in works("diff", where, where, "--shapes=f32[3]")


# ---- ir


def test_ir_at_levels_and_stages(file: Path) -> None:
    assert f'loc("{file}"' in works("ir", f"{file}:step", "--locs")
    assert "kernel @" in works("ir", f"{file}:step", "--after=lower")
    assert "place = [" in works("ir", f"{file}:step", "--level=kernels")
    assert "define " in works("ir", f"{file}:step", "--level=llvm")
    costs = works("ir", f"{file}:step", "--cost", "--memory")
    assert re.search(r"\d flops, .* bytes in \d+ kernels", costs)
    assert "are alive at one time" in costs
    assert "func @step" not in costs


def test_ptx_takes_what_makes_it(file: Path) -> None:
    """Numba's own cuda is not enough."""
    result = tapec("ir", f"{file}:step", "--level=ptx")
    if find_spec("numba_cuda") is None:
        assert (result.exit_code, result.stdout) == (2, "")
        assert "hint: pip install 'tapec[cuda]'" in result.stderr
    else:
        assert ".entry" in result.stdout


def test_ir_tells_how_long_compiling_takes(file: Path) -> None:
    lines = works("ir", f"{file}:step", "--time").splitlines()
    assert [line.split()[-1] for line in lines[-4:]] == ["poll", "text", "LLVM", "total"]
    assert [line.split()[-2] for line in lines[-4:-1]] == ["ops", "lines", "bytes"]
    assert all(" ms " in line for line in lines)


def test_the_margin_is_a_comment(file: Path) -> None:
    plain = parse_module(works("ir", f"{file}:step", "--after=prune"))
    text = works("ir", f"{file}:step", "--after=prune", "--source", "--costs")
    assert re.search(r"%\w+ = mul .* // +8B +2F  :16  loss = tapec.reduce_sum", text)
    assert re.search(r"%\w+ = tanh .* // +8B +2F  :16$", text, re.MULTILINE)
    assert len(list(parse_module(text).walk())) == len(list(plain.walk()))


def test_every_stage_can_be_read_back(file: Path) -> None:
    text = works("ir", f"{file}:step", "--all")
    heads = re.findall(r"^// ----- ([\w-]+).*: \d+ ops", text, re.MULTILINE)
    assert heads[0] == "input"
    assert heads[-1] == "lower"
    assert "commit" not in heads  # it changes nothing here
    for stage in re.split(r"^// -----.*\n", text, flags=re.MULTILINE)[1:]:
        parse_module(stage)
    assert "// ----- commit: unchanged" in works("ir", f"{file}:step", "--all", "--unchanged")


def test_a_value_keeps_its_name_from_pass_to_pass(file: Path) -> None:
    stages = json.loads(works("ir", f"{file}:step", "--all", "--json"))
    found = {}
    for stage in stages:
        for line in stage["lines"] if stage["stage"] != "lower" else ():
            if line.get("operation") == "tanh":
                found[stage["stage"]] = line["values"]
                assert line["line"] == 16
    assert len(found) > 4
    assert len({tuple(names) for names in found.values()}) == 1


def test_lines_that_are_asked_for(file: Path) -> None:
    assert works("ir", f"{file}:step", "--grep=tanh").count("\n") == 1
    lines = works("ir", f"{file}:step", "--around=%2").splitlines()
    assert ["%2" in line or "%0" in line or "%1" in line for line in lines] == [True] * len(lines)
    assert 2 <= len(lines) <= 5


# ---- diff, flops, verify, bench


def test_diff_shows_what_a_pass_did(file: Path) -> None:
    same = works("diff", f"{file}:step@prune", f"{file}:step@prune")
    assert re.fullmatch(r"the programs are the same: \d+ lines\n", same)
    text = works("diff", f"{file}:step", f"{file}:step@adjoint", code=1)
    assert re.search(r"^-  .* = gradient ", text, re.MULTILINE)
    assert not re.search(r"^[-+]  .* = tanh ", text, re.MULTILINE)
    found = json.loads(works("diff", f"{file}:step", f"{file}:step@adjoint", "--json", code=1))
    assert any("gradient" in line for line in found["removed"])


def test_diff_goes_by_what_is_computed(tmp_path: Path) -> None:
    head = "// tapec-ir 1\nfunc @f(%x: f32[4], %y: f32[4]) -> f32[4] {\n"
    one, other = tmp_path / "one.tir", tmp_path / "other.tir"
    one.write_text(
        head
        + "  %a = add %x, %y : f32[4]\n  %b = exp %x : f32[4]\n  %c = mul %a, %b : f32[4]\n  return %c\n}\n"
    )
    other.write_text(
        head
        + "  %p = exp %x : f32[4]\n  %q = sub %x, %y : f32[4]\n  %r = mul %q, %p : f32[4]\n  return %r\n}\n"
    )
    text = works("diff", one, other, code=1)
    assert "-  %a = add %x, %y" in text
    assert "= sub %x, %y" in text
    # The product is of the same kind, so it keeps its name; whose names are gone is one that is new.
    assert "-  %c = mul %a, %b" in text
    assert re.search(r"^\+  %c = mul %new\d+, %b", text, re.MULTILINE)


def test_flops_by_part(file: Path) -> None:
    text = works("flops", f"{file}:step")
    assert re.search(r"^value +\d+ +\d+ +\d+ +.*train.py:16 ", text, re.MULTILINE)
    assert re.search(r"^update .*assign_sub", text, re.MULTILINE)
    found = json.loads(works("flops", f"{file}:step", "--json"))
    # tanh, two products, one sum on two elements; back: 1 - t * t, three products
    assert found["flops"]["value"] == "8"
    assert found["ratio"] > 1
    assert {line["part"] for line in found["lines"]} == {"value", "adjoint", "update"}


def test_flops_of_all_turns(tmp_path: Path) -> None:
    """Three turns of an addition of four elements, and an addition behind them."""
    path = tmp_path / "loops.py"
    path.write_text(
        "import tapec\n@tapec.compile\ndef step(x):\n"
        "    return tapec.foldl(lambda a, row: a + row, x, initializer=tapec.zeros([4])) + 1.0\n"
    )
    found = json.loads(works("flops", f"{path}:step", "--shapes=f32[3,4]", "--json"))
    assert found["flops"]["value"] == "16"
    found = json.loads(works("flops", f"{path}:step", "--shapes=f32[N,4]", "--json"))
    assert found["flops"]["value"] == "4*N+4"


def test_flops_of_a_loop_that_passes_make_anew(tmp_path: Path) -> None:
    """What is taken out of a loop, and the loop with the rest, are the user's value still."""
    path = tmp_path / "cells.py"
    path.write_text(
        "import tapec\nw = tapec.Variable(tapec.ones([4, 4]))\n"
        "def cell(state, x):\n    return tapec.tanh(x @ w + state[0]), state[1] * 1.0\n"
        "@tapec.compile\ndef step(x):\n    zero = tapec.zeros([2, 4])\n"
        "    with tapec.GradientTape() as tape:\n"
        "        loss = tapec.reduce_sum(tapec.foldl(cell, x, initializer=(zero, zero))[0])\n"
        "    w.assign_sub(tape.gradient(loss, w))\n    return loss\n"
    )
    found = json.loads(works("flops", f"{path}:step", "--shapes=f32[3,2,4]", "--json"))
    # A product, an addition and tanh in each of three turns, and the sum of the last state.
    assert found["flops"]["value"] == str(3 * (2 * 2 * 4 * 4 + 8 + 8) + 8)
    assert found["flops"]["update"] == "16"


def test_verify(file: Path) -> None:
    lines = works("verify", f"{file}:step").splitlines()
    assert [line.split()[0] for line in lines] == ["ok"] * 3
    assert "2 results" in lines[-1]
    assert [row["holds"] for row in json.loads(works("verify", f"{file}:step", "--json"))] == [
        True
    ] * 3


def test_verify_finds_a_pass_that_is_wrong(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_tanh(module: Module, options: object) -> bool:
        for op in module.walk():
            if op.name == "tanh":
                op.result.replace_all_uses(op.operands[0])
        return True

    monkeypatch.setattr(cse, "run", forget_tanh)
    text = works("verify", f"{file}:step", code=1)
    assert "FAIL  each pass leaves a valid program" in text


@pytest.mark.parametrize(
    ("where", "options"),
    [("step", ["--shapes=f32[2]"]), ("step", ["--shapes=f32[N]"]), ("declared", [])],
)
def test_bench_traces_for_types(file: Path, where: str, options: list[str]) -> None:
    """Sizes may be open; then no kernel is timed by itself."""
    found = json.loads(works("bench", f"{file}:{where}", *options, "--seconds=0.01", "--json"))
    assert found["seconds"]["trace"] > 0
    assert bool(found["by kernel"]) == (options == ["--shapes=f32[2]"])
    assert "bytes of arena" in works("bench", f"{file}:{where}", *options, "--seconds=0.01")


def test_bench(file: Path) -> None:
    found = json.loads(works("bench", f"{file}:step", "--seconds=0.01", "--json"))
    assert list(found["seconds"]) == [
        "trace",
        "passes",
        "machine code",
        "first call",
        "steady call",
    ]
    assert found["kernels"] > 0
    assert "the steady call is the median of" in works("bench", f"{file}:step", "--seconds=0.01")


def test_profile_times_what_the_file_called(file: Path) -> None:
    result = tapec("profile", f"{file}:step")
    assert "where the time of step goes" in result.stdout
    assert f"{file}:" in result.stdout
    assert "from __main__" in result.stderr


def test_profile_with_types(file: Path) -> None:
    result = tapec("profile", f"{file}:Trainer.other", "--shapes=f64[3,5]")
    assert "a call, the quicker half of" in result.stdout
    assert "from train" in result.stderr
    assert "give sizes that are numbers" in refused("profile", f"{file}:step", "--shapes=f32[N]")
