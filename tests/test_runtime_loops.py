"""Compiled loops, branches, memory and threads against the evaluator."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_programs import (
    REAL,
    arena_module,
    check,
    check_close,
    exact,
    kernel_module,
    parallel_module,
    samples,
)

from tapec.ir.errors import TargetError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.types import BF16, BOOL, BY_CODE, F16, F32, F64, DType
from tapec.runtime import compile_module
from tapec.runtime.cpu import host, parts
from tapec.runtime.cpu import threads as pool


def test_carried_values_and_unrolling() -> None:
    """Every length meets every unrolling: groups of turns and the rest."""
    body = """
  %low = constant {value = LOW} : index
  %high = constant {value = HIGH} : index
  %zero = constant {value = 0.0} : f64
  %one = constant {value = 1} : i32
  %sum, %count = for %low, %high, %zero, %one {step = 2, unroll = UNROLL} : f64, i32 {
    ^(%i: index, %s: f64, %c: i32):
    %v = load %x, %i : f64
    %t = mul %s, %v : f64
    %u = add %t, %v : f64
    %m = add %c, %c : i32
    yield %u, %m
  }
  store %sum, %r
  store %count, %n"""
    x = np.linspace(0.5, 1.5, 20)
    for low, high, unroll in itertools.product((0, 3), (3, 4, 5, 11, 20), (1, 2, 3, 8)):
        text = body.replace("LOW", str(low)).replace("HIGH", str(high))
        signature = "%x: &f64[20], %r: &f64, %n: &i32"
        module = kernel_module(signature, text.replace("UNROLL", str(unroll)), inputs=1)
        check_close(module, x)


def test_bounds_known_only_at_run_time() -> None:
    body = """
  %zero = constant {value = 0} : index
  %f = constant {value = 0.0} : f32
  %n = load %bounds, %zero : i64
  %high = cast %n {dtype = index} : index
  %sum = for %zero, %high, %f {unroll = 4} : f32 {
    ^(%i: index, %s: f32):
    %v = load %x, %i : f32
    %t = add %s, %v : f32
    yield %t
  }
  store %sum, %r"""
    module = kernel_module("%x: &f32[9], %bounds: &i64[1], %r: &f32", body, inputs=2)
    for n in (-3, 0, 1, 4, 7, 9):
        check(module, np.arange(9, dtype=np.float32), np.array([n]))


def test_prefetches_change_nothing_wherever_they_point() -> None:
    body = """
  %zero = constant {value = 0} : index
  %high = constant {value = 12} : index
  %far = constant {value = 1000000000000} : index
  for %zero, %high {
    ^(%i: index):
    %there = mul %i, %far : index
    prefetch %x, %there
    prefetch %r, %there
    prefetch %r, %i
    %v = load %x, %i : f32
    store %v, %r, %i
    yield
  }"""
    module = kernel_module("%x: &f32[12], %r: &f32[12]", body, inputs=1)
    check(module, np.arange(12, dtype=np.float32))


def test_branches_yield_and_store() -> None:
    body = """
  %zero = constant {value = 0} : index
  %high = constant {value = 12} : index
  %four = constant {value = 4} : index
  %half = constant {value = 0.5} : f32
  for %zero, %high {
    ^(%i: index):
    %v = load %x, %i : f32
    %small = lt %v, %half : bool
    %w = if %small : f32 {
      %m = mod %i, %four : index
      %y = load %x, %m : f32
      yield %y
    } {
      %y2 = neg %v : f32
      yield %y2
    }
    %outer = lt %i, %four : bool
    if %outer {
      store %w, %r, %i
      yield
    } {
      %z = add %w, %w : f32
      store %z, %r, %i
      yield
    }
    yield
  }"""
    module = kernel_module("%x: &f32[12], %r: &f32[12]", body, inputs=1)
    check(module, np.linspace(0, 1, 12, dtype=np.float32))


def test_address_arithmetic() -> None:
    """Sums, products, quotients and remainders of loop variables find the right elements."""
    body = """
  %zero = constant {value = 0} : index
  %one = constant {value = 1} : index
  %two = constant {value = 2} : index
  %three = constant {value = 3} : index
  %five = constant {value = 5} : index
  for %zero, %five {
    ^(%i: index):
    for %zero, %three {
      ^(%j: index):
      %back = sub %two, %j : index
      %a = mul %i, %three : index
      %b = add %a, %back : index
      %q = floordiv %b, %five : index
      %m = mod %b, %five : index
      %v = load %x, %q, %m : i32
      %p = mul %i, %j : index
      %w = cast %p {dtype = i32} : i32
      %s = add %v, %w : i32
      %k = sub %j, %one : index
      %nq = floordiv %k, %two : index
      %nm = mod %k, %two : index
      %nqi = cast %nq {dtype = i32} : i32
      %nmi = cast %nm {dtype = i32} : i32
      %t = add %s, %nqi : i32
      %u = sub %t, %nmi : i32
      store %u, %r, %i, %j
      yield
    }
    yield
  }"""
    module = kernel_module("%x: &i32[3,5], %r: &i32[5,3]", body, inputs=1)
    check(module, np.arange(15, dtype=np.int32).reshape(3, 5) * 100)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_masked_and_gathered(dtype: DType) -> None:
    """Loads and stores of part of a vector, and of lanes from anywhere."""
    body = """
  %zero = constant {value = 0} : index
  %one = constant {value = 1} : index
  %all = constant {value = 11} : index
  %eight = constant {value = 8} : index
  %v = load %x, %zero, %all {lanes = 16, masked = true} : DTx16
  store %v, %r, %zero, %all {masked = true}
  for %zero, %all {
    ^(%i: index):
    %left = sub %all, %i : index
    %w = load %x, %i, %left {lanes = 8, masked = true} : DTx8
    store %w, %q, %i, %zero
    yield
  }
  for %zero, %all {
    ^(%i: index):
    %left = sub %all, %i : index
    %n = cast %left {dtype = i64} : i64
    %few = sub %left, %eight : index
    %w = load %x, %zero, %eight {lanes = 8, masked = true} : DTx8
    store %w, %p, %i, %zero, %few {masked = true}
    yield
  }
  %steps = lanes : indexx8
  %eights = splat %one {lanes = 8} : indexx8
  %at = add %steps, %eights : indexx8
  %g = load_at %x, %at : DTx8
  store %g, %g8, %zero""".replace("DT", dtype.code)
    signature = (
        f"%x: &{dtype.code}[11], %p: &{dtype.code}[11,8], %r: &{dtype.code}[16], "
        f"%q: &{dtype.code}[11,8], %g8: &{dtype.code}[8]"
    )
    text_module = kernel_module(signature, body, inputs=2)
    text_module.entry.updates[0] = 1  # what masks left out keeps its value
    x = samples(dtype, 1)[:11]
    p = np.zeros((11, 8), dtype.numpy)
    module_results = evaluate_module(text_module, [x, p])
    given = p.copy()
    got = [given, *compile_module(text_module)(x, given)]
    for i, (a, b) in enumerate(zip(got, module_results, strict=True)):
        stop = 11 if i == 1 else None  # the rest of r nobody wrote
        np.testing.assert_array_equal(exact(a)[:stop], exact(b)[:stop])


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min", "and", "or"])
def test_reduce_lanes(combine: str) -> None:
    dtypes = [BOOL] if combine in ("and", "or") else [F32, F64, F16, BF16, BY_CODE["i32"]]
    for dtype in [*dtypes, BY_CODE["u8"]]:
        body = f"""
  %zero = constant {{value = 0}} : index
  %v = load %x, %zero {{lanes = 16}} : {dtype.code}x16
  %s = reduce_lanes %v {{combine = "{combine}"}} : {dtype.code}
  store %s, %r"""
        x = samples(dtype, 0)[16:32]
        check(kernel_module(f"%x: &{dtype.code}[16], %r: &{dtype.code}", body, inputs=1), x)


def test_shuffle_and_vector_constants() -> None:
    body = """
  %zero = constant {value = 0} : index
  %k = constant {value = [1.0, 2.0, 3.0, 4.0]} : f32x4
  %two = constant {value = 2.0} : f32x4
  %v = load %x, %zero {lanes = 4} : f32x4
  %a = mul %v, %two : f32x4
  %b = add %a, %k : f32x4
  %s = shuffle %v, %b {mask = [0, 4, 1, 5, 7, 7, 3, 2]} : f32x8
  store %s, %r, %zero"""
    module = kernel_module("%x: &f32[4], %r: &f32[8]", body, inputs=1)
    check(module, np.array([1, 2, 3, 4], np.float32))


def test_scratch_and_views() -> None:
    body = """
  %zero = constant {value = 0} : index
  %one = constant {value = 1} : index
  %two = constant {value = 2} : index
  %s = alloc : &f64[2,3]
  %flat = view %s : &f64[6]
  %low = view %s {offset = 24} : &f64[3]
  for %zero, %two {
    ^(%i: index):
    %v = load %x, %i : f64
    store %v, %s, %one, %i
    yield
  }
  for %zero, %two {
    ^(%i: index):
    %v = load %low, %i : f64
    store %v, %r, %i
    yield
  }"""
    check(kernel_module("%x: &f64[2], %r: &f64[2]", body, inputs=1), np.array([3.0, 4.0]))


def test_symbolic_extents_and_updates() -> None:
    module = arena_module()
    executable = compile_module(module)
    assert str(executable.inputs[0]) == "f32[N,4]"
    assert [str(t) for t in executable.outputs] == ["f32[N,4]"]
    assert executable.updates == {1: 1}
    assert executable.kernels == 2
    w = np.ones(4, np.float32)
    for n in (2, 5, 0, 1, 1000, 3):  # the arena grows, and serves again
        x = np.arange(4.0 * n, dtype=np.float32).reshape(n, 4)
        want = evaluate_module(module, [x, w])
        (got,) = executable(x, w)
        np.testing.assert_array_equal(got, want[0])
        np.testing.assert_array_equal(w, want[1])


# ---- parallel loops


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_parallel_loops_give_the_same_bits(threads: int) -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    for low, high in ((0, 64), (8, 60), (0, 4), (4, 4), (0, 20)):
        module = parallel_module(low, high)
        alone, together = np.zeros_like(x), np.zeros_like(x)
        compile_module(module)(x, alone)
        executable = compile_module(module, threads=threads)
        for _ in range(50):
            together[...] = 0
            executable(x, together)
            np.testing.assert_array_equal(alone, together)
    assert pool.require().workers >= threads - 1


def test_pool_serves_callers_at_once_and_one_by_one() -> None:
    """Whoever finds the pool busy does the work alone, so that no more threads work than the callers and the pool's."""
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    want = np.zeros_like(x)
    compile_module(parallel_module(0, 64))(x, want)
    executable = compile_module(parallel_module(0, 64), threads=3)
    executable(x, np.zeros_like(x))
    workers = pool.require().workers
    before, most = len(os.listdir("/proc/self/task")), [0]
    wrong = []

    def call() -> None:
        for _ in range(300):
            got = np.zeros_like(x)
            executable(x, got)
            if (got != want).any():
                wrong.append(got)
        most.append(len(os.listdir("/proc/self/task")))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
    assert pool.require().workers == workers
    assert max(most) <= before + len(callers)


