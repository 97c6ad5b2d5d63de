"""Launch kernels together that do not wait for each other.

Launching takes a device longer than many a kernel runs: the update of a bias, say. Kernels of which none writes what
another reads or writes may run at once; launches that bear the same number ``group``, next to each other, are one. Each
kernel is put into the first group behind all that it has to wait for, so a step takes about as many launches as its
longest chain of kernels has links.

A block of such a launch has as many threads as the widest kernel asks for. Loops over threads are right for any
number; what computes with the number of a thread (`tapec.passes.device.tile`) is not, and is joined only with kernels
of as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.ops import device, loop, source
from tapec.passes.kernels.accesses import root_of, written_by


@dataclass(frozen=True)
class Options:
    """How many kernels are launched together at most, and how many buffers these have."""

    kernels: int = 32
    buffers: int = 256


@dataclass(frozen=True)
class _Part:
    """Bytes of an argument of the entry's: from ``low`` to ``high``, or all that there are."""

    root: Value
    low: int | None
    high: int | None
    writes: bool

    def meets(self, other: _Part) -> bool:
        """Whether one has to wait for the other."""
        if self.root is not other.root or not (self.writes or other.writes):
            return False
        if self.low is None or other.low is None or self.high is None or other.high is None:
            return True
        return self.low < other.high and other.low < self.high


@dataclass(frozen=True)
class _Kernel:
    """Whether it is known how many blocks a kernel takes; of how many threads; whether others would do as well."""

    known: bool
    threads: int
    any_threads: bool

    @classmethod
    def of(cls, function: Function) -> _Kernel:
        """What a kernel's attributes and operations say."""
        any_threads = not any(isinstance(op.defn, device.Thread) for op in function.walk())
        known = isinstance(function.attrs.get("turns"), int)
        return cls(known, function.attrs.get("threads", 0), any_threads)


def run(module: Module, options: Options) -> bool:
    """Join what the entry launches, in each of its blocks."""
    written = {f.name: _written(f) for f in module.functions.values() if f.kind == "kernel"}
    numbers = count()
    kernels = {f.name: _Kernel.of(f) for f in module.functions.values() if f.kind == "kernel"}
    changed = False
    for block in _blocks(module.entry):
        for run_of in _runs(block):
            changed |= _join(block, run_of, written, kernels, options, numbers)
    return changed


def _written(kernel: Function) -> set[int]:
    """Which arguments a kernel writes to."""
    found = written_by(kernel)
    return {i for i, arg in enumerate(kernel.args) if arg in found}


def _blocks(entry: Function) -> Iterable[Block]:
    yield entry.block
    for op in entry.walk():
        for region in op.regions:
            yield from region.blocks


def _runs(block: Block) -> list[list[Operation]]:
    """Launches with nothing between them but what computes values."""
    found: list[list[Operation]] = [[]]
    for op in block.ops:
        if isinstance(op.defn, loop.Launch):
            found[-1].append(op)
        elif not isinstance(op.defn, loop.View | source.Constant):
            found.append([])
    return [launches for launches in found if len(launches) > 1]


def _join(
    block: Block,
    launches: Sequence[Operation],
    written: Mapping[str, set[int]],
    kernels: Mapping[str, _Kernel],
    options: Options,
    numbers: Any,
) -> bool:
    """Put launches into groups, and the groups one behind the other."""
    parts = [_parts(op, written[op.attrs["kernel"]]) for op in launches]
    groups: list[list[Operation]] = []
    level: list[int] = []
    for i, op in enumerate(launches):
        waits = [level[j] for j in range(i) if _meet(parts[i], parts[j])]
        first = max(waits, default=-1) + 1
        place = next(
            (n for n in range(first, len(groups)) if _fits([*groups[n], op], kernels, options)),
            len(groups),
        )
        if place == len(groups):
            groups.append([])
        groups[place].append(op)
        level.append(place)
    if len(groups) == len(launches):
        return False
    _reorder(block, launches, groups)
    for group in groups:
        number = next(numbers)
        for op in group if len(group) > 1 else ():
            op.attrs["group"] = number
    return True


def _meet(some: Sequence[_Part], others: Sequence[_Part]) -> bool:
    return any(one.meets(other) for one in some for other in others)


def _fits(group: Sequence[Operation], kernels: Mapping[str, _Kernel], options: Options) -> bool:
    """Whether launches may be one: how many blocks each takes has to be known."""
    members = [kernels[op.attrs["kernel"]] for op in group]
    threads = max((one.threads for one in members), default=0)
    return (
        all(one.known and (one.any_threads or one.threads == threads) for one in members)
        and len(group) <= options.kernels
        and sum(len(op.operands) for op in group) <= options.buffers
    )


def _reorder(
    block: Block, launches: Sequence[Operation], groups: Sequence[Sequence[Operation]]
) -> None:
    """Move launches behind the last one's place, group by group; what they read is in front of all of them."""
    taken = set(launches)
    end = block.ops.index(launches[-1])
    before = [op for op in block.ops[:end] if op not in taken]
    inside = [op for group in groups for op in group]
    block.ops[: end + 1] = [*before, *inside]


def _parts(op: Operation, written: set[int]) -> list[_Part]:
    return [_part(buffer, i in written) for i, buffer in enumerate(op.operands)]


def _part(buffer: Value, writes: bool) -> _Part:
    """What a buffer of the entry's is of its argument."""
    offset: DimLike = 0
    moving = False
    at = buffer
    while at.op is not None and isinstance(at.op.defn, loop.View):
        offset = offset + at.op.attrs.get("offset", 0)
        moving |= len(at.op.operands) > 1
        at = at.op.operands[0]
    size = buffer.buffer.tensor.bytes
    if moving or not isinstance(offset, int) or not isinstance(size, int):
        return _Part(root_of(buffer), None, None, writes)
    return _Part(root_of(buffer), offset, offset + size, writes)
