"""Expand `gradient` operations into the reverse-mode program they stand for.

A ``gradient`` names targets, sources and stops. Going backwards through the operations that lie on
a path from a source to a target, each operation's own rule (`tapec.ir.op.Op.vjp`) writes what its
operands' cotangents are in terms of its results'; this pass adds them up where a value was read
more than once. It knows no operation by name.

* In place and in program order: the new operations stand right before the ``gradient`` they
  replace. A ``gradient`` further down therefore walks through ordinary program: higher orders need
  nothing more.
* A cotangent that does not exist is absent, not zero. A source that no path reaches gets zeros, at
  the very end.
* Sums are taken in reverse program order, one `add` at a time: the same program gives the same
  bits.

`reachable` and `vjp_reads` answer, without writing any program, what a tape has to know while it
records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tapec.ir.batching import batch_operations, batched_results
from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Value, clone_operation
from tapec.ir.errors import NotDifferentiableError, PassError, underline
from tapec.ir.guards import recording_guards
from tapec.ir.op import OPS, Cotangents, Op, require_equal_dims
from tapec.ir.ops.control import Gradient, Identity
from tapec.ir.types import TensorType, Type


def run(module: Module, options: object = None) -> bool:
    """Expand every ``gradient`` of the module.

    Raises:
        NotDifferentiableError: an operation on the way from a target to a source has no derivative.
    """
    changed = False
    for function in module.functions.values():
        with recording_guards(function):
            changed |= _Expansion().block(function.block)
    return changed


def expand(function: Function) -> dict[Operation, Operation]:
    """Expand every ``gradient`` of a function; return of which operation each new one is the derivative.

    Operations of gradients that are mapped over rows are not told of.
    """
    expansion = _Expansion()
    with recording_guards(function):
        expansion.block(function.block)
    return expansion.origins


def carries_gradient(value: Value) -> bool:
    """Whether a value may have a cotangent: a tensor of floats or complex numbers."""
    return isinstance(value.type, TensorType) and value.type.dtype.is_differentiable


class _Expansion:
    """The expansion of one function: its blocks are written anew, operation by operation."""

    def __init__(self) -> None:
        #: Where each operation stands in the program as far as it is written.
        self.position: dict[Operation, int] = {}
        #: Of which operation each that was written is the derivative.
        self.origins: dict[Operation, Operation] = {}

    def block(self, block: Block) -> bool:
        """Expand everything in a block; return whether there was anything."""
        pending, block.ops = block.ops, []
        return self._write(block, pending)

    def _write(self, block: Block, pending: list[Operation]) -> bool:
        changed = False
        done = 0
        try:
            for op in pending:
                for region in op.regions:
                    for inner in region.blocks:
                        changed |= self.block(inner)
                if isinstance(op.defn, Gradient):
                    self._replace(block, op, *op.defn.split(op))
                    changed = True
                else:
                    self._append(block, op)
                done += 1
        finally:
            block.ops += pending[done:]  # after an error, the program is as it was from here on
        return changed

    def _append(self, block: Block, op: Operation) -> None:
        block.ops.append(op)
        self.position[op] = len(self.position)

    def _replace(self, block: Block, op: Operation, *roles: tuple[Value, ...]) -> None:
        """Write the program that a ``gradient`` stands for to the end of the block."""
        start = len(block.ops)
        b = Builder(block)
        b.location = op.location
        walk = self._walk_rows if op.attrs.get("batched") else self._walk
        cotangents = walk(b, *roles)
        # A rule may nest a gradient of its own in a region (a loop's rule does for its body).
        written = block.ops[start:]
        del block.ops[start:]
        self._write(block, written)
        for result, cotangent in zip(op.results, cotangents, strict=True):
            result.replace_all_uses(cotangent)
        op.drop()
        op.block = None

    def _walk_rows(
        self,
        b: Builder,
        targets: Sequence[Value],
        seeds: Sequence[Value],
        sources: Sequence[Value],
        stops: Sequence[Value],
    ) -> list[Value]:
        """The cotangents for every row of the seeds: the program for one row, mapped over all."""
        row = Block([t.type for t in targets])
        inner = Builder(row)
        inner.location = b.location
        cotangents = self._walk(inner, targets, row.args, sources, stops)
        values: dict[Value, Value] = dict(zip(row.args, seeds, strict=True))
        batched = set(row.args)
        batch_operations(b, row.ops, values, batched)
        size = seeds[0].tensor.shape[0]
        results = batched_results(b, cotangents, values, batched, size)
        for op in reversed(row.ops):
            op.drop()
        return results

    def _walk(
        self,
        b: Builder,
        targets: Sequence[Value],
        seeds: Sequence[Value],
        sources: Sequence[Value],
        stops: Sequence[Value],
    ) -> list[Value]:
        """The cotangent of each source, written through ``b``."""
        stopped = set(stops)
        cone = sorted(_dependencies(targets, stopped), key=self.position.__getitem__)
        path, active = _between(cone, sources, stopped)
        sums = _Sums(b, active)
        for i, target in enumerate(targets):
            if target in active:
                sums.add(target, seeds[i] if seeds else b.full_like(1, target))
        for primal in reversed(path):
            start = len(b.block.ops)
            with b.at(primal.location):
                _pull(b, sums, primal, stopped)
            self.origins.update((op, primal) for op in b.block.ops[start:])
        return [sums.final(s) or b.full_like(0, s) for s in sources]


class _Sums:
    """Cotangents so far, by primal value."""

    def __init__(self, b: Builder, active: Collection[Value]) -> None:
        self.b = b
        self.active = active
        self.values: dict[Value, Value] = {}

    def add(self, primal: Value, cotangent: Value) -> None:
        """One more contribution to a primal's cotangent; nothing if the primal is on no path."""
        if primal in self.active:
            known = self.values.get(primal)
            self.values[primal] = cotangent if known is None else self.b.add(known, cotangent)

    def final(self, primal: Value) -> Value | None:
        """The whole cotangent, named after its primal, when every reader has contributed."""
        cotangent = self.values.get(primal)
        if cotangent is not None and cotangent.op is not None and cotangent.name is None:
            name = _name(primal)
            if name is not None:
                cotangent.name = f"{name}_ct"
        return cotangent


