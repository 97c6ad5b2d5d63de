"""`cond`: one of two programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.batching import batch_operations, batched_results
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Cotangents
from tapec.ir.ops.regions import (
    EntryWriter,
    RegionOp,
    Step,
    emitted,
    flows_back,
    live_args,
    new_region,
    pulled_back,
    recomputed_into,
    with_guard,
    with_value,
)
from tapec.ir.reachability import carries_gradient
from tapec.ir.types import BOOL, TensorType, Type

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Block, Operation, Region, Value

_PREDICATE = TensorType(BOOL)


class Cond(RegionOp):
    """What the first region yields if the first operand is true, else what the second yields.

    The arguments of both regions are the other operands, one for one. They yield values of the same types.
    """

    name = "cond"

    def result_types(self, op: Operation) -> tuple[Type, ...]:
        """What both regions yield."""
        if not op.operands or op.operands[0].type != _PREDICATE:
            raise DTypeError("cond: the first operand must be a bool of rank 0")
        if len(op.regions) != 2:
            raise ShapeError(f"cond has two regions, got {len(op.regions)}")
        first, second = (
            tuple(v.type for v in region.block.terminator.operands) for region in op.regions
        )
        if first != second:
            came = " and ".join(f"({', '.join(map(str, types))})" for types in (first, second))
            raise ShapeError(f"cond: the regions yield {came}")
        return first

    def operands_of(self, op: Operation, region: int) -> range:
        """All but the predicate."""
        return range(1, len(op.operands))

    def unchanged(self, op: Operation) -> Collection[int]:
        """All but the predicate."""
        return range(1, len(op.operands))

    def needs(self, op: Operation) -> tuple[list[int], list[int]]:
        """The results that are read, and what either region needs for them."""
        results = [r.index for r in op.results if r.users]
        operands = {0}
        for region in op.regions:
            block = region.block
            wanted = [block.terminator.operands[i] for i in results]
            operands |= {arg.index + 1 for arg in live_args(block, wanted)}
        return sorted(operands), results

    def evaluate(self, *arrays: Any, regions: Any, **attrs: Any) -> Any:
        """Call one of the regions."""
        return regions[0 if arrays[0] else 1](*arrays[1:])

    def passes_back(self, op: Operation, given: Sequence[bool]) -> Sequence[bool]:
        """What either branch has a cotangent for."""
        places = [i for i, has in enumerate(given) if has]
        reached = _reached([region.block for region in op.regions], places)
        return [i - 1 in reached for i in range(len(op.operands))]

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The cotangents of the branch that runs, which is computed again; zeros for what only the other reads."""
        given = [i for i, ct in enumerate(cts) if ct is not None]
        blocks = [region.block for region in op.regions]
        reached = _reached(blocks, given)
        none: list[Value | None] = [None] * len(op.operands)
        if not reached:
            return tuple(none)
        seeds = [cts[i] for i in given]
        inputs = op.operands[1:]
        types = [v.type for v in (*inputs, *seeds)]

        def back(block: Block) -> Region:
            def write(inner: Builder, args: list[Value]) -> list[Value]:
                own, weights = args[: len(inputs)], args[len(inputs) :]
                yielded = recomputed_into(inner, block, own)
                pairs = [(yielded[i], w) for i, w in zip(given, weights, strict=True)]
                pairs = [(y, w) for y, w in pairs if carries_gradient(y)]
                ends, ws = [y for y, _ in pairs], [w for _, w in pairs]
                return pulled_back(inner, ends, ws, [own[i] for i in reached])

            return new_region(types, write)

        found = emitted(
            b, self.name, [op.operands[0], *inputs, *seeds], [back(block) for block in blocks]
        )
        for i, cotangent in zip(reached, found, strict=True):
            none[i + 1] = cotangent
        return tuple(none)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """Both regions mapped; where the predicate is mapped too, both run, and each row takes from its own."""
        regions = attrs.pop("regions")
        size = next(v.tensor.shape[0] for v, has in zip(operands, batched, strict=True) if has)
        blocks = [region.block for region in regions]

        def mapped(inner: Builder, block: Block, args: Sequence[Value]) -> list[Value]:
            flagged = zip(block.args, (*batched[1:], True), strict=False)
            values = dict(zip(block.args, args, strict=False))
            flags = {a for a, has in flagged if has}
            batch_operations(inner, block.ops[:-1], values, flags)
            return batched_results(inner, block.terminator.operands, values, flags, size)

        if not batched[0]:
            types = [v.type for v in operands[1:]]
            new = [new_region(types, lambda i, a, k=k: mapped(i, k, a)) for k in blocks]
            return emitted(b, self.name, operands, new, **attrs)
        runs = [operands[0], b.not_(operands[0])]
        sides = [
            mapped(b, with_guard(block), [*operands[1:], run])
            for block, run in zip(blocks, runs, strict=True)
        ]
        return tuple(b.where(_along(b, operands[0], x), x, y) for x, y in zip(*sides, strict=True))

    def threaded(self, op: Operation, first: Value, step: Step) -> Value:
        """Through whichever region runs."""
        end, place = len(op.operands), len(op.results)
        new = with_value(op, first, step, operand=end, place=place, regions=(0, 1))
        return new.results[place]

    def lower_regions(self, k: EntryWriter, op: Operation) -> None:
        """An ``if`` of the entry."""
        inputs = [k.operand(i) for i in range(1, len(op.operands))]
        results = [k.result(i) for i in range(len(op.results))]
        predicate = k.load(k.operand(0), BOOL)
        sides = [k.region(n, (), lambda _: inputs, lambda _: results) for n in range(2)]
        k.b.emit("if", predicate, regions=sides, result_types=())


def _reached(blocks: Sequence[Block], given: Collection[int]) -> list[int]:
    """The arguments that have a cotangent in either block when these of the yielded values have one."""
    return sorted(set().union(*(flows_back(block, given) for block in blocks)))


def _along(b: Builder, predicate: Value, like: Value) -> Value:
    """A predicate for each row, for all elements of the rows of another value."""
    if like.tensor.rank == 1:
        return predicate
    result: Value = b.broadcast(predicate, shape=like.tensor.shape, axes=(0,))
    return result
