"""A loop-level module as text: its kernels, the functions that these call, and constants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from tapec.ir.core import Block, Function, Module, Operation
from tapec.ir.ops import loop
from tapec.runtime.cuda.text import mathematics, primitives
from tapec.runtime.cuda.text.index_writer import index_conversion
from tapec.runtime.cuda.text.kernel_text import KernelText
from tapec.runtime.cuda.text.kernel_writer import KernelWriter
from tapec.runtime.cuda.text.spelling import saturation
from tapec.runtime.cuda.text.wide_indices import has_large_sizes

_CODES = "f32|f64|i8|i16|i32|i64|u8|u16|u32|u64"
_CALLED = re.compile(rf"\b([a-z]\w*_(?:{_CODES}))\(")
_CONVERSION = re.compile(rf"(saturate|index)_({_CODES})_({_CODES})")


@dataclass(frozen=True)
class Text:
    """What a module becomes.

    Attributes:
        module: with the entry, which says what the host does.
        kernels: by name: those that are launched alone, and those that are several.
        launched: the kernel that some launches are, by the names that these have, with "+" between.
        functions: what kernels call, each after what it calls.
        parts: kernels as parts of larger ones, in which threads may wait for each other.
        tables: constants, by number: in memory as kernels read them.
        wide: whether all indices are 64 bits wide; else those are of kernels whose known sizes take it.
    """

    module: Module
    kernels: Mapping[str, KernelText]
    launched: Mapping[str, KernelText]
    functions: Mapping[str, str]
    parts: Mapping[str, str]
    tables: tuple[Any, ...] = field(repr=False)
    wide: bool = False

    def of_sizes(self, sizes: Mapping[str, int]) -> Text:
        """This text; with wide indices everywhere, where sizes that were left open take them."""
        wider = bool(sizes) and not self.wide and has_large_sizes(self.module, sizes)
        return self._widened if wider else self

    @cached_property
    def _widened(self) -> Text:
        return write_text(self.module, wide=True)

    def source(self) -> str:
        """All of it, as Python runs it where the primitives are known."""
        kernels = (k.source() for k in self.kernels.values())
        return "\n\n".join([*self.functions.values(), *self.parts.values(), *kernels])

    def kernel_of(self, launches: Sequence[Operation]) -> KernelText:
        """The kernel that some launches are."""
        return self.launched[_name_of(launches)]


def _name_of(launches: Sequence[Operation]) -> str:
    return "+".join(op.attrs["kernel"] for op in launches)


def write_text(module: Module, *, wide: bool = False) -> Text:
    """Write a module that `tapec.passes.device.spread` has dealt out.

    Args:
        module: what is written.
        wide: whether sizes that are open may be larger than 32 bits count.

    Raises:
        TargetError: it has what the target cannot do; the message names it.
    """
    writer = _Writer(module, wide)
    for launches in _launches(module.entry.block):
        name = _name_of(launches)
        if name not in writer.launched:
            writer.launched[name] = writer.kernel(launches)
    kernels = {kernel.name: kernel for kernel in writer.launched.values()}
    lines = [line for k in kernels.values() for line in k.body]
    functions = _functions("\n".join([*lines, *writer.parts.values()]), set(writer.parts))
    tables = tuple(writer.tables.values())
    return Text(module, kernels, writer.launched, functions, writer.parts, tables, wide)


def _launches(block: Block) -> Iterator[list[Operation]]:
    """What is launched, in the order of the text: one kernel, or several at once."""
    for _, some in groupby(block.ops, lambda op: op.attrs.get("group", op)):
        ops = list(some)
        if isinstance(ops[0].defn, loop.Launch):
            yield ops
        for op in ops:
            for region in op.regions:
                yield from _launches(region.block)


class _Writer:
    """Writes kernels, each once."""

    def __init__(self, module: Module, wide: bool) -> None:
        self.module = module
        self.wide = wide
        self.tables: dict[str, Any] = {}
        self.launched: dict[str, KernelText] = {}
        self.parts: dict[str, str] = {}
        self._written: dict[tuple[str, int], KernelText] = {}
        self._joined = 0

    def kernel(self, launches: Sequence[Operation]) -> KernelText:
        """One kernel for all of the launches."""
        functions = [self.module.functions[op.attrs["kernel"]] for op in launches]
        threads = max(f.attrs["threads"] for f in functions)
        texts = [self._text(f, threads) for f in functions]
        return texts[0] if len(texts) == 1 else self._join(texts)

    def _text(self, function: Function, threads: int) -> KernelText:
        key = function.name, threads
        if key not in self._written:
            writer = KernelWriter(self.module, function, self.tables, threads, wide=self.wide)
            self._written[key] = writer.text()
        return self._written[key]

    def _join(self, texts: Sequence[KernelText]) -> KernelText:
        """A kernel whose blocks are dealt out to several."""
        pointers: list[tuple[str, str]] = []
        tables: list[tuple[str, str]] = []
        sizes: list[tuple[str, str]] = []
        lines: list[str] = []
        first = 0
        for n, text in enumerate(texts):
            self.parts[text.part_name] = text.source(part=True)
            own = len(text.pointers) - len(text.tables)
            names = [f"p{n}_{i}" for i in range(len(text.pointers))]
            codes = [code for _, code in text.pointers]
            pairs = list(zip(names, codes, strict=True))
            pointers += pairs[:own]
            tables += pairs[own:]
            counts = [(f"n{n}_{i}", code) for i, (_, code) in enumerate(text.sizes)]
            sizes += counts
            given = [f"u32(block - u32({first}))", f"u32({text.blocks})", *names]
            call = f"{text.part_name}({', '.join([*given, *(name for name, _ in counts)])})"
            first += text.blocks
            lines += [f"    {'el' if n else ''}if block < u32({first}):", f"        {call}"]
        self._joined += 1
        return KernelText(
            f"joined{self._joined}",
            tuple(lines),
            (*pointers, *tables),
            tuple(number for text in texts for number in text.tables),
            tuple(sizes),
            texts[0].threads,
            first,
            "blocks",
            max(text.shared for text in texts),
            is_whole=True,
        )


def _functions(text: str, parts: set[str]) -> dict[str, str]:
    """The functions that a text calls, besides primitives."""
    library = mathematics.Functions()
    own: dict[str, str] = {}
    for name in sorted(set(_CALLED.findall(text)) - primitives.NAMES - parts):
        conversion = _CONVERSION.fullmatch(name)
        if conversion is None:
            library.need(name)
        else:
            make = saturation if conversion[1] == "saturate" else index_conversion
            own[name] = make(*conversion.groups()[1:])
    mathematics.check_known(library.primitives, set(primitives.NAMES))
    return library.texts | own
