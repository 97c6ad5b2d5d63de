"""The thread pool behind parallel loops: LLVM text that runs without Python.

``run(task, context, threads)`` calls ``task(context, i, threads)`` for every part ``i < threads`` and returns when all
are done. Part ``i`` is for thread ``i``, the caller being the first, so that from job to job a thread works on what its
own caches hold; who has done its part takes those that nobody has begun. A worker that comes late, because it slept or
another program has its core, thus costs nothing: the caller has done its part by then. One that the system put on the
core of another thread of the job leaves it (`tapec.runtime.cpu.placement`). Workers are made when first asked for and
wait for the next job by looking at their own mailbox some two thousand times, then in the kernel (futex). One job runs
at a time: a call that finds the pool busy, from another thread or from inside a task, does all its parts itself, one by
one. As many workers less are called for the next job meanwhile, so that no more threads compute than there are to be.
Where the system gives fewer threads than are wanted, those that there are do all parts.

After a fork the child has no workers; it forgets them and makes its own when it needs them. At exit nothing is to
be done: sleeping threads end with the process, and `shutdown` ends them before if somebody must.

A mailbox is 128 bytes (two cache lines, because neighbours are fetched in pairs): a counter that the caller raises for
each job, and whether its worker sleeps. Counters are only ever compared for having changed.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

from tapec.ir.errors import TargetError
from tapec.runtime.cache import Cache
from tapec.runtime.cpu import host, placement
from tapec.runtime.cpu.parts import load_part
from tapec.runtime.processors import MOST_THREADS

SPINS = 2000
#: By machine: the number of the futex system call, and the instruction that tells the core that one waits.
_MACHINES = {"x86_64": (202, "pause"), "aarch64": (98, "yield")}
_HOST = (
    "libc:syscall",
    "libc:pthread_create",
    "libc:pthread_join",
    "libc:pthread_sigmask",
    *placement.HOST,
)


def is_available() -> bool:
    """Whether this system has the pool; elsewhere parallel loops run on the calling thread."""
    return sys.platform.startswith("linux") and platform.machine() in _MACHINES


class Pool:
    """The pool of this process."""

    def __init__(self, cache: Cache | None) -> None:
        """Map its code, compiled or taken from the cache; threads come later."""
        self._mapped = load_part("pool", pool_text(), _HOST, cache)
        self._size = ctypes.c_int64.from_address(self._mapped.address("pool.size"))
        self._shutdown = ctypes.CFUNCTYPE(None)(self._mapped.address("pool.shutdown"))
        os.register_at_fork(after_in_child=self._forget)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self._size.value

    def address(self, name: str) -> int:
        """Where a function of the pool is."""
        return self._mapped.address(f"pool.{name}")

    def shutdown(self) -> None:
        """End all workers; the next job makes new ones. No job may be running."""
        self._shutdown()

    def _forget(self) -> None:
        ctypes.memset(self._mapped.address("pool.state"), 0, _STATE)
        self._size.value = 0


#: Bytes of ``@pool.state``: the job, then a mailbox for each worker.
_STATE = 128 + 128 * MOST_THREADS


#: The pool of this process, once there is one.
_made: list[Pool] = []


def require(cache: Cache | None = None) -> Pool:
    """The pool, compiled or taken from the cache the first time.

    Raises:
        TargetError: there is none for this system.
    """
    if not _made:
        _made.append(_make(cache))
        host.PROVIDERS["pool"] = _made[0].address
    return _made[0]


def _make(cache: Cache | None) -> Pool:
    if not is_available():
        raise TargetError(f"there is no thread pool for {sys.platform} on {platform.machine()}")
    return Pool(cache)


@functools.cache
def pool_text() -> str:
    """The pool as LLVM text for this machine."""
    number, pause = _MACHINES[platform.machine()]
    names = {name.split(":")[1]: i for i, name in enumerate(_HOST)}
    slots = {
        name: f"getelementptr ([{len(_HOST)} x ptr], ptr @tapec.host, i64 0, i64 {i})"
        for name, i in names.items()
    }
    return (_TEXT + placement.TEXT).format(
        futex=number,
        pause=pause,
        spins=SPINS,
        most=MOST_THREADS,
        state=_STATE,
        count=len(_HOST),
        full="\\FF" * 128,
        places=MOST_THREADS + 1,
        **slots,
    )


# The job is the first 128 bytes of the state: +0 busy (i32), +8 task, +16 context, +24 parts that nobody has begun, a
# bit each (i64), +32 parts not yet done (i32), +36 the caller sleeps (i32), +40 workers are to end (i32), +44 calls
# that found it busy and do their parts themselves (i32), +48 parts in all (i64). Mailbox i is at 128 * i for i >= 1: +0
# counter (i32), +4 its worker sleeps (i32), +8 the worker's pthread_t.
#
# Who has cleared a part's bit owns the part, and with that the job cannot end: only then are task, context and the
# number of parts read, which were written before the bits were set. A late worker thus takes no part of a job that it
# does not see: the bit that it cleared is one of the job that it then reads. Whoever sleeps says so before it looks for
# the last time, and whoever changes a word looks for sleepers afterwards, both in the one order of all (seq_cst): no
# wake-up is lost.
_TEXT = """
@tapec.host = hidden global [{count} x ptr] zeroinitializer
@pool.state = hidden global [{state} x i8] zeroinitializer, align 128
@pool.size = hidden global i64 0
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
@pool.every = private constant [128 x i8] c"{full}"

