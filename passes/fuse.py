"""Decide what is materialised: group operations into ``kernel`` operations.

A kernel is one loop nest. Its loops run over the shape of what it writes; operations inside are computed at the index
where they are needed, from elements of values in memory. The pass goes backwards through the program, so that when it
comes to a value, it knows who reads it and where in their loops (`tapec.passes.access`):

* A value that only one kernel reads is computed there, if that computes nothing costly twice. So elementwise
  operations go into their consumers, reductions take their producers in, a softmax becomes one kernel by rows.
* What is cheap (moving elements, arithmetic on one element) is computed in each kernel that reads it.
* A contraction becomes part of the kernel that reads its result element by element: that kernel is its epilogue.
* A value that must be in memory anyway becomes one more result of a kernel that reads it element by element, if no
  kernel would then depend on itself. So an optimizer's new moments and weights are made in one go.
* Anything else gets a kernel of its own. A ``reshape`` of something in memory costs nothing and stays outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS, RUNS
from tapec.ir.ops.control import KernelOp, Return
from tapec.ir.ops.movement import Reshape
from tapec.ir.ops.source import Constant, Iota
from tapec.ir.types import Shape
from tapec.passes.access import Access, identity, is_identity, is_once, operand_accesses


@dataclass(frozen=True)
class Options:
    """``max-ops`` bounds the operations of one kernel."""

    max_ops: int = 120


@dataclass(eq=False)
class Group:
    """A kernel in the making.

    ``space`` is the shape of its loops, ``outputs`` the values it writes, ``ops`` what it computes, ``accesses`` where
    in its loops values are read, ``core`` its operation that is no index form, ``readers`` groups that read outputs.
    """

    space: Shape
    outputs: list[Value] = field(default_factory=list)
    ops: dict[Operation, None] = field(default_factory=dict)
    accesses: dict[Value, list[Access]] = field(default_factory=dict)
    core: Operation | None = None
    readers: set[Group] = field(default_factory=set)

    def read(self, value: Value, access: Access) -> None:
        """Note an access."""
        known = self.accesses.setdefault(value, [])
        if access not in known:
            known.append(access)

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
    def has_heavy(self) -> bool:
        """Whether an operation with loops of its own is inside."""
        return any(_is_heavy(op) for op in self.ops)


def run(module: Module, options: Options) -> bool:
    """Group the operations of every function."""
    changed = False
    for function in module.functions.values():
        _copy_aliases(function)
        if any(not isinstance(op.defn, KernelOp | Return) for op in function.block.ops):
            _Fusion(function, options).rewrite()
            changed = True
    return changed


def _copy_aliases(function: Function) -> None:
    """Results that are arguments, or the same as other results, become values of their own: copies."""
    terminator = function.block.terminator
    seen: set[Value] = set()
    for i, value in enumerate(terminator.operands):
        root = _root(value)
        if root.op is None or not seen.isdisjoint((value, root)):
            kernel = _kernel_of([value], [value], ())
            function.block.insert_before(terminator, kernel)
            terminator.set_operand(i, kernel.result)
        seen |= {value, root}


def _root(value: Value) -> Value:
    """Through reshapes, what is in memory."""
    while value.op is not None and isinstance(value.op.defn, Reshape):
        value = value.op.operands[0]
    return value


class _Fusion:
    """The grouping of one function."""

    def __init__(self, function: Function, options: Options) -> None:
        self.function = function
        self.options = options
        self.groups: list[Group] = []
        #: The groups that compute an operation.
        self.homes: dict[Operation, list[Group]] = {}
        #: Reshapes that stay outside of kernels, and other operations that do: kernels from before.
        self.outside: dict[Operation, None] = {}

    def rewrite(self) -> None:
        """Group, then write the function anew."""
        for op in reversed(self.function.block.ops[:-1]):
            self._assign(op)
        _write(self.function, self._ordered())

    # ---- who reads a value

    def _in_memory(self, value: Value) -> bool:
        """Whether somebody can only read the value from memory."""
        for user in value.users:
            if isinstance(user.defn, Return) or user in self.outside:
                return True
            if user.defn.form != "index" and any(g.core is user for g in self.homes.get(user, ())):
                return True
        return False

    def _readers(self, value: Value) -> list[Group]:
        """Groups that read the value at indices of their loops."""
        found: dict[Group, None] = {}
        for user in value.users:
            if user.defn.form == "index":
                found |= dict.fromkeys(self.homes.get(user, ()))
        return list(found)

    def _all_readers(self, value: Value) -> set[Group]:
        """Groups that read the value in any way, through reshapes too."""
        found: set[Group] = set()
        for user in value.users:
            if user in self.outside:
                for result in user.results:
                    found |= self._all_readers(result)
            else:
                found |= set(self.homes.get(user, ()))
        return found

    # ---- decisions

    def _assign(self, op: Operation) -> None:
        """Find the place of one operation, whose readers all have theirs."""
        if not any(r.users for r in op.results):
            return
        if isinstance(op.defn, KernelOp) or self._is_view(op):
            self.outside[op] = None
            return
        if op.defn.form != "index":
            self._assign_core(op)
            return
        (value,) = op.results
        in_memory, readers = self._in_memory(value), self._readers(value)
        if isinstance(op.defn, Constant | Iota):
            self._compute_in(readers, op)
        elif not in_memory:
            freely = op.defn.cheap or (value.tensor.size == 1 and not _is_heavy(op))
            if (freely or len(readers) == 1) and all(self._fits(op, g) for g in readers):
                self._compute_in(readers, op)
                return
            in_memory = True
        if in_memory:
            self._materialise(op, readers)

    def _is_view(self, op: Operation) -> bool:
        """Whether a reshape is of something in memory for certain, or must be in memory itself."""
        if not isinstance(op.defn, Reshape):
            return False
        source = op.operands[0].op
        return (
            source is None
            or source.defn.form != "index"
            or isinstance(source.defn, Reshape)
            or self._in_memory(op.result)
            or self._in_memory(op.operands[0])
        )

    def _assign_core(self, op: Operation) -> None:
        """Contractions may join their epilogue; nests and routines stand alone."""
        if op.defn.form == "contraction":
            (value,) = op.results
            readers = self._readers(value)
            for group in readers:
                joins = group.core is None and not group.has_heavy and len(value.tensor.shape) >= 2
                if joins and self._reads_elementwise(group, value):
                    if not self._in_memory(value) and len(readers) == 1:
                        self._compute_in([group], op)
                        group.core = op
                        return
        group = Group(op.results[0].tensor.shape, core=op)
        self._open(group, op)

    def _materialise(self, op: Operation, readers: list[Group]) -> None:
        """Write the value to memory: as one more result of a group that computes it anyway, or on its own."""
        (value,) = op.results
        for group in readers:
            others = self._all_readers(value) - {group}
            if (
                self._reads_elementwise(group, value)
                and (group.core is None or group.core.defn.form == "contraction")
                and self._fits(op, group)
                and not any(other.reaches(group) for other in others)
            ):
                self._compute_in([group], op)
                group.outputs.append(value)
                group.readers |= others
                return
        self._open(Group(value.tensor.shape), op)

    def _open(self, group: Group, op: Operation) -> None:
        """Start a group with an operation whose results it writes."""
        self.groups.append(group)
        for value in op.results:
            group.outputs.append(value)
            group.readers |= self._all_readers(value)
            group.read(value, identity(value.tensor.rank))
        self._compute_in([group], op)

    def _compute_in(self, groups: list[Group], op: Operation) -> None:
        """Let groups compute an operation where they read its result."""
        self.homes.setdefault(op, []).extend(groups)
        for group in groups:
            group.ops[op] = None
            if op.defn.form == "index":
                for operand, access in operand_accesses(op, group.accesses[op.result]):
                    group.read(operand, access)

    # ---- what it costs

    def _reads_elementwise(self, group: Group, value: Value) -> bool:
        """Whether the group reads each element exactly where its loops are."""
        accesses = group.accesses.get(value, ())
        shape = value.tensor.shape
        return bool(accesses) and all(is_identity(a, shape, group.space) for a in accesses)

    def _fits(self, op: Operation, group: Group) -> bool:
        """Whether a group can compute an operation without computing too much twice."""
        if group.core is not None and group.core.defn.form != "contraction":
            return False
        if len(group.ops) >= self.options.max_ops:
            return False
        accesses, space = group.accesses[op.result], group.space
        if _is_heavy(op):
            # A loop of its own: once for each turn of the loops around it.
            (first, *others) = accesses
            alone = not others and first is not None and RUNS not in first
            return group.core is None and alone and is_once(first, space)
        if op.defn.cheap:
            return len(accesses) <= 8
        if not op.defn.costly:
            return len(accesses) <= 4
        return len(accesses) <= 2 and all(is_once(a, space) for a in accesses)

    # ---- order

    def _ordered(self) -> list[Group | Operation]:
        """Groups and operations outside of them, each after what it reads, otherwise as they came."""
        position = {op: i for i, op in enumerate(self.function.block.ops)}
        items: list[Group | Operation] = [*self.groups, *self.outside]
        producer = {v: g for g in self.groups for v in g.outputs}
        made: dict[Value, Group | Operation] = {v: op for op in self.outside for v in op.results}
        made |= producer
        readers: dict[Group | Operation, list[Group | Operation]] = {item: [] for item in items}
        missing: dict[Group | Operation, int] = dict.fromkeys(items, 0)
        for item in items:
            for value in _external(item):
                if value in made:
                    readers[made[value]].append(item)
                    missing[item] += 1

        def key(item: Group | Operation) -> int:
            ops = [item] if isinstance(item, Operation) else item.ops
            return max(position[op] for op in ops)

        keys = {item: (key(item), n) for n, item in enumerate(items)}
        ready = [(keys[item], item) for item in items if not missing[item]]
        heapify(ready)
        ordered = []
        while ready:
            item = heappop(ready)[1]
            ordered.append(item)
            for reader in readers[item]:
                missing[reader] -= 1
                if not missing[reader]:
                    heappush(ready, (keys[reader], reader))
        assert len(ordered) == len(items), "kernels depend on each other in a circle"
        return ordered


def _is_heavy(op: Operation) -> bool:
    """Whether computing one element takes a loop."""
    return op.defn.form != "index" or op.defn.loops


def _external(item: Group | Operation) -> list[Value]:
    """What a group reads from memory."""
    if isinstance(item, Operation):
        return list(item.operands)
    inside = {r for op in item.ops for r in op.results}
    return list(dict.fromkeys(v for op in item.ops for v in op.operands if v not in inside))


def _write(function: Function, items: list[Group | Operation]) -> None:
    """Make the function's block of kernels, reshapes and the return."""
    block = function.block
    old, terminator = block.ops[:-1], block.terminator
    position = {op: i for i, op in enumerate(old)}
    block.ops = []
    #: What is in memory, by the value that it was before.
    memory: dict[Value, Value] = {}
    for item in items:
        if isinstance(item, Operation):
            item.set_operands([memory.get(v, v) for v in item.operands])
            block.append(item)
            continue
        ops = sorted(item.ops, key=position.__getitem__)
        kernel = _kernel_of(_external(item), item.outputs, ops)
        kernel.set_operands([memory.get(v, v) for v in kernel.operands])
        block.append(kernel)
        for value, result in zip(item.outputs, kernel.results, strict=True):
            result.name = value.name
            memory[value] = result
    terminator.set_operands([memory.get(v, v) for v in terminator.operands])
    block.append(terminator)
    kept = set(block.ops)
    for op in reversed(old):
        if op not in kept:
            op.drop()


def _kernel_of(
    inputs: list[Value], outputs: list[Value], ops: list[Operation] | tuple[()]
) -> Operation:
    """A kernel operation that computes outputs from inputs by copies of the operations."""
    body = Block([v.type for v in inputs], [v.name for v in inputs])
    mapping = dict(zip(inputs, body.args, strict=True))
    for op in ops:
        body.append(clone_operation(op, mapping))
    Builder(body).emit("yield", *(mapping[v] for v in outputs))
    location = ops[-1].location if ops else None
    types = [v.type for v in outputs]
    return Operation(OPS["kernel"], inputs, types, {}, [Region([body])], location)
