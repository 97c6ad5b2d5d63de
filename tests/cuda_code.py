"""Kernels of every operation as numba.cuda and the assembler take them, with no device.

    pip install -e '.[dev,cuda-test]' && pytest tests/cuda_code.py

It needs numba-cuda, which the other tests do not, and NumPy before 2.5: so it has a process, and under CI an
environment, of its own.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import nvidia
import pytest
from programs_of_ops import Program
from sampling import arrays, retyped, tensor_ops

import tapec
from tapec.compiler import lowered_for
from tapec.ir.core import Module
from tapec.ir.op import Op
from tapec.ir.types import F32
from tapec.runtime.cuda.machine_code.assembly import Assembly, Compiler
from tapec.runtime.cuda.machine_code.intrinsics import DEVICE
from tapec.runtime.cuda.text import primitives
from tapec.runtime.cuda.text.module_text import write_text

#: The oldest one, and the one that most know.
ARCHITECTURES = ("sm_80", "sm_90")
_DOUBLE = re.compile(r"\.f64\b")


def assembled(module: Module, architecture: str) -> dict[str, tuple[Assembly, str]]:
    """Every kernel, with what the assembler says of it."""
    compiler = Compiler(write_text(module), architecture)
    return {name: (one, one.cubin()[1]) for name, one in compiler.all().items()}


def test_devices_have_every_primitive() -> None:
    assert set(DEVICE) == primitives.NAMES


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_samples_in_single_precision(defn: Op) -> None:
    """One architecture, no doubles where there are none, nothing spilled."""
    program = Program()
    for sample in defn.samples():
        variant = retyped(defn, sample, F32)
        if variant is not None:
            program.add(defn, arrays(variant), variant.attrs)
    program.builder.emit("return", *program.results)
    module = lowered_for(Module([program.function]), "cuda")
    text = write_text(module)
    codes = {code for kernel in text.kernels.values() for _, code in kernel.pointers}
    double = "f64" in codes or "f64" in text.source()
    for name, (one, log) in assembled(module, ARCHITECTURES[0]).items():
        assert double or not _DOUBLE.search(one.ptx), f"@{name} computes in double precision"
        assert "0 bytes spill stores, 0 bytes spill loads" in log, name


def instructions(one: Assembly) -> list[str]:
    """Names of instructions of the machine code, as NVIDIA's disassembler has them."""
    tool = next(iter(Path(nvidia.__path__[0]).glob("*/bin/nvdisasm")))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(one.cubin()[0])
        file.flush()
        text = subprocess.run([tool, file.name], capture_output=True, text=True, check=True).stdout
    return re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ )?([A-Z][\w.]*)", text)


def layer(x: Any, w: Any, b: Any) -> Any:
    return tapec.nn.softmax(tapec.nn.relu(tapec.matmul(x, w) + b))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_products_keep_their_sums_in_registers(architecture: str) -> None:
    specs = [tapec.TensorSpec(s) for s in ([2048, 256], [256, 512], [512])]
    module = lowered_for(tapec.compile(layer).trace(*specs), "cuda")
    text = write_text(module)
    (product,) = [n for n, k in text.kernels.items() if k.threads == 256 and k.shared > 8000]
    one, log = assembled(module, architecture)[product]
    assert one.ptx.count("fma.rn.f32") >= 16
    assert "ld.local" not in one.ptx
    assert "st.local" not in one.ptx
    assert "0 bytes stack frame" in log
    # The sums of 4 by 4 for each of 4 turns that are written out; operands by four at once, and their copies. Stores
    # to shared memory are as many as the text has: the compiler has dropped none.
    source = write_text(module).kernels[product].source()
    expected = {"fma.rn.f32": 64, "ld.shared.v4.f32": 8, "ld.shared.f32": 0, "ld.global.v4.f32": 2}
    expected |= {"ld.global.f32": 0, "st.global.v4.f32": 4, "st.global.f32": 0}
    expected |= {"st.shared.v4.f32": source.count("store4_f32(scratch")}
    expected |= {"st.shared.f32": len(re.findall(r"^ +scratch_\d\[", source, re.MULTILINE))}
    assert {name: one.ptx.count(name) for name in expected} == expected
    assert (expected["st.shared.v4.f32"], expected["st.shared.f32"]) == (1, 4)
    machine = Counter(instructions(one))
    assert (machine["FFMA"], machine["LDS.128"], machine["LDG.E.128"]) == (64, 8, 2)
    assert (machine["STG.E.128"], machine["STS"], machine["STS.128"]) == (4, 4, 1)
    assert not machine["LDL"] + machine["STL"]


def test_ptx_has_lines_of_the_program() -> None:
    specs = [tapec.TensorSpec(s) for s in ([8, 4], [4, 3], [3])]
    ptx = tapec.compile(layer).lower(*specs).text("ptx")
    assert "// " in ptx
    assert "cuda_code.py:" in ptx


def test_builds_for_devices() -> None:
    w = tapec.Variable(np.ones((4, 3), np.float32))

    def step(x: Any) -> Any:
        w.assign_sub(0.1 * tapec.matmul(x, x, transpose_a=True) @ w)
        return tapec.reduce_sum(w)

    for architecture in ARCHITECTURES:
        built = tapec.aot.build(step, "f32[8,4]", target=f"cuda-{architecture}")
        assert built.files["step.cubin"][:4] == b"\x7fELF"
        assert f".target {architecture}".encode() in built.files["step.ptx"]
