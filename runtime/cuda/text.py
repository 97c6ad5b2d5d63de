"""A loop-level module as text: its kernels, the functions that these call, and constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tapec.ir.core import Module
from tapec.ir.ops import loop
from tapec.runtime.cuda import mathematics, primitives
from tapec.runtime.cuda.index_writer import index_conversion
from tapec.runtime.cuda.kernel_text import KernelText
from tapec.runtime.cuda.kernel_writer import KernelWriter
from tapec.runtime.cuda.spelling import saturation

_CODES = "f32|f64|i8|i16|i32|i64|u8|u16|u32|u64"
_CALLED = re.compile(rf"\b([a-z]\w*_(?:{_CODES}))\(")
_CONVERSION = re.compile(rf"(saturate|index)_({_CODES})_({_CODES})")


@dataclass(frozen=True)
class Text:
    """What a module becomes.

    Attributes:
        module: with the entry, which says what the host does.
        kernels: by the names that launches have.
        functions: what kernels call, each after what it calls.
        tables: constants, by number: in memory as kernels read them.
    """

    module: Module
    kernels: Mapping[str, KernelText]
    functions: Mapping[str, str]
    tables: tuple[Any, ...] = field(repr=False)

    def source(self) -> str:
        """All of it, as Python runs it where the primitives are known."""
        parts = [*self.functions.values(), *(k.source() for k in self.kernels.values())]
        return "\n\n".join(parts)


def write_text(module: Module) -> Text:
    """Write a module that `tapec.passes.spread` has dealt out.

    Raises:
        TargetError: it has what the target cannot do; the message names it.
    """
    tables: dict[str, Any] = {}
    kernels = {
        f.name: KernelWriter(module, f, tables).text()
        for f in module.functions.values()
        if f.kind == "kernel"
    }
    functions = _functions("\n".join(line for k in kernels.values() for line in k.body))
    return Text(module, kernels, functions, tuple(tables.values()))


def _functions(text: str) -> dict[str, str]:
    """The functions that a text calls, besides primitives."""
    library = mathematics.Functions()
    own: dict[str, str] = {}
    for name in sorted(set(_CALLED.findall(text)) - primitives.NAMES):
        conversion = _CONVERSION.fullmatch(name)
        if conversion is None:
            library.need(name)
        else:
            make = saturation if conversion[1] == "saturate" else index_conversion
            own[name] = make(*conversion.groups()[1:])
    mathematics.check_known(library.primitives, set(primitives.NAMES))
    return library.texts | own


def launched(module: Module) -> int:
    """How many launches the entry has, those in its loops once."""
    return sum(isinstance(op.defn, loop.Launch) for op in module.entry.walk())
