"""Compiled steps from several threads, signal handlers, finalizers, tasks and processes: each counts, whole."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapec

THREADS, CALLS = 8, 2000
#: Elements from which on a program lets other threads run meanwhile.
LONG = 300_000


@pytest.fixture(autouse=True)
def switch_often() -> Any:
    """Threads change places every few instructions, not every five milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*actions: Callable[[], Any]) -> list[Any]:
    """Run actions in threads that start at once; return what they return."""
    gate = threading.Barrier(len(actions))

    def run(action: Callable[[], Any]) -> Any:
        gate.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [f.result(timeout=120) for f in [pool.submit(run, action) for action in actions]]


def pair(size: int) -> tuple[tapec.Variable, tapec.Variable]:
    return tapec.Variable(tapec.zeros([size])), tapec.Variable(tapec.zeros([size]))


def counting(*variables: tapec.Variable, by: float = 1.0) -> Any:
    """A step that adds to all of these."""

    @tapec.compile
    def step() -> tapec.Tensor:
        for variable in variables:
            variable.assign_add(tapec.fill(variable.shape, by))
        return tapec.reduce_sum(variables[0])

    return step


def times(count: int, step: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            step()

    return run


def test_every_update_counts() -> None:
    a, b = pair(3)
    step = counting(a, b)
    together(*[times(CALLS, step)] * THREADS)
    for variable in (a, b):
        np.testing.assert_array_equal(variable.numpy(), THREADS * CALLS)


def test_functions_that_share_some_variables() -> None:
    """Each pair of three Variables is counted by a function of its own, one of them eagerly as well."""
    a, b = pair(2)
    c = tapec.Variable(tapec.zeros([2]))
    steps = [counting(a, b), counting(b, c), counting(c, a), counting(b)]

    def eager() -> None:
        b.assign_add([1.0, 1.0])
        b.scatter_nd_add([[0], [1]], [1.0, 1.0])

    together(*[times(500, step) for step in [*steps, *steps, eager]])
    np.testing.assert_array_equal(a.numpy(), 2000)
    np.testing.assert_array_equal(b.numpy(), 4000)
    np.testing.assert_array_equal(c.numpy(), 2000)


def test_readers_see_whole_steps() -> None:
    """While long steps write, with the interpreter free, others read: compiled, eagerly and through NumPy."""
    a, b = pair(LONG)
    step = counting(a, b)
    step()
    read = tapec.compile(lambda: (a + 0.0, b + 0.0))
    done = threading.Event()
    readers: list[Callable[[], Any]] = [read, lambda: [a.read_value()], lambda: [b.numpy()]]
    looks = [0] * len(readers)
    wrong: list[Any] = []

    def write() -> None:
        end = time.monotonic() + 30
        # On a busy machine threads begin late: until each has looked while steps run.
        for turn in itertools.count():
            step()
            if (turn >= 60 and min(looks) > 0) or time.monotonic() > end:
                break
        done.set()

    def look(number: int) -> Callable[[], None]:
        def run() -> None:
            while not done.is_set():
                arrays = [np.asarray(v) for v in readers[number]()]
                if any((array != arrays[0][0]).any() for array in arrays):
                    wrong.append(number)
                looks[number] += 1

        return run

    together(write, *map(look, range(len(readers))))
    assert not wrong
    assert min(looks) > 0


def test_snapshots_stay_as_they_were() -> None:
    a, b = pair(LONG)
    step = counting(a, b)
    kept = []

    def keep() -> None:
        for _ in range(20):
            kept.append(a.read_value())

    together(times(20, step), keep)
    for tensor in kept:
        assert (tensor.numpy() == tensor.numpy()[0]).all()


def test_the_interpreter_is_free_meanwhile() -> None:
    """Two threads in native code overlap with Python that runs in a third."""
    x = tapec.Variable(tapec.ones([700, 700]))
    power = tapec.compile(lambda: (x @ x @ x @ x @ x @ x)[0, 0])
    power()
    turns = 0
    busy = threading.Event()

    def count() -> None:
        nonlocal turns
        while not busy.is_set():
            turns += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = turns
    power()
    after = turns
    busy.set()
    thread.join()
    assert after > before + 10


def test_a_function_is_traced_once() -> None:
    traces: list[int] = []

    @tapec.compile
    def step(x: tapec.Tensor) -> tapec.Tensor:
        traces.append(threading.get_ident())
        time.sleep(0.05)
        return x * 2.0

    x = tapec.constant([1.0])
    results = together(*[lambda: float(step(x)[0])] * THREADS)
    assert results == [2.0] * THREADS
    assert len(traces) == 1


def test_tapes_and_traces_belong_to_their_thread() -> None:
    def train(start: float) -> Callable[[], tuple[float, float]]:
        def run() -> tuple[float, float]:
            w = tapec.Variable(start)

            @tapec.compile
            def step() -> tapec.Tensor:
                with tapec.GradientTape() as tape:
                    loss = w * w
                w.assign_sub(0.25 * tape.gradient(loss, w))
                return loss

            for _ in range(10):
                step()
                with tapec.GradientTape() as tape:
                    loss = w * w * w
                gradient = tape.gradient(loss, w)
            return float(w), float(gradient)

        return run

    for start, (w, gradient) in enumerate(together(*[train(float(i)) for i in range(THREADS)])):
        assert w == start / 2**10
        assert gradient == 3 * w * w


def test_a_compiled_step_under_tapes_in_threads() -> None:
    """What the tape keeps are the values that the call saw."""
    w = tapec.Variable([3.0])
    grow = counting(w)
    square = tapec.compile(lambda: w * w)

    def differentiate() -> None:
        for _ in range(200):
            with tapec.GradientTape() as tape:
                y = square()
            (gradient,) = tape.gradient(y, [w])
            assert float(gradient[0]) == 2 * np.sqrt(float(y[0]))

    together(times(200, grow), differentiate, differentiate)


# ---- the same thread comes back


def test_signal_handlers_may_step() -> None:
    a, b = pair(3)
    step, other = counting(a, b), counting(b, by=0.0)
    step()
    other()
    handled = 0

    def handle(*_: Any) -> None:
        nonlocal handled
        step()
        other()
        assert len(set(a.numpy().tolist())) == 1
        b.assign_add(tapec.zeros([3]))
        handled += 1

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        calls = 1
        while handled < 300:
            step()
            calls += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for variable in (a, b):
        np.testing.assert_array_equal(variable.numpy(), calls + handled)


def test_finalizers_may_step() -> None:
    a, b = pair(3)
    step = counting(a, b)
    finalized = 0

    class Cyclic:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            nonlocal finalized
            step()
            finalized += 1

    threshold = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(300):
            Cyclic()
            step()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert finalized == 300
    np.testing.assert_array_equal(a.numpy(), 600)


def test_steps_in_generators_and_tasks() -> None:
    a, b = pair(2)
    step = counting(a, b)

    def produce() -> Any:
        while True:
            yield float(step())

    first, second = produce(), produce()
    assert [next(g) for g in (first, second, first)] == [2.0, 4.0, 6.0]

    async def work() -> None:
        for _ in range(20):
            step()
            await asyncio.sleep(0)
            await asyncio.to_thread(step)

    async def main() -> None:
        await asyncio.gather(*[work() for _ in range(5)])

    asyncio.run(main())
    np.testing.assert_array_equal(b.numpy(), 203)


def test_what_a_program_claimed_is_free_when_it_is_gone() -> None:
    shared = tapec.Variable([0.0])
    for _ in range(5):
        own = tapec.Variable([0.0])
        step = counting(shared, own)
        step()
        del step, own
        gc.collect()
    assert not shared.claims
    step = counting(shared)
    step()
    assert len(shared.claims) == 1
    assert shared.numpy()[0] == 6


# ---- processes

PROGRAM = """
import multiprocessing, os, sys, threading, time
import numpy as np
import tapec

w = tapec.Variable(tapec.zeros([400_000]))

@tapec.compile
def step():
    w.assign_add(tapec.ones([400_000]))
    return tapec.reduce_sum(w)

def whole():
    array = w.numpy()
    assert (array == array[0]).all(), "half a step"
    return float(array[0])

def child(n):
    before = whole()
    for _ in range(n):
        step()
    assert whole() == before + n
    return n
"""


def runs(code: str, tmp_path: Path, **environment: str) -> str:
    """Run a program that begins with PROGRAM, and return what it prints."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + code)
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "TAPEC_NUM_THREADS": "2", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_fork_while_others_step(tmp_path: Path) -> None:
    """A child has Variables of whole steps, threads of its own, and no lock that is never released."""
    code = """
step()
done = threading.Event()
def train():
    while not done.is_set():
        step()
threads = [threading.Thread(target=train) for _ in range(2)]
for thread in threads:
    thread.start()
good = 0
for _ in range(10):
    time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if child(3) == 3 else 1)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
    good += os.waitpid(pid, 0)[1] == 0
