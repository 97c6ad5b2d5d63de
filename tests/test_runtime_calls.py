"""Calls of compiled programs: what they take, give, keep and refuse."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from loop_programs import Array, arena_module, kernel_module

from tapec.ir.core import Module
from tapec.ir.errors import DTypeError, ShapeError, TargetError
from tapec.runtime import compile_module
from tapec.runtime.cpu.entries import array_table
from tapec.runtime.cpu.host import Mapped
from tapec.runtime.cpu.image import Image
from tapec.runtime.cpu.machine_code.jit import host_compiler
from tapec.runtime.cpu.machine_code.linker import link
from tapec.runtime.cpu.program import write_text

SCALE = """
  %zero = constant {value = 0} : index
  %a = load %x, %zero {lanes = 4} : f32x4
  %b = load %w, %zero {lanes = 4} : f32x4
  %p = mul %a, %b : f32x4
  store %p, %w, %zero
  store %a, %r, %zero"""


def scale_module() -> Module:
    """``w *= x``, and a copy of x."""
    module = kernel_module("%x: &f32[4], %w: &f32[4], %r: &f32[4]", SCALE, inputs=2)
    module.entry.updates[0] = 1
    return module


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def test_arguments_are_held_to_their_types() -> None:
    executable = compile_module(scale_module())
    for arrays, error, message in [
        ((ones(4),), ShapeError, "takes 2 arrays, got 1"),
        ((ones(4), ones(4), ones(4), ones(4)), ShapeError, "takes 2 arrays, got 4"),
        ((ones(5), ones(4)), ShapeError, r"x is f32\[4\], got shape \[5\]"),
        ((ones(1, 4), ones(4)), ShapeError, r"got shape \[1, 4\]"),
        ((np.ones(4), ones(4)), DTypeError, "got an array of float64"),
        ((ones(4), [1, 1, 1, 1]), DTypeError, "w is f32"),
        ((ones(4), None), DTypeError, "w is f32"),
    ]:
        with pytest.raises(error, match=message):
            executable(*arrays)
    frozen = ones(4)
    frozen.flags.writeable = False
    with pytest.raises(DTypeError, match="must be writable"):
        executable(ones(4), frozen)
    executable(frozen, ones(4))  # which is only read
    with pytest.raises(TypeError, match="not of the type"):
        executable.call_raw(1, 2)


def test_inconvenient_arguments_are_copied() -> None:
    executable = compile_module(scale_module())
    strided = np.arange(8, dtype=np.float32)[::2]
    w = np.full(8, 2, np.float32)
    (copy,) = executable(strided, w[::2])  # an update goes back into the strided original
    np.testing.assert_array_equal(copy, [0, 2, 4, 6])
    np.testing.assert_array_equal(w, [0, 2, 4, 2, 8, 2, 12, 2])
    unaligned = np.zeros(17, np.uint8)[1:].view(np.float32)
    unaligned[...] = 3
    w = ones(4)
    executable(unaligned, w)
    np.testing.assert_array_equal(w, 3)

    class Own(np.ndarray):
        pass

    executable(ones(4).view(Own), w)
    aliased = np.full(4, 3, np.float32)
    (copy,) = executable(aliased, aliased)  # read and updated: read first
    np.testing.assert_array_equal(aliased, 9)
    np.testing.assert_array_equal(copy, 3)


def test_results_are_new_or_given() -> None:
    executable = compile_module(scale_module())
    x, w, r = ones(4), ones(4), ones(4)
    first, second = executable(x, w)[0], executable(x, w)[0]
    assert not np.may_share_memory(first, second)
    assert type(first) is np.ndarray
    assert first.flags.owndata
    x[...] = 5
    assert executable.call_raw(x, w, r) is None
    np.testing.assert_array_equal(r, 5)
    assert executable.call_raw(x, w)[0].dtype == np.float32


def test_calls_leak_nothing() -> None:
    executable = compile_module(scale_module())
    x, w, r = ones(4), ones(4), ones(4)
    counts = [sys.getrefcount(v) for v in (x, w, r, x.dtype)]
    for _ in range(1000):
        executable(x, w)
        executable.call_raw(x, w, r)
        with pytest.raises(TypeError):
            executable.call_raw(x, w, 1)
    assert [sys.getrefcount(v) for v in (x, w, r, x.dtype)] == counts


def test_scalars_and_empty_arrays() -> None:
    body = """
  %v = load %x : f32
  %w = add %v, %v : f32
  store %w, %r"""
    executable = compile_module(kernel_module("%x: &f32, %e: &f32[0,3], %r: &f32", body, inputs=2))
    (result,) = executable(np.array(2, np.float32), np.zeros((0, 3), np.float32))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result == 4


def test_concurrent_calls_have_arenas_of_their_own() -> None:
    module = arena_module()
    executable = compile_module(module)
    wrong = []

    def call(n: int) -> None:
        x = np.full((n, 4), n, np.float32)
        for _ in range(200):
            (got,) = executable(x, np.zeros(4, np.float32))
            if (got != 2 * n).any():
                wrong.append(n)

    callers = [threading.Thread(target=call, args=(n,)) for n in (1, 40, 300, 2000)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_long_programs_let_other_threads_run() -> None:
    """A program with much to do calls PyEval_SaveThread; a short one does not."""
    body = """
  %zero = constant {value = 0} : index
  %high = constant {value = TURNS} : index
  for %zero, %high {
    ^(%i: index):
    %v = load %x, %zero : f32
    store %v, %r, %zero
    yield
  }"""
    for turns, released in ((10, False), (1_000_000, True)):
        signature = "%x: &f32[1], %r: &f32[1]"
        module = kernel_module(signature, body.replace("TURNS", str(turns)), inputs=1)
        _, host = write_text(module)
        assert ("python:PyEval_SaveThread" in host) is released
        np.testing.assert_array_equal(compile_module(module)(ones(1))[0], ones(1))


def test_code_lives_as_long_as_its_function() -> None:
    executable = compile_module(arena_module())
    call: Any = executable.call_raw
    code = weakref.ref(call.__self__)
    x, w = ones(3, 4), ones(4)
    call(x, w)
    del executable
    gc.collect()
    call(x, w)
    assert code() is not None
    del call
    gc.collect()
    assert code() is None


# ---- what is refused


def test_refused_by_name() -> None:
    module = scale_module()
    with pytest.raises(TargetError, match="no target 'tpu'"):
        compile_module(module, target="tpu")
    with pytest.raises(TargetError, match="at least 1"):
        compile_module(module, threads=0)
    with pytest.raises(TargetError, match="at most"):
        compile_module(module, threads=1000)
    body = """
  %zero = constant {value = 0} : index
  %v = load %x, %zero : c64
  store %v, %r, %zero"""
    with pytest.raises(TargetError, match="c64"):
        compile_module(kernel_module("%x: &c64[1], %r: &c64[1]", body, inputs=1))


def test_programs_refer_to_nothing_outside() -> None:
    """The loader resolves no names: an object that needs one is refused by it."""
    text = """