def _name(value: Value) -> str | None:
    """A value's name, or the name of the value that it marks."""
    while value.name is None and value.op is not None and isinstance(value.op.defn, Identity):
        (value,) = value.op.operands
    return value.name


def _pull(b: Builder, sums: _Sums, primal: Operation, stopped: Collection[Value]) -> None:
    """Apply one operation's rule to its results' cotangents and add up those of its operands."""
    given = [None if r in stopped else sums.final(r) for r in primal.results]
    if all(ct is None for ct in given):
        return
    for value in _captures(primal):
        if value in sums.active:
            raise NotDifferentiableError(
                f"{primal.name} reads a value inside its region that the gradient should pass",
                location=primal.location,
                hint="hand the value to the operation as an operand",
            )
    start = len(b.block.ops)
    pulled = list(primal.defn.vjp(b, primal, *given))
    if len(pulled) != len(primal.operands):
        raise PassError(underline(primal, f"the rule gave {len(pulled)} cotangents"))
    for i, (operand, cotangent) in enumerate(zip(primal.operands, pulled, strict=True)):
        wanted = cotangent is not None and operand in sums.active
        pulled[i] = _fitted(b, primal, cotangent, operand) if wanted and cotangent else None
    _forget_unread(b.block, start, {ct for ct in pulled if ct is not None})
    for operand, cotangent in zip(primal.operands, pulled, strict=True):
        if cotangent is not None:
            sums.add(operand, cotangent)


def _fitted(b: Builder, primal: Operation, cotangent: Value, operand: Value) -> Value:
    """The cotangent in its primal's own type: dims held equal by a guard may be written apart."""
    want, have = operand.tensor, cotangent.type
    if want == have:
        return cotangent
    message = f"the cotangent of a {want} came out as {have}"
    if not isinstance(have, TensorType) or have.dtype != want.dtype or have.rank != want.rank:
        raise PassError(underline(primal, message), location=primal.location)
    for m, n in zip(want.shape, have.shape, strict=True):
        require_equal_dims(m, n, lambda: underline(primal, message))
    result: Value = b.reshape(cotangent, shape=want.shape)
    return result


