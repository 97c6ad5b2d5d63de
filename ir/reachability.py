"""Where derivatives flow in a program: which operations are on the way, and through which operands they pass.

Nothing here writes into a program. Where an operation's own rule (`tapec.ir.op.Op.vjp`) has the answer, it says so
(`passes_back`), or is tried on a scratch copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Operation, Value, clone_operation
from tapec.ir.guards import recording_guards
from tapec.ir.op import Cotangents, Op
from tapec.ir.types import TensorType, Type

#: Answers kept of questions that a tape asks about operations.
_REMEMBERED = 8192


def carries_gradient(value: Value) -> bool:
    """Whether a value may have a cotangent: a tensor of floats or complex numbers."""
    return isinstance(value.type, TensorType) and value.type.dtype.is_differentiable


def dependencies(
    values: Sequence[Value], stopped: Collection[Value], *, everything: bool = False
) -> list[Operation]:
    """The operations that ``values`` come from, each after those it depends on.

    The search goes through values that carry gradients and through operations that have a
    derivative, unless ``everything`` is wanted; it never goes past a value in ``stopped``.
    """
    seen: set[Operation] = set()
    order: list[Operation] = []
    stack: list[tuple[Operation | None, Iterator[Value]]] = [(None, iter(values))]
    while stack:
        op, reads = stack[-1]
        for value in reads:
            producer = value.op
            if producer is None or producer in seen or value in stopped:
                continue
            if everything or (producer.defn.differentiable and carries_gradient(value)):
                seen.add(producer)
                stack.append((producer, iter(values_read(producer))))
                break
        else:
            stack.pop()
            if op is not None:
                order.append(op)
    return order


def between(
    cone: Sequence[Operation], sources: Sequence[Value], stopped: Collection[Value]
) -> tuple[list[Operation], set[Value]]:
    """The operations of a cone that a source reaches, and the values on the way from sources."""
    active = {s for s in sources if carries_gradient(s)}
    path = []
    for op in cone:
        if not active.isdisjoint(values_read(op)):
            path.append(op)
            active.update(r for r in op.results if r not in stopped and carries_gradient(r))
    return path, active


def values_read(op: Operation) -> tuple[Value, ...]:
    return (*op.operands, *captures(op)) if op.regions else op.operands


def captures(op: Operation) -> list[Value]:
    """Values from outside that the regions of an operation read."""
    if not op.regions or op.defn.isolated:
        return []
    inside = {inner for region in op.regions for inner in region.walk()}
    blocks = {
        block for inner in (op, *inside) for region in inner.regions for block in region.blocks
    }
    read = {value: None for inner in op.walk() if inner is not op for value in inner.operands}
    return [v for v in read if v.owner not in inside and v.owner not in blocks]


def forget_unread(block: Block, start: int, read: Collection[Value]) -> None:
    """Take back what a rule wrote, from position ``start`` on, for cotangents nobody wants."""
    kept = []
    for op in reversed(block.ops[start:]):
        if op.defn.pure and not any(r.users or r in read for r in op.results):
            op.drop()
            op.block = None
        else:
            kept.append(op)
    block.ops[start:] = reversed(kept)


def reachable(
    targets: Sequence[Value], sources: Sequence[Value], stops: Sequence[Value] = ()
) -> list[bool]:
    """Which sources have a cotangent when all targets have one, without a ``gradient`` on the way.

    The answer is exact: the rules themselves are asked, on scratch copies where they have to be tried, through
    which operands they pass a cotangent. Nothing is added to the program.
    """
    stopped = set(stops)
    path, active = between(dependencies(targets, stopped), sources, stopped)
    reached = {t for t in targets if t in active}
    for op in reversed(path):
        given = tuple(r in reached and r not in stopped for r in op.results)
        if any(given):
            reached.update(
                v for v, flows in zip(op.operands, _flows(op, given), strict=True) if flows
            )
    return [s in active and s in reached for s in sources]


def _flows(op: Operation, given: tuple[bool, ...]) -> tuple[bool, ...]:
    """For each operand, whether the rule gives a cotangent when the ``given`` results have one."""
    if not op.regions:
        return _flows_by_type(
            op.defn, tuple(v.type for v in op.operands), _frozen(op.parameters), given
        )
    cotangents = [has and carries_gradient(r) for r, has in zip(op.results, given, strict=True)]
    known = op.defn.passes_back(op, cotangents) if any(cotangents) else (False,) * len(op.operands)
    if known is not None:
        return tuple(known)
    scratch, copy = _scratch_copy(op)
    pulled = _try_rule(scratch, copy, given)
    for written in reversed(scratch.block.ops):
        written.drop()  # the copy's regions may read values of the program: leave no trace there
    return tuple(ct is not None for ct in pulled)


def flows(
    defn: Op, operand_types: Sequence[Type], attrs: Mapping[str, Any], results: int
) -> tuple[bool, ...]:
    """For each operand, whether the rule gives a cotangent when all ``results`` have one."""
    return _flows_by_type(defn, tuple(operand_types), _frozen(attrs), (True,) * results)


@lru_cache(maxsize=_REMEMBERED)
def _flows_by_type(
    defn: Op, types: tuple[Type, ...], attrs: tuple[tuple[str, Any], ...], given: tuple[bool, ...]
) -> tuple[bool, ...]:
    scratch, op = _scratch_operation(defn, types, dict(attrs))
    return tuple(ct is not None for ct in _try_rule(scratch, op, given))


def vjp_reads(
    defn: Op,
    operand_types: Sequence[Type],
    attrs: Mapping[str, Any],
    active: Collection[int] | None = None,
) -> frozenset[int]:
    """Which values of an operation its derivative reads: ``i`` for operand i, ``~i`` for result i.

    A tape keeps these and no others. ``active`` are the operands that want a cotangent (all, if
    None): what only the others' cotangents read is not counted.
    """
    wanted = None if active is None else frozenset(active)
    return _vjp_reads(defn, tuple(operand_types), _frozen(attrs), wanted)


@lru_cache(maxsize=_REMEMBERED)
def _vjp_reads(
    defn: Op,
    types: tuple[Type, ...],
    attrs: tuple[tuple[str, Any], ...],
    active: frozenset[int] | None,
) -> frozenset[int]:
    scratch, op = _scratch_operation(defn, types, dict(attrs))
    pulled = _try_rule(scratch, op, (True,) * len(op.results))
    returned = {
        ct for i, ct in enumerate(pulled) if ct is not None and (active is None or i in active)
    }
    forget_unread(scratch.block, 1, returned)

    def read(value: Value) -> bool:
        return value in returned or any(user is not op for user in value.users)

    operands = {i for i, v in enumerate(op.operands) if read(v)}
    return frozenset(operands | {~i for i, v in enumerate(op.results) if read(v)})


def _frozen(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(attrs.items()))


def _scratch_operation(
    defn: Op, types: Sequence[Type], attrs: Mapping[str, Any]
) -> tuple[Function, Operation]:
    """A function that holds one operation, of its own arguments."""
    scratch = Function("scratch", types)
    with recording_guards(scratch):
        Builder(scratch.block).emit(defn, *scratch.args, **attrs)
    return scratch, scratch.block.ops[0]


def _scratch_copy(op: Operation) -> tuple[Function, Operation]:
    """A function that holds a copy of an operation with its regions."""
    distinct = dict.fromkeys(op.operands)
    scratch = Function("scratch", [v.type for v in distinct])
    copy = clone_operation(op, dict(zip(distinct, scratch.args, strict=True)))
    return scratch, scratch.block.append(copy)


def _try_rule(scratch: Function, op: Operation, given: Sequence[bool]) -> Cotangents:
    """What the rule returns for fresh cotangents of the results that are ``given``."""
    cotangents = [
        scratch.block.add_arg(r.type) if has and carries_gradient(r) else None
        for r, has in zip(op.results, given, strict=True)
    ]
    if all(ct is None for ct in cotangents):
        return (None,) * len(op.operands)
    with recording_guards(scratch):
        return op.defn.vjp(Builder(scratch.block), op, *cotangents)
