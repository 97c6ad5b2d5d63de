"""A loop-level module as LLVM text.

Every kernel becomes an internal function whose pointer arguments do not alias; the entry calls them. What an
elementwise operation does is spelled by its scalar record (`tapec.ir.scalar`), so only the structural operations are
known here, by class. The text names no target and needs no library: whatever comes from outside is fetched from
the table ``@tapec.host``, which the loader fills.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapec.ir import scalar as primitives
from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import Dim
from tapec.ir.errors import TargetError, underline
from tapec.ir.op import Op
from tapec.ir.ops import bits, compare, loop, source
from tapec.ir.ops.foreign import CallForeign, ForeignScalar
from tapec.ir.ops.host import Invoke
from tapec.ir.scalar import Scalar
from tapec.ir.types import I32, INDEX, BufferType, DType, TensorType, Type, VectorType
from tapec.runtime.cpu.mathematics import conversion
from tapec.runtime.cpu.mathematics.extrema import extremum
from tapec.runtime.cpu.mathematics.vectormath import MathLibrary
from tapec.runtime.cpu.text import (
    branching,
    calling,
    clock,
    debug_info,
    foreign,
    lanes,
    parallel,
    polling,
    spelling,
)
from tapec.runtime.cpu.text.dialect import HOST, Dialect
from tapec.runtime.cpu.text.function import Affine, FunctionWriter
from tapec.runtime.cpu.text.spelling import WORD
from tapec.runtime.symbols import bind_symbols, symbols_of

_OWN = re.compile(r"@tapec\.(\w+)\.")


class ModuleWriter:
    """The text of one module: functions, constants in memory, mathematical functions, and names from outside."""

    def __init__(
        self,
        module: Module,
        *,
        threads: int = 1,
        lines: bool = False,
        dialect: Dialect = HOST,
    ) -> None:
        """``threads`` other than 1 makes parallel loops into calls of the thread pool; ``lines``: with a line table."""
        self.module = module
        self.dialect = dialect
        self.debug = debug_info.DebugInfo(module.entry.name) if lines else None
        self.threads = threads
        self.math = MathLibrary(dialect.copies, dialect.scales)
        self.host: list[str] = []
        self.foreign = foreign.ForeignLibrary(self.math, self.host_slot)
        self._globals: dict[str, str] = {}
        self._functions: list[str] = []
        self._bodies = 0
        #: Whether launches that have numbers keep their time.
        self.needs_clock = clock.timed_kernels(module) > 0

    def write_functions(self) -> None:
        """Add all functions of the module."""
        for function in self.module.functions.values():
            KernelWriter(self, function).write()

    def finish(self) -> str:
        """What was written so far, as one text; `host` says what the table ``@tapec.host`` must hold."""
        kernels = self.foreign.text()
        times = clock.text(self) if self.needs_clock else ""
        text = "\n".join(
            [
                self.table(),
                *self._globals.values(),
                *self._functions,
                kernels,
                self.math.text(),
                times,
                f"attributes #0 = {{ {self.dialect.attributes} }}",
                f"attributes #1 = {{ alwaysinline {self.dialect.attributes} }}",
                # What runs once for each call: LLVM spends more on making it fast than it can ever give back.
                f"attributes #2 = {{ noinline optnone {self.dialect.attributes} }}",
                self.debug.text() if self.debug is not None else "",
            ]
        )
        return text.replace(WORD, f"i{self.dialect.index_bits}")

    def table(self) -> str:
        """Where the loader puts what comes from outside; it has at least one slot, so that it is always there."""
        return f"@tapec.host = hidden global [{max(len(self.host), 1)} x ptr] zeroinitializer"

    def entry_name(self, function: Function) -> str:
        """The LLVM name of a function that is no kernel."""
        return ENTRY

    def linkage(self, function: Function) -> str:
        """Who may call a function: none from outside of the text."""
        return "internal"

    def add_function(self, text: str) -> None:
        """Append a finished function."""
        self._functions.append(text)

    def next_body(self) -> int:
        """The number of the next body of a parallel loop."""
        self._bodies += 1
        return self._bodies

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        """The address of a constant array."""
        text = spelling.bytes_literal(array)
        name = f"@tapec.constant.{len(self._globals)}"
        line = f"private unnamed_addr constant [{array.nbytes} x i8] {text}, align 64"
        found = self._globals.get(text)
        if found is None:
            self._globals[text] = found = f"{name} = {line}"
        return found.split(" ", 1)[0]

    def host_slot(self, name: str) -> str:
        """The address of the table entry for something from outside; names: `tapec.runtime.cpu.host`."""
        if name not in self.host:
            self.host.append(name)
        return f"getelementptr (ptr, ptr @tapec.host, i64 {self.host.index(name)})"


def kernel_name(name: str) -> str:
    """The LLVM name of a kernel."""
    return f'@"kernel.{name}"'


def kernel_types(kernel: Function) -> str:
    """The LLVM types of a kernel's arguments."""
    return ", ".join(["ptr"] * len(kernel.args) + [WORD] * len(symbols_of(kernel)))


