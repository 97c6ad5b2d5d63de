"""Headers for programs on devices, with a stand-in for the compiler: what C is told is what is launched."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toolchains import need, run

import tapec
from tapec.compiler import lowered_for
from tapec.runtime.cuda import ahead
from tapec.runtime.cuda.launches import recorded
from tapec.runtime.cuda.machine_code.assembly import Assembly
from tapec.runtime.cuda.text.module_text import write_text


class Kernels:
    """A compiler that makes entries without instructions."""

    def __init__(self, text: Any, architecture: str, prefix: str) -> None:
        """Note the names."""
        self.architecture, self.prefix = architecture, prefix

    def kernel(self, name: str, *, lines: bool) -> Assembly:
        """An entry."""
        entry = f"{self.prefix}{name}"
        ptx = f".version 9.0\n.target {self.architecture}\n.address_size 64\n.visible .entry {entry}() {{}}\n"
        return Assembly(name, entry, ptx, self.architecture)


def train_step() -> Any:
    """A function that updates a Variable."""
    w = tapec.Variable(np.ones((4, 3), np.float32), name="w")

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.square(x @ w - np.arange(3, dtype=np.float32)))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return step


def build(emit: str) -> tapec.aot.Built:
    """A train step for a device."""
    return tapec.aot.build(train_step(), "f32[8,4]", target="cuda-sm_90", name="model", emit=emit)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> tapec.aot.Built:
    """All files of it."""
    monkeypatch.setattr(ahead, "Compiler", Kernels)
    monkeypatch.setattr(Assembly, "cubin", lambda self: (b"code", ""))
    return build("obj,header")


def test_files(built: tapec.aot.Built) -> None:
    assert sorted(built.files) == [
        f"model.{end}" for end in ("constants.bin", "cubin", "h", "ptx", "state.bin")
    ]
    assert built.files["model.state.bin"] == np.ones(12, np.float32).tobytes()
    assert built.files["model.constants.bin"][:12] == np.arange(3, dtype=np.float32).tobytes()


def test_ptx_alone_needs_no_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "Compiler", Kernels)
    monkeypatch.delattr(Assembly, "cubin")
    found = build("ptx").files
    assert sorted(found) == ["model.constants.bin", "model.ptx", "model.state.bin"]


def test_a_module_has_one_head(built: tapec.aot.Built) -> None:
    text = built.files["model.ptx"].decode()
    assert text.count(".version") == text.count(".target") == 1
    header = built.files["model.h"].decode()
    launched = set(re.findall(r'\{"(\w+)", \d', header))
    assert launched == set(re.findall(r"\.entry (\w+)\(", text))


DECLARED = """
#define CUDA_VERSION 13000
typedef int CUresult; typedef void *CUmodule, *CUstream, *CUfunction;
typedef unsigned long long CUdeviceptr;
enum { CUDA_SUCCESS };
int cuModuleGetFunction(CUfunction *, CUmodule, const char *);
int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   CUstream, void **, void **);
#include "model.h"
"""


def compile_header(built: tapec.aot.Built, folder: Path) -> None:
    """As C, with no warning."""
    need("gcc")
    built.write(folder)
    source = DECLARED
    for name in re.findall(r"CUresult (\w+)\(", built.files["model.h"].decode()):
        source += (
            f"int call_{name}(CUmodule m, const CUdeviceptr *b) {{ return {name}(m, 0, b); }}\n"
        )
    (folder / "main.c").write_text(source, encoding="utf-8")
    run("gcc", *"-std=c99 -Wall -Wextra -Werror -c main.c -o main.o".split(), cwd=folder)


def test_headers_are_c(built: tapec.aot.Built, tmp_path: Path) -> None:
    compile_header(built, tmp_path)


@pytest.mark.usefixtures("built")
def test_arguments_are_called_as_nothing_else_in_a_header(tmp_path: Path) -> None:
    """Also those that are named like a part of it, or like one that another function has."""
    functions = {
        "f": lambda constants, launches, x_buffers: constants + launches + x_buffers,
        "f_x": lambda x: {"state": x * 2.0, "arena": x, "X": x + 1.0},
        "constants": lambda x: {"bytes": x + 1.0},
    }
    types = dict(zip(functions, ("f32[3] f32[3] f32[3]", "f32[3]", "f32[3]"), strict=True))
    compile_header(tapec.aot.build(functions, types, target="cuda-sm_80", name="model"), tmp_path)


def test_what_calls_python_is_refused() -> None:
    """With the line, and the remedy; nothing listens on a device."""

    def shown(x: Any) -> Any:
        tapec.print(x)
        return x

    with pytest.raises(tapec.errors.TargetError, match=r"(?s)print calls Python.*hint: return"):
        tapec.aot.build(shown, "f32[3]", target="cuda-sm_90")


DRIVER = """
#include <stdio.h>
typedef int CUresult; typedef void *CUmodule, *CUstream; typedef const char *CUfunction;
typedef unsigned long long CUdeviceptr;
enum { CUDA_SUCCESS };
static int cuModuleGetFunction(CUfunction *found, CUmodule module, const char *name) {
    *found = name;
    return module ? CUDA_SUCCESS : 1;
}
static unsigned arguments_of(const char *kernel);
static int cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c,
                          unsigned shared, CUstream stream, void **arguments, void **extra) {
    printf("%s %u %u %u", f, x * y * z, a * b * c, shared);
    for (unsigned n = 0; n < arguments_of(f); n++) printf(" %llu", *(CUdeviceptr *)arguments[n]);
    puts("");
    return stream || extra;
}
#define CUDA_VERSION 13000
#include "model.h"
static unsigned arguments_of(const char *kernel) {
    for (unsigned i = 0; i < MODEL_STEP_LAUNCHES; i++)
        if (model_step_launches[i].kernel == kernel) return model_step_launches[i].count;
    return 0;
}
int main(void) {
    CUdeviceptr buffers[MODEL_STEP_BUFFERS];
    for (unsigned n = 0; n < MODEL_STEP_BUFFERS; n++) buffers[n] = (n + 1) * 1000000ull;
    buffers[MODEL_STEP_ARENA] = 0;
    return model_step((void *)buffers, 0, buffers);
}
"""


def test_c_launches_what_a_call_does(built: tapec.aot.Built, tmp_path: Path) -> None:
    """With a driver that writes down what it is asked for: the kernels, their sizes, and places in the arena."""
    need("gcc")
    built.write(tmp_path)
    (tmp_path / "main.c").write_text(DRIVER, encoding="utf-8")
    run("gcc", *"-std=c99 -Wall -Wextra -Werror main.c -o main".split(), cwd=tmp_path)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    asked = [line.split() for line in done.stdout.splitlines()]
    module = tapec.compile(train_step()).trace(tapec.TensorSpec([8, 4]))
    launches = recorded(write_text(lowered_for(module, "cuda")))
    assert launches
    expected = [
        [f"model_step_{one.kernel.name}", *map(str, (one.blocks, one.threads, one.kernel.shared))]
        for one in launches
    ]
    assert [line[:4] for line in asked] == expected
    for line, one in zip(asked, launches, strict=True):
        places = [int(place) for place in line[4:]]
        assert len(places) == len(one.memory)
        for place, memory in zip(places, one.memory, strict=True):
            # Every other buffer begins at another million.
            assert (place < 1000000) == (memory.kind == "arena")
            assert place % 1000000 == memory.offset


def test_open_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "Compiler", Kernels)
    with pytest.raises(tapec.errors.TargetError, match="leaves sizes open"):
        tapec.aot.build(lambda x: x + 1.0, "f32[N<=8]", target="cuda-sm_90", name="model")
