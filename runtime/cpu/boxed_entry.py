"""The second way from Python into a compiled program: with boxes (`tapec.runtime.boxes`), for small programs.

A call costs little more than the work if nothing between the caller and the kernels is Python. Arguments are boxes or
arrays; the result is a box, or a list of boxes. Where an argument is something else, or not of its type, the call gives
NotImplemented and has done nothing: then it is for the general way.
"""

from __future__ import annotations

from tapec.ir.core import Function
from tapec.runtime import boxes
from tapec.runtime.cpu.array_layout import array_layout
from tapec.runtime.cpu.code import BOXED
from tapec.runtime.cpu.entry import EntryWriter, buffer_type

#: With more arguments, or results, the time for Python is not most of a call's.
_MOST = 8


def is_possible(function: Function) -> bool:
    """Whether a program can have such an entry: it updates nothing, has few arrays, and all sizes are known."""
    arrays = function.args[: len(function.args) - bool(function.attrs.get("arena", 0))]
    static = all(buffer_type(arg.type).tensor.is_static for arg in arrays)
    return static and not function.updates and len(arrays) <= _MOST


class BoxedEntryWriter(EntryWriter):
    """The text of the function that takes boxes."""

    symbol = BOXED

    def _require_count(self) -> None:
        self._require(f"icmp eq i64 %count, {self.inputs}")

    def _given(self) -> list[str]:
        """The arrays, out of their boxes."""
        return [self._unboxed(self._field("ptr", "%args", 8 * i), i) for i in range(self.inputs)]

    def _unboxed(self, given: str, i: int) -> str:
        box, plain, go = f"box{i}", f"plain{i}", f"array{i}"
        kind = self._field("ptr", given, array_layout().type)
        is_box = self.emit(f"icmp eq ptr {kind}, {self._host('box:kind')}")
        self.line(f"br i1 {is_box}, label %{box}, label %{plain}")
        self.label(box)
        place = self.emit(f"getelementptr i8, ptr {given}, i64 {boxes.boxes().array}")
        inside = self.emit(f"load ptr, ptr {place}")
        self.line(f"br label %{go}")
        self.label(plain)
        self.line(f"br label %{go}")
        self.label(go)
        return self.emit(f"phi ptr [ {inside}, %{box} ], [ {given}, %{plain} ]")

    def _results(self, table: str) -> str:
        """Make the arrays; what is to be dropped in case of failure is the only one, or a list of all."""
        outputs = self.types[self.inputs :]
        if len(outputs) != 1:
            return self._new_list(table)
        self._listed = self._new_array(outputs[0])
        self._require(f"icmp ne ptr {self._listed}, null", "failed")
        self._put(table, self.inputs, self._listed)
        return self._listed

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
        type = self._host(f"box:type:{self.types[self.inputs + i].tensor}")
        self.line(self._outside("void", "python:Py_IncRef", f"ptr {type}"))
        for value, offset in (
            (array, layout.array), (type, layout.type), (number, layout.number),
        ):  # fmt: skip
            place = self.emit(f"getelementptr i8, ptr {box}, i64 {offset}")
            self.line(f"store ptr {value}, ptr {place}")
        return box

    def _write_mismatch(self) -> None:
        """Say that the call is for others."""
        other = self._host("notimplemented:")
        self.line(self._outside("void", "python:Py_IncRef", f"ptr {other}"))
        self.line(f"ret ptr {other}")
