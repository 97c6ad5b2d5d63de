"""The C header of a model: all that a caller has to know, checked by the compiler where that is possible."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from tapec.ir.lazy import lazy
from tapec.runtime.aot import declarations
from tapec.runtime.aot.declarations import Argument, c_type, size_macro
from tapec.runtime.aot.entry_point import is_by_value
from tapec.runtime.aot.interface import ALIGNMENT, ERRORS, TAKEN, EntryPoint, Model, c_name
from tapec.runtime.aot.targets import EdgeTarget


class Header:
    """What a header says, besides the model."""

    def __init__(
        self,
        model: Model,
        target: EdgeTarget,
        *,
        checked: bool,
        embed: bool,
        stack: Mapping[str, int],
        helpers: tuple[str, ...] = (),
        selftest_bytes: int | None = None,
    ) -> None:
        """``stack``: bytes by function; ``helpers``: functions of the compiler's library that the object needs."""
        self.model = model
        self.target = target
        self.checked = checked
        self.embed = embed
        self.stack = stack
        self.helpers = helpers
        self.selftest_bytes = selftest_bytes

    def text(self) -> str:
        """The file."""
        guard = f"{self.model.name.upper()}_H"
        lines = [
            *self._introduction(),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *self._sizes(),
            *self._arena(),
            *self._errors(),
            *self._state(),
        ]
        for entry in self.model.entries:
            lines += self._function(entry)
        if self.selftest_bytes is not None:
            lines += self._selftest()
        lines += ["#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */"]
        return "\n".join(lines) + "\n"

    # ---- what is said first

    def _introduction(self) -> Iterator[str]:
        model = self.model
        names = ", ".join(f"{model.name}_{e.name}" for e in model.entries)
        yield f"/* {model.name}: {names}"
        yield " *"
        yield f" * For {self.target.name} ({self.target.triple}), made by tapec. No function allocates memory, calls"
        if self.helpers:
            yield " * the operating system, or keeps anything between calls. Arithmetic that the processor lacks is"
            yield " * done by functions of the compiler's library:"
            yield from (f" *   {line}" for line in textwrap.wrap(" ".join(self.helpers), 96))
        else:
            yield " * anything outside of it, or keeps anything between calls."
        if self.target.gcc and self.stack:
            yield f" * Its callers are compiled so: {self.target.gcc}"
        yield " *"
        yield " * Preconditions of every call: pointers are not null; arrays have at least the sizes that are"
        yield f" * named; {self._places()}; nothing"
        yield " * that is written overlaps anything else. " + (
            "Null pointers, misplaced arrays, arenas and sizes are looked at: see below."
            if self.checked
            else "They are not looked at: build with --checked for that."
        )
        yield " *"
        yield " * Example:"
        yield " *"
        yield from (f" *     {line}".rstrip() for line in self.example())
        yield " */"

    def _places(self) -> str:
        """Where arrays may begin."""
        if not self.target.triple:
            return "arrays and arenas begin where the compiler puts such"
        if self.target.alignment == 1:
            return "arrays and arenas may begin anywhere"
        if self.target.alignment < ALIGNMENT:
            return f"arrays and arenas begin at multiples of {self.target.alignment}"
        return f"an array begins at a multiple of its items' size, an arena at one of {ALIGNMENT}"

    def example(self) -> Iterator[str]:
        """A program that calls every function once; it compiles."""
        model = self.model
        yield f'#include "{model.name}.h"'
        yield ""
        if model.arena_bytes:
            yield f"static {size_macro(model, None, 'DECLARE_ARENA')}(arena);"
        if model.state:
            yield f"static {model.name}_state state;"
        for entry in model.entries:
            for p in (*entry.inputs, *entry.outputs):
                if not (is_by_value(p) and p in entry.inputs):
                    count = declarations.buffer_macro(model, entry, p)
                    yield f"static {c_type(p.item)} {self._buffers[entry.name, p.name]}[{count}];"
        yield ""
        yield "int main(void) {"
        if model.state and self.embed:
            yield f"    state = {model.name}_initial;"
        for entry in model.entries:
            yield f"    if ({self._call(entry)} != {size_macro(model, None, 'OK')}) return 1;"
        yield "    return 0;"
        yield "}"

    @lazy
    def _buffers(self) -> dict[tuple[str, str], str]:
        """What the example calls the arrays of each function: nothing that the header declares."""
        model, found = self.model, dict[tuple[str, str], str]()
        used = [f"{model.name}_{name}" for name in (*TAKEN, *(e.name for e in model.entries))]
        used += ["main", "state", "arena"]
        for entry in model.entries:
            for p in (*entry.inputs, *entry.outputs):
                name = c_name(f"{entry.name}_{p.name}", used, cased=True)
                used.append(name)
                found[entry.name, p.name] = name
        return found

    def _call(self, entry: EntryPoint) -> str:
        given = []
        inputs = {p.name for p in entry.inputs if is_by_value(p)}
        sizes = {of.name: of for of in entry.sizes}
        for argument in declarations.arguments(self.model, entry, checked=self.checked):
            name = argument.name
            if name == "state":
                given.append("&state")
            elif name == "arena":
                given.append("&arena")
            elif name == "arena_bytes":
                given.append("sizeof arena")
            elif name in sizes:
                given.append(str(sizes[name].high))
            else:
                given.append("0" if name in inputs else self._buffers[entry.name, name])
        return f"{self.model.name}_{entry.name}({', '.join(given)})"

    # ---- sizes

    def _sizes(self) -> Iterator[str]:
        model = self.model
        yield "/* Memory, in bytes: scratch of a call, stack of a call (0: not known for this target), the state. */"
        yield f"#define {size_macro(model, None, 'ARENA_BYTES')} {model.arena_bytes}"
        yield f"#define {size_macro(model, None, 'STACK_BYTES')} {max(self.stack.values(), default=0)}"
        yield f"#define {size_macro(model, None, 'STATE_BYTES')} {model.state_bytes}"
        for entry in model.entries:
            yield f"#define {size_macro(model, entry, 'ARENA_BYTES')} {entry.arena_bytes}"
            yield f"#define {size_macro(model, entry, 'STACK_BYTES')} {self.stack.get(entry.name, 0)}"
        yield ""
        for entry in model.entries:
            for of in entry.sizes:
                yield f"#define {size_macro(model, entry, f'{of.name}_MAX')} {of.high}"
            for p in (*entry.inputs, *entry.outputs):
                if not (is_by_value(p) and p in entry.inputs):
                    macro = declarations.buffer_macro(model, entry, p)
                    yield f"#define {macro} {max(p.most, 1)} /* {declarations.shape_text(p.type)} */"
        yield ""

    def _arena(self) -> Iterator[str]:
        model = self.model
        if not model.arena_bytes:
            return
        size = size_macro(model, None, "ARENA_BYTES")
        yield "/* An arena that is large enough for every function, and placed as it has to be; and a check, by the"
        yield " * compiler, that an array of the caller's is large enough. */"
        yield f"#define {size_macro(model, None, 'DECLARE_ARENA')}(name) \\"
        yield f"    union {{ unsigned char bytes[{size}]; double number; int64_t word; }} name"
        yield f"#define {size_macro(model, None, 'CHECK_ARENA')}(name) \\"
        yield f"    typedef char {model.name}_arena_is_large_enough_##name[sizeof(name) >= {size} ? 1 : -1]"
        yield ""

    def _errors(self) -> Iterator[str]:
        model = self.model
        yield "/* What functions return. */"
        yield f"#define {size_macro(model, None, 'OK')} 0"
        if self.checked:
            for name, (number, text) in ERRORS.items():
                yield f"#define {size_macro(model, None, f'ERROR_{name}')} ({number}) /* {text} */"
        yield ""

    def _state(self) -> Iterator[str]:
        model = self.model
        if not model.state:
            return
        written = frozenset().union(*(entry.written for entry in model.entries))
        yield "/* What is trained, and what training keeps between steps. Layout: one array after the other, without"
        yield " * gaps; each row by row. */"
        yield "typedef struct {"
        for i, member in enumerate(model.state):
            kind = c_type(member.item)
            alone = member.type.rank == 0 and member.items == 1
            axes = "" if alone else f"[{member.items}]"
            fixed = "" if i in written else "; no function writes it"
            note = f"at {member.offset}: {declarations.shape_text(member.type)}{fixed}"
            yield f"    {kind} {member.name}{axes}; /* {note} */"
        if model.padding:
            yield f"    uint8_t padding[{model.padding}];"
        yield f"}} {model.name}_state;"
        holds = f"sizeof({model.name}_state) == {model.state_bytes}"
        yield f"typedef char {model.name}_state_has_no_gaps[{holds} ? 1 : -1];"
        yield ""
        if self.embed:
            yield "/* Its value before the first call. Functions that only read the state can be given this one. */"
            yield f"extern const {model.name}_state {model.name}_initial;"
        else:
            yield f"/* Its value before the first call is in {model.name}.bin, as it lies in memory, and with names in"
            yield f" * {model.name}.safetensors. */"
        yield ""

    # ---- functions

    def _function(self, entry: EntryPoint) -> Iterator[str]:
        model = self.model
        given = declarations.arguments(model, entry, checked=self.checked)
        yield f"/* {entry.name}{f', from {declarations.in_comment(entry.where)}' if entry.where else ''}."
        yield " *"
        width = max((len(a.name) for a in given), default=0)
        yield from (f" *   {a.name:{width}}  {declarations.in_comment(a.note)}" for a in given)
        if entry.checks:
            yield " *"
            yield " * Returns the number of the first check that does not hold; the state is then as it was:"
            yield from (
                f" *   {i}: {declarations.in_comment(text)}"
                for i, text in enumerate(entry.checks, 1)
            )
        yield " */"
        yield f"{_wrapped(declarations.prototype(model, entry, given), given)};"
        yield ""

    def _selftest(self) -> Iterator[str]:
        name = self.model.name
        size = size_macro(self.model, None, "SELFTEST_BYTES")
        yield "/* Run every function on numbers made for it and compare with what they gave where they were"
        yield f" * built. Takes {size} bytes of memory, placed like an arena. Returns 0, or the"
        yield " * number of the function that computes something else, from 1 on. */"
        yield f"#define {size} {self.selftest_bytes}"
        yield f"int {name}_selftest(void *memory);"
        yield ""


def _wrapped(text: str, given: list[Argument]) -> str:
    if len(text) <= 100:
        return text
    head, _, _ = text.partition("(")
    return f"{head}(\n    " + ",\n    ".join(a.declaration for a in given) + ")"
