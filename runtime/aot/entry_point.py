"""The functions that C calls, as LLVM text: they find the parts of the state and run the program.

With checks they first look at every pointer and size; the program itself trusts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.ir.types import DType
from tapec.runtime.aot.interface import ALIGNMENT, ERRORS, EntryPoint, Parameter
from tapec.runtime.cpu.text import spelling
from tapec.runtime.cpu.text.function import Affine, FunctionWriter
from tapec.runtime.cpu.text.spelling import WORD
from tapec.runtime.symbols import symbols_of

if TYPE_CHECKING:
    from tapec.runtime.aot.text import ObjectWriter


class EntryPointWriter(FunctionWriter):
    """One function: ``int NAME_FUNCTION(state, inputs…, outputs…, arena)``, without what it does not need."""

    def __init__(self, writer: ObjectWriter, entry: EntryPoint) -> None:
        """For a function of the writer's model."""
        super().__init__()
        self.writer = writer
        self.entry = entry
        self.index_bits = writer.dialect.index_bits
        self.result = f"i{writer.target.int_bits}"

    def write(self) -> None:
        """Add the function to the module."""
        entry, name = self.entry, f"{self.writer.model.name}_{self.entry.name}"
        if self.writer.checked:
            self._check()
        status = self.alloca(4, 4) if entry.checks else ""
        given = [f"ptr {self._argument(i, status)}" for i in range(len(entry.slots))]
        given += [f"{WORD} %size.{name}" for name in symbols_of(entry.module.entry)]
        program = self.writer.entry_name(self.writer.module.functions[entry.name])
        self.emit(f"call i1 {program}({', '.join(given)})")
        self.line(f"ret {self.result} {self._number(status)}")
        section = self.writer.section(".text", name).lstrip(",")
        header = f"define {self.result} @{name}({', '.join(self._parameters())}) #0{section}"
        self.writer.add_function(self.text(header))

    def _parameters(self) -> list[str]:
        """In the order of the C declaration (`tapec.runtime.aot.declarations`)."""
        entry = self.entry
        found = ["ptr %state"] * entry.reads_state
        found += [f"{WORD} %size.{of.name}" for of in entry.sizes]
        for i, parameter in enumerate(entry.inputs):
            kind = _passed(parameter.type.dtype) if is_by_value(parameter) else "ptr"
            found.append(f"{kind} %in{i}")
        found += [f"ptr %out{i}" for i in range(len(entry.outputs))]
        if entry.arena_bytes:
            found.append("ptr %arena")
            found += [f"{WORD} %arena_bytes"] * self.writer.checked
        return found

    def _argument(self, i: int, status: str) -> str:
        """The address of an argument of the program."""
        slot = self.entry.slots[i]
        if slot.kind == "state":
            offset = self.writer.model.state[slot.number].offset
            return self.address("%state", "i8", 1, Affine((), offset))
        if slot.kind == "constant":
            assert slot.array is not None
            return self.writer.constant(slot.array)
        if slot.kind == "input":
            return self._input(slot.number)
        return {"output": f"%out{slot.number}", "status": status, "arena": "%arena"}[slot.kind]

    def _input(self, number: int) -> str:
        """Where an input is: what is passed by value is put on the stack."""
        parameter = self.entry.inputs[number]
        if not is_by_value(parameter):
            return f"%in{number}"
        dtype = parameter.type.dtype
        place = self.alloca(dtype.bytes, dtype.bytes)
        self.line(f"store {spelling.memory(dtype)} %in{number}, ptr {place}")
        return place

    def _number(self, status: str) -> str:
        """The number of the check that failed, as C's ``int``."""
        if not status:
            return "0"
        number = self.emit(f"load i32, ptr {status}")
        return number if self.result == "i32" else self.emit(f"trunc i32 {number} to {self.result}")

    # ---- checks

    def _check(self) -> None:
        """Return an error where an argument is not as the header says."""
        entry = self.entry
        members = [m.item.bytes for m in self.writer.model.state]
        pointers = [("%state", max(members, default=1))] * entry.reads_state
        pointers += [
            (f"%in{i}", p.item.bytes) for i, p in enumerate(entry.inputs) if not is_by_value(p)
        ]
        pointers += [(f"%out{i}", p.item.bytes) for i, p in enumerate(entry.outputs)]
        pointers += [("%arena", ALIGNMENT)] * bool(entry.arena_bytes)
        for of in entry.sizes:
            size = f"%size.{of.name}"
            self._require(f"icmp uge {WORD} {size}, {of.low}", "SIZE")
            self._require(f"icmp ule {WORD} {size}, {of.high}", "SIZE")
        for pointer, align in pointers:
            self._require(f"icmp ne ptr {pointer}, null", "NULL")
            align = min(align, self.writer.target.alignment)
            if align > 1:
                number = self.emit(f"ptrtoint ptr {pointer} to {WORD}")
                rest = self.emit(f"and {WORD} {number}, {align - 1}")
                self._require(f"icmp eq {WORD} {rest}, 0", "MISALIGNED")
        if entry.arena_bytes:
            self._require(f"icmp uge {WORD} %arena_bytes, {entry.arena_bytes}", "ARENA")

    def _require(self, condition: str, error: str) -> None:
        holds, (on, no) = self.emit(condition), (self.fresh("on"), self.fresh("no"))
        self.line(f"br i1 {holds}, label %{on}, label %{no}")
        self.label(no)
        self.line(f"ret {self.result} {ERRORS[error][0]}")
        self.label(on)


def is_by_value(parameter: Parameter) -> bool:
    """Whether C passes it as a number; complex ones are two."""
    return parameter.type.rank == 0 and not parameter.type.dtype.is_complex


def _passed(dtype: DType) -> str:
    """A number's type as an argument; C widens small ones."""
    kind = spelling.memory(dtype)
    if not kind.startswith("i") or dtype.bytes > 2:
        return kind
    return f"{kind} signext" if dtype.kind == "int" else f"{kind} zeroext"
