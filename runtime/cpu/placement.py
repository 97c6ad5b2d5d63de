"""Workers of the pool that share a processor with the caller leave it: LLVM text, part of `tapec.runtime.cpu.threads`.

A system may put a worker where the caller computes already though another processor has nothing to do. Linux does so in
a virtual machine: a processor that sleeps there looks like one that the host has taken away, so a thread that was once
woken on its caller's is woken there from then on. The two take turns on one processor, and two threads are slower than
one for as long as the process lives. So who begins a job says where that is; a worker that finds itself where the
caller is, or a worker before it, moves to another processor that it may use. It is not bound to that.

Asking costs three nanoseconds a job, moving forty microseconds, in which the caller goes on with the worker's parts.
"""

from __future__ import annotations

#: What the text takes from outside: the fields ``sched_getcpu``, ``sched_getaffinity`` and ``sched_setaffinity``.
HOST = ("libc:sched_getcpu", "libc:sched_getaffinity", "libc:sched_setaffinity")

# Places are processors by thread: the caller's is 0, worker i's is i, as each saw it last. A set of processors is a
# cpu_set_t of the C library: 1024 bits.
TEXT = """
@pool.places = hidden global [{places} x i32] zeroinitializer, align 128

; Note the processor on which thread %i runs.
define internal i32 @note_place(i64 %i) nounwind {{
  %call = load ptr, ptr {sched_getcpu}
  %here = call i32 %call()
  call void @set_place(i64 %i, i32 %here)
  ret i32 %here
}}

define internal void @set_place(i64 %i, i32 %here) alwaysinline nounwind {{
  %at = getelementptr i32, ptr @pool.places, i64 %i
  store atomic i32 %here, ptr %at monotonic, align 4
  ret void
}}

define internal i32 @place(i64 %i) alwaysinline nounwind {{
  %at = getelementptr i32, ptr @pool.places, i64 %i
  %there = load atomic i32, ptr %at monotonic, align 4
  ret i32 %there
}}

; Worker %i leaves a processor on which the caller or a worker before it runs, if there is another.
define internal void @part_company(i64 %i) nounwind {{
entry:
  %here = call i32 @note_place(i64 %i)
  br label %look
look:
  %j = phi i64 [ 0, %entry ], [ %following, %apart ]
  %there = call i32 @place(i64 %j)
  %met = icmp eq i32 %there, %here
  br i1 %met, label %move, label %apart
apart:
  %following = add i64 %j, 1
  %more = icmp slt i64 %following, %i
  br i1 %more, label %look, label %done
move:
  call void @move(i64 %i)
  br label %done
done:
  ret void
}}

; Allow worker %i only where none before it runs, which moves it at once, and then what it was allowed before.
define internal void @move(i64 %i) nounwind {{
entry:
  %allowed = alloca [128 x i8], align 16
  %free = alloca [128 x i8], align 16
  %get = load ptr, ptr {sched_getaffinity}
  %set = load ptr, ptr {sched_setaffinity}
  %failed = call i32 %get(i32 0, i64 128, ptr %allowed)
  %unknown = icmp ne i32 %failed, 0
  br i1 %unknown, label %done, label %known
known:
  call void @llvm.memcpy.inline.p0.p0.i64(ptr %free, ptr %allowed, i64 128, i1 false)
  br label %exclude
exclude:
  %j = phi i64 [ 0, %known ], [ %following, %next ]
  %place = call i32 @place(i64 %j)
  %small = icmp ult i32 %place, 1024
  br i1 %small, label %clear, label %next
clear:
  %byte = lshr i32 %place, 3
  %at = getelementptr i8, ptr %free, i32 %byte
  %low = and i32 %place, 7
  %position = trunc i32 %low to i8
  %bit = shl i8 1, %position
  %others = xor i8 %bit, -1
  %had = load i8, ptr %at
  %left = and i8 %had, %others
  store i8 %left, ptr %at
  br label %next
next:
  %following = add i64 %j, 1
  %more = icmp slt i64 %following, %i
  br i1 %more, label %exclude, label %go
go:
  %refused = call i32 %set(i32 0, i64 128, ptr %free)
  %nowhere = icmp ne i32 %refused, 0
  br i1 %nowhere, label %done, label %arrived
arrived:
  %again = call i32 %set(i32 0, i64 128, ptr %allowed)
  %here = call i32 @note_place(i64 %i)
  br label %done
done:
  ret void
}}
"""
