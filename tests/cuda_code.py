"""Kernels of every operation as numba.cuda and the assembler take them, with no device.

    pip install -e '.[dev,cuda-test]' && pytest tests/cuda_code.py

It needs numba-cuda, which the other tests do not, and NumPy before 2.5: so it has a process, and under CI an
environment, of its own.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import machine_code
import numpy as np
import pytest
from machine_code import (
    ARCHITECTURES,
    Functions,
    examine,
    examined,
    instructions,
    unread_shuffles,
)
from programs_of_ops import Program
from sampling import arrays, retyped, tensor_ops
from structural_programs import PROGRAMS

import tapec
from tapec.compiler import lowered_for
from tapec.ir.core import Module
from tapec.ir.op import Op
from tapec.ir.types import F32
from tapec.runtime.cuda.machine_code.assembly import Assembly, Compiler
from tapec.runtime.cuda.machine_code.intrinsics import DEVICE
from tapec.runtime.cuda.text import primitives
from tapec.runtime.cuda.text.module_text import Text, write_text

#: Steps of the benchmarks.
STEPS = ("mlp_small", "mlp_train", "lstm_train", "vdp_scan")
_DOUBLE = re.compile(r"\.f64\b")


def assembled(module: Module, architecture: str) -> dict[str, tuple[Assembly, str]]:
    """Every kernel, with what the assembler says of it."""
    return compiled(write_text(module), architecture)


def compiled(text: Text, architecture: str) -> dict[str, tuple[Assembly, str]]:
    """The same of a text."""
    compiler = Compiler(text, architecture)
    return {name: (one, one.cubin()[1]) for name, one in compiler.all().items()}


def test_devices_have_every_primitive() -> None:
    assert set(DEVICE) == primitives.NAMES


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_samples_in_single_precision(defn: Op) -> None:
    """One architecture: no doubles where there are none, nothing spilled, every statement has its instructions."""
    program = Program()
    for sample in defn.samples():
        variant = retyped(defn, sample, F32)
        if variant is not None:
            program.add(defn, arrays(variant), variant.attrs)
    program.builder.emit("return", *program.results)
    text = write_text(lowered_for(Module([program.function]), "cuda"))
    assert not [one.wrong for one in examined(text, ARCHITECTURES[0]) if one.wrong]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_what_has_no_samples(name: str) -> None:
    program = PROGRAMS[name]
    with program.chosen():
        text = write_text(lowered_for(program.module(), "cuda"))
    assert not [one.wrong for one in examined(text, ARCHITECTURES[0]) if one.wrong]


def wrong_with(one: Assembly, names: Counter[str]) -> list[str]:
    (counts,) = examine([machine_code.assembled(one, names)])
    return counts.wrong


def test_what_is_missing_is_told() -> None:
    """And what must not be there."""
    specs = [tapec.TensorSpec(s) for s in SHAPES]
    text = write_text(lowered_for(tapec.compile(layer).trace(*specs), "cuda"))
    kernel = max(text.kernels.values(), key=lambda k: k.shared)
    one = Compiler(text, ARCHITECTURES[1]).kernel(kernel.name)
    names = Functions(text).of(kernel.name)
    assert not wrong_with(one, names)
    for instruction, kind in (
        ("cp.async.cg", "copy"),
        ("st.global.v4", "store4"),
        ("bar.sync", "barrier"),
    ):
        lines = [line for line in one.ptx.splitlines() if instruction not in line]
        wrong = wrong_with(replace(one, ptx="\n".join(lines)), names)
        assert any(f" {kind} in its text are 0 in its PTX" in sentence for sentence in wrong)
    double = one.ptx.replace(
        "ret;", "cvt.f64.f32 %tapec, %f1;\nst.global.f64 [%rd1], %tapec;\nret;"
    )
    double = double.replace("{\n\t.reg", "{\n\t.reg .f64 %tapec;\n\t.reg", 1)
    wrong = wrong_with(replace(one, ptx=double), names)
    assert wrong == [f"its {form} computes in double precision" for form in ("PTX", "machine code")]


def test_functions_in_machine_code_are_told() -> None:
    """A quotient that is rounded correctly has one, for numbers that are very large or small."""
    spec = tapec.TensorSpec([64])
    text = write_text(lowered_for(tapec.compile(tapec.divide).trace(spec, spec), "cuda"))
    (name,) = text.kernels
    one = Compiler(text, ARCHITECTURES[0]).kernel(name)
    made = machine_code.assembled(one, Functions(text).of(name))
    unexplained = made._replace(ptx=replace(one, ptx=one.ptx.replace("div.rn", "div.full")))
    told = "its machine code has functions, and its PTX no quotients or roots"
    assert [counts.wrong for counts in examine([made, unexplained])] == [[], [told]]


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
    machine = instructions(one)
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
    machine = instructions(one)
    assert machine[MULTIPLIES[dtype]] == 16
    assert not any(name.startswith("FFMA") for name in machine)
    assert machine["LDGSTS.E.BYPASS.128"] == 8
    assert not machine["STS"] + machine["STS.128"] + machine["LDG.E.64"]
    if dtype == "float32":
        # Words of 16 rows and 8 columns for each instruction, without those that it shares with another.
        assert machine["LDS"] == 32
        assert one.ptx.count("cvt.rna.tf32.f32") == 32
    else:
        assert source.count("copy8_u16(scratch") == 4
        # Four matrices are 16 rows or columns by 16 depths; those of the right operand are turned.
        assert (machine["LDSM.16.M88.4"], machine["LDSM.16.MT88.4"], machine["LDS"]) == (4, 4, 0)


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_the_benchmarks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At their own sizes: what computes in single precision does so everywhere, and nothing is spilled."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    gpu = importlib.import_module("gpu")
    for one in examined(gpu.text_of(name), ARCHITECTURES[1]):
        assert not one.wrong, one.kernel


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tf32", [False, True])
def test_convolutions_are_products(architecture: str, *, tf32: bool) -> None:
    """With the same instructions for operands and sums, and the operations behind them in registers."""
    specs = [tapec.TensorSpec(s) for s in ([32, 28, 28, 32], [3, 3, 32, 64], [64])]
    tapec.config.experimental.enable_tensor_float_32_execution(tf32)
    try:
        module = lowered_for(tapec.compile(convolution).trace(*specs), "cuda")
    finally:
        tapec.config.experimental.enable_tensor_float_32_execution(False)
    source, one = product_of(module, architecture)
    assert source.count("copy4_f32(") == 4
    machine = instructions(one)
    if tf32:
        expected = {"HMMA.1688.F32.TF32": 16, "FFMA": 0, "FADD": 32, "LDS": 32}
        expected |= {"LDGSTS.E.BYPASS.128": 8}
    else:
        expected = {"FFMA": 64, "FADD": 16, "LDS.128": 8, "LDG.E.128": 1, "STG.E.128": 4}
        expected |= {"LDGSTS.E.BYPASS.128": 4, "LDG.E": 0}
    expected |= {"STS": 0, "STS.128": 0}
    assert {name: machine[name] for name in expected} == expected


def convolution(x: Any, w: Any, b: Any) -> Any:
    return tapec.nn.relu(tapec.nn.conv2d(x, w, 1, "SAME") + b)


def affine(x: Any, y: Any, b: Any) -> Any:
    return tapec.nn.relu(x * y + b)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = tapec.reduce_mean(x, axis=-1, keepdims=True)
    variance = tapec.reduce_mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * tapec.math.rsqrt(variance + 1e-5) * scale + shift


def update(p: Any, g: Any, m: Any) -> Any:
    m = 0.9 * m + g
    return p - 0.1 * m, m


#: Programs of one kernel, shapes, and instructions of a thread for four elements; those to shared memory are a block's.
NEIGHBOURS: dict[str, tuple[Any, list[list[int]], dict[str, int]]] = {
    "elementwise": (
        affine,
        [[512, 1024], [512, 1024], [1024]],
        {"LDG.E.128": 3, "STG.E.128": 1, "FFMA": 4, "STS": 0},
    ),
    "optimizer": (update, [[512, 1024]] * 3, {"LDG.E.128": 3, "STG.E.128": 2, "FFMA": 8}),
    "softmax": (
        tapec.nn.softmax,
        [[512, 1024]],
        # The row is kept: it is written once, by four at once, and read again. Two sums of eight warps.
        {"LDG.E.128": 2, "STG.E.128": 1, "STS.128": 1, "STS": 2},
    ),
    "layer_norm": (
        layer_norm,
        [[512, 1024], [1024], [1024]],
        {"LDG.E.128": 5, "STG.E.128": 1, "STS": 2, "STS.128": 0},
    ),
    "rows": (lambda x: tapec.reduce_sum(x, axis=1), [[512, 1024]], {"LDG.E.128": 1, "STS": 1}),
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_threads_take_four_neighbours(name: str, architecture: str) -> None:
    """And no element of a large array is read or written by itself; stores to shared memory are the text's."""
    function, shapes, expected = NEIGHBOURS[name]
    specs = [tapec.TensorSpec(s) for s in shapes]
    module = lowered_for(tapec.compile(function).trace(*specs), "cuda")
    (kernel,) = write_text(module).kernels.values()
    one, log = assembled(module, architecture)[kernel.name]
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log
    assert not _DOUBLE.search(one.ptx)
    machine = instructions(one)
    assert {name: machine[name] for name in expected} == expected
    assert not machine["LDG.E"]
    assert machine["STG.E"] == (name == "rows")
    source = kernel.source()
    assert machine["STS.128"] == len(re.findall(r"store4_f32\(scratch", source))
    assert machine["STS"] == len(re.findall(r"^ +sums\w*\[", source, re.MULTILINE))


def test_compilers_take_a_gradient_of_a_cross_entropy() -> None:
    """One kernel, whose variables NVVM cannot tell of: it is told of lines alone."""

    def loss(logits: Any, labels: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(logits)
            losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            mean = tapec.reduce_mean(losses)
        return mean, tape.gradient(mean, logits)

    specs = tapec.TensorSpec([8, 128, 256]), tapec.TensorSpec([8, 128], "int32")
    text = write_text(lowered_for(tapec.compile(loss).trace(*specs), "cuda"))
    for architecture in ARCHITECTURES:
        assert not [one.wrong for one in examined(text, architecture) if one.wrong]


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


def test_shuffles_that_nobody_reads_are_counted() -> None:
    sums = """
        shfl.sync.bfly.b32 %r2|%p1, %r1, %r9, %r9, %r9;
        add.f32 %f2, %f1, %r2;
        shfl.sync.bfly.b32 %r3|%p2, %f2, %r9, %r9, %r9;
    """
    assert unread_shuffles(sums) == 2
    assert unread_shuffles(f"{sums}\n st.global.u32 [%rd1], %r3;") == 0
    assert unread_shuffles(f"{sums}\n st.global.u32 [%rd1], %f2;") == 1
