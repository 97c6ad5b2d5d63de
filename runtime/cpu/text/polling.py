"""How a long loop of native code is stopped: between turns it looks, now and then, whether a signal came.

Each turn takes what it does, roughly, off a budget, a word on the entry's stack. When that is used up, after some ten
thousandths of a second, a look at the clock; every twentieth of a second, Python's own check for signals, with the
interpreter taken back for it. So handlers run as Python has them run: whoever installed them, in the main thread, and
what they raise (KeyboardInterrupt, mostly) ends the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.ir.core import Function, Operation
from tapec.runtime.cpu.work import work

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import KernelWriter, ModuleWriter

#: Operations, roughly, between two looks at the clock.
BUDGET = 100_000
#: Nanoseconds between two checks for signals.
_PERIOD = 50_000_000
#: Linux's clock that costs little and is exact to some milliseconds.
_CLOCK_MONOTONIC_COARSE = 6
#: The label of the way out of the entry.
_STOPPED = "stopped"


def is_wanted(entry: Function) -> bool:
    """Whether some loop of an entry may be left."""
    return any(op.attrs.get("interruptible") for op in entry.walk())


def poll(k: KernelWriter, op: Operation) -> None:
    """Write what the end of a loop's turn does: go on, or leave the entry."""
    cost = min(work(op.regions[-1].block, k.writer.module), BUDGET)
    stop = k.emit(f"call i1 @tapec.poll(ptr %signals, i64 {cost})")
    following = k.fresh("on")
    k.line(f"br i1 {stop}, label %{_STOPPED}, label %{following}")
    k.label(following)


def way_out(k: KernelWriter) -> None:
    """Write the place to which a stopped loop goes."""
    k.label(_STOPPED)
    k.line("ret i1 true")


def functions(writer: ModuleWriter) -> str:
    """What `poll` calls."""
    names = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals")
    ensure, release, check = (writer.host_slot(f"python:{name}") for name in names)
    return _TEXT.format(
        ensure=ensure,
        release=release,
        check=check,
        clock_gettime=writer.host_slot("libc:clock_gettime"),
        handling=writer.host_slot("interrupts:handling"),
        clock=_CLOCK_MONOTONIC_COARSE,
        budget=BUDGET,
        period=_PERIOD,
    )


# At +0 of the record is what is left of the budget, at +8 the time of the last check.
_TEXT = """define internal i1 @tapec.poll(ptr %signals, i64 %cost) #1 {{
entry:
  %had = load i64, ptr %signals
  %left = sub i64 %had, %cost
  store i64 %left, ptr %signals
  %enough = icmp sgt i64 %left, 0
  br i1 %enough, label %on, label %look
look:
  %stop = call i1 @tapec.look(ptr %signals)
  ret i1 %stop
on:
  ret i1 false
}}
define internal i1 @tapec.look(ptr %signals) noinline cold #0 {{
entry:
  %time = alloca [16 x i8], align 8
  store i64 {budget}, ptr %signals
  %clock = load ptr, ptr {clock_gettime}
  %failed = call i32 %clock(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.at = getelementptr i8, ptr %time, i64 8
  %fraction = load i64, ptr %fraction.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %fraction
  %last.at = getelementptr i8, ptr %signals, i64 8
  %last = load i64, ptr %last.at
  %passed = sub i64 %now, %last
  %recent = icmp ult i64 %passed, {period}
  br i1 %recent, label %on, label %check
check:
  store i64 %now, ptr %last.at
  %ensure = load ptr, ptr {ensure}
  %state = call i32 %ensure()
  %count.at = load ptr, ptr {handling}
  %outer = load i64, ptr %count.at
  %inner = add i64 %outer, 1
  store i64 %inner, ptr %count.at
  %signalled = load ptr, ptr {check}
  %raised = call i32 %signalled()
  store i64 %outer, ptr %count.at
  %release = load ptr, ptr {release}
  call void %release(i32 %state)
  %stop = icmp ne i32 %raised, 0
  ret i1 %stop
on:
  ret i1 false
}}
"""
