"""Ctrl-C and other signals while native loops run: where they stop, and what Variables hold then."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapec.ir.core import Module
from tapec.ir.parser import parse_module
from tapec.passes.pipeline import parse_pipeline, run_pipeline

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import tapec

a, b = tapec.Variable(np.zeros(3)), tapec.Variable(np.zeros(3))
before, after = tapec.Variable(0), tapec.Variable(0)


def turn(i):
    # Whatever the order of the two kernels, a whole turn adds to both.
    a.assign_add(tapec.ones([3], tapec.float64))
    b.assign_add(2.0 * tapec.ones([3], tapec.float64))
    return (i + 1,)


@tapec.compile
def forever():
    tapec.while_loop(lambda i: i > -1, turn, [tapec.constant(0, tapec.int64)])
    after.assign_add(1)
    return a + b


@tapec.compile
def long(turns):
    before.assign(before * 2 + 1)
    k = before + 0
    (i,) = tapec.while_loop(lambda i: i < turns, turn, [tapec.cast(k, tapec.int64)])
    return i


@tapec.compile
def short():
    a.assign_add(tapec.ones([3], tapec.float64))
    b.assign_add(2.0 * tapec.ones([3], tapec.float64))


def whole():
    assert a.numpy()[0] == a.numpy()[2] and (b.numpy() == 2 * a.numpy()).all(), (a, b)
    return a.numpy()[0]


def interrupt(function, number=signal.SIGINT, seconds=0.1):
    # When the function is compiled, and has run for a while.
    def send():
        while not function.programs:
            time.sleep(0.01)
        time.sleep(seconds)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), number)
    sent = []
    threading.Thread(target=send, daemon=True).start()
    return sent
"""


def prints(code: str, tmp_path: Path, threads: int = 1) -> str:
    """Run a program that begins with PROGRAM, and return what it prints."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + code)
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "TAPEC_NUM_THREADS": str(threads), "TAPEC_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_without_end_stops_between_turns(tmp_path: Path, threads: int) -> None:
    code = """
forever_again = tapec.compile(lambda: forever.python_function())
times, turns = [], [0.0]
for function in (forever, forever, forever_again):
    sent = interrupt(function)
    try:
        function()
    except KeyboardInterrupt:
        times.append(time.perf_counter() - sent[0])
    turns.append(whole())
    short()
    assert whole() == turns[-1] + 1
assert turns == sorted(turns) and turns[1] > 1000, turns
assert int(after) == 0
print(min(times) < 0.2)
"""
    assert prints(code, tmp_path, threads) == "True\n"


def test_an_update_before_a_loop_waits_for_its_end(tmp_path: Path) -> None:
    """Stopped, the loop leaves its last whole turn, and the rest of the step did not happen."""
    code = """
few, many = tapec.constant(10, tapec.int64), tapec.constant(1 << 60, tapec.int64)
long(few)
assert (int(before), whole()) == (1, 9)
interrupt(long)
try:
    long(many)
except KeyboardInterrupt:
    print(int(before), whole() > 9)
stopped = whole()
long(few)
print(int(before), whole() - stopped)
"""
    assert prints(code, tmp_path) == "1 True\n3 7.0\n"


def test_where_a_step_has_begun_to_write_no_loop_stops() -> None:
    """The pass goes by what is written to, whoever planned it: nested loops, branches, views."""
    module = parse_module("""
        func @f(%w: &f32[4], %n: &f32, %r: &f32[4], %arena: &u8[64]) -> (%r, %w) {arena = 64, inputs = 2} {
          %0 = constant {value = 0} : index
          %1 = constant {value = 1000} : index
          for %0, %1 { ^(%i: index):
            for %0, %1 { ^(%j: index):
              launch %n, %r {kernel = "k"}
              yield
            }
            %v = view %w {offset = 4} : &f32[3]
            launch %n, %v {kernel = "part"}
            for %0, %1 { ^(%k: index):
              yield
            }
            yield
          }
          for %0, %1 { ^(%l: index):
            yield
          }
          return
        }
        kernel @k(%n: &f32, %r: &f32[4]) {
          %0 = constant {value = 0} : index
          %1 = load %n : f32
          store %1, %r, %0
          return
        }
        kernel @part(%n: &f32, %r: &f32[3]) {
          %0 = constant {value = 0} : index
          %1 = load %n : f32
          store %1, %r, %0
          return
        }""")
    module.entry.updates[1] = 0
    run_pipeline(module, parse_pipeline("poll"))
    loops = [op for op in module.entry.walk() if op.name == "for"]
    assert [op.attrs.get("interruptible", False) for op in loops] == [True, True, False, False]


def test_in_another_thread_the_main_one_is_interrupted(tmp_path: Path) -> None:
    """Python gives KeyboardInterrupt to the main thread; the interpreter ends while the other one goes on."""
    code = """
