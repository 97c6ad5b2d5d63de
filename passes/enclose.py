"""Make one kernel of a loop that launches small ones at each of its turns.

A device takes longer to launch a kernel than to do some thousand additions. Where a turn's kernels have no more to do
than one block of threads does in passing, and every size is known, the whole loop is better a kernel: one block runs
it, and waits at barriers where it would have waited for launches. A loop over time of a few numbers becomes one launch.

Buffers of the loop become arguments of the kernel, views that move with its turns stay inside. `tapec.passes.spread`
takes different arguments for different memory; so a loop stays as it is where two of them overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS, Elementwise
from tapec.ir.ops import loop, source
from tapec.ir.types import INDEX, BufferType
from tapec.passes.device.independence import read_and_written


@dataclass(frozen=True)
class Options:
    """How many times the innermost statements of a turn's kernels run at most, to be done by one block."""

    work: int = 2048


#: A part of an argument of the entry's: which, from which byte on, and as what.
_Key = tuple[Value, int, BufferType]


def run(module: Module, options: Options) -> bool:
    """Enclose the outermost loops of the entry that fit; a kernel that nothing launches any more goes."""
    made = 0
    for block in _blocks(module.entry.block):
        for op in list(block.ops):
            found = _Enclosed.of(op, module, options)
            if found is not None:
                module.add(found.write(f"loop{made}"))
                made += 1
    if made:
        launched = {
            op.attrs["kernel"] for op in module.entry.walk() if isinstance(op.defn, loop.Launch)
        }
        for name in [f.name for f in module.functions.values() if f.kind == "kernel"]:
            if name not in launched:
                del module.functions[name]
    return bool(made)


def _blocks(block: Block) -> Iterator[Block]:
    """A block and those inside, the outer ones first; what was enclosed meanwhile is not there any more."""
    yield block
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                yield from _blocks(inner)


@dataclass
class _Enclosed:
    """A loop that becomes a kernel."""

    op: Operation
    module: Module
    #: The parts of the entry's memory that it uses, with the values that they are in the entry.
    buffers: dict[_Key, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, op: Operation, module: Module, options: Options) -> _Enclosed | None:
        """A loop, if it can and should become a kernel."""
        if not _is_plain(op) or not _launches(op):
            return None
        if any(not _is_known(inner, op, module) for inner in op.walk()):
            return None
        turn = sum(_work(module.functions[one.attrs["kernel"]]) for one in _launches(op))
        found = cls(op, module)
        return found if turn <= options.work and found._are_apart() else None

    def _are_apart(self) -> bool:
        """Whether different buffers of the loop are different memory, where it writes."""
        written: set[_Key] = set()
        for one in _launches(self.op):
            kernel = self.module.functions[one.attrs["kernel"]]
            writes = {root for inner in kernel.block.ops for root in read_and_written(inner)[1]}
            for buffer, arg in zip(one.operands, kernel.args, strict=True):
                key = _key(_base(buffer))
                self.buffers.setdefault(key, _base(buffer))
                if arg in writes:
                    written.add(key)
        return not any(
            _meet(one, other) for one in written for other in self.buffers if one != other
        )

    def write(self, name: str) -> Function:
        """The kernel; it is launched in place of the loop."""
        keys = list(self.buffers)
        kernel = Function(name, [kind for _, _, kind in keys], kind="kernel")
        mapping: dict[Value, Value] = {}
        given = dict(zip(keys, kernel.args, strict=True))
        _Writer(self.module, given, mapping).loop(self.op, kernel.block)
        Builder(kernel.block).emit("return")
        block = self.op.block
        assert block is not None
        operands = [self._outside(value) for value in self.buffers.values()]
        launch = Operation(OPS["launch"], operands, [], {"kernel": name}, [], self.op.location)
        block.insert_before(self.op, launch)
        self.op.erase()
        return kernel

    def _outside(self, value: Value) -> Value:
        """A buffer in front of the loop: a view of an argument that was made inside is made anew."""
        op = value.op
        if op is None:
            return value
        (parent,) = op.operands
        copy = clone_operation(op, {parent: self._outside(parent)})
        assert self.op.block is not None
        self.op.block.insert_before(self.op, copy)
        return copy.result


