"""The way from Python into a compiled program: one C function of CPython's fast calling convention, as LLVM text.

It takes NumPy arrays: the inputs, and either the arrays that receive results (then it returns None) or nothing more
(then it makes them and returns their list). Before anything is written it holds every array to its type (exact class,
dtype, shape, contiguous, aligned, writable where it is written) by reading the array object's fields, gets an
arena, and lets other threads have the interpreter if the program's work is long. Whatever does not fit raises TypeError
with no more detail: `tapec.runtime.executable` finds out what it was.

An arena is kept between calls. A call that finds it in use by another makes one of its own, and the last one to
finish keeps its own and frees the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapec.ir.core import Function
from tapec.ir.dims import bounds, plain_symbol
from tapec.ir.text.type_text import parse_dim
from tapec.ir.types import BufferType, Type
from tapec.runtime.cpu import blocks
from tapec.runtime.cpu.code import CALL, RELEASE
from tapec.runtime.cpu.entries import array_table
from tapec.runtime.cpu.entries.array_layout import array_layout
from tapec.runtime.cpu.text import polling
from tapec.runtime.cpu.text.function import Affine, FunctionWriter
from tapec.runtime.cpu.text.llvm import ENTRY, ModuleWriter
from tapec.runtime.executable import MISMATCH
from tapec.runtime.symbols import symbols_of

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # NumPy's array flags
#: What every array has set.
READABLE = _CONTIGUOUS | _ALIGNED
#: In front of an arena: the block it was cut from, and its size.
_HEADER = 16


class EntryWriter(FunctionWriter):
    """The text of the function that Python calls.

    Attributes:
        symbol: its name.
    """

    symbol = CALL

    def __init__(
        self, writer: ModuleWriter, function: Function, *, release_gil: bool, apart: bool = False
    ) -> None:
        """``function`` is the module's entry; ``apart``: callers promise what `_check_apart` would check."""
        super().__init__()
        self.apart = apart
        self.writer = writer
        self.function = function
        self.release_gil = release_gil
        self.has_arena = bool(function.attrs.get("arena", 0))
        self.polls = polling.is_wanted(function)
        count = len(function.args) - self.has_arena
        self.types = [buffer_type(arg.type) for arg in function.args[:count]]
        self.inputs = function.attrs.get("inputs", count)
        self.updated = sorted(set(function.updates.values()))
        self.written = {*self.updated, *range(self.inputs, count)}
        #: Where the arrays of the arguments are.
        self.objects = "%args"
        #: Where to go if an argument is not as it has to be.
        self.otherwise = "mismatch"

    def write(self) -> None:
        """Add the function."""
        total = len(self.types)
        # All objects, and the results that are made here: a list, or null where the caller brought them.
        table = self.alloca(8 * max(total, 1))
        self._require_count()
        given, results = self._prepare(table)
        made = [self._field("ptr", table, 8 * i) for i in range(self.inputs, total)]
        data = [self._field("ptr", obj, array_layout().data) for obj in given + made]
        if not self.apart:
            self._check_apart(data)
        self._run(data, results)
        self._finish(results, made)
        self._write_failures(results)
        header = f"define hidden ptr @{self.symbol}(ptr %self, ptr %args, i64 %count) #2"
        self.writer.add_function(self.text(header))

    def write_support(self) -> None:
        """Add what the function calls: what checks many arrays, what looks for signals, what keeps the arena."""
        if array_table.is_wanted(self.types):
            flags = [self._wanted_flags(i) for i in range(len(self.types))]
            self.writer.add_function(array_table.function(self.types, flags, self.writer))
        if self.polls:
            self.writer.add_function(polling.functions(self.writer))
        if self.has_arena:
            self.writer.add_function(_arena_functions(self.writer, self.function.args[-1].type))

    def _require_count(self) -> None:
        """Hold the number of arguments to that of the inputs, or of all arrays; tell the two apart."""
        total, outputs = len(self.types), len(self.types) - self.inputs
        self.make = self.emit(f"icmp eq i64 %count, {self.inputs}")
        if outputs:
            brought = self.emit(f"icmp eq i64 %count, {total}")
            self._require(f"or i1 {self.make}, {brought}")
        else:
            self._require(f"and i1 {self.make}, true")

    def _prepare(self, table: str) -> tuple[list[str], str]:
        """The arrays of the inputs, held to their types, and what the call will return."""
        given = self._given()
        self._check_arrays(given, 0)
        self._check_sizes()
        return given, self._results(table)

    def _given(self) -> list[str]:
        """The objects of the inputs."""
        return [self._field("ptr", "%args", 8 * i) for i in range(self.inputs)]

    def _finish(self, results: str, made: list[str]) -> None:
        """Return the results; ``made`` are their arrays."""
        self.line(f"ret ptr {results}")

    def _run(self, data: Sequence[str], results: str) -> None:
        """Call the program between taking the arena and putting it back."""
        arguments = [f"ptr {d}" for d in data]
        if self.has_arena:
            arguments.append(f"ptr {self._take_arena()}")
        symbols = [f"i64 {self.index(self.symbols[s])}" for s in symbols_of(self.function)]
        if self.polls:
            signals = self.alloca(16)
            self.line(f"store i64 {polling.BUDGET}, ptr {signals}")
            last = self.emit(f"getelementptr i8, ptr {signals}, i64 8")
            self.line(f"store i64 0, ptr {last}")
            symbols.append(f"ptr {signals}")
        call = f"call i1 {ENTRY}({', '.join(arguments + symbols)})"
        if self.release_gil:
            state = self.emit(self._outside("ptr", "python:PyEval_SaveThread"))
            stopped = self.emit(call)
            self.line(self._outside("void", "python:PyEval_RestoreThread", f"ptr {state}"))
        else:
            stopped = self.emit(call)
        if self.has_arena:
            self.line(f"call void @tapec.keep({arguments[-1]})")
        if self.polls:
            self._require(f"icmp eq i1 {stopped}, false", "stopped")

    def _results(self, table: str) -> str:
        """Fill the table with the arrays for results; return what the function will: their list, or None."""
        for kind in self.types[self.inputs :]:
            for dim in (*kind.shape, kind.tensor.bytes):
                self.index(self.dim(dim))  # here, so that both ways see it
        make, take, go = (self.fresh(stem) for stem in ("make", "take", "go"))
        self.line(f"br i1 {self.make}, label %{make}, label %{take}")
        self.label(make)
        outputs = range(self.inputs, len(self.types))
        listed = self._new_list(table)
        made_in = self.scopes[-1].label
        self.line(f"br label %{go}")
        self.label(take)
        if outputs:
            brought = [self._field("ptr", "%args", 8 * i) for i in outputs]
            self._check_arrays(brought, self.inputs)
            for i, obj in zip(outputs, brought, strict=True):
                self._put(table, i, obj)
        none = self._host("none:")
        self.line(self._outside("void", "python:Py_IncRef", f"ptr {none}"))
        taken_in = self.scopes[-1].label
        self.line(f"br label %{go}")
        self.label(go)
        return self.emit(f"phi ptr [ {listed}, %{made_in} ], [ {none}, %{taken_in} ]")

    def _new_list(self, table: str) -> str:
        """A list of new arrays for the results, which also stand in the table."""
        outputs = range(self.inputs, len(self.types))
        new = self._outside("ptr", "python:PyList_New", f"i64 {len(outputs)}")
        listed = self._listed = self.emit(new)
        self._require(f"icmp ne ptr {listed}, null", "failed")
        for i in outputs:
            array = self._new_array(self.types[i])
            self._put(table, i, array)
            position = i - self.inputs
            # A list takes the reference, null too, and frees what it has if a later one fails.
            self.emit(
                self._outside(
                    "i32",
                    "python:PyList_SetItem",
                    f"ptr {listed}",
                    f"i64 {position}",
                    f"ptr {array}",
                )
            )
            self._require(f"icmp ne ptr {array}, null", "drop")
        return listed

    def _new_array(self, kind: BufferType) -> str:
        """An array of a type, uninitialised, or null; its memory is used again if it may be much."""
        shape = self.alloca(8 * max(len(kind.shape), 1))
        for axis, dim in enumerate(kind.shape):
            place = f"getelementptr i8, ptr {shape}, i64 {8 * axis}"
            self.line(f"store i64 {self.index(self.dim(dim))}, ptr {self.emit(place)}")
        dtype = self._host(f"dtype:{kind.dtype.code}")
        self.line(self._outside("void", "python:Py_IncRef", f"ptr {dtype}"))  # which is taken
        arguments = (f"i32 {len(kind.shape)}", f"ptr {shape}", f"ptr {dtype}")
        if _is_less(kind, blocks.LEAST):
            return self.emit(self._outside("ptr", "numpy:PyArray_Empty", *arguments, "i32 0"))
        size = self.index(self.dim(kind.tensor.bytes))
        return self.emit(self._outside("ptr", "blocks:array", *arguments, f"i64 {size}"))

    def _put(self, table: str, i: int, obj: str) -> None:
        place = self.emit(f"getelementptr i8, ptr {table}, i64 {8 * i}")
        self.line(f"store ptr {obj}, ptr {place}")

    def _write_failures(self, results: str) -> None:
        self.label("mismatch")
        self._write_mismatch()
        self.label("drop")
        self.line(self._outside("void", "python:Py_DecRef", f"ptr {self._listed}"))
        self.line("br label %failed")
        if self.updated:
            self.label("apart")
            self.line(self._outside("void", "python:Py_DecRef", f"ptr {results}"))
            self.line("br label %mismatch")
        if self.has_arena:
            self.label("nomemory")
            self.line(self._outside("void", "python:Py_DecRef", f"ptr {results}"))
            self.emit(self._outside("ptr", "python:PyErr_NoMemory"))
            self.line("br label %failed")
        self.label("stopped")  # the error is there already
        self.line(self._outside("void", "python:Py_DecRef", f"ptr {results}"))
        self.line("br label %failed")
        self.label("failed")
        self.line("ret ptr null")

    def _write_mismatch(self) -> None:
        """Raise TypeError."""
        text = self.writer.constant(np.frombuffer(MISMATCH.encode() + b"\0", np.uint8))
        error = self._host("error:TypeError")
        self.line(self._outside("void", "python:PyErr_SetString", f"ptr {error}", f"ptr {text}"))
        self.line("br label %failed")

    # ---- pieces

    def _field(self, kind: str, obj: str, offset: int) -> str:
        place = self.pure(f"getelementptr i8, ptr {obj}, i64 {offset}", obj)
        return self.emit(f"load {kind}, ptr {place}")

    def _host(self, name: str) -> str:
        return self.emit(f"load ptr, ptr {self.writer.host_slot(name)}")

    def _outside(self, kind: str, name: str, *arguments: str) -> str:
        return f"call {kind} {self._host(name)}({', '.join(arguments)})"

    def _require(self, condition: str, otherwise: str = "") -> None:
        """Go on only if the condition holds."""
        otherwise = otherwise or self.otherwise
        following = self.fresh("ok")
        name = self.emit(condition)
        self.line(f"br i1 {name}, label %{following}, label %{otherwise}")
        self.label(following)

    def _check_arrays(self, objects: Sequence[str], first: int) -> None:
        """Hold the arguments from number ``first`` on to their types."""
        end = first + len(objects)
        if array_table.is_wanted(self.types):
            table = f"ptr {self.objects}"
            self._require(f"call i1 {array_table.NAME}({table}, i64 {first}, i64 {end})")
            return
        for i, obj in enumerate(objects, first):
            self._check_array(obj, self.types[i], self._wanted_flags(i))
        self._check_shapes(objects, self.types[first:end])

    def _wanted_flags(self, i: int) -> int:
        return READABLE | (_WRITEABLE if i in self.written else 0)

    def _check_array(self, obj: str, kind: BufferType, wanted: int) -> None:
        """Class, dtype, rank and flags."""
        layout = array_layout()
        given = self._field("ptr", obj, layout.type)
        self._require(f"icmp eq ptr {given}, {self._host('type:ndarray')}")
        dtype = self._field("ptr", obj, layout.dtype)
        same = self.emit(f"icmp eq ptr {dtype}, {self._host(f'dtype:{kind.dtype.code}')}")
        rank = self._field("i32", obj, layout.rank)
        fits = self.emit(f"icmp eq i32 {rank}, {len(kind.shape)}")
        flags = self._field("i32", obj, layout.flags)
        has = self.emit(f"and i32 {flags}, {wanted}")
        good = self.emit(f"icmp eq i32 {has}, {wanted}")
        both = self.emit(f"and i1 {same}, {fits}")
        self._require(f"and i1 {both}, {good}")

    def _check_shapes(self, objects: Sequence[str], types: Sequence[BufferType]) -> None:
        """Learn the symbols from the first axis that is one, then compare every axis."""
        found = []
        for obj, kind in zip(objects, types, strict=True):
            shape = self._field("ptr", obj, array_layout().shape) if kind.shape else ""
            for axis, dim in enumerate(kind.shape):
                extent = self._field("i64", shape, 8 * axis)
                found.append((dim, extent))
                name = plain_symbol(dim)
                if name is not None and name not in self.symbols:
                    self.symbols[name] = Affine(((extent, 1),))
        good = ""
        for dim, extent in found:
            wanted = self.index(self.dim(dim))
            if wanted != extent:
                same = self.emit(f"icmp eq i64 {extent}, {wanted}")
                good = self.emit(f"and i1 {good}, {same}") if good else same
        if good:
            self._require(f"and i1 {good}, true")

    def _check_sizes(self) -> None:
        """Hold the symbols to their bounds and to what the program assumes of them."""
        conditions = []
        for of in sorted({s for t in self.types for s in t.tensor.symbols()}, key=str):
            value = self.index(self.symbols[of.name])
            if of.low > 0:
                conditions.append(f"icmp sge i64 {value}, {of.low}")
            if of.high is not None:
                conditions.append(f"icmp sle i64 {value}, {of.high}")
        for guard in self.function.guards:
            left, right = (self.index(self.dim(parse_dim(text))) for text in guard)
            conditions.append(f"icmp eq i64 {left}, {right}")
        for condition in conditions:
            self._require(condition)

    def _check_apart(self, data: Sequence[str]) -> None:
        """No input overlaps one that is updated: kernels rely on it."""
        clash = ""
        for u in self.updated:
            for j in range(self.inputs):
                if j == u or (j in self.updated and j < u):
                    continue
                for a, b in ((u, j), (j, u)):
                    size = self.index(self.dim(self.types[a].tensor.bytes))
                    distance = self._distance(data[a], data[b])
                    inside = self.emit(f"icmp ult i64 {distance}, {size}")
                    clash = self.emit(f"or i1 {clash}, {inside}") if clash else inside
        if clash:
            self._require(f"icmp eq i1 {clash}, false", "apart")

    def _distance(self, a: str, b: str) -> str:
        start = self.pure(f"ptrtoint ptr {a} to i64", a)
        other = self.pure(f"ptrtoint ptr {b} to i64", b)
        return self.emit(f"sub i64 {other}, {start}")

    def _take_arena(self) -> str:
        kind = buffer_type(self.function.args[-1].type)
        need = self.index(self.dim(kind.tensor.bytes))
        arena = self.emit(f"call ptr @tapec.take(i64 {need})")
        self._require(f"icmp ne ptr {arena}, null", "nomemory")
        return arena