def test_a_job_leaves_a_core_to_who_found_the_pool_busy() -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    run = ctypes.CFUNCTYPE(None, kind, ctypes.c_void_p, ctypes.c_int64)(
        pool.require().address("run")
    )
    first, second = threading.Semaphore(0), threading.Semaphore(0)
    may_end, may_go_on = threading.Event(), threading.Event()
    did: list[int] = []

    def held(began: threading.Semaphore, end: threading.Event) -> Any:
        def task(context: Any, part: int, parts: int) -> None:
            began.release()
            assert end.wait(60)

        return kind(task)

    def noted(context: Any, part: int, parts: int) -> None:
        did.append(threading.get_ident())
        time.sleep(0.01)

    tasks = held(first, may_end), held(second, may_go_on)
    owner = threading.Thread(target=run, args=(tasks[0], None, 2))
    owner.start()
    for _ in range(2):  # a worker that is called and still asleep would come to a later job
        assert first.acquire(timeout=60)
    other = threading.Thread(target=run, args=(tasks[1], None, 2))
    other.start()  # finds the pool busy
    assert second.acquire(timeout=60)
    may_end.set()
    owner.join()
    wait_for_sleep()  # a worker that still looks for parts of the first job would take one of the next
    run(kind(noted), None, 2)  # the pool is free again, but two threads are at work already
    assert did == [threading.get_ident()] * 2
    may_go_on.set()
    other.join()
    both = threading.Barrier(2)
    run(kind(lambda *args: both.wait(60)), None, 2)  # ends only if two threads do it
    assert not both.broken


