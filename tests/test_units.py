"""Programs whose kernels are compiled in several units, side by side."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest
from loop_programs import arena_module

from tapec.compiler import lowered
from tapec.ir.core import Module
from tapec.ir.errors import TargetError
from tapec.ir.parser import parse_module
from tapec.runtime import compile_module
from tapec.runtime.cpu import units
from tapec.runtime.cpu.jit import host_compiler
from tapec.runtime.cpu.linker import link
from tapec.runtime.cpu.program import write_text, write_units

#: Kernels that share functions of mathematics and constants; one of them is launched twice.
TEXT = """
func @f(%x: f32[24,40], %w: f32[40,40]) -> (f32[24,40], f32[24], f32[40]) {
  %a = matmul %x, %w : f32[24,40]
  %b = tanh %a : f32[24,40]
  %c = matmul %b, %w : f32[24,40]
  %d = tanh %c : f32[24,40]
  %e = exp %d : f32[24,40]
  %s = sum %e {axes = [1]} : f32[24]
  %l = log %s : f32[24]
  %t = sum %d {axes = [0]} : f32[40]
  %k = constant {value = dense[1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5]} : f32[8]
  %n = concat %k, %k, %k, %k, %k {axis = 0} : f32[40]
  %v = mul %t, %n : f32[40]
  return %d, %l, %v
}
"""


def module() -> Module:
    return lowered(parse_module(TEXT))


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit for each kernel."""
    monkeypatch.setattr(units, "FULL", 1)


@pytest.mark.usefixtures("small_units")
def test_code_is_the_same_for_any_number_of_threads() -> None:
    texts = list(write_units(module(), [], threads=2))
    assert len(texts) > 3
    assert len(list(write_units(module(), [], threads=1))) == 1
    one, two, many = (host_compiler(1).compile_all(texts, threads) for threads in (1, 2, 16))
    assert one == two == many
    assert host_compiler(1).compile(texts[1]) == one[1]


def test_units_compute_what_one_text_does(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((24, 40), (40, 40)))
    want = compile_module(module())(x, w)  # for one thread
    for full in (1, 100):
        monkeypatch.setattr(units, "FULL", full)
        for got, wanted in zip(compile_module(module(), threads=2)(x, w), want, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.usefixtures("small_units")
def test_units_link_for_both_machines() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu="neoverse-n1", opt=2, reloc="pic", codemodel="small")
    host: list[str] = []
    objects = []
    for text in write_units(arena_module(), host, threads=2):
        read = llvm.parse_assembly(text)
        read.triple, read.data_layout = triple, str(machine.target_data)
        objects.append(bytes(machine.emit_object(read)))
    image = link(*objects)
    assert set(image.symbols) >= {"tapec.call", "tapec.release", "tapec.host"}
    assert image.symbols["tapec.host"] + 8 * len(host) <= len(image.code)
    with pytest.raises(TargetError, match=r"kernel\.\w+, which no target has"):
        link(objects[-1])
    assert write_text(arena_module())[1] == host  # in one text, the table has the same order


@pytest.mark.usefixtures("small_units")
def test_a_text_that_llvm_refuses_ends_all() -> None:
    texts = [*write_units(module(), [], threads=2), "define void @f() {"]
    with pytest.raises(TargetError, match="LLVM does not take"):
        host_compiler(1).compile_all(texts, 2)
    assert host_compiler(1).compile_all(texts[:1], 2)
