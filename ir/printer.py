"""A program as text, one operation a line.

::

    // tapec-ir 1
    func @step<N in 1..32>(%x: f32[N,4], %w: f32[4]) -> (f32, f32[4] into %w) {
      %0 = broadcast %w {axes = [1], shape = [N, 4]} : f32[N,4] loc("train.py":14)
      %1 = mul %x, %0 : f32[N,4]
      %loss = sum %1 {axes = [0, 1]} : f32
      return %loss, %w
    }

The first line is the version of this format. A value keeps its name from the source where that is
unique in the function, otherwise it gets a number. Attributes are sorted. Symbols whose bounds
are not the default (0 and up) are declared behind the function's name, equalities of dims that
type inference assumed follow as ``where N == M``, then the function's attributes. A loop-level
entry lists the arguments that receive its results: ``-> (%loss, %w)``. Regions open on their
operation's line: ``%2 = for %lo, %hi, %0 : f32 { ^(%i: index, %sum: f32):``.

`tapec.ir.parser` reads all of this back; values are spelled in `tapec.ir.text.literals`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

from tapec.ir.core import Function, Module, Operation, Region, Value
from tapec.ir.dims import Symbol
from tapec.ir.text.literals import literal, symbols_in
from tapec.ir.types import Type

#: The version of the text format; readers refuse newer ones.
FORMAT_VERSION = 1

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


def print_module(
    module: Module,
    *,
    locs: bool = False,
    full_constants: bool = False,
    large: MutableMapping[str, Any] | None = None,
    side_file: str | None = None,
    names: MutableMapping[Value, str] | None = None,
) -> str:
    """A module as text.

    Constants of more than 16 elements are abbreviated, and the first line says that the text
    cannot be parsed, unless ``full_constants``. ``large`` collects the abbreviated arrays for a
    ``side_file``, whose name then stands in the first line; `write_module` does both. ``names``
    collects what values are called in the text.
    """
    large = {} if large is None else large
    printer = _Printer(locs, None if full_constants else large)
    body = ""
    for function in module.functions.values():
        body += f"\n{printer.function(function)}"
        if names is not None:
            names.update(printer.names)
    head = f"// tapec-ir {FORMAT_VERSION}"
    if large and side_file is not None:
        head += f", constants in {json.dumps(side_file)}"
    elif large:
        head += f", not parsable: left out {len(large)} large constants (see --full-constants)"
    return f"{head}{body}\n"


def print_function(function: Function, *, locs: bool = False, full_constants: bool = False) -> str:
    """One function as text, without the line that says the version."""
    return _Printer(locs, None if full_constants else {}).function(function)


def print_operation(op: Operation, *, locs: bool = False) -> str:
    """One operation as text, its values named as in the whole function."""
    printer = _Printer(locs, {})
    top = op
    while top.block is not None and top.block.region is not None:
        owner = top.block.region.owner
        if not isinstance(owner, Operation):
            break
        top = owner
    scope = top.block
    printer.names = name_values(scope.args if scope else (), scope.ops if scope else (op,))
    return "\n".join(printer.operation(op, ""))


def write_module(
    module: Module, path: Path, *, locs: bool = False, full_constants: bool = False, head: str = ""
) -> None:
    """Write a module to a file, and its large constants to a ``.npz`` beside it.

    ``head`` holds comment lines for below the first one.
    """
    large: dict[str, Any] = {}
    side = path.with_suffix(".npz")
    text = print_module(
        module, locs=locs, full_constants=full_constants, large=large, side_file=side.name
    )
    first, rest = text.split("\n", 1)
    path.write_text(f"{first}\n{head}{rest}", encoding="utf-8")
    if large:
        np.savez(side, **large)


def name_values(args: Iterable[Value], ops: Iterable[Operation]) -> dict[Value, str]:
    """Names of values in the order of printing: their own where free, else numbers."""
    names: dict[Value, str] = {}
    taken: set[str] = set()
    number = 0
    for value in _defined(args, ops):
        name = value.name
        if name is not None and _NAME.match(name) is None:
            name = _readable(name)
        if name is None or name in taken:
            name, number = str(number), number + 1
        taken.add(name)
        names[value] = name
    return names


def _defined(args: Iterable[Value], ops: Iterable[Operation]) -> Iterator[Value]:
    yield from args
    for op in ops:
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from _defined(block.args, block.ops)


def _readable(name: str) -> str | None:
    """A name from a source with other rules, such as ``dense/kernel``; None if nothing is left."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "_", name)
    if not name.strip("_.0123456789"):
        return None
    return name if _NAME.match(name) else f"_{name}"