define internal ptr @job(i64 %at) alwaysinline nounwind {{
  %p = getelementptr i8, ptr @pool.state, i64 %at
  ret ptr %p
}}

define internal ptr @mailbox(i64 %i) alwaysinline nounwind {{
  %at = mul i64 %i, 128
  %p = getelementptr i8, ptr @pool.state, i64 %at
  ret ptr %p
}}

; Until the word at %p differs from %old: look some times, then sleep.
define internal void @wait(ptr %p, i32 %old, ptr %flag) nounwind {{
entry:
  %wide = zext i32 %old to i64
  br label %look
look:
  %n = phi i32 [ 0, %entry ], [ %more, %again ]
  %seen = load atomic i32, ptr %p acquire, align 4
  %same = icmp eq i32 %seen, %old
  br i1 %same, label %again, label %done
again:
  call void asm sideeffect "{pause}", "~{{memory}}"()
  %more = add i32 %n, 1
  %enough = icmp uge i32 %more, {spins}
  br i1 %enough, label %sleep, label %look
sleep:
  store atomic i32 1, ptr %flag seq_cst, align 4
  %last = load atomic i32, ptr %p seq_cst, align 4
  %still = icmp eq i32 %last, %old
  br i1 %still, label %block, label %awake
block:
  %call = load ptr, ptr {syscall}
  %r = call i64 (i64, ...) %call(i64 {futex}, ptr %p, i64 128, i64 %wide, ptr null, ptr null, i64 0)
  br label %sleep
awake:
  store atomic i32 0, ptr %flag seq_cst, align 4
  br label %done
done:
  ret void
}}

define internal void @wake(ptr %p, ptr %flag) nounwind {{
entry:
  %asleep = load atomic i32, ptr %flag seq_cst, align 4
  %no = icmp eq i32 %asleep, 0
  br i1 %no, label %done, label %kernel
kernel:
  %call = load ptr, ptr {syscall}
  %r = call i64 (i64, ...) %call(i64 {futex}, ptr %p, i64 129, i64 1, ptr null, ptr null, i64 0)
  br label %done
done:
  ret void
}}

