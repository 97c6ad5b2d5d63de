"""``NAME_selftest``: every function once, on numbers made for it, against what they gave where it was built.

Numbers come from a formula, so that little is stored: floats are between 0 and 2, integers and truth values are all 0,
or all 1 for a function whose checks do not hold of zeros, such as that of a divisor. After each call some items of what
it wrote, outputs and state, are compared (`tapec.runtime.aot.selftest_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapec.ir.lazy import lazy
from tapec.ir.types import DType, TensorType, as_dtype
from tapec.runtime.aot import selftest_parts as parts
from tapec.runtime.aot.declarations import arguments, c_type
from tapec.runtime.aot.entry_point import is_by_value
from tapec.runtime.aot.interface import EntryPoint, Model, Parameter, aligned, most
from tapec.runtime.cpu.text import spelling

#: Items of an array that are compared.
_MOST = 8
_ALIGN = 16
#: What integers and truth values may be, the first of these for which a function's checks hold.
WHOLE = (0, 1)
#: Where an item has to be in the memory, and the four bytes that tell what it is, by how it is compared.
Rows = dict[str, list[tuple[int, int]]]


def numbers(type: TensorType, whole: int) -> np.ndarray[Any, Any]:
    """What an array is filled with; sizes are as large as they may be, and ``whole`` is what integers are."""
    shape = tuple(most(d) for d in type.shape)
    dtype = type.dtype
    if not (dtype.is_floating or dtype.is_complex):
        return np.full(shape, whole, dtype.numpy)
    count = int(np.prod(shape, dtype=np.int64)) * (2 if dtype.is_complex else 1)
    k = np.arange(count, dtype=np.uint32) * np.uint32(parts.FACTOR) + np.uint32(parts.FIRST)
    if dtype.code in parts.SMALL:
        one, mask, _ = parts.SMALL[dtype.code]
        flat: np.ndarray[Any, Any] = ((k & mask) | one).astype(np.uint16)
    else:
        item = dtype.real_dtype.numpy if dtype.is_complex else dtype.numpy
        flat = (k & 0xFFFF).astype(item) / item.type(65536)
    return flat.view(dtype.numpy).reshape(shape)


def _fill(item: DType, whole: int) -> str:
    """How arrays of a dtype are filled."""
    if item.is_floating:
        return item.code
    return f"one{8 * item.bytes}" if whole else "zero"


@dataclass(frozen=True)
class Vectors:
    """What one function gave for `numbers`: its outputs by name, and the members of the state by number.

    ``whole`` is what integers were.
    """

    outputs: Mapping[str, np.ndarray[Any, Any]]
    state: Mapping[int, np.ndarray[Any, Any]]
    whole: int = WHOLE[0]


class Selftest:
    """The test of a model: where its memory is, and what is compared."""

    def __init__(self, model: Model, vectors: Sequence[Vectors], *, checked: bool) -> None:
        """``vectors``: one for each function."""
        self.model = model
        self.vectors = vectors
        self.checked = checked
        self.arena = aligned(model.state_bytes, _ALIGN)
        end = aligned(self.arena + model.arena_bytes, _ALIGN)
        #: Where the arrays of each function are.
        self.places: list[dict[str, int]] = []
        self.bytes = max(end, _ALIGN)
        for entry in model.entries:
            places, at = {}, end
            for p in _arrays(entry):
                places[p.name] = at
                at = aligned(at + p.most * p.item.bytes, _ALIGN)
            self.places.append(places)
            self.bytes = max(self.bytes, at)

    @lazy
    def rows(self) -> list[Rows]:
        """What is compared after each function."""
        return [self._compared(k) for k in range(len(self.model.entries))]

    def _compared(self, number: int) -> Rows:
        vectors, found = self.vectors[number], Rows()
        arrays = [(self.places[number][name], array) for name, array in vectors.outputs.items()]
        arrays += [(self.model.state[i].offset, array) for i, array in vectors.state.items()]
        for start, array in arrays:
            flat = np.ascontiguousarray(array).ravel()
            flat = flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat
            width = flat.itemsize
            for i in np.unique(np.linspace(0, max(flat.size - 1, 0), _MOST).astype(int)):
                for kind, more, word in _words(flat[i : i + 1]):
                    found.setdefault(kind, []).append((start + width * int(i) + more, word))
        return found

    def _fills(self, k: int) -> Iterator[tuple[Parameter, str, int]]:
        """How each array that a function takes is filled, and how many times."""
        for p in self.model.entries[k].inputs:
            if not is_by_value(p) and p.most:
                kind = _fill(p.item, self.vectors[k].whole)
                yield p, kind, p.most * (p.item.bytes if kind == "zero" else 1)

    @property
    def _needs(self) -> tuple[set[str], set[str]]:
        fills = {kind for k in range(len(self.model.entries)) for _, kind, _ in self._fills(k)}
        return fills, {kind for rows in self.rows for kind in rows}

    # ---- LLVM

    def llvm(self, section: str, int_bits: int) -> str:
        """The test as text; indices are of type `spelling.WORD`."""
        name, lines, tables = self.model.name, list[str](), list[str]()
        for k, entry in enumerate(self.model.entries):
            lines += list(self._prepare(k, entry))
            given = ", ".join(self._given(k, entry))
            lines.append(f"%status{k} = call i{int_bits} @{name}_{entry.name}({given})")
            lines.append(f"%failed{k} = icmp ne i{int_bits} %status{k}, 0")
            lines.append(f"br i1 %failed{k}, label %bad{k}, label %compare{k}\ncompare{k}:")
            for kind, rows in self.rows[k].items():
                table, mark = f"@tapec.selftest.{kind}.{k}", f"{k}.{kind}"
                words = np.array(rows, np.uint32)
                held = spelling.bytes_literal(words)
                tables.append(f"{table} = private constant [{words.nbytes} x i8] {held}, align 4")
                lines.append(
                    f"%differs.{mark} = call i1 @tapec.selftest.differs.{kind}(ptr %memory, "
                    f"ptr {table}, isize {len(rows)})"
                )
                lines.append(f"br i1 %differs.{mark}, label %bad{k}, label %on.{mark}\non.{mark}:")
            lines.append(f"br label %good{k}")
            lines.append(f"bad{k}:\n  ret i{int_bits} {k + 1}\ngood{k}:")
        body = "\n  ".join(lines)
        return (
            f"{parts.llvm(*self._needs)}\n"
            + "\n".join(tables)
            + f"\ndefine i{int_bits} @{name}_selftest(ptr %memory) #0"
            f"{section} {{\nentry:\n  {body}\n  ret i{int_bits} 0\n}}\n"
        )

    def _prepare(self, k: int, entry: EntryPoint) -> Iterator[str]:
        name = self.model.name
        if self.model.state and entry.reads_state:
            yield (
                f"call void @tapec.selftest.copy(ptr %memory, ptr @{name}_initial, "
                f"isize {self.model.state_bytes})"
            )
        for p in _arrays(entry):
            yield f"%e{k}.{p.name} = getelementptr i8, ptr %memory, isize {self.places[k][p.name]}"
        for p, kind, count in self._fills(k):
            yield f"call void @tapec.selftest.fill.{kind}(ptr %e{k}.{p.name}, isize {count})"
        yield f"%e{k}.arena = getelementptr i8, ptr %memory, isize {self.arena}"

    def _given(self, k: int, entry: EntryPoint) -> Iterator[str]:
        if entry.reads_state:
            yield "ptr %memory"
        for of in entry.sizes:
            yield f"isize {of.high}"
        for p in entry.inputs:
            if is_by_value(p):
                kind = spelling.memory(p.item)
                whole = self.vectors[k].whole
                number = spelling.literal(numbers(p.type, whole).item(), p.item)
                yield f"{kind} {whole if p.item.is_bool else number}"
            else:
                yield f"ptr %e{k}.{p.name}"
        for p in entry.outputs:
            yield f"ptr %e{k}.{p.name}"
        if entry.arena_bytes:
            yield f"ptr %e{k}.arena"
            if self.checked:
                yield f"isize {self.model.arena_bytes}"

    # ---- C

    def c(self) -> str:
        """The test as C."""
        name, lines = self.model.name, list[str]()
        for k, entry in enumerate(self.model.entries):
            lines.append("    {")
            for kind, rows in self.rows[k].items():
                listed = ", ".join(f"{at}, {word}u" for at, word in rows)
                lines.append(f"        static const uint32_t want_{kind}[] = {{{listed}}};")
            if entry.reads_state:
                lines.append(f"        *({name}_state *)memory = {name}_initial;")
            for p, kind, count in self._fills(k):
                place = self.places[k][p.name]
                lines.append(f"        selftest_fill_{kind}(bytes + {place}, {count});")
            taken = arguments(self.model, entry, checked=self.checked)
            given = ", ".join(self._c_argument(k, entry, a.name) for a in taken)
            lines.append(f"        if ({name}_{entry.name}({given})) return {k + 1};")
            for kind, rows in self.rows[k].items():
                call = f"selftest_differs_{kind}(bytes, want_{kind}, {len(rows)})"
                lines.append(f"        if ({call}) return {k + 1};")
            lines.append("    }")
        body = "\n".join(lines)
        return (
            f"{parts.c(*self._needs)}\nint {name}_selftest(void *memory) {{\n"
            f"    unsigned char *bytes = (unsigned char *)memory;\n    (void)bytes;\n{body}\n    return 0;\n}}\n"
        )

    def _c_argument(self, k: int, entry: EntryPoint, name: str) -> str:
        if name == "state":
            return f"({self.model.name}_state *)memory"
        if name == "arena":
            return f"bytes + {self.arena}"
        if name == "arena_bytes":
            return str(self.model.arena_bytes)
        sizes = {of.name: of for of in entry.sizes}
        if name in sizes:
            return str(sizes[name].high)
        p = next(p for p in (*entry.inputs, *entry.outputs) if p.name == name)
        if is_by_value(p) and p in entry.inputs:
            held = numbers(p.type, self.vectors[k].whole)
            number = held.view(np.uint16).item() if p.item.code in parts.SMALL else float(held)
            return f"({c_type(p.item)}){number}"
        return f"({c_type(p.item)} *)(void *)(bytes + {self.places[k][name]})"


def _words(item: np.ndarray[Any, Any]) -> Iterator[tuple[str, int, int]]:
    """How an item is compared: the way, bytes from its beginning, and what is expected there."""
    dtype = as_dtype(item.dtype)
    if not item.size or (dtype.is_floating and not np.isfinite(item.astype(np.float32)).all()):
        return
    if dtype.code in parts.SMALL:
        yield dtype.code, 0, int(item.view(np.uint16)[0])
    elif dtype.is_floating:
        yield dtype.code, 0, int(item.astype(np.float32).view(np.uint32)[0])
    elif dtype.bytes >= 4:
        yield from (("word", 4 * i, int(w)) for i, w in enumerate(item.view(np.uint32)))
    else:
        yield from (("byte", i, int(b)) for i, b in enumerate(item.view(np.uint8)))


def _arrays(entry: EntryPoint) -> list[Parameter]:
    """What a call needs memory for."""
    return [p for p in entry.inputs if not is_by_value(p)] + list(entry.outputs)
