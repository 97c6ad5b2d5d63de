"""The lines of a program's text, each with the operation that it begins, its cost and the user's line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tapec.compiled.cost import arithmetic
from tapec.ir.core import Function, Module, Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.location import Location
from tapec.ir.ops.control import KernelOp
from tapec.ir.printer import print_module
from tapec.ir.types import TensorType


class Line(NamedTuple):
    """One line of a program's text.

    Attributes:
        text: with its indentation.
        op: the name of the operation that begins here; None for the other lines.
        defines: names of the values that it defines, those of a function's or a region's arguments included.
        reads: names of the values that it reads.
        values: what defined values are called for good, if they were named so (`tapec.inspection.stages.Named`); in
            the text a name is given once, and a kernel's result may be the same value as one inside.
        location: the user's line.
        bytes: of its results; None where that is not a tensor's affair.
        flops: floating-point operations, of a kernel those in it; functions of many instructions count as one.
    """

    text: str
    op: str | None = None
    defines: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    location: Location | None = None
    bytes: DimLike | None = None
    flops: DimLike | None = None


def lines_of(
    module: Module, *, locs: bool = False, full_constants: bool = False, costs: bool = False
) -> Iterator[Line]:
    """The lines of `tapec.ir.printer.print_module`'s text, in order; ``costs``: with bytes and operations."""
    names: dict[Value, str] = {}
    text = print_module(module, locs=locs, full_constants=full_constants, names=names)
    functions = iter(module.functions.values())
    ops: Iterator[Operation] = iter(())
    for line in text.splitlines():
        start = line.lstrip()[:1]
        if start in ("", "/", "}"):
            yield Line(line)
        elif line[0] != " ":
            function = next(functions)
            ops = function.walk()
            arguments = tuple([names[a] for a in function.args])
            yield Line(line, None, arguments, (), argument_names(function))
        else:
            op = next(ops)
            defined: Sequence[Value] = op.results
            if op.regions:
                defined = [*defined, *(a for r in op.regions for b in r.blocks for a in b.args)]
            here = tuple([names[v] for v in defined])
            yield Line(
                line,
                op.name,
                here,
                tuple([names.get(v, "?") for v in op.operands]),
                tuple([v.name or names[v] for v in defined]),
                op.location,
                *(_cost(op) if costs else ()),
            )


def argument_names(function: Function) -> tuple[str, ...]:
    """What a function's arguments are called for good: all kernels call theirs alike, so these go by the kernel."""
    start = "" if function.kind == "func" else f"{function.name}."
    return tuple([f"{start}{a.name or a.index}" for a in function.args])


def _cost(op: Operation) -> tuple[DimLike | None, DimLike | None]:
    """Bytes and floating-point operations of one operation; nothing where these are not tensors' affair."""
    types = [r.type for r in op.results]
    if not types or not all(isinstance(t, TensorType) for t in types):
        return None, None
    size: DimLike = sum((t.bytes for t in types if isinstance(t, TensorType)), 0)
    ops: Sequence[Operation] = (
        op.regions[0].block.ops[:-1] if isinstance(op.defn, KernelOp) else [op]
    )
    if op.regions and len(ops) == 1 and ops[0] is op:
        return size, None  # a branch or a loop: its own lines say what they cost
    return size, sum((a + b for a, b in map(arithmetic, ops)), 0)


def with_margin(lines: Sequence[Line], *, source: bool, costs: bool, width: int = 100) -> list[str]:
    """The texts of lines with what they cost and the user's line at the right, as comments, so that they parse.

    A user's line that stands beside the line before is not repeated.

    Args:
        lines: of one program.
        source: show number and text of the user's line.
        costs: show bytes and floating-point operations.
        width: where the margin begins, for lines that are shorter.
    """
    margins = []
    before: Location | None = None
    for line in lines:
        parts = []
        if costs and line.bytes is not None:
            parts.append(f"{short(line.bytes):>8}B {short(line.flops or 0):>8}F")
        elif costs and source:
            parts.append(" " * 19)
        if source and line.location is not None:
            place = line.location
            same = before is not None and (before.file, before.line) == (place.file, place.line)
            parts.append(f":{place.line}" + ("" if same else f"  {place.text}"))
            before = place
        margins.append("  ".join(parts).rstrip())
    return [
        f"{line.text.ljust(width)} // {margin}" if margin else line.text
        for line, margin in zip(lines, margins, strict=True)
    ]


def short(number: DimLike) -> str:
    """A count with a thousand's letter, ``6.4M``; an expression of open sizes as it is."""
    if not isinstance(number, int):
        return str(number)
    for factor, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= factor:
            return f"{number / factor:.3g}{letter}"
    return str(number)


def around(lines: Sequence[Line], name: str) -> list[Line]:
    """The lines that define a value, what it is made of, and who reads it; in order."""
    own = [line for line in lines if name in line.defines]
    wanted = {v for line in own for v in line.reads}
    return [
        line
        for line in lines
        if line in own or name in line.reads or not wanted.isdisjoint(line.defines)
    ]


__all__ = ["Line", "around", "lines_of", "short", "with_margin"]
