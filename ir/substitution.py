"""Write a function with other dims in place of its symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapec.ir.core import Function, Operation
from tapec.ir.dims import Dim, DimLike, Symbol, plain_symbol, substitute, symbol, symbols
from tapec.ir.type_text import parse_dim
from tapec.ir.types import BufferType, TensorType


def substituted(value: Any, dims: Mapping[str, DimLike]) -> Any:
    """An attribute or a type with these dims for symbols."""
    if isinstance(value, Dim):
        return substitute(value, dims)
    if isinstance(value, tuple):
        return tuple(substituted(item, dims) for item in value)
    if isinstance(value, TensorType | BufferType):
        return type(value)(value.dtype, substituted(value.shape, dims))
    return value


def substitute_in(op: Operation, dims: Mapping[str, DimLike]) -> None:
    """Write an operation, and all in its regions, with these dims for symbols."""
    for inner in op.walk():
        inner.attrs = {name: substituted(value, dims) for name, value in inner.attrs.items()}
        args = [arg for region in inner.regions for block in region.blocks for arg in block.args]
        for value in (*inner.results, *args):
            value.type = substituted(value.type, dims)


def substitute_symbols(function: Function, dims: Mapping[str, DimLike]) -> None:
    """Write a function with these dims for symbols; guards that then always hold go."""
    for arg in function.args:
        arg.type = substituted(arg.type, dims)
    for op in function.block.ops:
        substitute_in(op, dims)
    pairs = [
        tuple(substitute(parse_dim(text), dims) for text in guard) for guard in function.guards
    ]
    function.guards[:] = dict.fromkeys((str(m), str(n)) for m, n in pairs if m != n)


def unify(function: Function) -> None:
    """Let symbols that a guard says are equal be one symbol, within the bounds of both.

    What is behind then needs no guard to see equal shapes.
    """
    known = {s.name: s for arg in function.args for s in arg.tensor.symbols()}
    for left, right in list(function.guards):
        names = [plain_symbol(parse_dim(text)) for text in (left, right)]
        pair = [known.get(name) for name in names if name is not None]
        one, other = pair if len(pair) == 2 else (None, None)
        if one is None or other is None or one == other:
            continue
        both = _intersection(one, other)
        substitute_symbols(function, {one.name: both, other.name: both})
        (merged,) = symbols(both)
        known = {name: merged if s in (one, other) else s for name, s in known.items()}


def _intersection(one: Symbol, other: Symbol) -> DimLike:
    highs = [s.high for s in (one, other) if s.high is not None]
    return symbol(one.name, max(one.low, other.low), min(highs, default=None))
