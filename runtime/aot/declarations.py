"""C's view of a model: types, declarations of functions, names of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapec.ir.types import DType, TensorType
from tapec.runtime.aot.entry_point import is_by_value
from tapec.runtime.aot.interface import EntryPoint, Model, Parameter

_C_TYPES = {
    "f32": "float",
    "f64": "double",
    "bool": "uint8_t",
    "f16": "uint16_t",
    "bf16": "uint16_t",
}
_NOTES = {
    "bool": "0 or 1",
    "f16": "the bits of IEEE 754 half precision",
    "bf16": "the upper 16 bits of a float",
    "c64": "of each the real part, then the imaginary one",
    "c128": "of each the real part, then the imaginary one",
}


def c_type(dtype: DType) -> str:
    """What C calls a dtype; 16-bit floats are their bits."""
    if dtype.code in _C_TYPES:
        return _C_TYPES[dtype.code]
    return f"{'u' if dtype.is_unsigned else ''}int{dtype.bits}_t"


def shape_text(type: TensorType) -> str:
    """``[32][784]``, and what it holds if C's type does not say that."""
    axes = "".join(f"[{d}]" for d in type.shape) or "one number"
    note = _NOTES.get(type.dtype.code)
    return (
        f"{axes}, row by row" * (type.rank > 1)
        + axes * (type.rank <= 1)
        + (f"; {note}" if note else "")
    )


@dataclass(frozen=True)
class Argument:
    """One argument of a C function: how it is declared, and what is said of it."""

    declaration: str
    name: str
    note: str


def arguments(model: Model, entry: EntryPoint, *, checked: bool) -> list[Argument]:
    """The arguments of a function in C, in the order in which `tapec.runtime.aot.entry_point` takes them."""
    found = []
    if entry.reads_state:
        const = "" if entry.written else "const "
        what = "updated in place" if entry.written else "only read"
        found.append(Argument(f"{const}{model.name}_state *state", "state", what))
    for of in entry.sizes:
        found.append(Argument(f"size_t {of.name}", of.name, f"{of.low} to {of.high}"))
    for p in entry.inputs:
        kind = c_type(p.item)
        star = " " if is_by_value(p) else " *"
        const = "" if is_by_value(p) else "const "
        found.append(Argument(f"{const}{kind}{star}{p.name}", p.name, shape_text(p.type)))
    for p in entry.outputs:
        text = f"written: {shape_text(p.type)}"
        found.append(Argument(f"{c_type(p.item)} *{p.name}", p.name, text))
    if entry.arena_bytes:
        macro = size_macro(model, entry, "ARENA_BYTES")
        found.append(
            Argument("void *arena", "arena", f"scratch memory of {macro} bytes, in no state")
        )
        if checked:
            found.append(Argument("size_t arena_bytes", "arena_bytes", "how large it is"))
    return found


def prototype(model: Model, entry: EntryPoint, given: Sequence[Argument]) -> str:
    """The declaration of a function, without semicolon."""
    listed = ", ".join(a.declaration for a in given) or "void"
    return f"int {model.name}_{entry.name}({listed})"


def size_macro(model: Model, entry: EntryPoint | None, what: str) -> str:
    """The name of a size of a function, or of the model."""
    parts = [model.name, *([] if entry is None else [entry.name]), what]
    return "_".join(parts).upper()


def in_comment(text: str) -> str:
    """A text that begins and ends no comment."""
    text = text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
    return text.encode("ascii", "replace").decode()


def buffer_macro(model: Model, entry: EntryPoint, parameter: Parameter) -> str:
    """The name of the number of elements of an argument."""
    return size_macro(model, entry, f"{parameter.name}_ITEMS")
