"""Choices about the loops of a kernel: which is vectorised, which are in which order, whose turns are written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tapec.ir.core import Block
from tapec.ir.dims import Symbol
from tapec.ir.types import Shape
from tapec.passes.contractions.problem import size
from tapec.passes.fusion.access import block_accesses

#: Operations of loops whose turns are written out, at most.
_MOST_WRITTEN_OUT = 600
#: Turns of a loop that threads can share evenly.
_ENOUGH_TURNS = 8


def vector_axis(space: Shape) -> int:
    """The axis whose loop is vectorised: the last with more than one turn."""
    return max((n for n, extent in enumerate(space) if extent != 1), default=len(space) - 1)


def shared_axis(space: Shape, order: Sequence[int], lanes: int) -> int | None:
    """The axis whose loop threads share: the outermost with enough turns for all of them."""
    if not order:
        return None
    turns = {axis: size(space[axis]) for axis in order}
    turns[vector_axis(space)] //= lanes
    return next(
        (axis for axis in order if turns[axis] >= _ENOUGH_TURNS),
        max(order, key=turns.__getitem__),
    )


def written_out(
    periods: Mapping[Symbol, int], turns: Sequence[Symbol | None], space: Shape, ops: int
) -> dict[int, int]:
    """For axes along which turns differ in a pattern, how many turns it has: these are written out, each by itself.

    So what is known of each, such as which element of a window it is, is known when the code is written, and what
    they read together is read once. ``turns`` are the symbols of the loops along the axes.
    """
    found: dict[int, int] = {}
    for axis, of in enumerate(turns):
        extent, period = space[axis], periods.get(of, 1) if of else 1
        if period > 1 and axis != vector_axis(space) and isinstance(extent, int):
            found[axis] = period
    return found if prod(found.values()) * ops <= _MOST_WRITTEN_OUT else {}


def order_for_gathers(block: Block, space: Shape) -> tuple[int, ...]:
    """An order of the loops in which gathers use all of a cache line before the next is needed.

    Inside of the vectorised loop is the one along which a gathered operand is contiguous. () if there is none.
    """
    last = len(space) - 1
    accesses = block_accesses(block)
    inner = [
        access[-1]
        for arg in block.args
        for access in accesses.get(arg, ())
        if access and 0 <= access[-1] < last
    ]
    return (*(n for n in range(last) if n != max(inner)), last, max(inner)) if inner else ()
