"""A loop of the entry that launches kernels and can be a kernel itself: what that has to be, and how it is made one.

Buffers of the loop become arguments of the kernel, views that move with its turns stay inside. Whoever reads
a kernel takes different arguments for different memory; so a loop stays as it is where two of them overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Operation, Value, clone_operation
from tapec.ir.op import OPS, Elementwise
from tapec.ir.ops import loop, source
from tapec.ir.types import BufferType, TensorType
from tapec.passes.kernels.accesses import written_by
from tapec.passes.loops.inlining import Writer
from tapec.passes.loops.parts import Part, base_of, is_placed, part_of, places_of, turns_of

#: Turns that are as good as no bound: nobody could stop a kernel that takes so many.
_ENDLESS = 1 << 31


def drop_unlaunched(module: Module) -> None:
    """Remove the kernels that nothing launches."""
    launched = {
        op.attrs["kernel"] for op in module.entry.walk() if isinstance(op.defn, loop.Launch)
    }
    for name in [f.name for f in module.functions.values() if f.kind == "kernel"]:
        if name not in launched:
            del module.functions[name]


@dataclass
class Enclosed:
    """A loop that becomes a kernel."""

    op: Operation
    module: Module
    launches: list[Operation]
    #: The parts of the entry's memory that it uses, with the values that they are in the entry.
    buffers: dict[Part, Value] = field(default_factory=dict)
    #: How many rows there are that it treats by themselves, if each is to have a block.
    rows: int = 0

    @classmethod
    def possible(cls, op: Operation, module: Module) -> Enclosed | None:
        """A loop, if it can become a kernel."""
        launches = _launches(op) if _is_plain(op) else []
        if not launches or any(not _is_known(inner, op, module) for inner in op.walk()):
            return None
        if _reads_numbers_outside(op):
            return None
        found = cls(op, module, launches)
        return found if found._are_apart() else None

    def _are_apart(self) -> bool:
        """Whether different buffers of the loop are different memory, where it writes, as far as is known."""
        loads = [one.operands[0] for one in self.op.walk() if isinstance(one.defn, loop.Load)]
        given = [buffer for one in self.launches for buffer in one.operands]
        bases = {buffer: base_of(buffer) for buffer in (*loads, *given)}
        if not all(map(is_placed, bases.values())):
            return False
        parts = {buffer: part_of(base) for buffer, base in bases.items()}
        for buffer, base in bases.items():
            self.buffers.setdefault(parts[buffer], base)
        written: set[Part] = set()
        for one in self.launches:
            kernel = self.module.functions[one.attrs["kernel"]]
            writes = written_by(kernel)
            pairs = zip(one.operands, kernel.args, strict=True)
            written |= {parts[buffer] for buffer, arg in pairs if arg in writes}
        return not any(
            one.meets(other) for one in written for other in self.buffers if one != other
        )

    def write(self, name: str) -> Function:
        """The kernel; it is launched in place of the loop."""
        kernel = Function(name, [v.type for v in self.buffers.values()], kind="kernel")
        given = dict(zip(self.buffers, kernel.args, strict=True))
        writer = Writer(self.module, given, self.rows)
        (writer.row_by_row if self.rows else writer.loop)(self.op, kernel.block)
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


def _is_plain(op: Operation) -> bool:
    """Whether it is a loop that carries nothing and has constant bounds; it may end before them."""
    if isinstance(op.defn, loop.While):
        turns = turns_of(op)
        return turns is not None and turns < _ENDLESS and not op.result.users
    return (
        isinstance(op.defn, loop.For)
        and not op.results
        and not op.attrs.get("over")
        and turns_of(op) is not None
    )


def _launches(op: Operation) -> list[Operation]:
    return [inner for inner in op.walk() if isinstance(inner.defn, loop.Launch)]


def _is_known(op: Operation, outer: Operation, module: Module) -> bool:
    """Whether an operation between launches, or at one, can be done inside of a kernel."""
    if op is outer or isinstance(op.defn, source.Constant) or op.defn.terminator:
        return True
    if isinstance(op.defn, loop.For | loop.While):
        return _is_plain(op)
    if isinstance(op.defn, loop.Load):
        return len(op.operands) == 1 and isinstance(op.result.type, TensorType)
    if isinstance(op.defn, loop.View):
        return isinstance(op.attrs.get("offset", 0), int)
    if isinstance(op.defn, loop.Launch):
        return _is_simple(module.functions[op.attrs["kernel"]])
    return isinstance(op.defn, Elementwise)


def _reads_numbers_outside(op: Operation) -> bool:
    """Whether a turn reads what is computed around the loop, such as the turn of one around it: no memory has that."""
    within = list(op.walk())
    own = {result for inner in within for result in inner.results}
    own |= {arg for inner in within for region in inner.regions for arg in region.block.args}
    for inner in within[1:]:
        buffers = [v for v in inner.operands if isinstance(v.type, BufferType)]
        read = [v for v in inner.operands if not isinstance(v.type, BufferType)]
        read += [v for buffer in buffers for v in places_of(buffer)]
        if any(v not in own and not _is_constant(v) for v in read):
            return True
    return False


def _is_constant(value: Value) -> bool:
    return value.op is not None and isinstance(value.op.defn, source.Constant)


def _is_simple(kernel: Function) -> bool:
    """Whether a kernel is not dealt out yet, and all its sizes are known."""
    known = all(
        isinstance(a.type, BufferType) and isinstance(a.type.tensor.bytes, int) for a in kernel.args
    )
    return known and not any(op.attrs.get("over") for op in kernel.walk())
