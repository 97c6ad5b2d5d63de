"""Write a function with other dims in place of its symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapec.ir.core import Function, Operation
from tapec.ir.dims import Dim, DimLike, plain_symbol, substitute, symbol, symbols
from tapec.ir.text.type_text import parse_dim
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
    """Write symbols that guards tell: as a number, or equal symbols as one, within the bounds of both.

    What is behind then needs no guard to see equal shapes. Whoever calls the function still has to check the guards.
    """
    known: dict[str, DimLike] = {
        s.name: symbol(s.name, s.low, s.high) for arg in function.args for s in arg.tensor.symbols()
    }
    for guard in list(function.guards):
        one, other = (substitute(parse_dim(text), known) for text in guard)
        if isinstance(one, int):
            one, other = other, one
        name, second = plain_symbol(one), plain_symbol(other)
        if name is None or one == other or (second is None and not isinstance(other, int)):
            continue
        merged = other if isinstance(other, int) else _intersection(one, other)
        dims = {n: merged for n in (name, second) if n is not None}
        substitute_symbols(function, dims)
        known = {n: substitute(dim, dims) for n, dim in known.items()}


def _intersection(one: DimLike, other: DimLike) -> DimLike:
    """A symbol of the first one's name that is within the bounds of both."""
    (a,), (b,) = symbols(one), symbols(other)
    highs = [s.high for s in (a, b) if s.high is not None]
    return symbol(a.name, max(a.low, b.low), min(highs, default=None))