; Take parts until there are none: that of number %own first, also of a job that begins meanwhile.
define internal void @take_parts(i64 %own) nounwind {{
entry:
  %free = call ptr @job(i64 24)
  %todo = call ptr @job(i64 32)
  %caller = call ptr @job(i64 36)
  %own.bit = shl i64 1, %own
  br label %try
look:
  %bits = load atomic i64, ptr %free seq_cst, align 8
  %none = icmp eq i64 %bits, 0
  %own.left = and i64 %bits, %own.bit
  %stays = icmp ne i64 %own.left, 0
  %first = call i64 @llvm.cttz.i64(i64 %bits, i1 false)
  %next = select i1 %stays, i64 %own, i64 %first
  br i1 %none, label %done, label %try
try:
  %part = phi i64 [ %own, %entry ], [ %next, %look ]
  %bit = shl i64 1, %part
  %others = xor i64 %bit, -1
  %before = atomicrmw and ptr %free, i64 %others seq_cst
  %had = and i64 %before, %bit
  %mine = icmp ne i64 %had, 0
  br i1 %mine, label %work, label %look
work:
  %task.at = call ptr @job(i64 8)
  %task = load ptr, ptr %task.at
  %context.at = call ptr @job(i64 16)
  %context = load ptr, ptr %context.at
  %parts.at = call ptr @job(i64 48)
  %parts = load i64, ptr %parts.at
  call void %task(ptr %context, i64 %part, i64 %parts)
  %left = atomicrmw sub ptr %todo, i32 1 seq_cst
  %was.last = icmp eq i32 %left, 1
  br i1 %was.last, label %tell, label %look
tell:
  call void @wake(ptr %todo, ptr %caller)
  br label %look
done:
  ret void
}}

define internal ptr @worker(ptr %argument) nounwind {{
entry:
  %i = ptrtoint ptr %argument to i64
  %box = call ptr @mailbox(i64 %i)
  %flag = getelementptr i8, ptr %box, i64 4
  %end.at = call ptr @job(i64 40)
  br label %next
next:
  %old = phi i32 [ 0, %entry ], [ %counter, %work ]
  call void @wait(ptr %box, i32 %old, ptr %flag)
  %counter = load atomic i32, ptr %box acquire, align 4
  %end = load atomic i32, ptr %end.at acquire, align 4
  %ending = icmp ne i32 %end, 0
  br i1 %ending, label %leave, label %work
work:
  call void @part_company(i64 %i)
  call void @take_parts(i64 %i)
  br label %next
leave:
  ret ptr null
}}

; Make workers until there are %wanted; signals are for Python's own threads.
define internal void @grow(i64 %wanted) nounwind {{
entry:
  %mask = alloca [128 x i8], align 16
  %sigmask = load ptr, ptr {pthread_sigmask}
  %m = call i32 %sigmask(i32 2, ptr @pool.every, ptr %mask)
  br label %test
test:
  %size = load i64, ptr @pool.size
  %few = icmp slt i64 %size, %wanted
  br i1 %few, label %make, label %done
make:
  %i = add i64 %size, 1
  %box = call ptr @mailbox(i64 %i)
  store i64 0, ptr %box
  call void @set_place(i64 %i, i32 -1)
  %thread = getelementptr i8, ptr %box, i64 8
  %argument = inttoptr i64 %i to ptr
  %create = load ptr, ptr {pthread_create}
  %failed = call i32 %create(ptr %thread, ptr null, ptr @worker, ptr %argument)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %count, label %done
count:
  store i64 %i, ptr @pool.size
  br label %test
done:
  %n = call i32 %sigmask(i32 2, ptr %mask, ptr null)
  ret void
}}

; Raise the counters of the first %workers mailboxes.
define internal void @post(i64 %workers) nounwind {{
entry:
  br label %test
test:
  %i = phi i64 [ 1, %entry ], [ %following, %one ]
  %more = icmp sle i64 %i, %workers
  br i1 %more, label %one, label %done
one:
  %box = call ptr @mailbox(i64 %i)
  %flag = getelementptr i8, ptr %box, i64 4
  %old = atomicrmw add ptr %box, i32 1 seq_cst
  call void @wake(ptr %box, ptr %flag)
  %following = add i64 %i, 1
  br label %test
done:
  ret void
}}