class _Writer:
    """Writes the loop again, with the bodies of kernels in the places of their launches."""

    def __init__(
        self, module: Module, given: dict[_Key, Value], mapping: dict[Value, Value]
    ) -> None:
        self.module = module
        self.given = given
        self.mapping = mapping

    def loop(self, op: Operation, out: Block) -> None:
        """A loop, at the end of a block."""
        low, high = (self._index(v, out) for v in op.operands)
        source_block = op.regions[0].block
        block = Block([a.type for a in source_block.args])
        self.mapping.update(zip(source_block.args, block.args, strict=True))
        for inner in source_block.ops[:-1]:
            if isinstance(inner.defn, loop.For):
                self.loop(inner, block)
            elif isinstance(inner.defn, loop.Launch):
                self._inline(inner, block)
            elif not isinstance(inner.defn, loop.View):
                block.append(clone_operation(inner, self.mapping))
        Builder(block).emit("yield")
        attrs = dict(op.attrs)
        made = Operation(op.defn, [low, high], [], attrs, [Region([block])], op.location)
        out.append(made)

    def _index(self, value: Value, out: Block) -> Value:
        """A bound; a constant from outside of the loop is made here."""
        if value not in self.mapping and value.op is not None:
            out.append(clone_operation(value.op, self.mapping))
        return self.mapping[value]

    def _inline(self, launch: Operation, out: Block) -> None:
        kernel = self.module.functions[launch.attrs["kernel"]]
        inside = dict(self.mapping)
        for buffer, arg in zip(launch.operands, kernel.args, strict=True):
            inside[arg] = self._buffer(buffer, out)
        for op in kernel.block.ops[:-1]:
            copy = clone_operation(op, inside)
            copy.location = op.location or launch.location
            out.append(copy)

    def _buffer(self, value: Value, out: Block) -> Value:
        """A buffer inside: an argument of the kernel, or a part of one that moves with the turns."""
        base = _base(value)
        if value is base:
            return self.given[_key(base)]
        assert value.op is not None
        parent, *rest = value.op.operands
        mapping = {**self.mapping, parent: self._buffer(parent, out)}
        for index in rest:
            if index not in mapping and index.op is not None:
                mapping[index] = self._index(index, out)
        copy = clone_operation(value.op, mapping)
        out.append(copy)
        return copy.result


def _is_plain(op: Operation) -> bool:
    """Whether it is a loop that carries nothing and has constant bounds."""
    return (
        isinstance(op.defn, loop.For)
        and not op.results
        and not op.attrs.get("over")
        and all(_constant(v) is not None for v in op.operands)
    )


def _constant(value: Value) -> int | None:
    op = value.op
    if op is None or not isinstance(op.defn, source.Constant):
        return None
    number = op.attrs["value"]
    return number if isinstance(number, int) else None


def _launches(op: Operation) -> list[Operation]:
    return [inner for inner in op.walk() if isinstance(inner.defn, loop.Launch)]


def _is_known(op: Operation, outer: Operation, module: Module) -> bool:
    """Whether an operation between launches, or at one, can be done inside of a kernel."""
    if op is outer or isinstance(op.defn, source.Constant) or op.defn.terminator:
        return True
    if isinstance(op.defn, loop.For):
        return _is_plain(op)
    if isinstance(op.defn, loop.View):
        return isinstance(op.attrs.get("offset", 0), int)
    if isinstance(op.defn, loop.Launch):
        return _is_simple(module.functions[op.attrs["kernel"]])
    return isinstance(op.defn, Elementwise) and op.result.type.dtype == INDEX


def _is_simple(kernel: Function) -> bool:
    """Whether a kernel is not dealt out yet, and all its sizes are known."""
    known = all(
        isinstance(a.type, BufferType) and isinstance(a.type.tensor.bytes, int) for a in kernel.args
    )
    return known and not any(op.attrs.get("over") for op in kernel.walk())


def _work(kernel: Function) -> int:
    """How often its innermost statements run."""

    def of(block: Block) -> int:
        total = 1
        for op in block.ops:
            inner = sum(of(region.block) for region in op.regions)
            total += inner * _turns(op)
        return total

    return of(kernel.block)


def _turns(op: Operation) -> int:
    if not isinstance(op.defn, loop.For):
        return 1
    bounds = [_constant(v) for v in op.operands[:2]]
    if None in bounds:
        return 1 << 30
    low, high = (b or 0 for b in bounds)
    return max(0, high - low) // int(op.attrs.get("step", 1))


def _base(buffer: Value) -> Value:
    """The part of an argument of the entry's that is the same in all turns, of which a buffer is a part."""
    chain = [buffer]
    while chain[-1].op is not None and isinstance(chain[-1].op.defn, loop.View):
        chain.append(chain[-1].op.operands[0])
    base = chain.pop()
    while chain and chain[-1].op is not None and len(chain[-1].op.operands) == 1:
        base = chain.pop()
    return base


def _key(base: Value) -> _Key:
    offset = 0
    at = base
    while at.op is not None:
        offset += int(at.op.attrs.get("offset", 0))
        at = at.op.operands[0]
    assert isinstance(base.type, BufferType)
    return at, offset, base.type


def _meet(one: _Key, other: _Key) -> bool:
    """Whether two parts have bytes in common."""
    if one[0] is not other[0]:
        return False
    ends = [start + _bytes(kind) for _, start, kind in (one, other)]
    return one[1] < ends[1] and other[1] < ends[0]


def _bytes(kind: BufferType) -> int:
    return prod(kind.tensor.static_shape) * kind.dtype.bytes
