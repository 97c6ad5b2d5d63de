"""Symbols in the argument types of loop-level functions, and where their values come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tapec.ir.core import Function
from tapec.ir.dims import Dim, DimLike, plain_symbol, substitute, symbol, symbols
from tapec.ir.errors import TargetError
from tapec.ir.ops.source import Constant
from tapec.ir.types import BufferType, Type


def value_of(size: DimLike, values: Mapping[str, DimLike]) -> int:
    """The number that a size is, where these are what all of its symbols stand for."""
    found = substitute(size, values)
    assert isinstance(found, int)
    return found


def symbols_of(function: Function) -> list[str]:
    """The symbols in the argument types, and of sizes read as numbers, in order of first mention."""
    found: dict[str, None] = {}
    for arg in function.args:
        if isinstance(arg.type, BufferType):
            for of in sorted(arg.type.tensor.symbols(), key=str):
                found[of.name] = None
    for op in function.walk():
        if isinstance(op.defn, Constant) and isinstance(op.attrs["value"], Dim):
            found.update((s.name, None) for s in symbols(op.attrs["value"]))
    return list(found)


def bind_symbols(function: Function, types: Sequence[Type], known: Collection[str]) -> list[Any]:
    """For each symbol of a function, the dim that the operand types give it, or the caller's ``known`` symbol.

    Raises:
        TargetError: a symbol stands in no argument as an axis of its own, and the caller has none of its name.
    """
    found: dict[str, Any] = {}
    for arg, given in zip(function.args, types, strict=True):
        if isinstance(arg.type, BufferType) and isinstance(given, BufferType):
            for dim, value in zip(arg.type.shape, given.shape, strict=True):
                name = plain_symbol(dim)
                if name is not None:
                    found.setdefault(name, value)
    names = symbols_of(function)
    for name in names:
        if name in known:
            found.setdefault(name, symbol(name))
    missing = [name for name in names if name not in found]
    if missing:
        raise TargetError(f"@{function.name}: no argument has an axis of just {missing[0]}")
    return [found[name] for name in names]
