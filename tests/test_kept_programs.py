"""Programs that were compiled once: found again, by other processes too, which then load no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from loop_programs import arena_module, kernel_module

from tapec.ir.core import Module
from tapec.ir.errors import ShapeError
from tapec.ir.parser import parse_module
from tapec.ir.types import BF16, F16
from tapec.runtime import compile_module, find_program
from tapec.runtime.cpu.machine_code import jit

TEXT = """
func @f(%x: &f32[8], %r: &f32[8]) {
  launch %x, %r {kernel = "k"}
  return
}
kernel @k(%x: &f32[8], %r: &f32[8]) {
  %zero = constant {value = 0} : index
  %v = load %x, %zero {lanes = 8} : f32x8
  %w = exp %v : f32x8
  store %w, %r, %zero
  return
}
"""


def program() -> Module:
    module = parse_module(TEXT)
    module.entry.attrs["inputs"] = 1
    return module


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.image"))


def test_a_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_module(program(), cache=tmp_path)
    (path,) = entries(tmp_path)
    compiled: list[str] = []
    original = jit.JitCompiler.compile_all

    def compile_and_count(self: jit.JitCompiler, texts: list[str], threads: int) -> list[bytes]:
        compiled.extend(texts)
        return original(self, texts, threads)

    monkeypatch.setattr(jit.JitCompiler, "compile_all", compile_and_count)
    second = compile_module(program(), cache=str(tmp_path))
    assert not compiled
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    np.testing.assert_array_equal(first(x)[0], second(x)[0])
    compile_module(program(), cache=tmp_path, opt=2)  # other options, another entry
    assert len(compiled) == 1
    assert len(entries(tmp_path)) == 2
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    third = compile_module(program(), cache=tmp_path)
    assert len(compiled) == 2
    np.testing.assert_array_equal(first(x)[0], third(x)[0])
    assert path.read_bytes() == data


def test_a_program_is_found_by_what_it_was_made_from(tmp_path: Path) -> None:
    """The key stands for a program before any pass; the signature comes from the folder as well."""
    module = arena_module()
    made = compile_module(module, cache=tmp_path, key="source")
    found = find_program("source", cache=tmp_path)
    assert found is not None
    assert found.signature == made.signature
    assert str(found.inputs[0]) == "f32[N,4]"
    x, w = np.ones((3, 4), np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(found(x, w)[0], 3)
    assert find_program("other", cache=tmp_path) is None
    assert find_program("source", cache=tmp_path, threads=2) is None
    with pytest.raises(ShapeError, match="x is"):
        found(np.ones((3, 5), np.float32), w)


def test_programs_of_one_text_are_kept_apart(tmp_path: Path) -> None:
    """Copying float16 and bfloat16 is the same native code, but not the same program."""
    body = """
  %zero = constant {value = 0} : index
  %v = load %x, %zero : DT
  store %v, %r, %zero"""
    for dtype in (F16, BF16, F16):
        signature = f"%x: &{dtype.code}[1], %r: &{dtype.code}[1]"
        module = kernel_module(signature, body.replace("DT", dtype.code), inputs=1)
        executable = compile_module(module, cache=tmp_path)
        (result,) = executable(np.ones(1, dtype.numpy))
        assert result.dtype == dtype.numpy
        assert result[0] == 1
    assert len(entries(tmp_path)) == 2


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path) -> None:
    """Root may write anywhere, so a file stands where the folder should."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        executable = compile_module(program(), cache=blocked)
    x = np.zeros(8, np.float32)
    np.testing.assert_array_equal(executable(x)[0], 1)


def test_a_warm_start_needs_no_compiler(tmp_path: Path) -> None:
    """Neither LLVM nor SciPy is imported where the program is found, with threads or without."""
    code = """
import sys
import numpy as np
from tapec.ir.parser import parse_module
from tapec.runtime import compile_module
module = parse_module(sys.argv[1])
module.entry.attrs["inputs"] = 1
executable = compile_module(module, cache=sys.argv[2], threads=2)
print(float(executable(np.zeros(8, np.float32))[0].sum()), "llvmlite" in sys.modules)
"""
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, TEXT, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed[0] == ["8.0", "True"]
    assert printed[1] == ["8.0", "False"]