done.set()
for thread in threads:
    thread.join()
whole()
print(good)
"""
    assert runs(code, tmp_path) == "10\n"


def test_fork_while_others_compile(tmp_path: Path) -> None:
    """A child may compile: neither a function's lock nor LLVM's is taken for ever."""
    code = """
def make(i):
    return tapec.compile(lambda x: x * float(i) + w[0])

x = tapec.ones([3])
shared = make(-1)
def compile_many():
    for i in range(12):
        make(i)(x)
        shared(tapec.ones([i + 1]))
thread = threading.Thread(target=compile_many)
thread.start()
good = 0
for i in range(6):
    time.sleep(0.02)
    pid = os.fork()
    if pid == 0:
        right = float(make(i)(x)[1]) == i and float(shared(tapec.ones([30 + i]))[0]) == -1
        os._exit(0 if right else 1)
    good += os.waitpid(pid, 0)[1] == 0
thread.join()
print(good)
"""
    assert runs(code, tmp_path, TAPEC_CACHE="0") == "6\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    code = f"""
if __name__ == "__main__":
    step()
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        print(pool.map(child, [1, 2, 3]))
    print(child(1))
"""
    assert runs(code, tmp_path) == "[1, 2, 3]\n1\n"


def test_daemon_threads_at_exit(tmp_path: Path) -> None:
    """The interpreter ends while steps run; nothing crashes or hangs."""
    code = """
step()
def train():
    while True:
        step()
for _ in range(3):
    threading.Thread(target=train, daemon=True).start()
time.sleep(0.1)
print("end")
"""
    assert runs(code, tmp_path) == "end\n"


SMALL_STACKS = """
import threading
import tapec

weights = [tapec.Variable(tapec.ones([64, 64])) for _ in range(8)]


@tapec.compile
def step(x):
    with tapec.GradientTape() as tape:
        loss = x
        for w in weights:
            loss = tapec.tanh(loss @ w)
    for w, g in zip(weights, tape.gradient(loss, weights)):
        w.assign_sub(g)
    return tapec.reduce_sum(loss)


threading.stack_size(1 << 16)
thread = threading.Thread(target=lambda: print(step(tapec.zeros([32, 64])).numpy()))
thread.start()
thread.join()
print(threading.stack_size())
"""


def test_a_thread_with_a_small_stack_can_compile(tmp_path: Path) -> None:
    """LLVM needs more than the 64 KiB that a program may give its threads; the setting stays the program's."""
    told = subprocess.run(
        [sys.executable, "-c", SMALL_STACKS],
        env={**os.environ, "TAPEC_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.split() == ["0.0", str(1 << 16)], told.returncode