def run():
    started.set()
    forever()
started = threading.Event()
threading.Thread(target=run, daemon=True).start()
started.wait()
times = []
for _ in range(3):
    sent = interrupt(forever)
    try:
        while True:
            time.sleep(10)
    except KeyboardInterrupt:
        times.append(time.perf_counter() - sent[0])
print(min(times) < 0.2)
"""
    assert prints(code, tmp_path) == "True\n"


def test_handlers_run_while_a_loop_goes_on(tmp_path: Path) -> None:
    """They may read Variables, as of some whole turn, and may not update them."""
    code = """
short()
seen, refused = [], []
def handle(*_):
    value = a.read_value()
    assert (b.numpy() == 2 * value.numpy()).all()
    seen.append((value, value.numpy().copy()))
    for update in (short, lambda: a.assign_add(np.ones(3))):
        try:
            update()
        except RuntimeError as error:
            refused.append("is updating" in str(error))
    if len(seen) == 3:
        raise InterruptedError("enough")
signal.signal(signal.SIGUSR1, handle)
for i in range(20):
    interrupt(forever, signal.SIGUSR1, 0.1 + 0.2 * i)
try:
    forever()
except InterruptedError as error:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    print(error, refused)
assert all((value.numpy() == copy).all() for value, copy in seen)
assert seen[0][1][0] < seen[1][1][0] < whole()
before_short = whole()
short()
assert whole() == before_short + 1
"""
    assert prints(code, tmp_path) == f"enough {[True] * 6}\n"


@pytest.mark.parametrize("when", ["trace", "compile"])
def test_ctrl_c_while_a_function_is_compiled(tmp_path: Path, when: str) -> None:
    code = f"""
import tapec.compiler
from tapec.ir.ops.loop import For
pressed = []
def press(*_):
    if not pressed:
        pressed.append(1)
        os.kill(os.getpid(), signal.SIGINT)
    return original(*_)
@tapec.compile
def step(x):
    if {when == "trace"}:
        original_exp(x)
    a.assign_add(x)
    return tapec.exp(x)
original_exp = tapec.exp
if {when == "trace"}:
    original, original_exp = original_exp, press
else:
    from tapec.passes import fuse
    original, fuse.run = fuse.run, press
x = tapec.zeros([3], tapec.float64)
try:
    step(x)
    print("nothing")
except KeyboardInterrupt:
    print(tapec.executing_eagerly(), whole())
print(step(x).numpy().tolist(), whole())
"""
    assert prints(code, tmp_path) == "True 0.0\n[1.0, 1.0, 1.0] 0.0\n"


class Late(Exception):
    """What handlers of signals raise."""


class Handler:
    """Three ways of being a handler."""

    def method(self, number: int, frame: Any) -> None:
        raise Late

    def __call__(self, number: int, frame: Any) -> None:
        self.method(number, frame)

    def partial(self) -> Any:
        return functools.partial(Handler.method, self)


def run_with(monkeypatch: pytest.MonkeyPatch, broken: Callable[[Module, Any], bool]) -> None:
    """Run a pipeline whose only pass is broken."""
    monkeypatch.setattr("tapec.passes.cse.run", broken)
    module = parse_module("func @step(%x: f32) -> f32 {\n  return %x\n}")
    run_pipeline(module, parse_pipeline("cse"))


@pytest.mark.parametrize("handler", [Handler().method, Handler(), Handler().partial()])
def test_a_signal_is_no_bug_of_a_pass(monkeypatch: pytest.MonkeyPatch, handler: Any) -> None:
    """Whoever bounds the time of a first call looks for his own exception."""

    def interrupted(module: Module, options: object) -> bool:
        signal.raise_signal(signal.SIGUSR1)
        return False

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Late):
            run_with(monkeypatch, interrupted)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_no_memory_is_no_bug_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(module: Module, options: object) -> bool:
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        run_with(monkeypatch, greedy)


def test_no_poll_where_nothing_loops() -> None:
    module = parse_module("""
        func @step(%x: f32[2]) -> f32[2] {
          %0 = exp %x : f32[2]
          return %0
        }""")
    run_pipeline(module, parse_pipeline("default"))
    assert not any("interruptible" in op.attrs for op in module.walk())


def test_signal_is_the_usual_one() -> None:
    """These tests rest on it: Ctrl-C is SIGINT, which raises KeyboardInterrupt."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
