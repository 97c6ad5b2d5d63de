"""What operations have in common whose regions are parts of the program: branches and loops.

All that a region reads comes in through its operation's operands, so that passes need not look inside to know what
depends on what. Each region of an operation is a `Body`, which passes treat as they treat a function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Body, Operation, Region, Value, clone_operation
from tapec.ir.dims import DimLike
from tapec.ir.errors import NotDifferentiableError
from tapec.ir.op import OPS, Op
from tapec.ir.ops.check import Check
from tapec.ir.ops.host import Notify
from tapec.ir.reachability import carries_gradient, reachable
from tapec.ir.types import BOOL, DType, TensorType, Type

#: Writes, in a region, what becomes of a value that goes through it.
Step = Callable[[Builder, Block, Value], Value]


class EntryWriter(Protocol):
    """What a branch or loop is lowered with: it becomes one of the entry, around the kernels of its regions.

    Slots are where values live; what they are is the writer's business (`tapec.passes.lower`).
    """

    @property
    def b(self) -> Builder:
        """Writes into the entry, where it is now."""

    def operand(self, index: int) -> Any:
        """The slot of an operand."""

    def result(self, index: int) -> Any:
        """The slot of a result."""

    def row(self, slot: Any, stack: TensorType, index: Value) -> Any:
        """The slot of a row of what is stacked."""

    def number(self, value: int) -> Value:
        """An index."""

    def load(self, slot: Any, dtype: DType) -> Value:
        """The one element in a slot."""

    def store(self, value: Value, slot: Any) -> None:
        """Write the one element of a slot."""

    def yielded(self, region: int, index: int) -> Value:
        """The one element of what a region of the operation yields."""

    def region(
        self,
        number: int,
        types: Sequence[Type],
        arguments: Callable[[Sequence[Value]], Sequence[Any]],
        results: Callable[[Sequence[Value]], Sequence[Any]],
        end: Callable[[Sequence[Value]], Sequence[Value]] = ...,
    ) -> Region:
        """A region of the entry, with arguments of these types, in which the operation's region runs.

        ``arguments`` and ``results`` give, from the entry's arguments, the slots of those of the operation's region
        (None where a result is wherever it was planned); ``end`` what the entry's region yields.
        """


class RegionOp(Op):
    """The family. An operand is an argument of some of the regions (`operands_of`), or governs what runs.

    The yields of the regions for which `yields_results` holds are the results, one for one.
    """

    form = "structural"
    isolated = True

    def operands_of(self, op: Operation, region: int) -> range | tuple[int, ...]:
        """For each argument of a region, the operand that it comes from."""
        raise NotImplementedError

    def yields_results(self, region: int) -> bool:
        """Whether a region yields what becomes the results."""
        return True

    def unchanged(self, op: Operation) -> Collection[int]:
        """The operands that are, as they are, what the regions get."""
        raise NotImplementedError

    def bodies(self, op: Operation) -> list[Body]:
        """The regions; those of a loop update their arguments."""
        return [Body(op.name, region.block) for region in op.regions]

    def turns(self, op: Operation) -> DimLike | None:
        """How often a region runs, at most; None where nothing says so."""
        return 1

    def overwritten(self, op: Operation) -> Mapping[int, int]:
        """Results by number that are made in the memory of an operand, whose value nobody may need then."""
        return {}

    def may_not_end(self, op: Operation) -> bool:
        """Whether what it computes with decides how long it takes."""
        return False

    def may_take_long(self, op: Operation) -> bool:
        """Whether somebody may want to stop it."""
        return any(may_take_long(inner) for region in op.regions for inner in region.block.ops)

    def needs(self, op: Operation) -> tuple[list[int], list[int]]:
        """The operands and the results that somebody reads, or that what is read depends on."""
        raise NotImplementedError

    def attrs_of(
        self, op: Operation, operands: Sequence[int], results: Sequence[int]
    ) -> dict[str, Any]:
        """The attributes when only these operands and results are left."""
        return dict(op.attrs)

    def region_types(self, op: Operation) -> Sequence[tuple[Type, ...]]:
        """The operands' types."""
        return [
            tuple(op.operands[i].type for i in self.operands_of(op, k))
            for k in range(len(op.regions))
        ]

    def threaded(self, op: Operation, first: Value, step: Step) -> Value:
        """Let one value more go through the regions that yield results; return what comes out.

        ``step(builder, block, value)`` writes to the end of a region's block what becomes of the value there. The
        operation is replaced by one that has the result too.
        """
        raise NotImplementedError

    def guarded(self, op: Operation, when: Value) -> None:
        """Let an operation have no effect, and end, where a bool of rank 0 is false, whatever it computes then."""
        if not needs_guard(op):
            return

        def step(b: Builder, block: Block, arg: Value) -> Value:
            guard(block, arg)
            return arg

        new = self.threaded(op, when, step).op
        assert new is not None
        place = new.operands.index(when)
        for k, region in enumerate(new.regions):
            if not self.yields_results(k):
                arg = region.block.args[list(self.operands_of(new, k)).index(place)]
                guard(region.block, arg)
                self.stopped(region.block, arg)

    def final(self, op: Operation, region: int) -> list[Value]:
        """What a region that says how things go on was given last."""
        raise NotImplementedError(f"every region of {self.name} yields results")

    def left_early(self, op: Operation, b: Builder) -> Value | None:
        """Whether such a region said so when it ended; None if nothing else ends it."""
        raise NotImplementedError(f"every region of {self.name} yields results")

    def stopped(self, condition: Block, going: Value) -> None:
        """Let a region that says how things go on say that they do not, where a bool is false."""
        last = condition.terminator
        b = Builder(condition, before=last)
        last.set_operands([b.emit("and", last.operands[0], going)])

    def lower_regions(self, k: EntryWriter, op: Operation) -> None:
        """Write the operation into the entry."""
        raise NotImplementedError

    # ---- what passes do with any of them

    def with_parts(
        self, op: Operation, operands: Sequence[int], results: Sequence[int]
    ) -> Operation:
        """An operation in no block that has only these operands and results; it takes the regions over."""
        for k, region in enumerate(op.regions):
            block = region.block
            if self.yields_results(k):
                last = block.terminator
                last.set_operands([last.operands[i] for i in results if i < len(last.operands)])
            _forget_dead(block)
            sources = self.operands_of(op, k)
            for i in reversed(range(len(sources))):
                if sources[i] not in operands:
                    block.remove_arg(i)
        attrs = self.attrs_of(op, operands, results)
        regions, op.regions = op.regions, []
        kept = [op.results[i] for i in results]
        new = Operation(
            op.defn,
            [op.operands[i] for i in operands],
            [r.type for r in kept],
            attrs,
            regions,
            op.location,
        )
        for old, result in zip(kept, new.results, strict=True):
            result.name = old.name
        return new