ENTRY = "@tapec.run"


class KernelWriter(FunctionWriter):
    """The text of one function of the loop level."""

    def __init__(self, writer: ModuleWriter, function: Function) -> None:
        """Give every argument its name."""
        super().__init__()
        self.writer = writer
        self.index_bits, self.alignment = writer.dialect.index_bits, writer.dialect.alignment
        self.function = function
        self.names: dict[Value, str] = {}
        self.affine: dict[Value, Affine] = {}
        self.in_parallel = False
        for i, arg in enumerate(function.args):
            self.names[arg] = f"%arg{i}"
        self._dims = symbols_of(function)
        for name in self._dims:
            self.symbols[name] = Affine(((f"%dim.{name}", 1),))
        self._scope = None if writer.debug is None else writer.debug.subprogram(function)
        if self._scope is not None:
            self.attachment, self.mark = self._scope.attachment, self._scope.mark(None)

    def write(self) -> None:
        """Add the function to the module."""
        is_kernel = self.function.kind == "kernel"
        self.block(self.function.block)
        self.line("ret void" if is_kernel else "ret i1 false")
        pointer = "ptr noalias" if is_kernel else "ptr"
        arguments = [f"{pointer} {self.names[a]}" for a in self.function.args]
        arguments += [f"{WORD} %dim.{name}" for name in self._dims]
        if polling.is_wanted(self.function):
            arguments.append("ptr %signals")
            polling.way_out(self)
        name = (
            f"void {kernel_name(self.function.name)}"
            if is_kernel
            else f"i1 {self.writer.entry_name(self.function)}"
        )
        linkage, inlining = self.writer.linkage(self.function), self.writer.dialect.inlining
        header = f"define {linkage} {name}({', '.join(arguments)}) {inlining} #0"
        self.writer.add_function(self.text(header))

    def block(self, block: Block) -> list[Value]:
        """Write a block's operations; return the operands of its terminator."""
        for op in block.ops:
            if op.defn.terminator:
                return list(op.operands)
            rule = _RULES.get(type(op.defn), KernelWriter.elementwise)
            if self._scope is not None:
                self.mark = self._scope.mark(op.location)
            rule(self, op)
        raise TargetError("a block ends without a terminator")

    # ---- values

    def name(self, value: Value) -> str:
        """The register or constant that holds a value."""
        affine = self.affine.get(value)
        return self.names[value] if affine is None else self.index(affine)

    def position(self, value: Value) -> Affine:
        """An index value as a sum."""
        affine = self.affine.get(value)
        if affine is not None:
            return affine
        name = self.names[value]
        return Affine(((name, 1),)) if name.startswith("%") else Affine((), int(name))

    def define(self, value: Value, name: str) -> None:
        """Say which register or constant holds a value."""
        self.affine.pop(value, None)
        self.names[value] = name

    def define_all(self, values: Sequence[Value], names: Sequence[str]) -> None:
        """`define` one after the other."""
        for value, name in zip(values, names, strict=True):
            self.define(value, name)

    def constant(self, op: Operation) -> None:
        """A number, a vector of numbers, or the address of an array."""
        value, result = op.attrs["value"], op.result
        kind = result.type
        if isinstance(value, Dim):
            self.affine[result] = self.dim(value)
        elif isinstance(kind, BufferType):
            shape = kind.tensor.static_shape
            array = np.broadcast_to(np.asarray(value).astype(kind.dtype.numpy), shape)
            self.define(result, self.writer.constant(array))
        elif isinstance(kind, VectorType):
            array = np.broadcast_to(np.asarray(value), (kind.lanes,))
            self.define(result, spelling.vector_literal(array.tolist(), kind.dtype))
        else:
            number = np.asarray(value).item() if isinstance(value, np.ndarray) else value
            self.define(result, spelling.literal(number, kind.dtype))

    # ---- elementwise operations

    def elementwise(self, op: Operation) -> None:
        """Any operation with a scalar record, or a user's kernel, on scalars or vectors."""
        if isinstance(op.defn, ForeignScalar):
            foreign.scalar_op(self, op)
            return
        record = getattr(op.defn, "scalar", None)
        if not isinstance(record, Scalar):
            raise TargetError(underline(op, f"the cpu target cannot write {op.name}"))
        if op.result.type == TensorType(INDEX) and self._index_arithmetic(record, op):
            return
        names = [self.name(v) for v in op.operands]
        self.define(op.result, self.scalar(record, names, [v.type for v in op.operands]))

    def scalar(self, record: Scalar, names: Sequence[str], types: Sequence[Type]) -> str:
        """Apply a primitive to registers; 16-bit floats are computed as ``float``."""
        dtype, lanes = types[-1].dtype, spelling.lanes_of(types[-1])
        spelled = record.llvm.get(dtype.kind)
        if spelled is None or dtype.is_complex:
            raise TargetError(f"the cpu target has no {record.name} of {dtype.code}")
        small = spelling.is_small_float(dtype)
        if small:
            names = [
                conversion.widen(self, name, dtype, lanes) if type.dtype == dtype else name
                for name, type in zip(names, types, strict=True)
            ]
        kind = "float" if small else spelling.element(dtype)
        result = self.spell(spelled, names, kind, lanes)
        narrow = small and record.result == "same"
        return conversion.narrow(self, result, dtype, lanes) if narrow else result

    def spell(self, spelled: str, names: Sequence[str], kind: str, lanes: int) -> str:
        """Fill a spelling in and write it."""
        found = extremum(self, spelled, names, kind, lanes)
        if found is not None:
            return found
        own = _OWN.search(spelled)
        if own is not None:
            kind = f"i{self.index_bits}" if kind == WORD else kind
            self.writer.math.need(own[1], kind, lanes)
        ones = "true" if kind == "i1" else "-1"
        text = spelled.format(
            *names,
            t=spelling.wide(kind, lanes),
            b=spelling.wide("i1", lanes),
            m=spelling.suffix(kind, lanes),
            ones=spelling.splat_literal(kind, ones) if lanes else ones,
        )
        return self.pure(text, *names, cheap=own is None)

    def _index_arithmetic(self, record: Scalar, op: Operation) -> bool:
        """Keep sums and products of indices symbolic; False if the operation is none."""
        operands = [self.position(v) for v in op.operands if v.type == TensorType(INDEX)]
        if record is primitives.ADD:
            result = operands[0].plus(operands[1])
        elif record is primitives.SUB:
            result = operands[0].plus(operands[1], -1)
        elif record is primitives.NEG:
            result = operands[0].times(-1)
        elif record is primitives.MUL:
            result = self.product(*operands)
        elif record in (primitives.FLOORDIV, primitives.MOD) and _is_positive(operands[1]):
            result = self.divide(*operands, remainder=record is primitives.MOD)
        else:
            return False
        self.affine[op.result] = result
        return True

    # ---- memory

    def place(self, buffer: Value, indices: Sequence[Value]) -> str:
        """The address of an element."""
        kind = buffer.buffer
        offset = self.offset([self.position(v) for v in indices], kind.strides)
        memory = spelling.memory(kind.dtype)
        return self.address(self.name(buffer), memory, kind.dtype.bytes, offset)

    def load(self, op: Operation) -> None:
        """One element, several, or the first few of several."""
        buffer, *indices = op.operands
        dtype, lanes = buffer.type.dtype, op.attrs.get("lanes", 0)
        kind = spelling.memory(dtype, lanes)
        if op.attrs.get("masked"):
            mask = self.mask(indices.pop(), lanes)
            pointer = self.place(buffer, indices)
            vector = spelling.wide("i1", lanes)
            text = (
                f"call {kind} @llvm.masked.load.{spelling.suffix(spelling.lane_of(kind), lanes)}.p0("
                f"ptr {pointer}, i32 {dtype.bytes}, {vector} {mask}, {kind} zeroinitializer)"
            )
        else:
            text = f"load {kind}, ptr {self.place(buffer, indices)}, align {dtype.bytes}"
        self.define(op.result, self.from_memory(self.emit(text), dtype, lanes))

    def store(self, op: Operation) -> None:
        """One element, several, or the first few of several."""
        value, buffer, *indices = op.operands
        dtype, lanes = buffer.type.dtype, spelling.lanes_of(value.type)
        name, kind = self.name(value), spelling.memory(dtype, lanes)
        if dtype.is_bool:
            name = self.pure(f"zext {spelling.wide('i1', lanes)} {name} to {kind}", name)
        if op.attrs.get("masked"):
            mask = self.mask(indices.pop(), lanes)
            pointer = self.place(buffer, indices)
            self.line(
                f"call void @llvm.masked.store.{spelling.suffix(spelling.lane_of(kind), lanes)}.p0("
                f"{kind} {name}, ptr {pointer}, i32 {dtype.bytes}, <{lanes} x i1> {mask})"
            )
        else:
            self.line(
                f"store {kind} {name}, ptr {self.place(buffer, indices)}, align {dtype.bytes}"
            )

    def from_memory(self, name: str, dtype: DType, lanes: int) -> str:
        """A bool leaves memory as a byte."""
        if not dtype.is_bool:
            return name
        kind = spelling.memory(dtype, lanes)
        return self.pure(f"icmp ne {kind} {name}, zeroinitializer", name)

    def mask(self, count: Value, lanes: int) -> str:
        """True in the first ``count`` lanes."""
        position = self.position(count)
        if not position.terms:
            bits = ", ".join(f"i1 {str(i < position.constant).lower()}" for i in range(lanes))
            return f"<{bits}>"
        name = self.index(position)
        low = self.pure(
            f"call {WORD} @llvm.smax.{WORD}({WORD} {name}, {WORD} 0)",
            name,
        )
        few = self.pure(
            f"call {WORD} @llvm.umin.{WORD}({WORD} {low}, {WORD} {lanes})",
            low,
        )
        short = conversion.convert(self, few, INDEX, I32, 0)
        many = self.splat(short, "i32", lanes)
        numbers = ", ".join(f"i32 {i}" for i in range(lanes))
        return self.pure(f"icmp ult <{lanes} x i32> <{numbers}>, {many}", many)

    def prefetch(self, op: Operation) -> None:
        """Into the first cache."""
        buffer, *indices = op.operands
        pointer = self.place(buffer, indices)
        self.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def alloc(self, op: Operation) -> None:
        """Scratch; its extents are numbers."""
        kind = op.result.buffer
        if not kind.tensor.is_static:
            raise TargetError(underline(op, f"scratch of unknown size: {kind}"))
        self.define(op.result, self.alloca(max(int(kind.tensor.bytes), 1)))  # type: ignore[arg-type]

    def view(self, op: Operation) -> None:
        """A part of another buffer."""
        offset = self.dim(op.attrs.get("offset", 0))
        base = self.name(op.operands[0])
        if len(op.operands) > 1:
            stride = self.dim(op.attrs["stride"])
            offset = offset.plus(self.product(self.position(op.operands[1]), stride))
        self.define(op.result, self.address(base, "i8", 1, offset))

    # ---- control

    def for_op(self, op: Operation) -> None:
        """A counted loop, run by several threads if it is parallel and there are any."""
        low, high, *init = op.operands
        wanted = op.attrs.get("parallel") and self.writer.threads > 1 and not self.in_parallel
        if wanted:
            parallel.outline(self, op)
            return
        results = self.plain_loop(op, self.position(low), self.position(high), init)
        self.define_all(op.results, results)

    def plain_loop(
        self, op: Operation, low: Affine, high: Affine, init: Sequence[Value]
    ) -> Sequence[str]:
        """Write a loop, ``unroll`` copies of its body at a time."""
        block = op.regions[0].block
        step, unroll = op.attrs.get("step", 1), op.attrs.get("unroll", 1)
        types = [spelling.register(v.type) for v in init]

        def body(i: Affine, carried: Sequence[str]) -> Sequence[str]:
            self.affine[block.args[0]] = i
            self.define_all(block.args[1:], carried)
            results = [self.name(v) for v in self.block(block)]
            if op.attrs.get("interruptible"):
                polling.poll(self, op)
            return results

        def several(i: Affine, carried: Sequence[str]) -> Sequence[str]:
            for copy in range(unroll):
                carried = body(i.plus(Affine((), copy * step)), carried)
            return carried

        carried: Sequence[str] = [self.name(v) for v in init]
        if unroll > 1:
            # Whole groups first: their number is what fits, so the rest has less than one.
            trips = high.plus(low, -1).plus(Affine((), step - 1))
            middle = low.plus(self._groups(trips, step * unroll), step * unroll)
            carried = self.loop(low, middle, step * unroll, types, carried, several)
            low = middle
        return self.loop(low, high, step, types, carried, body)

    def _groups(self, trips: Affine, size: int) -> Affine:
        """How many times ``size`` fits into ``trips``; not less than 0."""
        if not trips.terms:
            return Affine((), max(trips.constant // size, 0))
        groups = self.index(self.divide(trips, Affine((), size), remainder=False))
        name = self.pure(
            f"call {WORD} @llvm.smax.{WORD}({WORD} {groups}, {WORD} 0)",
            groups,
        )
        return Affine(((name, 1),))

    def launch(self, op: Operation) -> None:
        """Call a kernel; its symbols are read off the operands' types."""
        kernel = self.writer.module.functions[op.attrs["kernel"]]
        arguments = [f"ptr {self.name(v)}" for v in op.operands]
        known = bind_symbols(kernel, [v.type for v in op.operands], self.symbols)
        arguments += [f"{WORD} {self.index(self.dim(dim))}" for dim in known]
        start = clock.now(self) if "number" in op.attrs else None
        self.line(f"call void {kernel_name(kernel.name)}({', '.join(arguments)})")
        if start is not None:
            clock.add(self, op, start)


def _is_positive(divisor: Affine) -> bool:
    return not divisor.terms and divisor.constant > 0


_RULES: Mapping[type[Op], Callable[[KernelWriter, Operation], None]] = {
    source.Constant: KernelWriter.constant,
    compare.Cast: conversion.cast,
    bits.Bitcast: conversion.bitcast,
    loop.For: KernelWriter.for_op,
    loop.While: branching.while_op,
    loop.If: branching.if_op,
    loop.Load: KernelWriter.load,
    loop.LoadAt: lanes.load_at,
    loop.Store: KernelWriter.store,
    loop.Prefetch: KernelWriter.prefetch,
    loop.Alloc: KernelWriter.alloc,
    loop.View: KernelWriter.view,
    loop.Splat: lanes.splat_op,
    loop.Lanes: lanes.lanes_op,
    loop.ReduceLanes: lanes.reduce_lanes,
    loop.Shuffle: lanes.shuffle_op,
    loop.Launch: KernelWriter.launch,
    CallForeign: foreign.arrays_op,
    Invoke: calling.invoke,
}