def wait_for_sleep() -> None:
    """Return when all workers have seen that there is nothing to do."""
    state, end = pool.require().address("state"), time.monotonic() + 60
    for mailbox in range(1, pool.require().workers + 1):
        sleeps = ctypes.c_int32.from_address(state + 128 * mailbox + 4)
        while not sleeps.value:
            assert time.monotonic() < end
            time.sleep(0.001)


def test_workers_leave_the_processors_of_the_caller_and_of_workers_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed, caller = {1, 5, 700}, threading.get_ident()
    at: dict[int, int] = {}
    masks: dict[int, set[int]] = {}

    def get_mask(pid: int, size: int, mask: int) -> int:
        ctypes.memmove(mask, sum(1 << cpu for cpu in allowed).to_bytes(size, "little"), size)
        return 0

    def set_mask(pid: int, size: int, mask: int) -> int:
        bits = int.from_bytes(ctypes.string_at(mask, size), "little")
        masks[threading.get_ident()] = {cpu for cpu in range(8 * size) if bits >> cpu & 1}
        if not bits:
            return -1
        if at.get(threading.get_ident(), 5) not in masks[threading.get_ident()]:
            at[threading.get_ident()] = min(masks[threading.get_ident()])
        return 0

    affinity = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)
    system = {
        "sched_getcpu": ctypes.CFUNCTYPE(ctypes.c_int)(lambda: at.get(threading.get_ident(), 5)),
        "sched_getaffinity": affinity(get_mask),
        "sched_setaffinity": affinity(set_mask),
    }
    libc = host.PROVIDERS["libc"]

    def of_this_system(name: str) -> int:
        if name not in system:
            return libc(name)
        return ctypes.cast(system[name], ctypes.c_void_p).value or 0

    monkeypatch.setitem(host.PROVIDERS, "libc", of_this_system)
    monkeypatch.setattr(parts, "LOADED", {})
    fresh = pool.Pool(None)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    run = ctypes.CFUNCTYPE(None, kind, ctypes.c_void_p, ctypes.c_int64)(fresh.address("run"))
    for _ in range(4):  # who comes before the worker ahead of it is disturbed by that later
        together = threading.Barrier(4)
        run(kind(lambda *args, all_=together: all_.wait(60)), None, 4)
    places = (ctypes.c_int32 * 4).from_address(fresh.address("places"))
    assert list(places)[:3] == [5, 1, 700]  # and no processor is left for the last
    assert caller not in masks
    assert sorted(map(sorted, masks.values())) == [[], [1, 5, 700], [1, 5, 700]]
    fresh.shutdown()


