"""``NAME_selftest``: every function once, on numbers made for it, against what they gave where it was built.

Numbers come from a formula, so that little is stored: item ``i`` of an array of floats is ``(40503 i + 12345 mod 65536)
/ 65536``, integers and truth values are 0. After each call some items of what it wrote, outputs and state, are
compared: those of float32, within `TOLERANCE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapec.ir.types import TensorType
from tapec.runtime.aot.declarations import arguments, c_type
from tapec.runtime.aot.entry_point import is_by_value
from tapec.runtime.aot.interface import EntryPoint, Model, Parameter, aligned, most
from tapec.runtime.cpu import spelling

#: How far a number may be off: this, and this much of itself.
TOLERANCE = 1e-3
#: Items of an array that are compared.
_MOST = 8
_ALIGN = 16


def numbers(type: TensorType) -> np.ndarray[Any, Any]:
    """What an array is filled with; sizes are as large as they may be."""
    shape = tuple(most(d) for d in type.shape)
    if type.dtype.code != "f32":
        return np.zeros(shape, type.dtype.numpy)
    i = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint32)
    return (((i * 40503 + 12345) & 0xFFFF).astype(np.float32) / np.float32(65536)).reshape(shape)


@dataclass(frozen=True)
class Vectors:
    """What one function gave for `numbers`: its outputs by name, and the members of the state by number."""

    outputs: Mapping[str, np.ndarray[Any, Any]]
    state: Mapping[int, np.ndarray[Any, Any]]


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
        self.bytes = end
        for entry in model.entries:
            places, at = {}, end
            for p in _arrays(entry):
                places[p.name] = at
                at = aligned(at + p.most * p.type.dtype.bytes, _ALIGN)
            self.places.append(places)
            self.bytes = max(self.bytes, at)

    def compared(self, number: int) -> list[tuple[int, float]]:
        """Places in the memory, and the numbers that have to be there after a call of a function."""
        found = []
        vectors = self.vectors[number]
        arrays = [(self.places[number][name], array) for name, array in vectors.outputs.items()]
        arrays += [(self.model.state[i].offset, array) for i, array in vectors.state.items()]
        for start, array in arrays:
            flat = np.ascontiguousarray(array).ravel()
            if flat.dtype != np.float32 or not flat.size:
                continue
            for i in np.unique(np.linspace(0, flat.size - 1, _MOST).astype(int)):
                if np.isfinite(flat[i]):
                    found.append((start + 4 * int(i), float(flat[i])))
        return found

    # ---- LLVM

    def llvm(self, section: str, int_bits: int) -> str:
        """The test as text; indices are of type `spelling.WORD`."""
        name, lines = self.model.name, []
        tables = []
        for k, entry in enumerate(self.model.entries):
            lines += list(self._prepare(k, entry))
            given = ", ".join(self._given(k, entry))
            lines.append(f"%status{k} = call i{int_bits} @{name}_{entry.name}({given})")
            lines.append(f"%failed{k} = icmp ne i{int_bits} %status{k}, 0")
            lines.append(f"br i1 %failed{k}, label %bad{k}, label %compare{k}\ncompare{k}:")
            rows = self.compared(k)
            table = f"@tapec.selftest.{k}"
            words = np.array([(at, np.float32(v).view(np.uint32)) for at, v in rows], np.uint32)
            held = spelling.bytes_literal(words) if rows else "zeroinitializer"
            size = max(8 * len(rows), 1)
            tables.append(
                f"{table} = private constant [{size if rows else 1} x i8] {held}, align 4"
            )
            lines.append(
                f"%differs{k} = call i1 @tapec.selftest.differs(ptr %memory, ptr {table}, isize {len(rows)})"
            )
            lines.append(f"br i1 %differs{k}, label %bad{k}, label %good{k}")
            lines.append(f"bad{k}:\n  ret i{int_bits} {k + 1}\ngood{k}:")
        body = "\n  ".join(lines)
        text = (
            f"{_LLVM}\n"
            + "\n".join(tables)
            + f"\ndefine i{int_bits} @{name}_selftest(ptr %memory) #0"
            f"{section} {{\nentry:\n  {body}\n  ret i{int_bits} 0\n}}\n"
        )
        return text

    def _prepare(self, k: int, entry: EntryPoint) -> Iterator[str]:
        name = self.model.name
        if self.model.state and entry.reads_state:
            yield (
                f"call void @tapec.selftest.copy(ptr %memory, ptr @{name}_initial, "
                f"isize {self.model.state_bytes})"
            )
        for p in _arrays(entry):
            yield f"%e{k}.{p.name} = getelementptr i8, ptr %memory, isize {self.places[k][p.name]}"
        for p in entry.inputs:
            if not is_by_value(p):
                # Zeros are items of floats, too: a factor of 0.
                factor = "1.0" if p.type.dtype.code == "f32" else "0.0"
                count = (
                    p.most if p.type.dtype.code == "f32" else -(-p.most * p.type.dtype.bytes // 4)
                )
                yield (
                    f"call void @tapec.selftest.fill(ptr %e{k}.{p.name}, isize {count}, float {factor})"
                )
        yield f"%e{k}.arena = getelementptr i8, ptr %memory, isize {self.arena}"

    def _given(self, k: int, entry: EntryPoint) -> Iterator[str]:
        if entry.reads_state:
            yield "ptr %memory"
        for of in entry.sizes:
            yield f"isize {of.high}"
        for p in entry.inputs:
            if is_by_value(p):
                kind = spelling.memory(p.type.dtype)
                number = numbers(p.type).item()
                yield f"{kind} {spelling.literal(number, p.type.dtype)}"
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
        name = self.model.name
        lines = []
        for k, entry in enumerate(self.model.entries):
            rows = self.compared(k)
            at = ", ".join(str(a) for a, _ in rows) or "0"
            want = ", ".join(f"{np.float32(v)!s}f".replace("ff", "f") for _, v in rows) or "0"
            lines.append("    {")
            lines.append(f"        static const uint32_t at[] = {{{at}}};")
            lines.append(f"        static const float want[] = {{{want}}};")
            if entry.reads_state:
                lines.append(f"        *({name}_state *)memory = {name}_initial;")
            given = []
            for p in entry.inputs:
                if not is_by_value(p):
                    factor = "1.0f" if p.type.dtype.code == "f32" else "0.0f"
                    size = p.most if factor == "1.0f" else -(-p.most * p.type.dtype.bytes // 4)
                    place = self.places[k][p.name]
                    lines.append(f"        selftest_fill(bytes + {place}, {size}, {factor});")
            for a in arguments(self.model, entry, checked=self.checked):
                given.append(self._c_argument(k, entry, a.name))
            lines.append(f"        if ({name}_{entry.name}({', '.join(given)})) return {k + 1};")
            lines.append(
                f"        if (selftest_differs(bytes, at, want, {len(rows)})) return {k + 1};"
            )
            lines.append("    }")
        body = "\n".join(lines)
        return (
            f"{_C}\nint {name}_selftest(void *memory) {{\n"
            f"    unsigned char *bytes = (unsigned char *)memory;\n{body}\n    return 0;\n}}\n"
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
            return f"({c_type(p.type.dtype)}){numbers(p.type).item()}"
        return f"({c_type(p.type.dtype)} *)(void *)(bytes + {self.places[k][name]})"


def _arrays(entry: EntryPoint) -> list[Parameter]:
    """What a call needs memory for."""
    return [p for p in entry.inputs if not is_by_value(p)] + list(entry.outputs)


_LLVM = f"""
define internal void @tapec.selftest.copy(ptr %to, ptr %from, isize %count) noinline #0 {{
entry:
  br label %turn
