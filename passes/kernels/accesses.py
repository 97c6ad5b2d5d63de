"""Which elements of which buffers a kernel's operations read and write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tapec.ir.core import Function, Operation, Value
from tapec.ir.ops import device, loop
from tapec.ir.types import BufferType


@dataclass(frozen=True)
class Access:
    """An element that is read or written: the buffer of the kernel's, the way into it, and the index there."""

    root: Value
    path: tuple[object, ...]
    index: tuple[Value, ...]
    buffer: Value
    writes: bool


def root_of(buffer: Value) -> Value:
    """The buffer that a view is a part of."""
    while buffer.op is not None and isinstance(buffer.op.defn, loop.View):
        buffer = buffer.op.operands[0]
    return buffer


def accesses(op: Operation) -> Iterator[Access]:
    """Every access in an operation."""
    for inner in op.walk():
        if isinstance(inner.defn, loop.Load | device.LoadMatrices):
            buffer, *index = inner.operands
        elif isinstance(inner.defn, loop.Store):
            _, buffer, *index = inner.operands
        else:
            continue
        path: list[object] = []
        views: list[Value] = []
        root = buffer
        while root.op is not None and isinstance(root.op.defn, loop.View):
            view = root.op
            path.append((view.attrs["type"], view.attrs.get("offset", 0), view.attrs.get("stride")))
            views = [*view.operands[1:], *views]
            root = view.operands[0]
        writes = isinstance(inner.defn, loop.Store)
        yield Access(root, tuple(path), (*views, *index), buffer, writes)


def read_and_written(op: Operation) -> tuple[set[Value], set[Value]]:
    """The kernel's buffers that an operation reads, and that it writes; without what it makes inside."""
    reads: set[Value] = set()
    writes: set[Value] = set()
    for access in accesses(op):
        (writes if access.writes else reads).add(access.root)
    own = {inner.result for inner in op.walk() if isinstance(inner.defn, loop.Alloc)}
    return reads - own, writes - own


def written_by(kernel: Function) -> set[Value]:
    """The arguments of a kernel that it writes to."""
    found = {root for op in kernel.block.ops for root in read_and_written(op)[1]}
    return found & set(kernel.args)


def touches_otherwise(op: Operation) -> bool:
    """Whether an operation touches memory otherwise than by loading and storing elements."""
    if isinstance(op.defn, loop.Load | loop.Store | loop.View | loop.Alloc | loop.Prefetch):
        return bool(op.attrs.get("lanes") or op.attrs.get("masked"))
    return any(isinstance(v.type, BufferType) for v in op.operands)
