"""The second way from Python into a compiled program: with boxes and holders (`tapec.runtime.boxes`), if it is short.

A call costs little more than the work if nothing between the caller and the kernels is Python. Arguments are boxes,
holders or arrays; the result is a box, or a list of boxes. Where an argument is something else, or not of its type, or
an array that is to be updated may be seen by others, the call gives NotImplemented and has done nothing: then it is for
the general way. The interpreter is kept from the first look at an argument to the end, and nothing is made in between
that could make Python run something else.

Where sizes are open, the caller says what they are: an array of them comes first, in the order of their names, then
what stands in boxes for the type of each result. So the results can be made before anybody looks at the arguments,
which have to be of these sizes. And a call of which the sizes say that it takes long is for the general way, too: other
threads get the interpreter meanwhile.

A program with an alarm (`tapec.passes.alarm`) gives it to nobody here: where it was raised, the call gives
NotImplemented as well. Such a program updates nothing, so it has done nothing then, either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapec.ir.core import Function
from tapec.ir.types import I64, BufferType
from tapec.runtime import boxes
from tapec.runtime.cpu.code import BOXED
from tapec.runtime.cpu.entries.array_layout import array_layout
from tapec.runtime.cpu.entries.entry import READABLE, EntryWriter
from tapec.runtime.cpu.text import polling
from tapec.runtime.cpu.text.function import Affine
from tapec.runtime.cpu.text.llvm import KernelWriter, ModuleWriter, kernel_name
from tapec.runtime.cpu.work import SHORT_WORK
from tapec.runtime.symbols import symbols_of

#: With more arguments and results, the time for Python is not most of a call's.
_MOST = 64
#: What is wanted of an array in a holder: nothing, that nobody else refers to it, that it has a place of its own, too;
#: or that it is in none.
_ANY, _ALONE, _PLACED, _NOWHERE = range(4)


def is_possible(function: Function) -> bool:
    """Whether a program can have such an entry: few arrays, and no signal handlers run in it."""
    arrays = len(function.args) - bool(function.attrs.get("arena", 0))
    return arrays <= _MOST and not polling.is_wanted(function)


class BoxedEntryWriter(EntryWriter):
    """The text of the function that takes boxes."""

    symbol = BOXED

    def __init__(
        self,
        writer: ModuleWriter,
        function: Function,
        *,
        arguments: int,
        apart: bool,
        estimate: Function | None = None,
    ) -> None:
        """As of other entries; the first ``arguments`` inputs are in no holders.

        ``estimate`` is the kernel of `tapec.runtime.cpu.estimate`, if the program is not known to be short.
        """
        super().__init__(writer, function, release_gil=False, apart=apart)
        self._arguments = arguments
        self._estimate = estimate
        self._open = sorted({s.name for t in self.types[: self.inputs] for s in t.tensor.symbols()})
        #: How many arguments come before the inputs.
        self._ahead = 1 + len(self.types) - self.inputs if self._open else 0
        self._has_alarm = bool(function.attrs.get("alarm"))
        if self._has_alarm:
            self.written.remove(len(self.types) - 1)
            self.types.pop()

    def _require_count(self) -> None:
        self._require(f"icmp eq i64 %count, {self._ahead + self.inputs}")

    def _prepare(self, table: str) -> tuple[list[str], str]:
        """Make results first: that may run finalizers, which may do what they like with arrays."""
        if self._open:
            self._take_sizes()
            self._check_sizes()
        if self._estimate is not None:
            self._require_short(self._estimate)
        results = self._results(table)
        self.otherwise = "unfit"
        given = self._given()
        self._check_arrays(given, 0)
        return given, results

    def _take_sizes(self) -> None:
        """Read what the symbols are."""
        array = self._field("ptr", "%args", 0)
        self._check_array(array, BufferType(I64, (len(self._open),)), READABLE)
        extents = self._field("ptr", array, array_layout().shape)
        count = self._field("i64", extents, 0)
        self._require(f"icmp eq i64 {count}, {len(self._open)}")
        data = self._field("ptr", array, array_layout().data)
        for i, name in enumerate(self._open):
            self.symbols[name] = Affine(((self._field("i64", data, 8 * i), 1),))

    def _require_short(self, estimate: Function) -> None:
        """Leave a call to others that takes long."""
        place = self.alloca(8)
        sizes = [f"i64 {self.index(self.symbols[name])}" for name in symbols_of(estimate)]
        self.line(f"call void {kernel_name(estimate.name)}({', '.join([f'ptr {place}', *sizes])})")
        work = self.emit(f"load double, ptr {place}")
        self._require(f"fcmp ole double {work}, {float(SHORT_WORK)}")

    def _results(self, table: str) -> str:
        """Make the arrays; what is to be dropped in case of failure is the only one, or a list of all."""
        outputs = self.types[self.inputs :]
        if len(outputs) != 1:
            return self._new_list(table)
        self._listed = self._new_array(outputs[0])
        self._require(f"icmp ne ptr {self._listed}, null", "failed")
        self._put(table, self.inputs, self._listed)
        return self._listed

    def _given(self) -> list[str]:
        """The arrays, out of boxes and holders."""
        self.objects = self.alloca(8 * max(self.inputs, 1))
        first = self.pure(f"getelementptr i8, ptr %args, i64 {8 * self._ahead}")
        self._require(f"call i1 @tapec.unbox(ptr {first}, ptr {self.objects})")
        return [self._field("ptr", self.objects, 8 * i) for i in range(self.inputs)]

    def _run(self, data: Sequence[str], results: str) -> None:
        """Call the program, and go on if it raised no alarm."""
        if not self._has_alarm:
            super()._run(data, results)
            return
        alarm = self.alloca(4)
        super()._run([*data, alarm], results)
        raised = self.emit(f"load i32, ptr {alarm}")
        self._require(f"icmp eq i32 {raised}, 0", "unfit")

    def _finish(self, results: str, made: list[str]) -> None:
        """Put the arrays into boxes."""
        for i, array in enumerate(made):
            box = self._box(array, i)
            if len(made) == 1:
                self.line(f"ret ptr {box}")
                return
            # The list has the arrays' references: boxes need their own, and get the arrays' places.
            self.line(self._outside("void", "python:Py_IncRef", f"ptr {array}"))
            given = (f"ptr {results}", f"i64 {i}", f"ptr {box}")
            self.emit(self._outside("i32", "python:PyList_SetItem", *given))
        self.line(f"ret ptr {results}")

    def _box(self, array: str, i: int) -> str:
        """A new box; the reference to the array becomes the box's."""
        layout, none = boxes.boxes(), f"unnumbered{i}"
        number = self.emit(
            self._outside("ptr", "python:PyIter_Next", f"ptr {self._host('box:numbers')}")
        )
        self._require(f"icmp ne ptr {number}, null", "stopped")
        kind = self._host("box:kind")
        box = self.emit(self._outside("ptr", "python:PyType_GenericAlloc", f"ptr {kind}", "i64 0"))
        go = f"numbered{i}"
        is_made = self.emit(f"icmp ne ptr {box}, null")
        self.line(f"br i1 {is_made}, label %{go}, label %{none}")
        self.label(none)
        self.line(self._outside("void", "python:Py_DecRef", f"ptr {number}"))
        self.line("br label %stopped")
        self.label(go)
        if self._open:
            type = self._field("ptr", "%args", 8 * (1 + i))
        else:
            type = self._host(f"box:type:{self.types[self.inputs + i].tensor}")
        self.line(self._outside("void", "python:Py_IncRef", f"ptr {type}"))
        for value, offset in (
            (array, layout.array), (type, layout.kept_type), (number, layout.number),
        ):  # fmt: skip
            place = self.emit(f"getelementptr i8, ptr {box}, i64 {offset}")
            self.line(f"store ptr {value}, ptr {place}")
        return box

    def _write_failures(self, results: str) -> None:
        """What fails before anything was done is for the general way, which says why; the rest are errors."""
        self.label("mismatch")
        self._write_mismatch()
        for label in ("unfit", "apart", "nomemory"):
            self.label(label)
            self.line(self._outside("void", "python:Py_DecRef", f"ptr {results}"))
            self.line("br label %mismatch")
        self.label("drop")
        self.line(self._outside("void", "python:Py_DecRef", f"ptr {self._listed}"))
        self.line("br label %failed")
        self.label("failed")
        self.line(self._outside("void", "python:PyErr_Clear"))
        self.line("br label %mismatch")
        self.label("stopped")
        self.line(self._outside("void", "python:Py_DecRef", f"ptr {results}"))
        self.line("ret ptr null")

    def _write_mismatch(self) -> None:
        """Say that the call is for others."""
        other = self._host("notimplemented:")
        self.line(self._outside("void", "python:Py_IncRef", f"ptr {other}"))
        self.line(f"ret ptr {other}")

    def write_support(self) -> None:
        """Add what takes arrays out of boxes, and what tells how long a call takes."""
        if self._estimate is not None:
            KernelWriter(self.writer, self._estimate).write()
        wanted = [
            _NOWHERE if i < self._arguments else _wanted(type, i in self.updated)
            for i, type in enumerate(self.types[: self.inputs])
        ]
        self.writer.add_function(_unbox(wanted, self.writer))


