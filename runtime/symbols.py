"""Symbols in the argument types of loop-level functions, and where their values come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec.ir.core import Function
from tapec.ir.dims import plain_symbol
from tapec.ir.errors import TargetError
from tapec.ir.types import BufferType, Type


def symbols_of(function: Function) -> list[str]:
    """The symbols in the argument types, in order of first mention."""
    found: dict[str, None] = {}
    for arg in function.args:
        if isinstance(arg.type, BufferType):
            for symbol in sorted(arg.type.tensor.symbols(), key=str):
                found[symbol.name] = None
    return list(found)


def bind_symbols(function: Function, types: Sequence[Type]) -> list[Any]:
    """For each symbol of a function, the dim that the operand types give it.

    Raises:
        TargetError: a symbol stands in no argument as an axis of its own.
    """
    found: dict[str, Any] = {}
    for arg, given in zip(function.args, types, strict=True):
        if isinstance(arg.type, BufferType) and isinstance(given, BufferType):
            for dim, value in zip(arg.type.shape, given.shape, strict=True):
                name = plain_symbol(dim)
                if name is not None:
                    found.setdefault(name, value)
    missing = [name for name in symbols_of(function) if name not in found]
    if missing:
        raise TargetError(f"@{function.name}: no argument has an axis of just {missing[0]}")
    return [found[name] for name in symbols_of(function)]