def guard(block: Block, when: Value) -> None:
    """Let the operations of a block have no effect, and end, where one of its values, a bool of rank 0, is false.

    Rows that are mapped together compute what only some of them need, from values that mean nothing to the others.
    """
    for op in list(block.ops):
        if isinstance(op.defn, Check):
            b = Builder(block, before=op)
            with b.at(op.location):
                op.replace(op.defn.guarded(b, op, when))
        elif isinstance(op.defn, RegionOp):
            op.defn.guarded(op, when)


def needs_guard(op: Operation) -> bool:
    """Whether an operation, or one inside of it, may raise or may not end."""
    return any(
        isinstance(inner.defn, Check)
        or (isinstance(inner.defn, RegionOp) and inner.defn.may_not_end(inner))
        for inner in op.walk()
    )


def with_guard(block: Block) -> Block:
    """A copy of a block with one argument more: where that is false, it has no effect; the block if it never has."""
    if not any(needs_guard(op) for op in block.ops):
        return block
    new = new_region(
        [*(a.type for a in block.args), TensorType(BOOL)],
        lambda b, args: copied_into(b, block, args[:-1]),
    ).block
    guard(new, new.args[-1])
    return new


def may_take_long(op: Operation) -> bool:
    """Whether an operation is a loop, or has one inside, that somebody may want to stop."""
    return isinstance(op.defn, RegionOp) and op.defn.may_take_long(op)


def _forget_dead(block: Block) -> None:
    """Take operations out whose results nobody reads, so that they read no argument that goes."""
    kept = []
    for op in reversed(block.ops):
        if _is_pure(op) and not op.defn.terminator and not any(r.users for r in op.results):
            op.drop()
            op.block = None
        else:
            kept.append(op)
    block.ops = kept[::-1]


def _is_pure(op: Operation) -> bool:
    """Whether neither an operation nor anything in its regions has an effect."""
    return all(inner.defn.pure or inner.defn.terminator for inner in op.walk())