class _Printer:
    """Prints functions; ``large`` collects abbreviated constants, None prints them whole."""

    def __init__(self, locs: bool, large: MutableMapping[str, Any] | None) -> None:
        self.locs = locs
        self.large = large
        self.names: dict[Value, str] = {}
        self.types: dict[Type, str] = {}
        self.symbols: dict[str, Symbol] = {}

    def function(self, function: Function) -> str:
        """The header, then the body, which comes first here: it may hold symbols to declare."""
        self.symbols = {}
        self.types = {}
        self.names = name_values(function.args, function.block.ops)
        args = self.block_args(function.args)
        results = self.results(function)
        body = [line for op in function.block.ops for line in self.operation(op, "  ")]
        attrs = self.attrs(function.attrs)
        where = ", ".join(f"{m} == {n}" for m, n in function.guards)
        return "\n".join(
            [
                f"{function.kind} {symbol_name(function.name)}{self.declarations()}({args})"
                f"{results}{' where ' if where else ''}{where}{attrs} {{",
                *body,
                "}",
            ]
        )

    def declarations(self) -> str:
        """``<N in 1..32, M in 2..>`` for symbols with bounds of their own."""
        bounded = [
            f"{name} in {s.low}..{'' if s.high is None else s.high}"
            for name, s in sorted(self.symbols.items())
            if s != Symbol(name)
        ]
        return f"<{', '.join(bounded)}>" if bounded else ""

    def results(self, function: Function) -> str:
        """`` -> (f32, f32[4] into %w)``; at loop level the arguments that get the results."""
        ops = function.block.ops
        if function.is_loop_level:
            if "inputs" not in function.attrs:
                return ""
            texts = [f"%{self.names[function.args[i]]}" for i in function.result_args]
        elif not ops or not ops[-1].defn.terminator:
            return ""
        else:
            texts = [self.type(value.type) for value in function.returns]
            for result, arg in function.updates.items():
                if result < len(texts) and arg < len(function.args):  # else the verifier complains
                    texts[result] += f" into %{self.names[function.args[arg]]}"
        if not texts:
            return ""
        return f" -> {texts[0]}" if len(texts) == 1 else f" -> ({', '.join(texts)})"

    def operation(self, op: Operation, indent: str) -> list[str]:
        """The lines of an operation, its regions indented."""
        names = self.names
        line = indent
        if op.results:
            line += ", ".join([f"%{names.get(r, '?')}" for r in op.results]) + " = "
        line += op.defn.name
        if op.operands:
            # A value from nowhere is %?: broken programs must print, in error messages above all.
            line += " " + ", ".join([f"%{names.get(v, '?')}" for v in op.operands])
        if op.attrs:
            line += self.attrs(op.attrs, op)
        if op.results:
            line += " : " + ", ".join([self.type(r.type) for r in op.results])
        if self.locs and op.location is not None:
            line += f" {op.location}"
        if not op.regions:
            return [line]
        lines = [line]
        for region in op.regions:
            self.region(region, lines, indent)
        return lines

    def region(self, region: Region, lines: list[str], indent: str) -> None:
        """Open a region on the last line, print it, and close it."""
        for block in region.blocks:  # one, unless the program is broken
            lines[-1] += f" {{ ^({self.block_args(block.args)}):" if block.args else " {"
            for op in block.ops:
                lines += self.operation(op, indent + "  ")
            lines.append(indent + "}")

    def block_args(self, args: Iterable[Value]) -> str:
        """``%x: f32[4], %w: f32``."""
        return ", ".join([f"%{self.names[a]}: {self.type(a.type)}" for a in args])

    def attrs(self, attrs: dict[str, Any], op: Operation | None = None) -> str:
        """`` {axes = [0, 1]}``, or nothing; the type of a typed operation is its annotation."""
        given = attrs.get("type") if op is not None and op.defn.typed else None
        items = []
        for name, value in sorted(attrs.items()):
            if given is None or name != "type":
                self.note(value)
                items.append(f"{name} = {literal(value, self.large, given)}")
        return f" {{{', '.join(items)}}}" if items else ""

    def type(self, value_type: Type) -> str:
        """The text of a type; its symbols are noted for the header."""
        text = self.types.get(value_type)
        if text is None:
            text = self.types[value_type] = str(value_type)
            self.note(value_type)
        return text

    def note(self, value: Any) -> None:
        """Remember the symbols in a type or an attribute."""
        self.symbols.update((s.name, s) for s in symbols_in(value))


def symbol_name(name: str) -> str:
    """``@name``, quoted where it is not a plain name."""
    return f"@{name}" if _NAME.match(name) else f"@{json.dumps(name, ensure_ascii=False)}"