define internal i1 @enter() nounwind {{
  %busy = call ptr @job(i64 0)
  %pair = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  ret i1 %mine
}}

define internal void @leave() nounwind {{
  %busy = call ptr @job(i64 0)
  store atomic i32 0, ptr %busy release, align 4
  ret void
}}

define hidden void @pool.run(ptr %task, ptr %context, i64 %threads) nounwind {{
entry:
  %workers = sub i64 %threads, 1
  %mine = call i1 @enter()
  br i1 %mine, label %ready, label %alone
ready:
  %had = load i64, ptr @pool.size
  %enough = icmp sge i64 %had, %workers
  br i1 %enough, label %start, label %recruit
recruit:
  call void @grow(i64 %workers)
  br label %start
start:
  %has = load i64, ptr @pool.size
  %called = call i64 @llvm.smin.i64(i64 %workers, i64 %has)
  %here = call i32 @note_place(i64 0)
  %task.at = call ptr @job(i64 8)
  store ptr %task, ptr %task.at
  %context.at = call ptr @job(i64 16)
  store ptr %context, ptr %context.at
  %todo = call ptr @job(i64 32)
  %parts = trunc i64 %threads to i32
  store atomic i32 %parts, ptr %todo release, align 4
  %parts.at = call ptr @job(i64 48)
  store i64 %threads, ptr %parts.at
  %free = call ptr @job(i64 24)
  %unused = sub i64 {most}, %threads
  %all = lshr i64 -1, %unused
  store atomic i64 %all, ptr %free seq_cst, align 8
  %others.at = call ptr @job(i64 44)
  %others = load atomic i32, ptr %others.at monotonic, align 4
  %wide = zext i32 %others to i64
  %rest = sub i64 %called, %wide
  call void @post(i64 %rest)
  call void @take_parts(i64 0)
  %caller = call ptr @job(i64 36)
  br label %join
join:
  %left = load atomic i32, ptr %todo seq_cst, align 4
  %done = icmp eq i32 %left, 0
  br i1 %done, label %finished, label %pending
pending:
  call void @wait(ptr %todo, i32 %left, ptr %caller)
  br label %join
finished:
  call void @leave()
  ret void
alone:
  %count.at = call ptr @job(i64 44)
  %before = atomicrmw add ptr %count.at, i32 1 monotonic
  br label %part
part:
  %i = phi i64 [ 0, %alone ], [ %following, %part ]
  call void %task(ptr %context, i64 %i, i64 %threads)
  %following = add i64 %i, 1
  %again = icmp slt i64 %following, %threads
  br i1 %again, label %part, label %alone.no.more
alone.no.more:
  %after = atomicrmw sub ptr %count.at, i32 1 monotonic
  ret void
}}

define hidden void @pool.shutdown() nounwind {{
entry:
  %mine = call i1 @enter()
  br i1 %mine, label %tell, label %return
tell:
  %end.at = call ptr @job(i64 40)
  store atomic i32 1, ptr %end.at seq_cst, align 4
  %size = load i64, ptr @pool.size
  call void @post(i64 %size)
  br label %test
test:
  %i = phi i64 [ 1, %tell ], [ %following, %one ]
  %more = icmp sle i64 %i, %size
  br i1 %more, label %one, label %done
one:
  %box = call ptr @mailbox(i64 %i)
  %thread.at = getelementptr i8, ptr %box, i64 8
  %thread = load i64, ptr %thread.at
  %join = load ptr, ptr {pthread_join}
  %r = call i32 %join(i64 %thread, ptr null)
  %following = add i64 %i, 1
  br label %test
done:
  store i64 0, ptr @pool.size
  store atomic i32 0, ptr %end.at seq_cst, align 4
  call void @leave()
  br label %return
return:
  ret void
}}
"""
