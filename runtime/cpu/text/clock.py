"""Programs that keep the time of each kernel: a clock is read before and after a launch that has a number.

The sums are in a table of the program, ``@tapec.times``, of 64-bit numbers: how many rows there are, 0, then for each
number a row with the nanoseconds of all runs and how many there were. It is written without locks, by the thread that
launches; who reads it sets the rows back to zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.ir.core import Module, Operation
from tapec.ir.ops import loop
from tapec.runtime.cpu.code import TIMES, TIMES_HEAD

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import KernelWriter, ModuleWriter

#: Linux's clock of nanoseconds that nobody sets; reading it takes about 20 ns, without a call of the system.
_CLOCK_MONOTONIC = 1


def timed_kernels(module: Module) -> int:
    """How many numbers the launches of a program have."""
    launches = (op for op in module.entry.walk() if isinstance(op.defn, loop.Launch))
    return 1 + max((int(op.attrs.get("number", -1)) for op in launches), default=-1)


def now(k: KernelWriter) -> str:
    """Write a reading of the clock: a register with nanoseconds."""
    return k.emit("call i64 @tapec.now()")


def add(k: KernelWriter, op: Operation, start: str) -> None:
    """Write what a launch's end does: add the time since ``start`` to its entry of the table."""
    passed = k.emit(f"sub i64 {now(k)}, {start}")
    for field, more in enumerate((passed, "1")):
        offset = TIMES_HEAD + 8 * (2 * int(op.attrs["number"]) + field)
        place = k.emit(f"getelementptr i8, ptr @{TIMES}, i64 {offset}")
        old = k.emit(f"load i64, ptr {place}")
        new = k.emit(f"add i64 {old}, {more}")
        k.line(f"store i64 {new}, ptr {place}")


def text(writer: ModuleWriter) -> str:
    """The table, and the function that reads the clock."""
    count = timed_kernels(writer.module)
    return _TEXT.format(
        times=TIMES,
        count=count,
        size=2 * count,
        clock_gettime=writer.host_slot("libc:clock_gettime"),
        clock=_CLOCK_MONOTONIC,
    )


_TEXT = """%tapec.times.table = type {{ i64, i64, [{size} x i64] }}
@{times} = hidden global %tapec.times.table {{ i64 {count}, i64 0, [{size} x i64] zeroinitializer }}, align 64
define internal i64 @tapec.now() #0 {{
  %time = alloca [2 x i64]
  %read = load ptr, ptr {clock_gettime}
  %failed = call i32 %read(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %place
  %nanoseconds = mul i64 %seconds, 1000000000
  %sum = add i64 %nanoseconds, %rest
  ret i64 %sum
}}
"""
