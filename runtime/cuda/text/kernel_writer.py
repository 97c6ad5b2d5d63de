"""One kernel as Python text; see `tapec.runtime.cuda` for what it consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import Dim
from tapec.ir.errors import TargetError, underline
from tapec.ir.op import OPS
from tapec.ir.ops import device
from tapec.ir.ops.source import whole_number
from tapec.ir.scalar import Scalar
from tapec.ir.types import BY_CODE, INDEX, BufferType, VectorType
from tapec.runtime.cuda.text import spelling
from tapec.runtime.cuda.text.index_writer import IndexWriter
from tapec.runtime.cuda.text.kernel_text import KernelText
from tapec.runtime.python_text.writer import RULES, identifier, stored

#: Turns of a loop that are written out by the compiler.
_UNROLLED = 16
#: Threads that run in step.
WARP = 32
_RULES = {
    **RULES,
    device.Barrier: "barrier",
    device.ReduceThreads: "reduce_threads",
    device.Thread: "thread",
    device.LoadNeighbours: "load_neighbours",
    device.StoreNeighbours: "store_neighbours",
    device.CopyNeighbours: "copy_neighbours",
    device.CommitCopies: "commit_copies",
    device.WaitCopies: "wait_copies",
    device.RoundTf32: "round_tf32",
    device.LoadMatrices: "load_matrices",
    device.WarpProduct: "warp_product",
}


class KernelWriter(IndexWriter):
    """Writes one kernel."""

    def __init__(
        self,
        module: Module,
        function: Function,
        tables: dict[str, Any],
        threads: int | None = None,
        *,
        wide: bool = False,
    ) -> None:
        """Write for blocks of so many threads; of as many as the function says if None."""
        super().__init__(module, function, tables, wide=wide)
        self.threads: int = threads or function.attrs["threads"]
        self._own_tables: list[int] = []
        self._pointers: list[tuple[str, str]] = []
        self._shared = 0
        self._scratch: int | None = None

    def text(self) -> KernelText:
        """The kernel."""
        function = self.function
        for arg in function.args:
            self._pointers.append((self.names[arg], spelling.memory(arg.buffer.dtype)))
        self.block(function.block)
        return KernelText(
            identifier(function.name),
            tuple(self.lines),
            tuple(self._pointers),
            tuple(self._own_tables),
            tuple((name, self.unsigned) for name in self.symbols.values()),
            self.threads,
            function.attrs["turns"],
            function.attrs["spread"],
            self._shared,
        )

    def block(self, block: Block) -> list[str]:
        """Write a block; return what its terminator takes."""
        for op in block.ops:
            if op.defn.terminator:
                return [self.names[v] for v in op.operands]
            self._place = op.location or self._place
            if any(isinstance(v.type, VectorType) for v in (*op.operands, *op.results)):
                raise self._refusal(op)
            getattr(self, _RULES.get(type(op.defn), "elementwise"))(op)
        raise TargetError("a block ends without a terminator")

    # ---- operations

    def constant(self, op: Operation) -> None:
        """A number, a size, or a table."""
        value, result = op.attrs["value"], op.result
        if isinstance(result.type, BufferType):
            self._table(op)
        elif result.type.dtype == INDEX:
            self.names[result] = self.size(value if isinstance(value, Dim) else int(value))
        else:
            item = np.asarray(value).item() if isinstance(value, np.ndarray) else value
            self.names[result] = spelling.number(item, result.type.dtype)

    def _table(self, op: Operation) -> None:
        kind = op.result.buffer
        array = np.broadcast_to(
            np.asarray(op.attrs["value"]).astype(kind.dtype.numpy), kind.tensor.static_shape
        )
        number = len(self.tables)
        self.tables[f"table_{number}"] = stored(np.ascontiguousarray(array))
        self._own_tables.append(number)
        self.names[op.result] = name = self.fresh(f"table_{number}")
        self._pointers.append((name, spelling.memory(kind.dtype)))

    def elementwise(self, op: Operation) -> None:
        """Any operation with a scalar record."""
        record = getattr(op.defn, "scalar", None)
        if not isinstance(record, Scalar):
            raise self._refusal(op)
        if op.operands[-1].type.dtype == INDEX:
            self._index_operation(op, record)
            return
        operands = [self.names[v] for v in op.operands]
        self.pure(op, spelling.apply(record, operands, op.operands[-1].type.dtype))

    def cast(self, op: Operation) -> None:
        """A conversion; an index is an integer, and becomes one where it fits."""
        (value,) = op.operands
        old, new = value.type.dtype, op.result.type.dtype
        if old == new:
            self.names[op.result] = self.names[value]
        elif old == INDEX:
            text = self.names[value]
            if new.is_bool:
                text = f"({text} != {self.index_code(value)}(0))"
            else:
                text = spelling.cast(text, BY_CODE[self.index_code(value)], new)
            self.pure(op, text)
        elif new == INDEX:
            self.pure(op, self.to_index(self.names[value], old))
        else:
            self.pure(op, spelling.cast(self.names[value], old, new))

    def bitcast(self, op: Operation) -> None:
        """The same bits as another dtype."""
        (value,) = op.operands
        self.pure(op, spelling.bitcast(self.names[value], value.type.dtype, op.result.type.dtype))

    # ---- memory

    def place(self, buffer: Value, indices: Sequence[Value]) -> str:
        """An element: the pointer at the offset."""
        return f"{self.names[buffer]}[{self.offset(buffer, indices)}]"

    def offset(self, buffer: Value, indices: Sequence[Value]) -> str:
        """The offset of an element."""
        u, total = self.unsigned, ""
        for index, stride in zip(indices, buffer.buffer.strides, strict=True):
            text = self.index(index, u)
            if text == f"{u}(0)":
                continue
            if stride != 1:
                text = f"{u}({text} * {self.size(stride)})"
            total = f"{u}({total} + {text})" if total else text
        return total or f"{u}(0)"

    def load(self, op: Operation) -> None:
        """An element, read now."""
        buffer, *indices = op.operands
        dtype, text = buffer.buffer.dtype, self.place(buffer, indices)
        if dtype.is_complex:
            text = f"({', '.join(self._parts(buffer, indices))})"
        elif dtype.is_bool:
            text = f"{text} != u8(0)"
        elif spelling.memory(dtype) != dtype.code:
            text = f"{dtype.code}_value({text})"
        self.assign(op.result, text, _stem(self.names[buffer]))

    def store(self, op: Operation) -> None:
        """Write an element."""
        value, buffer, *indices = op.operands
        dtype, text = buffer.buffer.dtype, self.names[value]
        if dtype.is_complex:
            for n, part in enumerate(self._parts(buffer, indices)):
                self.line(f"{part} = {text}[{n}]")
            return
        if dtype.is_bool:
            text = f"u8(1) if {text} else u8(0)"
        elif spelling.memory(dtype) != dtype.code:
            text = f"{dtype.code}_bits({text})"
        self.line(f"{self.place(buffer, indices)} = {text}")

    def _parts(self, buffer: Value, indices: Sequence[Value]) -> list[str]:
        """The real and the imaginary part of an element. Kernels fill with complex numbers, and copy them, at most."""
        u = self.unsigned
        first = f"{u}({self.offset(buffer, indices)} * {u}(2))"
        return [f"{self.names[buffer]}[{at}]" for at in (first, f"{u}({first} + {u}(1))")]

    def load_neighbours(self, op: Operation) -> None:
        """Four elements by one instruction."""
        buffer, *indices = op.operands
        dtype, stem = buffer.buffer.dtype, _stem(self.names[buffer])
        code = spelling.memory(dtype)
        names = [self.numbered(stem) for _ in op.results]
        call = f"load4_{code}({self.names[buffer]}, {self.offset(buffer, indices)})"
        self.line(f"{', '.join(names)} = {call}")
        if code != spelling.register(dtype):
            bits, names = names, [self.numbered(stem) for _ in names]
            for name, one in zip(names, bits, strict=True):
                self.line(f"{name} = {dtype.code}_value({one})")
        self.names |= dict(zip(op.results, names, strict=True))

    def store_neighbours(self, op: Operation) -> None:
        """Four elements by one instruction."""
        *values, buffer = op.operands[: device.NEIGHBOURS + 1]
        indices = op.operands[device.NEIGHBOURS + 1 :]
        dtype = buffer.buffer.dtype
        code, texts = spelling.memory(dtype), [self.names[v] for v in values]
        if code != spelling.register(dtype):
            texts = [f"{dtype.code}_bits({text})" for text in texts]
        given = [self.names[buffer], self.offset(buffer, indices), *texts]
        self.line(f"store4_{code}({', '.join(given)})")

    def copy_neighbours(self, op: Operation) -> None:
        """Begin to copy 16 bytes."""
        assert isinstance(op.defn, device.CopyNeighbours)
        first = op.operands.index(op.defn.written(op)[0])
        source, target = op.operands[:first], op.operands[first:]
        given = [
            text
            for buffer, *indices in (target, source)
            for text in (self.names[buffer], self.offset(buffer, indices))
        ]
        dtype = source[0].buffer.dtype
        call = f"copy{16 // dtype.bytes}_{spelling.memory(dtype)}"
        self.line(f"{call}({', '.join(given)})")

    def commit_copies(self, op: Operation) -> None:
        """The end of a group."""
        self.line("commit_copies()")

    def wait_copies(self, op: Operation) -> None:
        """Wait for groups of this thread."""
        self.line(f"wait_copies({op.attrs.get('groups', 0)})")

    def alloc(self, op: Operation) -> None:
        """Scratch: of the block, or of this thread."""
        kind = op.result.buffer
        size, code = prod(kind.tensor.static_shape), spelling.memory(kind.dtype)
        if op.attrs.get("shared"):
            text = f"shared_{code}({self._share(size * kind.dtype.bytes)})"
        else:
            text = f"local_{code}({max(size, 1)})"
        self.assign(op.result, text, "scratch")

    def _share(self, size: int) -> int:
        """The offset of so many bytes more of the block's memory."""
        offset = self._shared
        self._shared += -(-size // 16) * 16
        if self._shared > device.SHARED_BYTES:
            most = f"the {device.SHARED_BYTES} bytes that every device has for that"
            raise TargetError(f"@{self.function.name} shares more than {most}")
        return offset

    def view(self, op: Operation) -> None:
        """A part of a buffer."""
        kind = op.result.buffer
        offset = self.size(op.attrs.get("offset", 0))
        if len(op.operands) > 1:
            turn = self.index(op.operands[1], self.unsigned)
            rows = f"{self.unsigned}({turn} * {self.size(op.attrs['stride'])})"
            offset = rows if offset.endswith("(0)") else f"{self.unsigned}({offset} + {rows})"
        code = spelling.memory(kind.dtype)
        self.assign(op.result, f"part_{code}({self.names[op.operands[0]]}, {offset})", "part")

    # ---- loops

    def for_op(self, op: Operation) -> None:
        """A counted loop, gone through by each thread, or dealt out."""
        low, _, *init = op.operands
        block = op.regions[0].block
        names = [self.numbered("acc") for _ in init]
        self.assignments(names, [self.names[v] for v in init])
        self.names |= dict(zip(block.args[1:], names, strict=True))
        code = self.index_code(low)

        def body() -> None:
            yielded = self.block(block)
            self.assignments(names, yielded)

        over = op.attrs.get("over", "")
        if over:
            self._dealt(op, over, body)
        elif self._is_short(op):
            self._counted(op, code, body)
        else:
            self._while(op, (self.names[low], f"{code}({op.attrs.get('step', 1)})"), body)
        self.names |= dict(zip(op.results, names, strict=True))

    def _variable(self, op: Operation) -> str:
        """The name of a loop's index."""
        name = self.fresh("ijklmn"[min(self.depth - 1, 5)])
        self.names[op.regions[0].block.args[0]] = name
        return name

    @staticmethod
    def _is_short(op: Operation) -> bool:
        """Whether a loop has few turns, whose number is known: compilers write it out."""
        low, high = (whole_number(v) for v in op.operands[:2])
        if low is None or high is None:
            return False
        return 0 <= low and (high - low) // op.attrs.get("step", 1) <= _UNROLLED

    def _counted(self, op: Operation, code: str, body: Callable[[], None]) -> None:
        counter = self.fresh("count")
        low, high = (whole_number(v) for v in op.operands[:2])
        bounds = [str(low), str(high), str(op.attrs.get("step", 1))]
        name = self._variable(op)

        def write() -> None:
            self.line(f"{name} = {code}({counter})")
            body()

        self.inside(f"for {counter} in range({', '.join(bounds)}):", write)

    def _while(self, op: Operation, start: tuple[str, str], body: Callable[[], None]) -> None:
        """A loop from a first index on, in steps."""
        first, step = start
        code = self.index_code(op.operands[0])
        high = self._limit(op, code)
        name = self._variable(op)
        self.line(f"{name} = {first}")

        def write() -> None:
            body()
            self.line(f"{name} = {code}({name} + {step})")

        self.inside(f"while {name} < {high}:", write)

    def _limit(self, op: Operation, code: str) -> str:
        """Where a loop ends; compared as signed if that is."""
        high = op.operands[1]
        if code == self.unsigned and self.is_negative(high):
            text = self.names[high]
            return f"{code}({text} if {text} > {self.signed}(0) else {self.signed}(0))"
        return self.index(high, code)

    def _dealt(self, op: Operation, over: str, body: Callable[[], None]) -> None:
        """A loop whose turns, from 0 on, are dealt out."""
        u, threads = self.unsigned, self.threads
        if over == "blocks":
            self._while(op, (f"{u}(block)", f"{u}(blocks)"), body)
        elif over == "grid":
            all_threads = f"{u}(u32(blocks * u32({threads})))"
            first = f"{u}(u32(u32(block * u32({threads})) + thread()))"
            self._while(op, (first, all_threads), body)
        else:
            turns = whole_number(op.operands[1])
            if turns is None or turns > threads:
                self._by_threads(op, turns, body)
                return
            name = self._variable(op)
            self.line(f"{name} = {u}(thread())")
            if turns == threads:
                body()
            else:
                self.inside(f"if {name} < {u}({turns}):", body)

    def _by_threads(self, op: Operation, turns: int | None, body: Callable[[], None]) -> None:
        """A loop of several turns for each thread; as many for all, and few, are counted."""
        u, threads = self.unsigned, self.threads
        if turns is None or turns % threads or turns > threads * _UNROLLED:
            self._while(op, (f"{u}(thread())", f"{u}({threads})"), body)
            return
        counter = self.fresh("count")
        name = self._variable(op)

        def write() -> None:
            self.line(f"{name} = {u}({u}(thread()) + {u}({counter} * {threads}))")
            body()

        self.inside(f"for {counter} in range({turns // threads}):", write)

    def while_op(self, op: Operation) -> None:
        """A counted loop that may end early; its variable is the result."""
        low = op.operands[0]
        asked, done = (region.block for region in op.regions)
        code, name = self.index_code(low), self.fresh("n")
        for value in (asked.args[0], done.args[0], op.result):
            self.names[value] = name
        limit = self._limit(op, code)
        self.line(f"{name} = {self.names[low]}")

        def body() -> None:
            (holds,) = self.block(asked)
            self.inside(f"if not {holds}:", lambda: self._write("break"))
            self.block(done)
            self.line(f"{name} = {code}({name} + {code}(1))")

        self.inside(f"while {name} < {limit}:", body)

    # ---- threads together

    def thread(self, op: Operation) -> None:
        """The number of this thread."""
        self.assign(op.result, f"{self.unsigned}(thread())", "t")

    def barrier(self, op: Operation) -> None:
        """Wait."""
        self.line("barrier()")

    def round_tf32(self, op: Operation) -> None:
        """What a tensor core reads of a number."""
        self.pure(op, f"tf32({self.names[op.operands[0]]})")

    def load_matrices(self, op: Operation) -> None:
        """A word of each."""
        buffer, *indices = op.operands
        names = [self.numbered("word") for _ in op.results]
        call = "matrices4_turned" if op.attrs.get("turned") else "matrices4"
        given = f"{self.names[buffer]}, {self.offset(buffer, indices)}"
        self.line(f"{', '.join(names)} = {call}({given})")
        self.names |= dict(zip(op.results, names, strict=True))

    def warp_product(self, op: Operation) -> None:
        """Four sums of this thread's."""
        names = [self.numbered("sum") for _ in op.results]
        given = ", ".join(self.names[v] for v in op.operands)
        self.line(f"{', '.join(names)} = mma_{op.attrs['form']}({given})")
        self.names |= dict(zip(op.results, names, strict=True))

    def reduce_threads(self, op: Operation) -> None:
        """A tree within each warp, then the warps' values in order."""
        (value,) = op.operands
        dtype, threads = value.type.dtype, self.threads
        code = spelling.shuffled(dtype)
        record = OPS[op.attrs["combine"]].scalar  # type: ignore[attr-defined]
        total = self.numbered("total")
        self.line(f"{total} = {self.names[value]}")
        other = self.fresh("other")
        reach = min(threads, WARP) // 2
        while reach:
            given = spelling.to_shuffle(total, dtype)
            self.line(f"{other} = shuffle_xor_{code}({given}, {reach})")
            text = spelling.apply(record, [total, spelling.from_shuffle(other, dtype)], dtype)
            self.line(f"{total} = {text}")
            reach //= 2
        self.names[op.result] = total
        if threads <= WARP:
            self.line("barrier()")
            return
        if self._scratch is None:
            self._scratch = self._share(device.COMBINED_BYTES)
        memory = self.fresh("sums")
        self.line(f"{memory} = shared_{code}({self._scratch})")
        self.line(f"if u32(thread() % u32({WARP})) == u32(0):")
        warp = f"u32(thread() // u32({WARP}))"
        self._write(f"    {memory}[{warp}] = {spelling.to_shuffle(total, dtype)}")
        self.line("barrier()")
        self.line(f"{total} = {spelling.from_shuffle(f'{memory}[u32(0)]', dtype)}")
        for n in range(1, threads // WARP):
            one = spelling.from_shuffle(f"{memory}[u32({n})]", dtype)
            self.line(f"{total} = {spelling.apply(record, [total, one], dtype)}")
        self.line("barrier()")

    def launch(self, op: Operation) -> None:
        """Kernels launch none."""
        raise TargetError(underline(op, "a kernel cannot launch another"))

    def invoke(self, op: Operation) -> None:
        """Refused: a device cannot call the host, whoever of the user's functions asks for it."""
        raise self._refusal(op, "tapec.numpy_function, py_function, or print in a loop or branch")

    def _refusal(self, op: Operation, called: str = "") -> TargetError:
        """What to raise where an operation has no form on devices."""
        why = f": {op.defn.no_device}" if op.defn.no_device else ""
        return TargetError(
            underline(op, f"the cuda target has no {called or op.name}{why}"),
            location=self._place,
            hint="leave it outside of the function, or compile that for the processor",
        )


def _stem(name: str) -> str:
    return f"x_{name}" if name.isdigit() else f"{name}_at"
