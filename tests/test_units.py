"""Programs whose kernels are compiled in several units, side by side."""

from __future__ import annotations

import os
import re
import threading

import llvmlite.binding as llvm
import numpy as np
import pytest
from loop_programs import arena_module

import tapec
from tapec import config
from tapec.compiled.boxes import deal_in_tensors
from tapec.compiler import lowered
from tapec.ir.core import Module
from tapec.ir.errors import TargetError
from tapec.ir.parser import parse_module
from tapec.runtime import compile_module
from tapec.runtime.cpu.machine_code import emission
from tapec.runtime.cpu.machine_code.jit import host_compiler
from tapec.runtime.cpu.machine_code.linker import link
from tapec.runtime.cpu.program import write_text, write_units
from tapec.runtime.cpu.text import units
from tapec.runtime.processors import MOST_THREADS

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


def test_llvm_optimises_kernels_and_not_what_runs_once_for_each_call() -> None:
    """Entries were most of what LLVM did for a small program."""
    deal_in_tensors()
    text, _ = write_text(module(), boxed=2)
    (group,) = re.findall(r"^attributes (#\d) = {.* optnone ", text, re.MULTILINE)
    functions = re.findall(r'^define .*@"?(\w+\.[\w.]+).* (#\d) {$', text, re.MULTILINE)
    left = {name for name, attributes in functions if attributes == group}
    assert left >= {"tapec.call", "tapec.boxed", "tapec.unbox"}
    computing = {name for name, _ in functions if name.startswith(("kernel.", "body."))}
    assert computing
    assert left.isdisjoint({"tapec.run", *computing})


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


@pytest.mark.parametrize("given", [0, 1])
@pytest.mark.usefixtures("small_units")
def test_a_system_without_more_threads(monkeypatch: pytest.MonkeyPatch, given: int) -> None:
    """It has none to give, or only one: the caller writes what is left."""
    begin = threading.Thread.start
    left = iter(range(given))

    def start(self: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        begin(self)

    texts = list(write_units(module(), [], threads=2))
    machines = [host_compiler(1)._make_machine() for _ in range(3)]
    want = host_compiler(1).compile_all(texts, 1)
    monkeypatch.setattr(emission._Emitter, "start", start)
    assert emission.emit_all(machines, map(host_compiler(1).optimised, texts)) == want


@pytest.mark.parametrize("machines", [1, 3])
def test_whatever_a_thread_meets_is_the_callers(
    monkeypatch: pytest.MonkeyPatch, machines: int
) -> None:
    def emit(machine: object, text: int) -> bytes:
        if text == 2:
            raise MemoryError("no room")
        return bytes([text])

    monkeypatch.setattr(emission, "emit", emit)
    assert emission.emit_all([None] * machines, [0, 1]) == [b"\0", b"\1"]
    with pytest.raises(MemoryError, match="no room"):
        emission.emit_all([None] * machines, range(5))


def test_threads_are_no_more_than_a_program_can_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with many cores, and where somebody asks for more."""
    threads = config.threading
    before = threads.get_intra_op_parallelism_threads()
    monkeypatch.delenv("TAPEC_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(200)))
    threads.set_intra_op_parallelism_threads(0)
    try:
        assert config.threads() == MOST_THREADS
        monkeypatch.delattr(os, "sched_getaffinity")  # other systems have none
        monkeypatch.setattr(os, "cpu_count", lambda: 3)
        assert config.threads() == 3
        monkeypatch.setenv("TAPEC_NUM_THREADS", "0")
        assert config.threads() == 3
        assert host_compiler(1).compile_all(["define void @f() {\n  ret void\n}"], 2)
        monkeypatch.setenv("TAPEC_NUM_THREADS", "100")
        assert config.threads() == MOST_THREADS
        threads.set_intra_op_parallelism_threads(300)
        assert config.threads() == MOST_THREADS
    finally:
        threads.set_intra_op_parallelism_threads(before)
    compile_module(module(), threads=MOST_THREADS)


@pytest.mark.parametrize("name", ["TAPEC_NUM_THREADS", "TAPEC_CACHE_SIZE", "TAPEC_CHECK"])
def test_settings_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    read = {s.name: s for s in config.settings}[name]
    for text in ("few", "2.5", "-1"):
        monkeypatch.setenv(name, text)
        with pytest.raises(
            tapec.errors.ValueError, match=f"{name} is a whole number from 0 on, got '{text}'"
        ):
            assert read.number
