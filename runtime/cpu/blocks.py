"""Large blocks of memory: in large pages, and used again while they are warm.

The system clears every page that it gives, when it is first touched; for a result of some megabytes that takes longer
than to compute it. So arrays of results are made with an allocator of our own (`PyDataMem_SetHandler`, NumPy's NEP 49):
when the last reference to such an array or to a view of it is gone, NumPy gives the memory back to us, and the next
result of about that size gets it, pages and all. What is kept this way is bounded by `MOST_KEPT`; of what is more, the
block that waited longest is freed. Blocks of less than `LEAST` come from Python's allocator and go back there, which
keeps them warm itself.

Blocks from `LARGE` on ask for pages of 2 MiB: arenas too, whose kernels walk through more pages of 4 KiB than a
processor has addresses of at hand.

A block begins on a cache line. In front of it lie, 64 bytes back, the address that the allocator gave, and, 56 bytes
back, how many bytes it has. Kept blocks are in a table of atomic words: who swaps one for null owns the block.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tapec.runtime.cache import Cache
from tapec.runtime.cpu import host
from tapec.runtime.cpu.parts import load_part

#: Bytes from which on a block is kept when it is given back.
LEAST = 1 << 17
#: Bytes from which on a block asks for large pages.
LARGE = 1 << 22
#: Bytes of all kept blocks together.
MOST_KEPT = 1 << 27
#: Blocks that are kept.
SLOTS = 64
_HOST = (
    "python:PyMem_RawMalloc",
    "python:PyMem_RawFree",
    "python:Py_DecRef",
    "numpy:PyArray_Empty",
    "numpy:PyDataMem_SetHandler",
    "libc:memcpy",
    "libc:memset",
    "libc:madvise",
)
_HUGEPAGE = 14  # MADV_HUGEPAGE


class _Allocator(ctypes.Structure):
    """NumPy's PyDataMemAllocator."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")
    )


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("rest", _Allocator))


class Blocks:
    """The blocks of this process."""

    def __init__(self, cache: Cache | None) -> None:
        """Map the code, compiled or taken from the cache, and tell it of its handler."""
        self._mapped = load_part("blocks", _TEXT, _HOST, cache)
        functions = [self.address(name) for name in ("malloc", "calloc", "realloc", "free")]
        self._handler = _Handler(b"tapec", 1, _Allocator(None, *functions))
        self._name = ctypes.create_string_buffer(b"mem_handler")
        make: Any = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._capsule = make(ctypes.addressof(self._handler), self._name, None)
        ctypes.c_size_t.from_address(self.address("handler")).value = id(self._capsule)
        # For ever: arrays that outlive everything else give their memory back by this handler.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def address(self, name: str) -> int:
        """Where a function is."""
        return self._mapped.address(f"blocks.{name}")

    @property
    def kept(self) -> int:
        """Bytes of blocks that nobody uses now."""
        return ctypes.c_int64.from_address(self.address("bytes")).value

    def release(self) -> None:
        """Free all kept blocks."""
        ctypes.PYFUNCTYPE(None)(self.address("release"))()


#: The blocks of this process, once some are wanted.
_made: list[Blocks] = []


def require(cache: Cache | None = None) -> Blocks:
    """The blocks, their code compiled or taken from the cache the first time."""
    if not _made:
        _made.append(Blocks(cache))
        host.PROVIDERS["blocks"] = _made[0].address
    return _made[0]


def are_wanted(names: list[str]) -> bool:
    """Whether one of the names that a program asks for is a function of this module."""
    return any(name.startswith("blocks:") for name in names)


