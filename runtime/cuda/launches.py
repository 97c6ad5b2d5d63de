"""What the host does: walks through the entry of a module and has a device run the kernels.

The entry is run by Python, with a `Device` that knows how to launch, and how to read and write single numbers of its
memory. Where the entry reads none, what is launched depends on nothing but sizes: `recorded` lists it once, for a graph
or for a program in C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np

from tapec.ir.core import Block, Operation, Value
from tapec.ir.dims import DimLike, symbol, typical
from tapec.ir.errors import TargetError, underline
from tapec.ir.ops import compare, loop, source
from tapec.ir.scalar import Scalar
from tapec.ir.types import DType
from tapec.runtime.cuda.text.kernel_text import KernelText
from tapec.runtime.cuda.text.module_text import Text
from tapec.runtime.symbols import bind_symbols, symbols_of, value_of


class Memory(NamedTuple):
    """A place on the device.

    ``kind`` is ``arg``, ``result``, ``arena`` or ``table``, ``number`` which of them, ``offset`` in bytes.
    """

    kind: str
    number: int
    offset: int


@dataclass(frozen=True)
class Launch:
    """One launch: a kernel, how many blocks, what its pointers point to, and the sizes that it is told."""

    kernel: KernelText
    blocks: int
    memory: tuple[Memory, ...]
    sizes: tuple[int, ...]
    #: How many bytes from there on belong to the buffer.
    extents: tuple[int, ...]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.kernel.threads


class Device(Protocol):
    """What runs launches, in order."""

    def launch(self, one: Launch) -> None:
        """Have a kernel run after what was launched before."""

    def read(self, place: Memory, dtype: DType) -> Any:
        """A number, when everything that was launched is done."""

    def write(self, place: Memory, dtype: DType, value: Any) -> None:
        """Put a number, when everything that was launched is done."""


class Host:
    """Runs the entry of a text."""

    def __init__(self, text: Text, device: Device, sizes: Mapping[str, int] | None = None) -> None:
        """``sizes`` are what the symbols of the entry stand for."""
        self.text = text
        self.device = device
        self.sizes = dict(sizes or {})
        self.values: dict[Value, Any] = {}
        entry = text.module.entry
        arena = bool(entry.attrs.get("arena", 0))
        inputs = entry.attrs.get("inputs", len(entry.args) - arena)
        for i, arg in enumerate(entry.args):
            if arena and i == len(entry.args) - 1:
                self.values[arg] = Memory("arena", 0, 0)
            elif i < inputs:
                self.values[arg] = Memory("arg", i, 0)
            else:
                self.values[arg] = Memory("result", i - inputs, 0)

    def run(self) -> None:
        """All of it."""
        self._block(self.text.module.entry.block)

    def _block(self, block: Block) -> list[Any]:
        """Run a block; return what its terminator takes."""
        for _, some in groupby(block.ops, _group):
            ops = list(some)
            if isinstance(ops[0].defn, loop.Launch):
                self.device.launch(self._launch(ops))
                continue
            (op,) = ops
            if op.defn.terminator:
                return [self.values.get(v) for v in op.operands]
            self._operation(op)
        return []

    def _operation(self, op: Operation) -> None:
        if isinstance(op.defn, loop.View):
            self.values[op.result] = self._view(op)
        elif isinstance(op.defn, source.Constant):
            self.values[op.result] = self._constant(op)
        elif isinstance(op.defn, loop.Load):
            dtype = op.result.type.dtype
            self.values[op.result] = self.device.read(self.values[op.operands[0]], dtype)
        elif isinstance(op.defn, loop.Store):
            value, buffer = (self.values[v] for v in op.operands[:2])
            self.device.write(buffer, op.operands[0].type.dtype, value)
        elif isinstance(op.defn, loop.For):
            self._for(op)
        elif isinstance(op.defn, loop.While):
            self._while(op)
        elif isinstance(op.defn, loop.If):
            holds = bool(self.values[op.operands[0]])
            if holds or len(op.regions) > 1:
                found = self._block(op.regions[0 if holds else 1].block)
                self.values |= dict(zip(op.results, found, strict=True))
        else:
            self._scalar(op)

    def _scalar(self, op: Operation) -> None:
        """Arithmetic of single numbers, which the host does."""
        operands = [self.values[v] for v in op.operands]
        if isinstance(op.defn, compare.Cast):
            dtype = op.result.type.dtype
            self.values[op.result] = (
                op.defn.evaluate(np.asarray(operands[0]), dtype=dtype)
                if dtype.kind != "index"
                else int(operands[0])
            )
            return
        record = getattr(op.defn, "scalar", None)
        if not isinstance(record, Scalar):
            raise TargetError(underline(op, f"the cuda target has no {op.name} between kernels"))
        with np.errstate(all="ignore"):
            self.values[op.result] = record.numpy(*operands)

    def _constant(self, op: Operation) -> Any:
        value, kind = op.attrs["value"], op.result.type
        if kind.dtype.kind == "index":
            return self._number(value)
        return np.asarray(value).astype(kind.dtype.numpy)[()]

    def _number(self, dim: DimLike) -> int:
        return value_of(dim, self.sizes)

    def _view(self, op: Operation) -> Memory:
        place: Memory = self.values[op.operands[0]]
        offset = self._number(op.attrs.get("offset", 0))
        if len(op.operands) > 1:
            offset += int(self.values[op.operands[1]]) * self._number(op.attrs["stride"])
        return place._replace(offset=place.offset + offset)

    def _for(self, op: Operation) -> None:
        low, high, *carried = (self.values[v] for v in op.operands)
        block = op.regions[0].block
        for i in range(int(low), int(high), op.attrs.get("step", 1)):
            self.values |= dict(zip(block.args, (i, *carried), strict=True))
            carried = self._block(block)
        self.values |= dict(zip(op.results, carried, strict=True))

    def _while(self, op: Operation) -> None:
        low, high = (int(self.values[v]) for v in op.operands)
        asked, done = (region.block for region in op.regions)
        while low < high:
            self.values[asked.args[0]] = self.values[done.args[0]] = low
            if not self._block(asked)[0]:
                break
            self._block(done)
            low += 1
        self.values[op.result] = low

    def _launch(self, ops: Sequence[Operation]) -> Launch:
        """A launch, or several that are one."""
        memory: list[Memory] = []
        sizes: list[int] = []
        extents: list[int] = []
        turns = 1
        for op in ops:
            function = self.text.module.functions[op.attrs["kernel"]]
            dims = bind_symbols(function, [v.type for v in op.operands], self.sizes)
            own = list(map(self._number, dims))
            sizes += own
            names = dict(zip(symbols_of(function), own, strict=True))
            turns = value_of(function.attrs["turns"], names)
            memory += [self.values[v] for v in op.operands]
            extents += [self._number(v.buffer.tensor.bytes) for v in op.operands]
        kernel = self.text.kernel_of(ops)
        tables = [Memory("table", n, 0) for n in kernel.tables]
        extents += [self.text.tables[n].nbytes for n in kernel.tables]
        blocks = kernel.blocks if kernel.is_whole else replace(kernel, turns=turns).blocks
        return Launch(kernel, blocks, (*memory, *tables), tuple(sizes), tuple(extents))


def _group(op: Operation) -> object:
    """What launches that are one have in common; anything else is alone."""
    return op.attrs.get("group", op)


@dataclass
class Recorder:
    """A device that lists what is launched, as long as that depends on no number of its memory."""

    launches: list[Launch] = field(default_factory=list)

    def launch(self, one: Launch) -> None:
        """Add it to the list."""
        self.launches.append(one)

    def read(self, place: Memory, dtype: DType) -> Any:
        """Give up."""
        raise DependsOnNumbers

    def write(self, place: Memory, dtype: DType, value: Any) -> None:
        """Give up."""
        raise DependsOnNumbers


class DependsOnNumbers(Exception):
    """What is launched next depends on what kernels computed."""


def recorded(text: Text, sizes: Mapping[str, int] | None = None) -> list[Launch] | None:
    """Everything that a call launches, or None if that depends on numbers in the device's memory."""
    recorder = Recorder()
    try:
        Host(text, recorder, sizes).run()
    except DependsOnNumbers:
        return None
    return recorder.launches


def listing(text: Text) -> str:
    """What a call launches, as lines of comment: kernels, blocks and threads, shared bytes; and the arena."""
    arena = text.module.entry.attrs.get("arena", 0)
    sizes = {
        s.name: typical(symbol(s.name, s.low, s.high)) for s in text.module.entry.dims.values()
    }
    found = recorded(text, sizes)
    if found is None:
        return "# what is launched depends on numbers that kernels compute"
    head = f"# {len(found)} launches, an arena of {arena} bytes"
    lines = [
        f"# {one.kernel.name:12} {one.blocks:5} blocks of {one.threads:4} threads"
        + (f", {one.kernel.shared} bytes shared" if one.kernel.shared else "")
        for one in found
    ]
    return "\n".join([head, *lines])