turn:
  %i = phi isize [ 0, %entry ], [ %next, %turn ]
  %source = getelementptr i8, ptr %from, isize %i
  %byte = load i8, ptr %source
  %place = getelementptr i8, ptr %to, isize %i
  store i8 %byte, ptr %place
  %next = add isize %i, 1
  %more = icmp ult isize %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}}
define internal void @tapec.selftest.fill(ptr %to, isize %count, float %factor) noinline #0 {{
entry:
  br label %turn
turn:
  %i = phi isize [ 0, %entry ], [ %next, %turn ]
  %k = phi i32 [ 12345, %entry ], [ %k.next, %turn ]
  %low = and i32 %k, 65535
  %real = uitofp i32 %low to float
  %scaled = fmul float %real, 0x3EF0000000000000
  %value = fmul float %scaled, %factor
  %place = getelementptr float, ptr %to, isize %i
  store float %value, ptr %place
  %k.next = add i32 %k, 40503
  %next = add isize %i, 1
  %more = icmp ult isize %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}}
define internal i1 @tapec.selftest.differs(ptr %memory, ptr %table, isize %count) noinline #0 {{
entry:
  %none = icmp eq isize %count, 0
  br i1 %none, label %same, label %turn
turn:
  %i = phi isize [ 0, %entry ], [ %next, %on ]
  %row = getelementptr [8 x i8], ptr %table, isize %i
  %offset = load i32, ptr %row
  %want.at = getelementptr i8, ptr %row, isize 4
  %want = load float, ptr %want.at
  %place = getelementptr i8, ptr %memory, i32 %offset
  %got = load float, ptr %place
  %apart = fsub float %got, %want
  %size = call float @llvm.fabs.f32(float %apart)
  %high = call float @llvm.fabs.f32(float %want)
  %more.allowed = fadd float %high, 1.0
  %allowed = fmul float %more.allowed, {spelling.float_bits(float(np.float32(TOLERANCE)))}
  %near = fcmp ole float %size, %allowed
  br i1 %near, label %on, label %bad
on:
  %next = add isize %i, 1
  %more = icmp ult isize %next, %count
  br i1 %more, label %turn, label %same
bad:
  ret i1 true
same:
  ret i1 false
}}
"""

_C = f"""static void selftest_fill(void *to, size_t count, float factor) {{
    float *items = (float *)to;
    uint32_t k = 12345;
    for (size_t i = 0; i < count; i++, k += 40503u)
        items[i] = (float)(k & 65535u) * (1.0f / 65536.0f) * factor;
}}

static int selftest_differs(
    const unsigned char *memory, const uint32_t *at, const float *want, size_t count) {{
    for (size_t i = 0; i < count; i++) {{
        const float got = *(const float *)(const void *)(memory + at[i]);
        const float apart = got > want[i] ? got - want[i] : want[i] - got;
        const float size = want[i] < 0 ? -want[i] : want[i];
        if (!(apart <= (size + 1.0f) * {TOLERANCE}f)) return 1;
    }}
    return 0;
}}
"""