FORKED = """
import os, sys
import numpy as np
import tapec
from tapec.passes import PASSES
from tapec.runtime.cpu import program
from tapec.runtime.cpu.machine_code import jit

[row.run for row in PASSES.values()]  # imported here, once for all
w = tapec.Variable(np.ones(4, np.float32))

@tapec.compile
def step(x):
    w.assign_sub(0.5 * x)
    return tapec.reduce_sum(w * x)

x = tapec.constant([1.0, 2.0, 3.0, 4.0])
gate, children = os.pipe(), []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os.close(gate[1])
        os.read(gate[0], 1)  # until all are there
        right = float(step(x)) == -5.0 and w.numpy().tolist() == [0.5, 0.0, -0.5, -1.0]
        os._exit(0 if right else 1)
    children.append(child)
os.close(gate[1])
print(sum(os.waitpid(child, 0)[1] == 0 for child in children))
jit.JitCompiler.compile_all = None
step(x)
"""


def test_many_processes_share_one_cold_folder(tmp_path: Path) -> None:
    """Fifty start at once, and each computes the same; whoever comes later compiles nothing."""
    folder = tmp_path / "cold"
    done = subprocess.run(
        [sys.executable, "-c", FORKED, "50"],
        env={**os.environ, "TAPEC_CACHE": str(folder), "TAPEC_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "50\n"), done.stderr
    assert not [p for p in folder.iterdir() if p.suffix not in ("", ".image")]


SECOND = """
import sys
import numpy as np
import tapec

at_start = [m for m in ("tapec.passes.fuse", "tapec.tape", "tapec.compiled.function") if m in sys.modules]
w = tapec.Variable(np.ones((4, 2), np.float32))
optimizer = tapec.optimizers.Adam(0.1)

@tapec.compile
def step(x):
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_mean(tapec.nn.relu(x @ w) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss

first = float(step(tapec.ones([3, 4])))
needless = ["llvmlite", "scipy", "rich", "malt", "tapec.ir.parser", "tapec.ir.verifier"]
needless += ["tapec.passes.pipeline", "tapec.passes.fuse", "tapec.passes.lower"]
needless += ["tapec.explanations.answers", "tapec.explanations.memory", "tapec.derivatives.eager_gradient"]
print(first, at_start, [m for m in needless if m in sys.modules])
"""


def test_a_second_process_loads_only_what_it_runs(tmp_path: Path) -> None:
    """Start-up time is mostly imports: a program that is found needs no compiler, no pass and no explanations."""
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SECOND],
            env={**os.environ, "TAPEC_CACHE": str(tmp_path / "programs")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0].startswith("16.0 [] ['llvmlite'")
    assert printed[1] == "16.0 [] []\n"


LOADED = """
import sys, tapec
from tapec.runtime.cpu.parts import LOADED; tapec.experimental.load_compiler()
before, parts = set(sys.modules), sorted(LOADED)
w = tapec.Variable(tapec.ones([4, 4]))

@tapec.compile
def f(x):
    with tapec.GradientTape() as tape:
        for _ in tapec.range(3):
            x = tapec.nn.relu(x @ w)
        loss = tapec.reduce_sum(x if loss_is_sum else tapec.math.log(x))
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss, {"x": x}

loss_is_sum = True
f(tapec.ones([4, 4]))
compiler = "tapec.runtime.cpu.machine_code.jit"
print("llvmlite" in before, compiler in before, [m for m in set(sys.modules) - before if m != "atexit"])
print(parts, len(LOADED))
"""


def test_what_a_first_call_loads_can_be_loaded_before(tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # what is converted needs a file
    script.write_text(LOADED)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TAPEC_CACHE": "0", "TAPEC_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True True []\n['blocks', 'pool'] 2\n", done.stderr
