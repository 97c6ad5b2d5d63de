"""What the turns of a loop wait for: the way from the carried values of a turn to those of the next.

A processor begins with a turn before the last one has ended, as far as it needs nothing of it. Of latencies, a turn
takes the mean length of the longest cycle through carried values, which modulo scheduling calls the minimum initiation
interval of recurrences (Rau, "Iterative modulo scheduling", 1994).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tapec.ir import scalar
from tapec.ir.core import Block, Body, Operation, Value
from tapec.ir.op import Elementwise
from tapec.ir.ops.control import KernelOp

#: Turns after which what went before no longer matters; divisible by the lengths of short cycles.
_TURNS = 12


def depth(block: Block) -> int:
    """The longest way through the elementwise operations of a kernel."""
    return max(_ways(block, dict.fromkeys(block.args, 0)).values(), default=0)


def depths_of_turns(body: Body) -> dict[Operation, float]:
    """For each kernel of a loop's body the operations in it that wait for the turn before; together a turn's period."""
    ready: dict[Value, int] = {body.block.args[i]: 0 for i in body.updates.values()}
    starts: list[int] = []
    ways: dict[Value, int] = {}
    for turn in range(2 * _TURNS):
        if turn % _TURNS == 0:
            starts.append(max(ready.values(), default=0))
        ways = _ways(body.block, ready)
        ends = {i: ways.get(body.block.terminator.operands[k]) for k, i in body.updates.items()}
        ready = {body.block.args[i]: way for i, way in ends.items() if way is not None}
    period = max(0, max(ready.values(), default=0) - starts[-1]) / _TURNS
    kernels = [op for op in body.block.ops if isinstance(op.defn, KernelOp)]
    own = {op: _latest(op.results, ways) - _latest(op.operands, ways) for op in kernels}
    whole = sum(own.values())
    return {op: period * steps / whole if whole else 0.0 for op, steps in own.items()}


def waits(op: Operation) -> bool:
    """Whether who needs the result of an operation waits for an instruction of its own: products go into sums."""
    if not (isinstance(op.defn, Elementwise) and op.results[0].tensor.dtype.is_floating):
        return False
    if _is(op, scalar.MUL):
        return not all(_is(u, scalar.ADD, scalar.SUB, scalar.NEG) for u in op.result.users)
    return not _is(op, scalar.NEG)


def _ways(block: Block, ready: Mapping[Value, int]) -> dict[Value, int]:
    """Operations until each value is there, of those that depend on one of these; kernels and their insides."""
    ways = dict(ready)
    for op in block.ops[:-1]:
        known = [ways[v] for v in op.operands if v in ways]
        if isinstance(op.defn, KernelOp):
            inside = op.regions[0].block
            pairs = zip(inside.args, op.operands, strict=True)
            within = _ways(inside, {arg: ways[v] for arg, v in pairs if v in ways})
            results = zip(op.results, inside.terminator.operands, strict=True)
            ways.update({result: within[v] for result, v in results if v in within})
        elif known:
            ways.update(dict.fromkeys(op.results, max(known) + waits(op)))
    return ways


def _latest(values: Iterable[Value], ways: Mapping[Value, int]) -> int:
    return max((ways[v] for v in values if v in ways), default=0)


def _is(op: Operation, *records: scalar.Scalar) -> bool:
    """Whether an operation is one of these primitives."""
    return any(getattr(op.defn, "scalar", None) is record for record in records)
