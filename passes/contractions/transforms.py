"""Winograd's transforms, along one direction and both: see `tapec.passes.contractions.sliding`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapec.ir.core import Value
from tapec.ir.loops.builder import LoopBuilder

#: A square of values, by its rows.
Square = Sequence[Sequence[Value]]
#: What a transform does along one direction.
Line = Callable[[LoopBuilder, Sequence[Value]], list[Value]]


def both_directions(k: LoopBuilder, line: Line, square: Square) -> list[list[Value]]:
    """A transform along both directions."""
    columns = [line(k, column) for column in zip(*square, strict=True)]
    return [line(k, row) for row in zip(*columns, strict=True)]


def of_elements(k: LoopBuilder, d: Sequence[Value]) -> list[Value]:
    """Four neighbours, before they are multiplied."""
    return [k.sub(d[0], d[2]), k.add(d[1], d[2]), k.sub(d[2], d[1]), k.sub(d[1], d[3])]


def of_filter(k: LoopBuilder, g: Sequence[Value]) -> list[Value]:
    """Three of a filter, as four factors."""
    half = k.constant(0.5, g[0].type.dtype)
    ends, middle = k.mul(k.add(g[0], g[2]), half), k.mul(g[1], half)
    return [g[0], k.add(ends, middle), k.sub(ends, middle), g[2]]


def to_sums(k: LoopBuilder, m: Sequence[Value]) -> list[Value]:
    """Two sums of four products."""
    return [k.add(k.add(m[0], m[1]), m[2]), k.sub(k.sub(m[1], m[2]), m[3])]


def of_sums(k: LoopBuilder, y: Sequence[Value]) -> list[Value]:
    """What two sums have become, as four factors; the last without its sign, which `to_taps` gives back."""
    return [y[0], k.add(y[0], y[1]), k.sub(y[0], y[1]), y[1]]


def to_taps(k: LoopBuilder, u: Sequence[Value]) -> list[Value]:
    """Three of a filter's gradient, of four sums of products."""
    half = k.constant(0.5, u[0].type.dtype)
    ends, middle = k.mul(k.add(u[1], u[2]), half), k.mul(k.sub(u[1], u[2]), half)
    return [k.add(u[0], ends), middle, k.sub(ends, u[3])]