def with_value(
    op: Operation, first: Value, step: Step, *, operand: int, place: int, regions: Sequence[int]
) -> Operation:
    """An operation in an operation's stead that takes a value as an ``operand`` more and yields one at ``place``.

    The regions whose numbers are in ``regions`` yield it; its other attributes have to be set by the caller.
    """
    assert isinstance(op.defn, RegionOp)
    for k, region in enumerate(op.regions):
        block = region.block
        at = list(op.defn.operands_of(op, k))
        arg = block.add_arg(first.type)
        block.args.insert(sum(i < operand for i in at), block.args.pop())
        for i, value in enumerate(block.args):
            value.index = i
        if k in regions:
            last = block.terminator
            value = step(Builder(block, before=last), block, arg)
            yields = list(last.operands)  # of now: the step may have replaced some
            yields.insert(place, value)
            last.set_operands(yields)
    operands, types = list(op.operands), [r.type for r in op.results]
    operands.insert(operand, first)
    types.insert(place, first.type)
    inner, op.regions = op.regions, []
    new = Operation(op.defn, operands, types, op.attrs, inner, op.location)
    assert op.block is not None
    op.block.insert_before(op, new)
    for old, result in zip(op.results, _but(new.results, place), strict=True):
        result.name = old.name
    op.replace(_but(new.results, place))
    return new


def _but(values: Sequence[Value], place: int) -> list[Value]:
    return [v for i, v in enumerate(values) if i != place]


def live_args(block: Block, results: Iterable[Value]) -> set[Value]:
    """The arguments of a block that these values depend on, or that what has an effect reads."""
    stack = [*results]
    stack += [v for op in block.ops[:-1] if not _is_pure(op) for v in op.operands]
    seen: set[Value] = set()
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            stack += value.op.operands if value.op is not None else ()
    return {arg for arg in block.args if arg in seen}


def copied_into(b: Builder, block: Block, values: Sequence[Value]) -> list[Value]:
    """Write a block's operations through ``b`` with ``values`` for its arguments; return what it yields."""
    mapping = dict(zip(block.args, values, strict=True))
    for op in block.ops[:-1]:
        b.insert(clone_operation(op, mapping))
    return [mapping[v] for v in block.terminator.operands]


def recomputed_into(b: Builder, block: Block, values: Sequence[Value]) -> list[Value]:
    """`copied_into`, for what ran before: the host is not told again.

    Raises:
        NotDifferentiableError: the host would be asked again for what it gave.
    """
    first = len(b.block.ops)
    found = copied_into(b, block, values)
    for op in b.block.ops[first:]:
        for inner in [i for i in op.walk() if isinstance(i.defn, Notify)]:
            if inner.results:
                raise NotDifferentiableError(
                    f"{inner.attrs['what']} stands in a loop or branch whose derivative runs it again, and would be "
                    "called again",
                    location=inner.location,
                    hint="call it in front of the loop or branch, or put tapec.stop_gradient around what that returns",
                )
            inner.erase()
    return found


def new_region(types: Iterable[Type], write: Any, names: Iterable[str | None] = ()) -> Region:
    """A region of one block: ``write(builder, arguments)`` writes its operations and returns what it yields."""
    block = Block(types, names)
    b = Builder(block)
    b.emit("yield", *write(b, list(block.args)))
    return Region([block])


def pulled_back(
    b: Builder,
    targets: Sequence[Value],
    seeds: Sequence[Value],
    sources: Sequence[Value],
) -> list[Value]:
    """A ``gradient`` for each source; zeros where there is no path."""
    if not sources:
        return []
    if not targets:
        return [b.full_like(0, s) for s in sources]
    segments = (len(targets), len(seeds), len(sources), 0)
    found: Any = b.emit("gradient", *targets, *seeds, *sources, segments=segments)
    return [found] if isinstance(found, Value) else list(found)


def flows_back(block: Block, yields: Collection[int]) -> set[int]:
    """The arguments, by number, that have a cotangent when these of the yielded values have one."""
    ends = [
        v for i, v in enumerate(block.terminator.operands) if i in yields and carries_gradient(v)
    ]
    return {i for i, has in enumerate(reachable(ends, block.args)) if has}


def emitted(
    b: Builder, name: str, operands: Sequence[Value], regions: Sequence[Region], **attrs: Any
) -> tuple[Value, ...]:
    """Write an operation with regions, whose result types follow from these; return its results."""
    defn = OPS[name]
    scratch = Operation(defn, operands, (), attrs, regions, b.location)
    types = defn.result_types(scratch)
    assert types is not None
    scratch.regions = []
    scratch.drop()
    b.emit(defn, *operands, regions=regions, result_types=types, **attrs)
    op = b.block.ops[-1] if b.before is None else b.block.ops[b.block.ops.index(b.before) - 1]
    return op.results
