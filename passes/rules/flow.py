"""Rules for branches and loops: what is known of them before they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Operation, Value, clone_operation
from tapec.ir.ops.branching import Cond
from tapec.ir.ops.regions import RegionOp, copied_into
from tapec.ir.ops.repetition import Loop
from tapec.ir.ops.source import Constant
from tapec.passes.rules.rewrite import Replacement, Rule, producer, splat


def _known_branch(b: Builder, op: Operation) -> Replacement:
    predicate = splat(op.operands[0])
    if predicate is None:
        return None
    region = op.regions[0 if predicate else 1]
    return copied_into(b, region.block, op.operands[1:])


def _few_turns(b: Builder, op: Operation) -> Replacement:
    """A loop of no turn, or of one."""
    length = op.attrs["length"]
    if len(op.regions) > 1 or op.attrs.get("counted") or length not in (0, 1):
        return None
    defn = op.defn
    assert isinstance(defn, Loop)
    _, carried, stacked, same = defn.parts(op)
    if length == 0:
        return [*carried, *(b.full_like(0, r) for r in op.results[len(carried) :])]
    rows = [b.reshape(x, shape=x.tensor.shape[1:]) for x in stacked]
    found: list[Any] = copied_into(b, op.regions[0].block, [*carried, *rows, *same])
    for i, result in enumerate(op.results):
        if i >= len(carried):
            found[i] = b.reshape(found[i], shape=result.tensor.shape)
    return found


def _inside(b: Builder, op: Operation) -> Replacement:
    """Constants are made where they are read; what comes in twice comes in once."""
    defn = op.defn
    assert isinstance(defn, RegionOp)
    first: dict[Value, int] = {}
    gone: dict[int, int | Operation] = {}
    for i in defn.unchanged(op):
        value = op.operands[i]
        constant = producer(value, Constant)
        if constant is not None:
            gone[i] = constant
        elif first.setdefault(value, i) != i:
            gone[i] = first[value]
    if not gone:
        return None
    for k, region in enumerate(op.regions):
        sources = list(defn.operands_of(op, k))
        for place, i in enumerate(sources):
            other = gone.get(i)
            arg = region.block.args[place]
            if isinstance(other, Operation):
                arg.replace_all_uses(_at_start(region.block, clone_operation(other, {})))
            elif other is not None:
                arg.replace_all_uses(region.block.args[sources.index(other)])
    kept = [i for i in range(len(op.operands)) if i not in gone]
    return b.insert(defn.with_parts(op, kept, range(len(op.results)))).results


def _at_start(block: Block, op: Operation) -> Value:
    op.block = block
    block.ops.insert(0, op)
    return op.result


def _carried_as_it_is(b: Builder, op: Operation) -> Replacement:
    """What a turn hands on as it got it is the same in all turns."""
    defn = op.defn
    assert isinstance(defn, Loop)
    counts, carried, *_ = defn.parts(op)
    body = op.regions[0].block
    last = body.terminator
    place = next((i for i in range(len(carried)) if last.operands[i] is body.args[i]), None)
    if place is None:
        return None
    for region in op.regions:
        args = region.block.args
        args.append(args.pop(place))
        for i, arg in enumerate(args):
            arg.index = i
    last.set_operands(_without(last.operands, place))
    number = len(counts) + place
    operands = [*_without(op.operands, number), op.operands[number]]
    regions, op.regions = op.regions, []
    new = Operation(
        defn,
        operands,
        [r.type for r in _without(op.results, place)],
        op.attrs | {"carried": len(carried) - 1},
        regions,
        op.location,
    )
    results = list(b.insert(new).results)
    results.insert(place, op.operands[number])
    return results


def _without(values: Sequence[Value], place: int) -> list[Value]:
    return [v for i, v in enumerate(values) if i != place]


RULES = (
    Rule("cond(true, …) -> its first region", Cond, _known_branch),
    Rule("loop of one turn -> its body", Loop, _few_turns),
    Rule("loop(…, constant) -> loop(…) with the constant inside", RegionOp, _inside),
    Rule("what a loop hands on unchanged -> what it got", Loop, _carried_as_it_is),
)
