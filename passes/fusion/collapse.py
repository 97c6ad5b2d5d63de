"""Let axes of size 1 appear as late as they can.

A reduction with ``keepdims`` gives its result an axis of size 1, and what is computed from that is soon repeated along
it. Computed without the axis, it is part of the loops over the other axes, as the reduction itself is; the change of
shape and the repetition become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Operation, Value
from tapec.ir.op import Elementwise
from tapec.ir.ops.movement import Broadcast, Reshape
from tapec.ir.types import Shape
from tapec.passes.dce import sweep
from tapec.passes.rules.layout import reshape_nothing, reshape_twice
from tapec.passes.rules.rewrite import Replacement, Rewriter, Rule, producer, splat


def collapse(block: Block) -> None:
    """Rewrite a block in place."""
    if any(isinstance(op.defn, Reshape) for op in block.ops) and _rewriter().rewrite(block):
        sweep(block)


@cache
def _rewriter() -> Rewriter:
    return Rewriter(
        (
            Rule("reshape(x) -> x if it has the shape", Reshape, reshape_nothing),
            Rule("reshape(reshape(x)) -> reshape(x)", Reshape, reshape_twice),
            Rule("broadcast(reshape(x)) -> broadcast(x)", Broadcast, _repeat_without),
            Rule("f(reshape(x), …) -> reshape(f(x, …))", Elementwise, _compute_without),
        )
    )


def _compute_without(b: Builder, op: Operation) -> Replacement:
    """The operation on operands that lack axes of size 1, which the result then gets."""
    for short in _short_shapes(op):
        if all(_can_be(v, short) for v in op.operands):
            operands = [_without(b, v, short) for v in op.operands]
            value = b.emit(op.defn, *operands, **op.parameters)
            return b.reshape(value, shape=op.result.tensor.shape)
    return None


def _repeat_without(b: Builder, op: Operation) -> Replacement:
    """A repetition that takes no axis of size 1 to another."""
    short = _source(op.operands[0])
    if short is None:
        return None
    shape = op.operands[0].tensor.shape
    axes = tuple(axis for axis, n in zip(op.attrs["axes"], shape, strict=True) if n != 1)
    if len(axes) != short.tensor.rank:
        return None
    return b.broadcast(short, shape=op.attrs["shape"], axes=axes)


def _source(value: Value) -> Value | None:
    """What a value was before it got axes of size 1."""
    op = producer(value, Reshape)
    if op is None:
        return None
    (source,) = op.operands
    short, shape = source.tensor.shape, value.tensor.shape
    return source if short == tuple(n for n in shape if n != 1) != shape else None


def _short_shapes(op: Operation) -> Iterator[Shape]:
    """Shapes of operands before they got axes of size 1."""
    for operand in op.operands:
        source = _source(operand)
        if source is not None:
            yield source.tensor.shape


def _can_be(value: Value, short: Shape) -> bool:
    """Whether an operand can be without the axes for nothing."""
    source = _source(value)
    return splat(value) is not None or (source is not None and source.tensor.shape == short)


def _without(b: Builder, value: Value, short: Shape) -> Value:
    """The operand without the axes."""
    source = _source(value)
    if source is not None:
        return source
    assert value.op is not None
    return b.full(value.op.attrs["value"], value.tensor.with_shape(short))