def _wanted(type: BufferType, is_updated: bool) -> int:
    if not is_updated:
        return _ANY
    size = type.tensor.bytes
    return _PLACED if not isinstance(size, int) or size >= boxes.LARGE else _ALONE


def _unbox(wanted: Sequence[int], writer: ModuleWriter) -> str:
    """``i1 unbox(objects, arrays)``: the arrays of all objects; false if one is not as ``wanted``."""
    layout, known = array_layout(), boxes.boxes()
    return _UNBOX.format(
        kind=writer.host_slot("box:kind"),
        holder=writer.host_slot("box:holder"),
        memory=writer.host_slot("box:memory"),
        wanted=writer.constant(np.array([*wanted, 0], np.int8)),
        count=len(wanted),
        type=layout.type,
        references=layout.type - 8,
        base=layout.dtype - 8,
        array=known.array,
        held=known.held,
        any=_ANY,
        nowhere=_NOWHERE,
        placed=_PLACED,
    )


# The count of references is read as 32 bits: those that all versions of CPython have.
_UNBOX = """define internal i1 @tapec.unbox(ptr %objects, ptr %arrays) #2 {{
entry:
  %kind = load ptr, ptr {kind}
  %holder = load ptr, ptr {holder}
  %memory = load ptr, ptr {memory}
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %found ]
  %more = icmp slt i64 %i, {count}
  br i1 %more, label %look, label %good
look:
  %object.at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.at
  %type.at = getelementptr i8, ptr %object, i64 {type}
  %type = load ptr, ptr %type.at
  %is.box = icmp eq ptr %type, %kind
  br i1 %is.box, label %box, label %other
box:
  %inside.at = getelementptr i8, ptr %object, i64 {array}
  %inside = load ptr, ptr %inside.at
  br label %found
other:
  %is.holder = icmp eq ptr %type, %holder
  br i1 %is.holder, label %held, label %found
held:
  %held.at = getelementptr i8, ptr %object, i64 {held}
  %own = load ptr, ptr %held.at
  %wanted.at = getelementptr i8, ptr {wanted}, i64 %i
  %wanted = load i8, ptr %wanted.at
  switch i8 %wanted, label %alone [ i8 {any}, label %found
                                    i8 {nowhere}, label %bad ]
alone:
  %references.at = getelementptr i8, ptr %own, i64 {references}
  %references = load i32, ptr %references.at
  %single = icmp eq i32 %references, 1
  br i1 %single, label %based, label %bad
based:
  %base.at = getelementptr i8, ptr %own, i64 {base}
  %base = load ptr, ptr %base.at
  %independent = icmp eq ptr %base, null
  br i1 %independent, label %small, label %placed
small:
  %needs.place = icmp eq i8 %wanted, {placed}
  br i1 %needs.place, label %bad, label %found
placed:
  %base.type.at = getelementptr i8, ptr %base, i64 {type}
  %base.type = load ptr, ptr %base.type.at
  %is.memory = icmp eq ptr %base.type, %memory
  br i1 %is.memory, label %found, label %bad
found:
  %array = phi ptr [ %inside, %box ], [ %object, %other ], [ %own, %held ], [ %own, %small ], [ %own, %placed ]
  %array.at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %array, ptr %array.at
  %next = add i64 %i, 1
  br label %each
good:
  ret i1 true
bad:
  ret i1 false
}}
"""