declare double @fmod(double, double)
define double @f(double %x) {
  %y = call double @fmod(double %x, double %x)
  ret double %y
}"""
    with pytest.raises(TargetError, match="fmod"):
        link(host_compiler(1).compile(text))
    with pytest.raises(TargetError, match="no 64-bit"):
        link(b"\x7fELF\x01\x01" + bytes(64))


def test_programs_link_for_both_machines() -> None:
    """Objects for ARM have other relocations; these are all known, and end inside of the image."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu="neoverse-n1", opt=2, reloc="pic", codemodel="small")
    text, host = write_text(arena_module())
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = triple, str(machine.target_data)
    image = link(bytes(machine.emit_object(module)))
    assert set(image.symbols) >= {"tapec.call", "tapec.release", "tapec.host"}
    assert image.symbols["tapec.host"] + 8 * len(host) <= len(image.code)
    assert image.writable % 65536 == 0


def test_images_hold_addresses_of_their_own_parts() -> None:
    """Absolute addresses inside a program are made when it is mapped."""
    text = """
@tapec.host = hidden global [1 x ptr] zeroinitializer
@number = internal global i64 7
@table = hidden global [2 x ptr] [ptr @number, ptr @number]
define hidden ptr @get() {
  %p = load volatile ptr, ptr @table
  ret ptr %p
}"""
    image = Image.from_bytes(link(host_compiler(0).compile(text)).to_bytes())
    assert image.bases
    mapped = Mapped(image, ["none:"])
    get = ctypes.CFUNCTYPE(ctypes.c_void_p)(mapped.address("get"))
    assert ctypes.c_int64.from_address(get()).value == 7
    host = ctypes.c_void_p.from_address(mapped.address("tapec.host")).value
    assert host == id(None)


def test_text_is_the_same_each_time() -> None:
    """The cache finds a program by its text."""
    texts = {write_text(arena_module())[0] for _ in range(3)}
    assert len(texts) == 1
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import loop_programs as t, hashlib;"
        "from tapec.runtime.cpu.program import write_text;"
        "print(hashlib.sha256(write_text(t.arena_module())[0].encode()).hexdigest())"
    )
    seen = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_many_arguments_are_held_to_their_types() -> None:
    """They are checked by a loop, which finds what the check of a few finds."""
    count = array_table.FEW
    names = [f"%x{i}" for i in range(count)]
    shapes = [(4,) if i % 2 else (2, 3) for i in range(count)]
    types = ["&f32[4]" if i % 2 else "&i32[2,3]" for i in range(count)]
    signature = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    body = """
  %zero = constant {value = 0} : index
  %a = load %x1, %zero {lanes = 4} : f32x4
  store %a, %r, %zero"""
    executable = compile_module(
        kernel_module(f"{signature}, %r: &f32[4], %s: &f32[4]", body, inputs=count)
    )
    dtypes = [np.float32 if i % 2 else np.int32 for i in range(count)]

    def arrays() -> list[Array]:
        return [np.full(s, i, d) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))]

    given, r, s = arrays(), ones(4), ones(4)
    np.testing.assert_array_equal(executable(*given)[0], 1)
    assert executable.call_raw(*given, r, s) is None
    np.testing.assert_array_equal(r, 1)
    frozen = ones(4)
    frozen.flags.writeable = False
    for place, wrong in [
        (0, ones(2, 3)),
        (count - 1, ones(5)),
        (count - 1, ones(1, 4)),
        (count - 2, np.zeros((3, 2), np.int32)),
        (count - 2, np.zeros((2, 6), np.int32)[:, ::2]),
        (1, [1, 1, 1, 1]),
        (1, None),
        (count, frozen),
        (count + 1, ones(3)),
    ]:
        changed: list[Any] = [*arrays(), r, s]
        changed[place] = wrong
        with pytest.raises(TypeError, match="not of the type"):
            executable.call_raw(*(changed if place >= count else changed[:count]))
    with pytest.raises(ShapeError, match=rf"x{count - 1} is"):
        executable(*given[:-1], ones(5))
