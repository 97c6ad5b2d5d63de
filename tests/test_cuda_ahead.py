"""Headers for programs on devices, with a stand-in for the compiler: what C is told is what is launched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toolchains import need, run

import tapec
from tapec.runtime.cuda import ahead
from tapec.runtime.cuda.machine_code.assembly import Assembly


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


def build(emit: str) -> tapec.aot.Built:
    """A train step for a device."""
    w = tapec.Variable(np.ones((4, 3), np.float32), name="w")

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.square(x @ w - np.arange(3, dtype=np.float32)))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return tapec.aot.build(step, "f32[8,4]", target="cuda-sm_90", name="model", emit=emit)


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


def test_headers_are_c(built: tapec.aot.Built, tmp_path: Path) -> None:
    need("gcc")
    built.write(tmp_path)
    driver = """
        typedef int CUresult; typedef void *CUmodule, *CUstream, *CUfunction;
        typedef unsigned long long CUdeviceptr;
        enum { CUDA_SUCCESS };
        int cuModuleGetFunction(CUfunction *, CUmodule, const char *);
        int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           CUstream, void **, void **);
    """
    source = f'#define CUDA_VERSION 13000\n{driver}\n#include "model.h"\n'
    source += "int call(CUmodule m, const CUdeviceptr *b) { return model_step(m, 0, b); }\n"
    (tmp_path / "main.c").write_text(source, encoding="utf-8")
    flags = "-std=c99 -Wall -Wextra -Werror -c main.c -o main.o".split()
    run("gcc", *flags, cwd=tmp_path)


def test_open_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "Compiler", Kernels)
    with pytest.raises(tapec.errors.TargetError, match="leaves sizes open"):
        tapec.aot.build(lambda x: x + 1.0, "f32[N<=8]", target="cuda-sm_90", name="model")
