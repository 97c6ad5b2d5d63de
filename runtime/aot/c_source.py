"""A model as C99, for compilers of machines that LLVM does not know: readable, without calls, with its gradient.

Kernels are functions of their own, in the order in which a step runs them; mathematical functions stand in front. It
is to be compiled with ``-ffp-contract=off``: then it computes the same bits everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapec.ir.core import Function, Operation
from tapec.ir.types import as_dtype
from tapec.runtime.aot import declarations
from tapec.runtime.aot.c_functions import PLAIN, Functions, stripped
from tapec.runtime.aot.c_instructions import constant
from tapec.runtime.aot.c_kernel import CKernel, c_identifier
from tapec.runtime.aot.declarations import size_macro
from tapec.runtime.aot.entry_point import is_by_value
from tapec.runtime.aot.interface import EntryPoint, Model
from tapec.runtime.aot.text import merged, refuse
from tapec.runtime.cpu.text import spelling
from tapec.runtime.symbols import bind_symbols, symbols_of

#: What an arena is placed for.
_ARENA = "union { double number; int64_t word; }"


class CSource:
    """One C file while it is written."""

    def __init__(self, model: Model, *, checked: bool, embed: bool) -> None:
        """For a model whose programs have no vectors."""
        for entry in model.entries:
            refuse(entry, PLAIN)
        self.model = model
        self.checked = checked
        self.embed = embed
        self.module = merged(model)
        self.functions = Functions()
        self._tables: dict[bytes, tuple[str, str]] = {}
        #: Structs that tell how a compiler aligns what is in them, and what that is.
        self.placed: dict[str, str] = {}

    def text(self) -> str:
        """The file."""
        kernels = [
            CKernel(f, self.functions.translator, self.table).text(c_identifier(f.name))
            for f in self.module.functions.values()
            if f.kind == "kernel"
        ]
        entries = [self._entry(entry) for entry in self.model.entries]
        functions = self.functions.texts()
        tables = [text for _, text in self._tables.values()]
        initial = [self._initial()] if self.embed and self.model.state else []
        head = (
            f"/* {self.model.name}, made by tapec from {self._files()}. Compile with -ffp-contract=off. */\n"
            f'#include "{self.model.name}.h"\n'
        )
        placed = [f"{name} {{ char before; {kind} it; }};\n" for name, kind in self.placed.items()]
        return "\n".join([head, *placed, *initial, *functions, *tables, *kernels, *entries])

    def _files(self) -> str:
        files = dict.fromkeys(e.where.partition(":")[0] or "a program" for e in self.model.entries)
        return declarations.in_comment(", ".join(files))

    def table(self, array: np.ndarray[Any, Any]) -> str:
        """The name of a constant array."""
        key = array.dtype.str.encode() + np.ascontiguousarray(array).tobytes()
        if key not in self._tables:
            name = f"table{len(self._tables)}"
            text = f"static const {_c_type(array)} {name}[] = {{\n{_items(array)}\n}};\n"
            self._tables[key] = name, text
        return self._tables[key][0]

    def _initial(self) -> str:
        """The state before the first call."""
        members = []
        for member in self.model.state:
            items = _items(member.initial)
            alone = member.type.rank == 0 and member.items == 1
            held = items.strip() if alone else f"{{\n{items or '        0'}\n    }}"
            members.append(f"    {held}, /* {member.name} */")
        members += ["    {0},"] * bool(self.model.padding)
        name = self.model.name
        return f"const {name}_state {name}_initial = {{\n" + "\n".join(members) + "\n};\n"

    # ---- functions

    def _entry(self, entry: EntryPoint) -> str:
        """The function that C calls: launches of kernels, in order."""
        given = declarations.arguments(self.model, entry, checked=self.checked)
        main = self.module.functions[entry.name]
        writer = _EntryBody(self, entry, main)
        lines = writer.lines_of()
        head = declarations.prototype(self.model, entry, given)
        return f"{head} {{\n" + "\n".join(lines) + "\n}\n"


class _EntryBody(CKernel):
    """The body of one function: as a kernel, with launches."""

    def __init__(self, file: CSource, entry: EntryPoint, main: Function) -> None:
        super().__init__(main, file.functions.translator, file.table)
        self.file = file
        self.entry = entry

    def lines_of(self) -> list[str]:
        """All statements."""
        if self.file.checked:
            self._check()
        if any(slot.kind == "status" for slot in self.entry.slots):
            self.line("int32_t status;")
        for arg, slot in zip(self.function.args, self.entry.slots, strict=True):
            self.names[arg] = self._slot(slot.kind, slot.number, slot.array)
        for of in self.entry.sizes:
            self._count[of.name] = 0
        self.block(self.function.block)
        given = declarations.arguments(self.file.model, self.entry, checked=self.file.checked)
        self.tidy([argument.name for argument in given])
        has_status = any(slot.kind == "status" for slot in self.entry.slots)
        self.line(f"return {'status' if has_status else '0'};")
        return self.lines

    def _slot(self, kind: str, number: int, array: Any) -> str:
        if kind == "state":
            member = self.file.model.state[number]
            alone = member.type.rank == 0 and member.items == 1
            return f"{'&' * alone}state->{member.name}"
        if kind == "constant":
            return self.file.table(array)
        if kind == "input":
            parameter = self.entry.inputs[number]
            return f"{'&' * is_by_value(parameter)}{parameter.name}"
        if kind == "output":
            return self.entry.outputs[number].name
        return {"status": "&status", "arena": "arena"}[kind]

    def launch(self, op: Operation) -> None:
        """Call a kernel."""
        kernel = self.file.module.functions[op.attrs["kernel"]]
        known = bind_symbols(kernel, [v.type for v in op.operands], symbols_of(self.function))
        given = [self.names[v] for v in op.operands]
        given += [f"(ptrdiff_t){self.dim(d)}" for d in known]
        self.line(f"{c_identifier(kernel.name)}({', '.join(given)});")

    def _say(self, op: Operation) -> None:
        """Nothing: kernels say where they come from."""

    def _check(self) -> None:
        model, entry = self.file.model, self.entry

        def refuse(condition: str, error: str) -> None:
            self.line(f"if ({condition}) return {size_macro(model, None, f'ERROR_{error}')};")

        for of in entry.sizes:
            refuse(f"{of.name} < {of.low} || {of.name} > {of.high}", "SIZE")
        pointers = [("state", f"{model.name}_state")] * entry.reads_state
        pointers += [
            (p.name, declarations.c_type(p.item))
            for p in (*entry.inputs, *entry.outputs)
            if not (is_by_value(p) and p in entry.inputs)
        ]
        pointers += [("arena", _ARENA)] * bool(entry.arena_bytes)
        for name, kind in pointers:
            refuse(f"!{name}", "NULL")
            if kind not in ("uint8_t", "int8_t"):
                place = f"struct tapec_{'arena' if kind == _ARENA else kind}"
                self.file.placed[place] = kind
                refuse(f"(uintptr_t){name} % offsetof({place}, it)", "MISALIGNED")
        if entry.arena_bytes:
            refuse(f"arena_bytes < {entry.arena_bytes}", "ARENA")


def _c_type(array: np.ndarray[Any, Any]) -> str:
    return declarations.c_type(as_dtype(_parts(array).dtype))


def _parts(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array without complex numbers: with their parts."""
    flat = np.ascontiguousarray(array).ravel()
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat


def _items(array: np.ndarray[Any, Any]) -> str:
    """The items of an array, some in a line."""
    array = _parts(array)
    dtype = as_dtype(array.dtype)
    flat = np.ascontiguousarray(array).ravel()
    if dtype.is_floating and dtype.bytes == 2:
        texts = [str(int(x)) for x in flat.view(np.uint16)]
    elif dtype.is_bool or dtype.is_unsigned:
        texts = [f"{int(x)}u" for x in flat]
    else:
        kind = spelling.element(dtype)
        texts = [stripped(constant(spelling.literal(x.item(), dtype), kind)) for x in flat]
    rows = [", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8)]
    return ",\n".join(f"        {row}" for row in rows)
