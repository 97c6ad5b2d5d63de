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
    # "@!PT" never happens.
    return re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@(?!!PT)!?U?P\w+ )?([A-Z][\w.]*)", text)


def layer(x: Any, w: Any, b: Any) -> Any:
    return tapec.nn.softmax(tapec.nn.relu(tapec.matmul(x, w) + b))


SHAPES = ((2048, 256), (256, 512), (512,))


def product_of(module: Module, architecture: str) -> tuple[str, Assembly]:
    """The text and the code of the kernel that shares most; it spills nothing, and all its stores are there."""
    text = write_text(module)
    kernel = max(text.kernels.values(), key=lambda k: k.shared)
    one, log = assembled(module, architecture)[kernel.name]
    assert "ld.local" not in one.ptx
    assert "st.local" not in one.ptx
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log
    return kernel.source(), one


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_products_keep_their_sums_in_registers(architecture: str) -> None:
    """And copy in the background.

    A turn that is written out adds 4 by 4 products for each of 4 depths, which it reads by four at once. Of each
    operand one copy by each thread is before the loop, and one in it.
    """
    specs = [tapec.TensorSpec(s) for s in SHAPES]
    source, one = product_of(lowered_for(tapec.compile(layer).trace(*specs), "cuda"), architecture)
    assert source.count("copy4_f32(") == 4
    expected = {"fma.rn.f32": 64, "ld.shared.v4.f32": 8, "ld.shared.f32": 0, "ld.global": 0}
    expected |= {"cp.async.cg.shared.global": 4, "st.shared": 0, "st.global.v4.f32": 4}
    expected |= {"cp.async.commit_group": 2, "cp.async.wait_group 0": 1, "st.global.f32": 0}
    assert {name: one.ptx.count(name) for name in expected} == expected
    machine = Counter(instructions(one))
    assert (machine["FFMA"], machine["LDS.128"], machine["LDGSTS.E.BYPASS.128"]) == (64, 8, 4)
    assert (machine["STG.E.128"], machine["LDGDEPBAR"], machine["DEPBAR.LE"]) == (4, 2, 1)
    assert not any(machine[name] for name in ("LDL", "STL", "STS", "STS.128", "LDG.E", "LDS"))


#: What multiplies two squares of 16 by 8, by what tensor cores take.
MULTIPLIES = {
    "float32": "HMMA.1688.F32.TF32",
    "float16": "HMMA.16816.F32",
    "bfloat16": "HMMA.16816.F32.BF16",
}


@pytest.mark.parametrize("dtype", MULTIPLIES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_products_by_tensor_cores(dtype: str, architecture: str) -> None:
    """A warp makes 32 by 32 sums from 16 words of each row and column that are shared: 2 by 4 by 2 instructions."""
    specs = [tapec.TensorSpec(s, dtype) for s in SHAPES]
    tapec.config.experimental.enable_tensor_float_32_execution(True)
    try:
        module = lowered_for(tapec.compile(layer).trace(*specs), "cuda")
    finally:
        tapec.config.experimental.enable_tensor_float_32_execution(False)
    source, one = product_of(module, architecture)
    machine = Counter(instructions(one))
    assert machine[MULTIPLIES[dtype]] == 16
    assert not any(name.startswith("FFMA") for name in machine)
    # Words of 16 rows and 8 columns for each instruction, without those that it shares with another.
    assert machine["LDS"] == 32
    if dtype == "float32":
        assert one.ptx.count("cvt.rna.tf32.f32") == 32
        assert machine["LDGSTS.E.BYPASS.128"] == 8
        assert not machine["STS"] + machine["STS.128"]
    else:
        # Copies of 64 bits, two by two into words; before the loop and in it.
        assert (machine["LDG.E.64"], machine["STS.128"]) == (16, 8)
        assert source.count("store4_u32(scratch") == 4


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