def _forget_unread(block: Block, start: int, read: Collection[Value]) -> None:
    """Take back what a rule wrote, from position ``start`` on, for cotangents nobody wants."""
    kept = []
    for op in reversed(block.ops[start:]):
        if op.defn.pure and not any(r.users or r in read for r in op.results):
            op.drop()
            op.block = None
        else:
            kept.append(op)
    block.ops[start:] = reversed(kept)


def _between(
    cone: Sequence[Operation], sources: Sequence[Value], stopped: Collection[Value]
) -> tuple[list[Operation], set[Value]]:
    """The operations of a cone that a source reaches, and the values on the way from sources."""
    active = {s for s in sources if carries_gradient(s)}
    path = []
    for op in cone:
        if not active.isdisjoint(_reads(op)):
            path.append(op)
            active.update(r for r in op.results if r not in stopped and carries_gradient(r))
    return path, active


def _dependencies(
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
                stack.append((producer, iter(_reads(producer))))
                break
        else:
            stack.pop()
            if op is not None:
                order.append(op)
    return order


def _reads(op: Operation) -> tuple[Value, ...]:
    return (*op.operands, *_captures(op)) if op.regions else op.operands


def _captures(op: Operation) -> list[Value]:
    """Values from outside that the regions of an operation read."""
    if not op.regions:
        return []
    inside = {inner for region in op.regions for inner in region.walk()}
    blocks = {
        block for inner in (op, *inside) for region in inner.regions for block in region.blocks
    }
    read = {value: None for inner in op.walk() if inner is not op for value in inner.operands}
    return [v for v in read if v.owner not in inside and v.owner not in blocks]


# ---- questions of the tape


def reachable(
    targets: Sequence[Value], sources: Sequence[Value], stops: Sequence[Value] = ()
) -> list[bool]:
    """Which sources a ``gradient`` of these operands would give a cotangent.

    The answer is exact: the rules themselves are asked, on scratch copies, through which operands
    they pass a cotangent. Nothing is added to the program. What is False here is None to a user.
    """
    stopped = set(stops)
    cone = _dependencies(targets, stopped)
    if any(isinstance(op.defn, Gradient) for op in cone):
        return _reachable_expanded(targets, sources, stops)
    path, active = _between(cone, sources, stopped)
    reached = {t for t in targets if t in active}
    for op in reversed(path):
        given = tuple(r in reached and r not in stopped for r in op.results)
        if any(given):
            reached.update(
                v for v, flows in zip(op.operands, _flows(op, given), strict=True) if flows
            )
    return [s in active and s in reached for s in sources]


def _reachable_expanded(
    targets: Sequence[Value], sources: Sequence[Value], stops: Sequence[Value]
) -> list[bool]:
    """`reachable` where the way leads through a ``gradient``: expand a copy of it first."""
    ops = _dependencies(targets, (), everything=True)
    inside = {result for op in ops for result in op.results}
    outer = dict.fromkeys(v for op in ops for v in _reads(op) if v not in inside)
    outer |= dict.fromkeys(v for v in (*targets, *sources, *stops) if v not in inside)
    scratch = Function("scratch", [v.type for v in outer])
    mapping = dict(zip(outer, scratch.args, strict=True))
    for op in ops:
        scratch.block.append(clone_operation(op, mapping))
    # As operands the copies survive the expansion even where they are results of a gradient
    # themselves.
    copies = [mapping[v] for v in (*targets, *sources, *stops)]
    marker = scratch.block.append(Operation(OPS["return"], copies, ()))
    run(Module([scratch]))
    first, second = len(targets), len(targets) + len(sources)
    copied = marker.operands
    return reachable(copied[:first], copied[first:second], copied[second:])


def _flows(op: Operation, given: tuple[bool, ...]) -> tuple[bool, ...]:
    """For each operand, whether the rule gives a cotangent when the ``given`` results have one."""
    if not op.regions:
        return _flows_by_type(op.defn, tuple(v.type for v in op.operands), _frozen(op.attrs), given)
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


@cache
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


@cache
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
    _forget_unread(scratch.block, 1, returned)

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
