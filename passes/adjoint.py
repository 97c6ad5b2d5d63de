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

from collections.abc import Collection, Sequence

from tapec.ir import reachability
from tapec.ir.batching import batch_operations, batched_results
from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Value, clone_operation
from tapec.ir.errors import NotDifferentiableError, PassError, underline
from tapec.ir.guards import recording_guards
from tapec.ir.history import Relation, tell
from tapec.ir.op import OPS, require_equal_dims
from tapec.ir.ops.control import Gradient, Identity
from tapec.ir.reachability import between, captures, dependencies, forget_unread, values_read
from tapec.ir.types import TensorType


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
            result.replace_all_uses(cotangent, "the gradient is written out")
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
        self.block(row)  # gradients that rules nested in regions
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
        cone = sorted(dependencies(targets, stopped), key=self.position.__getitem__)
        path, active = between(cone, sources, stopped)
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
        if cotangent is not None:
            tell(Relation.COTANGENT, primal, cotangent)
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
    for value in captures(primal):
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
    forget_unread(b.block, start, {ct for ct in pulled if ct is not None})
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


# ---- questions of the tape


def reachable(
    targets: Sequence[Value], sources: Sequence[Value], stops: Sequence[Value] = ()
) -> list[bool]:
    """Which sources a ``gradient`` of these operands would give a cotangent.

    The answer is exact: the rules themselves are asked, on scratch copies, through which operands
    they pass a cotangent. Nothing is added to the program. What is False here is None to a user.
    """
    cone = dependencies(targets, set(stops))
    if any(isinstance(inner.defn, Gradient) for op in cone for inner in op.walk()):
        return _reachable_expanded(targets, sources, stops)
    return reachability.reachable(targets, sources, stops)


def _reachable_expanded(
    targets: Sequence[Value], sources: Sequence[Value], stops: Sequence[Value]
) -> list[bool]:
    """`reachable` where the way leads through a ``gradient``: expand a copy of it first."""
    ops = dependencies(targets, (), everything=True)
    inside = {result for op in ops for result in op.results}
    outer = dict.fromkeys(v for op in ops for v in values_read(op) if v not in inside)
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
