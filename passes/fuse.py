"""Decide what is materialised: group operations into ``kernel`` operations.

A kernel is one loop nest. Its loops run over the shape of what it writes; operations inside are computed at the index
where they are needed, from elements of values in memory. The pass goes backwards through the program, so that when it
comes to a value, it knows who reads it and where in their loops (`tapec.passes.fusion.access`):

* A value that only one kernel reads is computed there, if that computes nothing costly twice. So elementwise
  operations go into their consumers, reductions take their producers in, a softmax becomes one kernel by rows.
* What is cheap (moving elements, arithmetic on one element) is computed in each kernel that reads it, unless it would
  read more memory there than its own result is.
* A contraction becomes part of the kernel that reads its result element by element: that kernel is its epilogue.
* A value that must be in memory anyway becomes one more result of a kernel that reads it element by element, or else
  of one that reads the same elements, if no kernel would then depend on itself. So an optimizer's new moments and
  weights are made in one go, and so are a row's loss and its gradient.
* Where other kernels need of such a value only something smaller, that is written instead: of the argument of a
  ``relu`` the mask, one byte for four (`_Fusion._narrow`).
* At last kernels become one where that saves what only the second reads (`tapec.passes.fusion.merging`), and copies
  are made along (`tapec.passes.fusion.copying`).
* Anything else gets a kernel of its own. A ``reshape`` of something in memory costs nothing and stays outside.
* Branches and loops stay outside too, and their regions are grouped in the same way. What a loop carries gets memory
  that nobody else needs (`tapec.passes.memory.ownership`).

`tapec.passes.fusion.collapse` first moves changes of shape out of the way; `tapec.passes.memory.order` says which
kernel runs when.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tapec.ir.core import Block, Body, Function, Module, Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.errors import TargetError
from tapec.ir.op import RUNS, Elementwise
from tapec.ir.ops.control import KernelOp, Return
from tapec.ir.ops.interleaved import Reinterpretation
from tapec.ir.ops.loop import Yield
from tapec.ir.ops.movement import Reshape
from tapec.ir.ops.regions import RegionOp
from tapec.ir.ops.source import Constant, Extent, Iota
from tapec.passes.fusion.access import Access, identity, is_by_rows, operand_accesses
from tapec.passes.fusion.collapse import collapse
from tapec.passes.fusion.contractions import contraction_of, ends_contraction
from tapec.passes.fusion.copying import join_copies
from tapec.passes.fusion.grouping import SUMS_APART, Group, has_loops, repeats
from tapec.passes.fusion.kernels import write_kernels
from tapec.passes.fusion.merging import merge
from tapec.passes.memory.order import ordered
from tapec.passes.memory.ownership import copy_aliases, give_own_memory

#: Cheap operations that a value may stand for where it is computed more than once.
_MOST_CHEAP = 24
#: Operations that are looked through to find what two kernels both read.
_MOST_SEEN = 32


@dataclass(frozen=True)
class Options:
    """``max-ops`` bounds the operations of a kernel with loops; kernels run as written without ``reorder``."""

    max_ops: int = 120
    reorder: bool = True


def run(module: Module, options: Options) -> bool:
    """Group the operations of every function, and of the regions in it."""
    changed = [_fuse(function, options) for function in module.functions.values()]
    return any(changed)


def _fuse(body: Function | Body, options: Options) -> bool:
    """Group the operations of a function or region, inner regions first."""
    changed = False
    for op in body.block.ops:
        if isinstance(op.defn, RegionOp):
            for inner in op.defn.bodies(op):
                changed |= _fuse(inner, options)
    give_own_memory(body.block)
    collapse(body.block)
    copy_aliases(body)
    if any(not isinstance(op.defn, KernelOp | Return | Yield) for op in body.block.ops):
        _Fusion(body, options).rewrite()
        join_copies(body)
        changed = True
    return changed


class _Fusion:
    """The grouping of one function or region."""

    def __init__(self, function: Function | Body, options: Options) -> None:
        self.function = function
        self.options = options
        self.groups: list[Group] = []
        #: The groups that compute an operation.
        self.homes: dict[Operation, list[Group]] = {}
        #: Reshapes that stay outside of kernels, and other operations that do: kernels from before.
        self.outside: dict[Operation, None] = {}
        self.position = {op: i for i, op in enumerate(function.block.ops)}
        self.dense = _dense_values(function.block)
        self.sums_apart = isinstance(function, Function) and SUMS_APART in function.attrs

    def rewrite(self) -> None:
        """Group, then write the function anew."""
        for op in reversed(self.function.block.ops[:-1]):
            self._assign(op)
        position, most = self.position.__getitem__, self.options.max_ops
        groups = merge(self.groups, self.outside, position, most)
        order = ordered(
            self.function, groups, self.outside, self.position, thrifty=self.options.reorder
        )
        write_kernels(self.function, order)

    # ---- who reads a value

    def _in_memory(self, value: Value) -> bool:
        """Whether somebody can only read the value from memory."""
        for user in value.users:
            if isinstance(user.defn, Return | Yield) or user in self.outside:
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

    def _memory_readers(self, value: Value) -> set[Group]:
        """Groups that read the value from memory at any place, perhaps in another shape: none of them can make it."""
        found: set[Group] = set()
        for user in value.users:
            if user in self.outside:
                for result in user.results:
                    found |= self._all_readers(result)
            elif user.defn.form != "index":
                found |= {g for g in self.homes.get(user, ()) if g.core is user}
        return found

    # ---- decisions

    def _assign(self, op: Operation) -> None:
        """Find the place of one operation, whose readers all have theirs."""
        apart = isinstance(op.defn, KernelOp | RegionOp)
        if not op.defn.pure or (op.defn.form == "structural" and not apart):
            raise TargetError(f"{op.name} has no native code", location=op.location)
        if op in self.homes or not any(r.users for r in op.results):
            return
        core = contraction_of(op)
        if core is not None and self._join(op, core):
            return
        if apart or self._is_view(op):
            self.outside[op] = None
            return
        if op.defn.form != "index":
            self._open(Group(op.results[0].tensor.shape, core=op), op)
            return
        value, in_memory = op.result, self._in_memory(op.result)
        readers = self._readers(value)
        if isinstance(op.defn, Constant | Extent | Iota):
            self._compute_in(readers, op)
        elif not in_memory:
            most = self.options.max_ops
            repeats = len(readers) == 1 or self._is_free(op)
            if repeats and all(g.fits(op, most, self.sums_apart) for g in readers):
                self._compute_in(readers, op)
                return
            in_memory = True
        if in_memory and not self._join(op, None):
            self._open(self._sibling(value) or Group(()), op)

    def _is_free(self, op: Operation) -> bool:
        """Whether computing a value again is no more than reading it."""
        if op.result.tensor.size == 1:
            return not (op.defn.costly or has_loops(op)) or op.defn.cheap
        return op.defn.cheap and op.result not in self.dense

    def _is_view(self, op: Operation) -> bool:
        """Whether a reshape is of something in memory for certain, or must be in memory itself."""
        if isinstance(op.defn, Reinterpretation):
            return True
        if not isinstance(op.defn, Reshape):
            return False
        source = op.operands[0].op
        return (
            source is None
            or source.defn.form != "index"
            or isinstance(source.defn, Reshape | Reinterpretation)
            or self._in_memory(op.result)
            or self._in_memory(op.operands[0])
        )

    def _join(self, op: Operation, core: Operation | None) -> bool:
        """Let a group that reads a value compute it, and write it if others need it; tell whether there is one.

        ``core`` is the contraction that makes the value, if one does. A contraction whose one reader takes it in is not
        written at all.
        """
        (value,) = op.results
        unfit = self._memory_readers(value)
        for group in self._readers(value):
            if group in unfit:
                continue
            others = self._all_readers(value) - {group}
            if self._takes(group, op, core) and not any(other.reaches(group) for other in others):
                self._compute_in([group], op)
                if core is not None:
                    if core is not op:
                        self._compute_in([group], core)
                    group.core = core
                if self._in_memory(value) or (others and not self._narrow(value, group, others)):
                    group.write(value)
                group.readers |= others
                return True
        return False

    def _takes(self, group: Group, op: Operation, core: Operation | None) -> bool:
        """Whether a group that reads a value can compute and write it."""
        if core is None:
            # A second contraction would have to leave what it makes in memory.
            single = group.core is None or not ends_contraction(op)
            fits = group.fits(op, self.options.max_ops, self.sums_apart)
            return single and fits and group.can_write(op.result)
        shape = op.result.tensor.shape
        free = group.core is None and not group.has_loops and len(shape) >= 2
        return (
            free
            and group.reads_own(op.result)
            and all(v.tensor.shape == shape for v in group.outputs)
        )

    def _sibling(self, value: Value) -> Group | None:
        """A group whose outer loops read the same memory as those that would make the value."""
        shape = value.tensor.shape
        readers = self._all_readers(value)
        unfit = self._memory_readers(value)
        repeated = value.op is not None and "recompute" in value.op.attrs
        read = _stored(value, _reads(value))
        for group in self.groups:
            near = group in readers if shape else not self.sums_apart
            if not near and group.accesses.keys().isdisjoint(read):
                continue  # most of them: nothing else is asked of these
            shared = min(len(shape), len(group.space))
            fits = shape[:shared] == group.space[:shared] and (shared or shape == group.space)
            if not fits or group.core is not None or len(group.ops) >= self.options.max_ops // 2:
                continue
            if group in unfit or (repeats(group) and not repeated):
                continue
            if group in readers and group.computes_twice(value):
                continue
            if not near and not _share(read, group):
                continue
            space = max(shape, group.space, key=len)
            if not all(is_by_rows(a, shape, space) for a in group.accesses.get(value, ())):
                continue
            if not any(reader.reaches(group) for reader in readers if reader is not group):
                return group
        return None

    def _open(self, group: Group, op: Operation) -> None:
        """Let a group, which may be new, write what an operation makes."""
        if group not in self.groups:
            self.groups.append(group)
        for value in op.results:
            group.write(value)
            group.readers |= self._all_readers(value) - {group}
        self._compute_in([group], op)

    def _compute_in(self, groups: list[Group], op: Operation) -> None:
        """Let groups compute an operation where they read its result."""
        self.homes.setdefault(op, []).extend(groups)
        for group in groups:
            group.compute(op)

    # ---- smaller values in place of larger ones

    def _narrow(self, value: Value, home: Group, others: set[Group]) -> bool:
        """Write, in place of a value, what others make of it, if that takes less memory; tell whether it does.

        ``home`` computes the value, ``others`` read it. What they compute from it, element by element and with nothing
        else than arguments and constants, can as well be computed at home.
        """
        if any(group.narrowest >= value.tensor.dtype.bytes for group in others):
            return False
        moves: dict[Operation, None] = {}
        kept: dict[Value, None] = {}
        for group in others:
            made = self._made_of(value, group)
            for user in value.users:
                if group in self.homes.get(user, ()) and user not in made:
                    return False
            for op in made:
                result = op.result
                moves[op] = None
                if result in group.outputs:
                    return False
                if any(group in self.homes.get(u, ()) and u not in made for u in result.users):
                    kept[result] = None
        if any(v.tensor.shape != home.space for v in kept) or not _is_less(kept, value):
            return False
        for group in others:
            self._regroup(group, [op for op in group.ops if op not in moves])
        for result in kept:
            home.write(result)
            home.readers |= {g for g in self._all_readers(result) if g is not home}
        self._regroup(home, [*home.ops, *self._inputs_of(moves, value), *moves])
        return True

    def _made_of(self, value: Value, group: Group) -> dict[Operation, None]:
        """Elementwise operations of a group on the value and on what is known before it, up to smaller dtypes."""
        made: dict[Operation, None] = {}
        wide = {value}
        known: set[Value] = set()
        limit = self.position[value.op] if value.op is not None else 0
        for op in sorted(group.ops, key=self.position.__getitem__):
            inputs = [v for v in op.operands if v not in wide]
            if not all(v in known or self._is_before(v, group, limit) for v in inputs):
                continue
            if len(inputs) == len(op.operands):
                if op.defn.form == "index" and op.defn.cheap:
                    known.add(op.result)
            elif isinstance(op.defn, Elementwise):
                made[op] = None
                if not _is_less([op.result], value):
                    wide.add(op.result)
        return made

    def _is_before(self, value: Value, group: Group, limit: int) -> bool:
        """Whether a value that a group reads from memory is made before operation number ``limit``."""
        op = value.op
        return op is None or (op not in group.ops and self.position[op] < limit)

    def _inputs_of(self, moves: Iterable[Operation], value: Value) -> list[Operation]:
        """Cheap operations in groups that others, which move elsewhere, read beside ``value``."""
        found: dict[Operation, None] = {}
        stack = [v for op in moves for v in op.operands]
        while stack:
            op = stack.pop().op
            if op is None or op is value.op or op in found or op in moves or op not in self.homes:
                continue
            found[op] = None
            stack += op.operands
        return list(found)

    def _regroup(self, group: Group, ops: Iterable[Operation]) -> None:
        """Let a group compute these operations, as far as its outputs need them."""
        for op in group.ops:
            self.homes[op].remove(group)
        last_first = sorted(dict.fromkeys(ops), key=self.position.__getitem__, reverse=True)
        group.recompute(last_first)
        for op in group.ops:
            self.homes.setdefault(op, []).append(group)


def _dense_values(block: Block) -> set[Value]:
    """Values of cheap operations that read more memory than the value is, or stand for too many operations."""
    leaves: dict[Value, frozenset[Value]] = {}
    work: dict[Value, int] = {}
    dense: set[Value] = set()
    for op in block.ops[:-1]:
        if op.defn.form != "index" or not op.defn.cheap:
            continue
        value = op.result
        found: set[Value] = set()
        for v in op.operands:
            found |= leaves.get(v, frozenset((v,)))
        large = frozenset(v for v in found if not _is_smaller(v.tensor.size, value.tensor.size))
        work[value] = 1 + sum(work.get(v, 0) for v in op.operands)
        if len(large) > 1 or work[value] > _MOST_CHEAP:
            dense.add(value)
            large = frozenset((value,))
            work[value] = 0
        leaves[value] = large
    return dense


def _is_smaller(a: DimLike, b: DimLike) -> bool:
    """Whether one size is at most half of another; symbolic ones are taken to be large."""
    return isinstance(a, int) and (not isinstance(b, int) or 2 * a <= b)


def _is_less(values: Iterable[Value], than: Value) -> bool:
    """Whether values take less memory than one of the same shape."""
    return sum(v.tensor.dtype.bytes for v in values) < than.tensor.dtype.bytes


def _reads(value: Value) -> dict[Value, list[Access]]:
    """Where the loops that make a value would read others, seen through operations that may be fused."""
    found: dict[Value, list[Access]] = {value: [identity(value.tensor.rank)]}
    stack = [value]
    seen = 0
    while stack and seen < _MOST_SEEN:
        op = stack.pop().op
        if op is None or op.defn.form != "index":
            continue
        seen += 1
        for operand, access in operand_accesses(op, found[op.result]):
            if operand not in found:
                found[operand] = [access]
                stack.append(operand)
    return found


def _stored(value: Value, read: dict[Value, list[Access]]) -> dict[Value, list[Access]]:
    """Of what is read for a value, what is in memory and not smaller."""
    return {
        v: accesses
        for v, accesses in read.items()
        if (v.op is None or not v.op.defn.cheap)
        and v.tensor.rank > 0
        and not _is_smaller(v.tensor.size, value.tensor.size)
    }


def _share(read: dict[Value, list[Access]], group: Group) -> bool:
    """Whether the loops that read this and those of a group read something in the same order."""
    return any(
        _alike(a, b)
        for v in read.keys() & group.accesses.keys()
        for a in read[v]
        for b in group.accesses[v]
    )


def _alike(a: Access, b: Access) -> bool:
    """Whether two accesses are the same, but that one may run along what the other takes one by one."""
    if a is None or b is None or len(a) != len(b):
        return False
    return all(m == n or RUNS in (m, n) for m, n in zip(a, b, strict=True)) and any(
        m == n and m >= 0 for m, n in zip(a, b, strict=True)
    )