def buffer_type(kind: Type) -> BufferType:
    """The type of an entry's argument, which is a buffer."""
    assert isinstance(kind, BufferType)
    return kind


def _is_less(kind: BufferType, bytes: int) -> bool:
    """Whether a buffer surely has less bytes."""
    most = bounds(kind.tensor.bytes)[1]
    return most is not None and most < bytes


def _arena_functions(writer: ModuleWriter, kind: Type) -> str:
    """Take the arena or make one, put it back, give it up."""
    names = ("python:PyMem_RawMalloc", "python:PyMem_RawFree")
    if not _is_less(buffer_type(kind), blocks.LARGE):
        names = ("blocks:allocate", "blocks:drop")
    allocate, free = map(writer.host_slot, names)
    return _ARENA.format(
        allocate=allocate,
        free=free,
        header=_HEADER,
        all=64 + _HEADER,
        past=63 + _HEADER,
        release=RELEASE,
    )


_ARENA = """@tapec.arena = internal global ptr null
define internal ptr @tapec.take(i64 %need) #2 {{
entry:
  %kept = atomicrmw xchg ptr @tapec.arena, ptr null acq_rel
  %none = icmp eq ptr %kept, null
  br i1 %none, label %make, label %look
look:
  %place = getelementptr i8, ptr %kept, i64 -8
  %size = load i64, ptr %place
  %enough = icmp uge i64 %size, %need
  br i1 %enough, label %done, label %small
small:
  call void @tapec.free(ptr %kept)
  br label %make
make:
  %allocate = load ptr, ptr {allocate}
  %all = add i64 %need, {all}
  %block = call ptr %allocate(i64 %all)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %done, label %cut
cut:
  %start = ptrtoint ptr %block to i64
  %past = add i64 %start, {past}
  %even = and i64 %past, -64
  %skip = sub i64 %even, %start
  %arena = getelementptr i8, ptr %block, i64 %skip
  %head = getelementptr i8, ptr %arena, i64 -{header}
  store ptr %block, ptr %head
  %length = getelementptr i8, ptr %arena, i64 -8
  store i64 %need, ptr %length
  br label %done
done:
  %result = phi ptr [ %kept, %look ], [ null, %make ], [ %arena, %cut ]
  ret ptr %result
}}
define internal void @tapec.keep(ptr %arena) #2 {{
  %old = atomicrmw xchg ptr @tapec.arena, ptr %arena acq_rel
  call void @tapec.free(ptr %old)
  ret void
}}
define internal void @tapec.free(ptr %arena) #2 {{
entry:
  %none = icmp eq ptr %arena, null
  br i1 %none, label %done, label %give
give:
  %head = getelementptr i8, ptr %arena, i64 -{header}
  %block = load ptr, ptr %head
  %free = load ptr, ptr {free}
  call void %free(ptr %block)
  br label %done
done:
  ret void
}}
define hidden void @{release}() #2 {{
  call void @tapec.keep(ptr null)
  ret void
}}
"""
