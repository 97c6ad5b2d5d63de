"""Let kernels see for themselves whether a condition wants them, where the host would wait for it.

A device does what it is told in advance, and one number that the host has to see before it goes on costs more than
many a kernel. So what the two ways of a condition launch is launched always, and each kernel begins with the
condition: it does its work, or nothing at all. Then everything that a step launches is known before it begins.

Conditions stay with the host where their ways launch very much, where a way reads or writes numbers itself, or has a
loop that ends as numbers say; and where a way writes over the numbers that the condition is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapec.ir.core import Block, Module, Operation, Value
from tapec.ir.op import Elementwise
from tapec.ir.ops import loop, source
from tapec.ir.types import BufferType
from tapec.passes.device.conditional import make_conditional
from tapec.passes.kernels.accesses import root_of, written_by
from tapec.passes.loops.parts import slice_of, turns_of


@dataclass(frozen=True)
class Options:
    """How often kernels may be launched that may have nothing to do, for both ways of a condition."""

    launches: int = 64


def run(module: Module, options: Options) -> bool:
    """Take conditions out of the entry, the inner ones first."""
    found = [op for op in module.entry.walk() if isinstance(op.defn, loop.If)]
    taken = [_take(op, module, options) for op in reversed(found)]
    if any(taken):
        _drop_kernels(module)
    return any(taken)


def _take(op: Operation, module: Module, options: Options) -> bool:
    """Put what a condition chooses in its place, each kernel with the condition in front."""
    condition = _Condition.of(op.operands[0])
    if condition is None or op.results or op.block is None:
        return False
    ways = [region.block for region in op.regions]
    counts = [_launched(block) for block in ways]
    if None in counts or sum(c or 0 for c in counts) > options.launches:
        return False
    if any(_writes(launch, module, condition.cells) for launch in _launches(op)):
        return False
    for holds, block in zip((True, False), ways, strict=True):
        for launch in _launches_in(block):
            _guard(launch, module, condition, holds=holds)
        for inner in list(block.ops[:-1]):
            block.ops.remove(inner)
            op.block.insert_before(op, inner)
    op.erase()
    for computed in reversed(condition.ops):
        if not any(r.users for r in computed.results):
            computed.erase()
    return True


@dataclass(frozen=True)
class _Condition:
    """How a condition is computed: from single elements of memory, by operations on numbers, in order."""

    value: Value
    ops: tuple[Operation, ...]
    cells: tuple[Value, ...]

    @classmethod
    def of(cls, value: Value) -> _Condition | None:
        """None if the host has to know it."""
        ops: list[Operation] = []
        if not _collect(value, ops):
            return None
        cells = dict.fromkeys(op.operands[0] for op in ops if isinstance(op.defn, loop.Load))
        return cls(value, tuple(ops), tuple(cells)) if cells else None


def _collect(value: Value, ops: list[Operation]) -> bool:
    """List what computes a value, operands first."""
    op = value.op
    if op is None:
        return False
    if op in ops:
        return True
    if isinstance(op.defn, loop.Load):
        if len(op.operands) > 1:
            return False
    elif isinstance(op.defn, Elementwise):
        if not all(_collect(operand, ops) for operand in op.operands):
            return False
    elif not isinstance(op.defn, source.Constant):
        return False
    ops.append(op)
    return True


def _launched(block: Block) -> int | None:
    """How many kernels a way launches; None if it does anything else, or nobody knows."""
    total = 0
    for op in block.ops[:-1]:
        if isinstance(op.defn, loop.Launch):
            total += 1
        elif isinstance(op.defn, loop.For):
            inner, turns = _launched(op.regions[0].block), turns_of(op)
            if inner is None or turns is None or op.results:
                return None
            total += inner * turns
        elif op.regions or isinstance(op.defn, loop.Load | loop.Store):
            return None
    return total


def _launches(op: Operation) -> Iterator[Operation]:
    return (inner for inner in op.walk() if isinstance(inner.defn, loop.Launch))


def _launches_in(block: Block) -> list[Operation]:
    return [launch for op in block.ops for launch in _launches(op)]


def _writes(launch: Operation, module: Module, cells: Sequence[Value]) -> bool:
    """Whether a kernel writes what the condition is made of, or might."""
    kernel = module.functions[launch.attrs["kernel"]]
    written = written_by(kernel)
    buffers = [v for v, arg in zip(launch.operands, kernel.args, strict=True) if arg in written]
    return any(_may_meet(buffer, cell) for buffer in buffers for cell in cells)


def _may_meet(one: Value, other: Value) -> bool:
    if not (_is_known(one) and _is_known(other)):
        return root_of(one) is root_of(other)
    return slice_of(one).part.meets(slice_of(other).part)


def _is_known(buffer: Value) -> bool:
    """Whether a buffer and what it is a part of have sizes and places that are known."""
    at = buffer
    while True:
        kind = at.type
        if not isinstance(kind, BufferType) or not isinstance(kind.tensor.bytes, int):
            return False
        if at.op is None:
            return True
        if not isinstance(at.op.attrs.get("offset", 0), int):
            return False
        at = at.op.operands[0]


def _guard(launch: Operation, module: Module, condition: _Condition, *, holds: bool) -> None:
    """Launch a kernel of its own, that begins with the condition."""
    old = module.functions[launch.attrs["kernel"]]
    kernel = make_conditional(old, condition.ops, condition.value, holds=holds)
    kernel.name = _fresh(old.name, module)
    module.add(kernel)
    launch.attrs["kernel"] = kernel.name
    launch.set_operands([*launch.operands, *condition.cells])


def _fresh(name: str, module: Module) -> str:
    number = 0
    while f"{name}_if{number}" in module.functions:
        number += 1
    return f"{name}_if{number}"


def _drop_kernels(module: Module) -> None:
    """Remove kernels that nothing launches any more."""
    launched = {op.attrs["kernel"] for op in _launches_in(module.entry.block)}
    for name in [f.name for f in module.functions.values() if f.kind == "kernel"]:
        if name not in launched:
            del module.functions[name]
