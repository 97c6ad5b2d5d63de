"""A kernel in the making: what it computes, what it writes, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tapec.ir.core import Operation, Value
from tapec.ir.op import RUNS
from tapec.ir.types import Shape
from tapec.passes.fusion.access import (
    Access,
    identity,
    is_by_rows,
    is_once,
    is_own,
    operand_accesses,
)
from tapec.passes.fusion.depth import DEEPEST, weight

#: How many times as long a kernel of single numbers may be: it computes nothing twice, and a number that waits in
#: memory for another kernel costs more than most that are computed.
_SINGLE = 4
#: The attribute of functions whose sums of everything share no kernels: what one adds up waits for no other.
SUMS_APART = "sums_apart"


@dataclass(eq=False)
class Group:
    """A kernel in the making.

    Its loops run over ``space``, the shape of the largest of the ``outputs``, which it writes; the shapes of the others
    are the first axes of that. ``ops`` is what it computes, ``accesses`` where in its loops values are read, ``core``
    its operation that is no index form, ``readers`` the groups that read outputs.
    """

    space: Shape
    outputs: list[Value] = field(default_factory=list)
    ops: dict[Operation, None] = field(default_factory=dict)
    accesses: dict[Value, list[Access]] = field(default_factory=dict)
    core: Operation | None = None
    readers: set[Group] = field(default_factory=set)
    #: How deep inside values are read, in the units of `tapec.passes.fusion.depth.weight`.
    levels: dict[Value, int] = field(default_factory=dict)
    #: The bytes of the smallest element that it computes.
    narrowest: int = 1 << 30

    def write(self, value: Value) -> None:
        """Make a value one of the outputs."""
        self.outputs.append(value)
        self.read(value, identity(value.tensor.rank))
        if value.tensor.rank > len(self.space):
            self.space = value.tensor.shape

    def read(self, value: Value, access: Access) -> None:
        """Note an access."""
        known = self.accesses.setdefault(value, [])
        if access not in known:
            known.append(access)

    def compute(self, op: Operation) -> None:
        """Compute an operation where its results are read."""
        self.ops[op] = None
        self.narrowest = min(self.narrowest, *(r.tensor.dtype.bytes for r in op.results))
        level = self.level_below(op)
        for operand in op.operands:
            self.levels[operand] = max(level, self.levels.get(operand, 0))
        if op.defn.form == "index":
            for operand, access in operand_accesses(op, self.accesses[op.result]):
                self.read(operand, access)

    def level_below(self, op: Operation) -> int:
        """How deep inside an operation's operands are read, if the group computes it."""
        return weight(op) + max(self.levels.get(r, 0) for r in op.results)

    @property
    def depth(self) -> int:
        """How deep inside anything is read."""
        return max(self.levels.values(), default=0)

    def recompute(self, ops: Iterable[Operation]) -> None:
        """Start again from the outputs with these operations, given from last to first."""
        self.ops, self.accesses, self.levels, self.narrowest = {}, {}, {}, 1 << 30
        for value in self.outputs:
            self.read(value, identity(value.tensor.rank))
        for op in ops:
            if any(result in self.accesses for result in op.results):
                self.compute(op)

    def reaches(self, other: Group) -> bool:
        """Whether another group reads, directly or not, what this one writes."""
        seen = {self}
        stack = [self]
        while stack:
            group = stack.pop()
            if group is other:
                return True
            stack += group.readers - seen
            seen |= group.readers
        return False

    @property
    def in_memory(self) -> tuple[Value, ...]:
        """What the core reads from memory, though the kernel may compute it for others."""
        return () if self.core is None else self.core.operands

    @property
    def has_loops(self) -> bool:
        """Whether an operation with loops of its own is inside."""
        return any(has_loops(op) for op in self.ops)

    def reads_own(self, value: Value) -> bool:
        """Whether each element is read exactly where the loops are that would write it."""
        accesses = self.accesses.get(value, ())
        shape = value.tensor.shape
        return bool(accesses) and all(is_own(a, shape, self.space) for a in accesses)

    def computes_twice(self, value: Value) -> bool:
        """Whether what takes a loop would be computed to be written, and again where it is read."""
        op = value.op
        return op is not None and has_loops(op) and not self.reads_own(value)

    def can_write(self, value: Value) -> bool:
        """Whether a value can be one more output; a contraction's results are all of one shape."""
        if self.core is not None:
            fits = self.core.defn.form == "contraction" and value.tensor.shape == self.space
            return fits and self.reads_own(value)
        accesses, shape = self.accesses.get(value, ()), value.tensor.shape
        return (
            (bool(shape) or not self.space)
            and any(is_own(a, shape, self.space) for a in accesses)
            and all(is_by_rows(a, shape, self.space) for a in accesses)
        )

    def fits(self, op: Operation, limit: int, sums_apart: bool = False) -> bool:
        """Whether it can compute an operation without computing too much twice; ``sums_apart`` as `SUMS_APART` says."""
        if self.core is not None and self.core.defn.form != "contraction":
            return False
        if len(self.ops) >= (limit if self.space else _SINGLE * limit):
            return False
        if self.level_below(op) > DEEPEST:
            return False
        accesses = self.accesses[op.result]
        if has_loops(op):
            # Its loop runs once for each turn of the loops around it.
            (first, *others) = accesses
            alone = not others and first is not None and RUNS not in first
            if self.core is not None or not alone or not is_once(first, self.space):
                return False
            if sums_apart and not self.space and self.has_loops:
                return False
            # A sum over everything keeps threads from sharing the loops behind it.
            return op.result.tensor.rank > 0 or not self.space
        if op.defn.cheap:
            return len(accesses) <= 8
        if not op.defn.costly:
            return len(accesses) <= 4
        # What is read by rows waits in scratch: see `tapec.passes.kernels.nest`.
        shape = op.result.tensor.shape
        return all(is_by_rows(a, shape, self.space) for a in accesses) or (
            len(accesses) <= 2 and all(is_once(a, self.space) for a in accesses)
        )


def repeats(group: Group) -> bool:
    """Whether it makes something that is made for the second time, to save memory: it should not run early."""
    return any("recompute" in v.op.attrs for v in group.outputs if v.op is not None)


def has_loops(op: Operation) -> bool:
    """Whether computing one element takes a loop."""
    return op.defn.form != "index" or op.defn.loops


def sources(op: Operation | Group) -> list[Value]:
    """What is read from memory."""
    if isinstance(op, Operation):
        return list(dict.fromkeys(op.operands))
    inside = {r for member in op.ops for r in member.results}
    read = [v for m in op.ops for v in m.operands if v not in inside]
    return list(dict.fromkeys([*read, *op.in_memory]))
