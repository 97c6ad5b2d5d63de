"""What threads cost: beginning and ending a parallel loop, and several compiled calls at once.

    TAPEC_NUM_THREADS=2 PYTHON benchmarks/threads.py

The first table is of parallel loops that do nothing, one behind the other or after the caller was alone for some time,
in which the workers go to sleep: the time until all threads have done their part. The second is of one compiled product
that uses all threads, called by one Python thread or several at once: calls per second of all together, and how many
threads the process has then. A call that finds the workers busy does its parts itself, so callers do not
add workers of their own.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tapec
from tapec.runtime.cpu import host, threads
from tapec.runtime.cpu.machine_code.jit import host_compiler
from tapec.runtime.cpu.machine_code.linker import link

ALONE = (0.0, 10e-6, 50e-6, 200e-6, 1e-3)
CALLERS = (1, 2, 4, 8)
_TEXT = """
@tapec.host = hidden global [1 x ptr] zeroinitializer
define internal void @nothing(ptr %context, i64 %part, i64 %parts) {
  ret void
}
define hidden void @loops(i64 %count, ptr %run, i64 %threads) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void %run(ptr @nothing, ptr null, i64 %threads)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def empty_loops() -> Callable[[int], None]:
    """A function that runs so many empty parallel loops."""
    code = host.Mapped(link(host_compiler(1).compile(_TEXT)), ("libc:syscall",))
    types = (ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    function = ctypes.CFUNCTYPE(None, *types)(code.address("loops"))
    run, count = threads.require().address("run"), tapec.config.threads()

    def loops(n: int, _code: Any = code) -> None:
        function(n, run, count)

    return loops


def seconds_after(loops: Callable[[int], None], alone: float) -> list[float]:
    """Sorted times of an empty loop after the caller was alone for so many seconds."""
    if not alone:
        return sorted(timed(lambda: loops(10_000)) / 10_000 for _ in range(50))
    found = []
    for _ in range(300):
        end = time.perf_counter() + alone
        while time.perf_counter() < end:
            pass
        found.append(timed(lambda: loops(1)))
    return sorted(found)


def timed(call: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def calls_per_second(
    step: Callable[[], Any], callers: int, seconds: float = 1.0
) -> tuple[float, int]:
    """Of all callers together, and the number of threads of the process meanwhile."""
    done = [0] * callers
    end = time.perf_counter() + seconds

    def call(i: int) -> None:
        while time.perf_counter() < end:
            step()
            done[i] += 1

    started = [threading.Thread(target=call, args=(i,)) for i in range(callers)]
    for thread in started:
        thread.start()
    time.sleep(seconds / 2)
    alive = len(list(Path("/proc/self/task").iterdir()))
    for thread in started:
        thread.join()
    return sum(done) / seconds, alive


def main() -> None:
    """Print both tables."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    loops = empty_loops()
    loops(1000)
    print("| alone before, µs | median, µs | ninth decile, µs |\n|---|---|---|")
    for alone in ALONE:
        times = seconds_after(loops, alone)
        cells = (statistics.median(times) * 1e6, times[len(times) * 9 // 10] * 1e6)
        print(f"| {alone * 1e6:.0f} | {cells[0]:.2f} | {cells[1]:.2f} |")
    a = tapec.constant(np.ones([512, 512], np.float32))
    step = tapec.compile(lambda x: x @ x)
    step(a)
    print("\n| callers | calls/s of all | threads of the process |\n|---|---|---|")
    for callers in CALLERS:
        rate, alive = calls_per_second(lambda: step(a), callers)
        print(f"| {callers} | {rate:.0f} | {alive} |")


if __name__ == "__main__":
    main()