def is_ours(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array's memory goes back to us."""
    from numpy._core import multiarray  # not public; for tests and reports

    return multiarray.get_handler_name(array) == "tapec"


def _slot(name: str) -> str:
    position = next(i for i, known in enumerate(_HOST) if known.endswith(f":{name}"))
    return f"getelementptr ([{len(_HOST)} x ptr], ptr @tapec.host, i64 0, i64 {position})"


_TEXT = f"""
@tapec.host = hidden global [{len(_HOST)} x ptr] zeroinitializer
@blocks.handler = hidden global ptr null
@blocks.bytes = hidden global i64 0
@blocks.slots = internal global [{SLOTS} x ptr] zeroinitializer
@blocks.hand = internal global i64 0

define internal ptr @slot(i64 %i) alwaysinline nounwind {{
  %at = urem i64 %i, {SLOTS}
  %p = getelementptr [{SLOTS} x ptr], ptr @blocks.slots, i64 0, i64 %at
  ret ptr %p
}}

define internal i64 @capacity(ptr %block) alwaysinline nounwind {{
  %p = getelementptr i8, ptr %block, i64 -56
  %bytes = load i64, ptr %p
  ret i64 %bytes
}}

; A new block.
define hidden ptr @blocks.allocate(i64 %size) nounwind {{
entry:
  %allocate = load ptr, ptr {_slot("PyMem_RawMalloc")}
  %all = add i64 %size, 128
  %raw = call ptr %allocate(i64 %all)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %done, label %cut
cut:
  %start = ptrtoint ptr %raw to i64
  %past = add i64 %start, 127
  %even = and i64 %past, -64
  %skip = sub i64 %even, %start
  %block = getelementptr i8, ptr %raw, i64 %skip
  %from = getelementptr i8, ptr %block, i64 -64
  store ptr %raw, ptr %from
  %length = getelementptr i8, ptr %block, i64 -56
  store i64 %size, ptr %length
  %large = icmp uge i64 %size, {LARGE}
  br i1 %large, label %advise, label %done
advise:
  %madvise = load ptr, ptr {_slot("madvise")}
  %up = add i64 %even, 4095
  %page = and i64 %up, -4096
  %end = add i64 %even, %size
  %span = sub i64 %end, %page
  %ignored = call i32 %madvise(i64 %page, i64 %span, i32 {_HUGEPAGE})
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ %block, %cut ], [ %block, %advise ]
  ret ptr %result
}}

; Back to the allocator.
define hidden void @blocks.drop(ptr %block) nounwind {{
entry:
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %some
some:
  %from = getelementptr i8, ptr %block, i64 -64
  %raw = load ptr, ptr %from
  %free = load ptr, ptr {_slot("PyMem_RawFree")}
  call void %free(ptr %raw)
  br label %done
done:
  ret void
}}

; A kept block of this size or up to a quarter more, or a new one.
define hidden ptr @blocks.take(i64 %size) nounwind {{
entry:
  %small = icmp ult i64 %size, {LEAST}
  br i1 %small, label %new, label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %slot = call ptr @slot(i64 %i)
  %seen = load atomic ptr, ptr %slot monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %more, label %swap
swap:
  %kept = atomicrmw xchg ptr %slot, ptr null acq_rel
  %gone = icmp eq ptr %kept, null
  br i1 %gone, label %more, label %weigh
weigh:
  %bytes = call i64 @capacity(ptr %kept)
  %spare = sub i64 %bytes, %size
  %most = lshr i64 %size, 2
  %fits = icmp ule i64 %spare, %most
  br i1 %fits, label %found, label %back
back:
  %pair = cmpxchg ptr %slot, ptr null, ptr %kept acq_rel monotonic
  %is.back = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %is.back, label %more, label %lost
lost:
  %less = atomicrmw sub ptr @blocks.bytes, i64 %bytes monotonic
  call void @blocks.drop(ptr %kept)
  br label %more
more:
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, {SLOTS}
  br i1 %again, label %look, label %new
found:
  %left = atomicrmw sub ptr @blocks.bytes, i64 %bytes monotonic
  ret ptr %kept
new:
  %block = call ptr @blocks.allocate(i64 %size)
  ret ptr %block
}}

; The block of a slot, if there is one, goes back to the allocator.
define internal void @evict(i64 %i) nounwind {{
entry:
  %slot = call ptr @slot(i64 %i)
  %kept = atomicrmw xchg ptr %slot, ptr null acq_rel
  %none = icmp eq ptr %kept, null
  br i1 %none, label %done, label %free
free:
  %bytes = call i64 @capacity(ptr %kept)
  %left = atomicrmw sub ptr @blocks.bytes, i64 %bytes monotonic
  call void @blocks.drop(ptr %kept)
  br label %done
done:
  ret void
}}

define hidden void @blocks.release() nounwind {{
entry:
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  call void @evict(i64 %i)
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, {SLOTS}
  br i1 %again, label %turn, label %done
done:
  ret void
}}

; Keep a block for the next who wants one. Slots are filled in turn, so the hand points to what waited longest.
define hidden void @blocks.give(ptr %block) nounwind {{
entry:
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %some
some:
  %bytes = call i64 @capacity(ptr %block)
  %small = icmp ult i64 %bytes, {LEAST}
  %huge = icmp ugt i64 %bytes, {MOST_KEPT}
  %unfit = or i1 %small, %huge
  br i1 %unfit, label %drop, label %keep
keep:
  %before = atomicrmw add ptr @blocks.bytes, i64 %bytes monotonic
  br label %turn
turn:
  %n = phi i64 [ 0, %keep ], [ %next, %more ]
  %i = atomicrmw add ptr @blocks.hand, i64 1 monotonic
  %total = load atomic i64, ptr @blocks.bytes monotonic, align 8
  %over = icmp ugt i64 %total, {MOST_KEPT}
  br i1 %over, label %make, label %put
make:
  call void @evict(i64 %i)
  br label %more
put:
  %slot = call ptr @slot(i64 %i)
  %pair = cmpxchg ptr %slot, ptr null, ptr %block release monotonic
  %is.in = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %is.in, label %done, label %more
more:
  %next = add i64 %n, 1
  %again = icmp ult i64 %next, {2 * SLOTS}
  br i1 %again, label %turn, label %full
full:
  %left = atomicrmw sub ptr @blocks.bytes, i64 %bytes monotonic
  br label %drop
drop:
  call void @blocks.drop(ptr %block)
  br label %done
done:
  ret void
}}

; NumPy's allocator.
define hidden ptr @blocks.malloc(ptr %context, i64 %size) nounwind {{
  %block = call ptr @blocks.take(i64 %size)
  ret ptr %block
}}

define hidden ptr @blocks.calloc(ptr %context, i64 %count, i64 %each) nounwind {{
entry:
  %size = mul i64 %count, %each
  %block = call ptr @blocks.take(i64 %size)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %done, label %clear
clear:
  %memset = load ptr, ptr {_slot("memset")}
  %same = call ptr %memset(ptr %block, i32 0, i64 %size)
  br label %done
done:
  ret ptr %block
}}

define hidden ptr @blocks.realloc(ptr %context, ptr %old, i64 %size) nounwind {{
entry:
  %block = call ptr @blocks.take(i64 %size)
  %failed = icmp eq ptr %block, null
  %first = icmp eq ptr %old, null
  %nothing = or i1 %failed, %first
  br i1 %nothing, label %done, label %copy
copy:
  %bytes = call i64 @capacity(ptr %old)
  %least = call i64 @llvm.umin.i64(i64 %bytes, i64 %size)
  %memcpy = load ptr, ptr {_slot("memcpy")}
  %same = call ptr %memcpy(ptr %block, ptr %old, i64 %least)
  call void @blocks.give(ptr %old)
  br label %done
done:
  ret ptr %block
}}

define hidden void @blocks.free(ptr %context, ptr %block, i64 %size) nounwind {{
  call void @blocks.give(ptr %block)
  ret void
}}

; An array of ours, as PyArray_Empty makes one, if it has many bytes; else one of NumPy's.
define hidden ptr @blocks.array(i32 %rank, ptr %shape, ptr %dtype, i64 %bytes) nounwind {{
entry:
  %empty = load ptr, ptr {_slot("PyArray_Empty")}
  %small = icmp ult i64 %bytes, {LEAST}
  br i1 %small, label %plain, label %set
plain:
  %usual = call ptr %empty(i32 %rank, ptr %shape, ptr %dtype, i32 0)
  ret ptr %usual
set:
  %handle = load ptr, ptr {_slot("PyDataMem_SetHandler")}
  %ours = load ptr, ptr @blocks.handler
  %old = call ptr %handle(ptr %ours)
  %failed = icmp eq ptr %old, null
  br i1 %failed, label %none, label %make
none:
  ret ptr null
make:
  %array = call ptr %empty(i32 %rank, ptr %shape, ptr %dtype, i32 0)
  %again = call ptr %handle(ptr %old)
  %forget = load ptr, ptr {_slot("Py_DecRef")}
  call void %forget(ptr %again)
  call void %forget(ptr %old)
  ret ptr %array
}}
"""