def test_pool_ends_and_begins_again() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    executable = compile_module(parallel_module(0, 64), threads=3)
    executable(x, np.zeros_like(x))
    assert pool.require().workers >= 2
    pool.require().shutdown()
    assert pool.require().workers == 0
    executable(x, np.zeros_like(x))
    assert pool.require().workers == 2


def test_pool_survives_fork() -> None:
    """The child has none of its parent's workers, and makes its own."""
    code = """
import os, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from loop_programs import compile_module, parallel_module
from tapec.runtime.cpu import threads as pool
x = np.linspace(-1, 1, 64, dtype=np.float32)
executable = compile_module(parallel_module(0, 64), threads=3)
want = np.zeros_like(x)
executable(x, want)
child = os.fork()
got = np.zeros_like(x)
before = pool.require().workers
executable(x, got)
good = (got == want).all() and pool.require().workers == 2
if child == 0:
    os._exit(0 if good and before == 0 else 1)
_, status = os.waitpid(child, 0)
sys.exit(0 if good and status == 0 else 1)
"""
    run_python(code, str(Path(__file__).parent))


def run_python(code: str, *arguments: str) -> str:
    """Run a program of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_parallel_loop_carries_nothing() -> None:
    body = """
  %low = constant {value = 0} : index
  %high = constant {value = 4} : index
  %f = constant {value = 0.0} : f32
  %s = for %low, %high, %f {parallel = true} : f32 {
    ^(%i: index, %a: f32):
    yield %a
  }
  store %s, %r"""
    with pytest.raises(TargetError, match="carries no values"):
        compile_module(kernel_module("%r: &f32", body, inputs=0), threads=2)
