"""The meaning of a program: run it with NumPy, at either level.

The evaluator is the only arbiter of what an operation does; back ends and passes are tested
against it. At tensor level it calls `Op.evaluate`; an operation with regions gets them as callables
in the keyword ``regions``. At loop level it interprets the operations of `tapec.ir.ops.loop` over
NumPy arrays, which stand for buffers.

It is slow and suspicious on purpose: every index is checked, memory that nobody wrote holds NaN,
parallel loops run backwards, a kernel that writes to one of two overlapping buffers is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import DimLike, plain_symbol, substitute
from tapec.ir.errors import TapecError, underline
from tapec.ir.op import OPS, Op
from tapec.ir.ops import control, loop
from tapec.ir.substitution import substituted
from tapec.ir.text.type_text import parse_dim
from tapec.ir.types import BufferType, Shape, TensorType, Type, VectorType

Array = Any
#: Called after each operation with the operation, its operands, and its results.
Observer = Callable[[Operation, Sequence[Array], Sequence[Array]], None]


def evaluate_module(
    module: Module, arrays: Sequence[Array], observer: Observer | None = None
) -> list[Array]:
    """Run the entry on arrays and return its results; the arrays are left alone.

    At loop level the entry's buffers and arena are made here, so that both levels of a program are
    called the same way.
    """
    entry = module.entry
    if not entry.is_loop_level:
        return evaluate_function(entry, arrays, module, observer)
    inputs = entry.attrs.get("inputs", len(entry.args))
    if len(arrays) != inputs:
        raise TapecError(f"@{entry.name} takes {inputs} arrays, got {len(arrays)}")
    buffers = [
        np.array(array, dtype=arg.type.dtype.numpy, order="C")
        for array, arg in zip(arrays, entry.args[:inputs], strict=True)
    ]
    dims = Dims()
    for arg, buffer in zip(entry.args, buffers, strict=False):
        dims.bind(arg.type, buffer.shape, f"argument %{arg.name} of @{entry.name}")
    buffers += [_unwritten(dims.static(arg.type)) for arg in entry.args[inputs:]]
    evaluate_function(entry, buffers, module, observer)
    return [buffers[i] for i in entry.result_args]


def evaluate_function(
    function: Function,
    arrays: Sequence[Array],
    module: Module | None = None,
    observer: Observer | None = None,
    dims: Dims | None = None,
) -> list[Array]:
    """Run one function on arrays and return what it returns.

    At loop level the arrays are the buffers themselves, and are written to. ``module`` holds the
    functions that this one calls; ``dims`` says what symbols are that no argument has as an axis.

    Raises:
        TapecError: the arrays do not have the argument types, or the program does what no program
            may do.
    """
    if len(arrays) != len(function.args):
        raise TapecError(f"@{function.name} takes {len(function.args)} arrays, got {len(arrays)}")
    run = _Run(module, observer)
    if dims is not None:
        run.dims.values.update(dims.values)
    given = [np.asarray(array) for array in arrays]
    for arg, array in zip(function.args, given, strict=True):
        what = f"argument %{arg.name or arg.index} of @{function.name}"
        run.dims.bind(arg.type, array.shape, what)
        if array.dtype != arg.type.dtype.numpy:
            raise TapecError(f"{what} is {arg.type}, got an array of {array.dtype}")
        if isinstance(arg.type, BufferType) and not array.flags.c_contiguous:
            raise TapecError(f"{what} is a buffer, got an array that is not contiguous")
    run.dims.hold(function)
    return run.block(function.block, given)


def evaluate_values(
    function: Function, wanted: Sequence[Value], known: dict[Value, Array]
) -> list[Array]:
    """Values of a function that may be unfinished, from ``known`` ones, to which those found on the way are added.

    Raises:
        TapecError: one rests on an argument that is not known.
    """
    needed: set[Operation] = set()
    asked = [value for value in wanted if value not in known]
    while asked:
        value = asked.pop()
        if value.op is None:
            raise TapecError(f"argument %{value.name or value.index} has no elements")
        if value.op not in needed:
            needed.add(value.op)
            asked += [operand for operand in value.op.operands if operand not in known]
    run = _Run(None, None)
    run.values = known
    for arg in function.args:
        if arg in known:
            run.dims.bind(arg.type, known[arg].shape, f"argument %{arg.name or arg.index}")
    for op in function.block.ops:
        if op in needed:
            results = run.operation(op, [known[operand] for operand in op.operands])
            known.update(zip(op.results, results, strict=True))
    return [known[value] for value in wanted]


class Dims:
    """What the symbols of a function stand for in one run."""

    def __init__(self) -> None:
        """Know no symbol."""
        self.values: dict[str, DimLike] = {}

    def bind(self, promised: Type, shape: Shape, what: str) -> None:
        """Learn from an array's shape what symbols are, and hold the rest of the type to it."""
        wanted = (promised.lanes,) if isinstance(promised, VectorType) else promised.shape
        if len(wanted) == len(shape):
            for dim, size in zip(wanted, shape, strict=True):
                name = plain_symbol(dim)
                if name is not None:
                    self.values.setdefault(name, size)
        if tuple(substitute(dim, self.values) for dim in wanted) != shape:
            known = "".join(f", {name} is {size}" for name, size in self.values.items())
            raise TapecError(f"{what} is {promised}, got shape {list(shape)}{known}")

    def hold(self, function: Function) -> None:
        """Check what type inference assumed about the function's symbols."""
        for left, right in function.guards:
            sizes = [substitute(parse_dim(text), self.values) for text in (left, right)]
            if sizes[0] != sizes[1] and all(isinstance(size, int) for size in sizes):
                raise TapecError(
                    f"@{function.name} needs {left} == {right}, got {sizes[0]} and {sizes[1]}"
                )

    def static(self, value: Any) -> Any:
        """An attribute or a type with numbers for the symbols."""
        return substituted(value, self.values) if self.values else value


def _unwritten(buffer_type: BufferType) -> Array:
    """An array of all-one bits: NaN where the dtype has it."""
    buffer = np.empty(buffer_type.tensor.static_shape, buffer_type.dtype.numpy)
    _bytes(buffer).fill(0xFF)
    return buffer


def _bytes(buffer: Array) -> Array:
    return buffer.reshape(-1).view(np.uint8)


class _Run:
    """One function while it runs: the values so far."""

    def __init__(self, module: Module | None, observer: Observer | None) -> None:
        self.module = module
        self.observer = observer
        self.values: dict[Value, Array] = {}
        self.dims = Dims()

    def block(self, block: Block, arrays: Sequence[Array]) -> list[Array]:
        """Run a block and return the operands of its terminator."""
        values = self.values
        for arg, array in zip(block.args, arrays, strict=True):
            values[arg] = array
        for op in block.ops:
            operands = [values[v] for v in op.operands]
            if op.defn.terminator:
                return operands
            try:
                results = self.operation(op, operands)
            except Exception as error:
                if isinstance(error, TapecError):
                    error.location = error.location or op.location
                error.add_note(underline(op, "while evaluating"))
                raise
            values.update(zip(op.results, results, strict=True))
            if self.observer is not None:
                self.observer(op, operands, results)
        raise TapecError("a block ends without a terminator")

    def operation(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        """Run one operation."""
        rule = _RULES.get(type(op.defn))
        if rule is not None:
            return rule(self, op, operands)
        attrs: Mapping[str, Any] = op.parameters
        if self.dims.values:
            attrs = {name: self.dims.static(value) for name, value in attrs.items()}
        if op.regions:
            regions = tuple(self.closure(r.block) for r in op.regions)
            types = tuple(self.dims.static(r.type) for r in op.results)
            attrs = {**attrs, "regions": regions, "results": types}
        given = attrs.get("type")
        if isinstance(given, VectorType):
            attrs = {**attrs, "type": TensorType(given.dtype, (given.lanes,))}
        results = op.defn.evaluate(*operands, **attrs)
        if not isinstance(results, tuple | list):
            results = (results,)
        return [self.checked(op, v, r) for v, r in zip(op.results, results, strict=True)]

    def closure(self, block: Block) -> Callable[..., tuple[Array, ...]]:
        """A region's block as a function of its arguments; outer values are seen."""
        return lambda *arrays: tuple(self.block(block, [np.asarray(a) for a in arrays]))

    def checked(self, op: Operation, value: Value, result: Array) -> Array:
        """A result as an array, held to its type."""
        array = np.asarray(result)
        if array.dtype != value.type.dtype.numpy:
            raise TapecError(f"{op.name} gave {array.dtype} where its type is {value.type}")
        self.dims.bind(value.type, array.shape, f"the result of {op.name}")
        return array

    def call(self, name: str, arrays: Sequence[Array], dims: Dims | None = None) -> list[Array]:
        """Run another function of the module; a kernel's symbols may be those of its caller."""
        if self.module is None or name not in self.module.functions:
            raise TapecError(f"there is no function @{name} to call")
        function = self.module.functions[name]
        return evaluate_function(function, arrays, self.module, self.observer, dims)

    # ---- loop level

    def run_for(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        low, high, *carried = operands
        steps = range(int(low), int(high), op.attrs.get("step", 1))
        body = op.regions[0].block
        for i in reversed(steps) if op.attrs.get("parallel") else steps:
            carried = self.block(body, [np.int64(i), *carried])
        return carried

    def run_while(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        i, high = (int(v) for v in operands)
        condition, body = (region.block for region in op.regions)
        while i < high and self.block(condition, [np.int64(i)])[0]:
            self.block(body, [np.int64(i)])
            i += 1
        return (np.int64(i),)

    def run_if(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        if operands[0]:
            return self.block(op.regions[0].block, ())
        return self.block(op.regions[1].block, ()) if len(op.regions) > 1 else ()

    def load(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        buffer, *index = operands
        lanes = op.attrs.get("lanes", 0)
        if not lanes:
            return (buffer.reshape(-1)[_address(buffer, index, 1)],)
        count = _active(index.pop(), lanes) if op.attrs.get("masked") else lanes
        vector = np.zeros(lanes, buffer.dtype)
        if count:
            start = _address(buffer, index, count)
            vector[:count] = buffer.reshape(-1)[start : start + count]
        return (vector,)

    def load_at(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        buffer, offsets = operands
        if ((offsets < 0) | (offsets >= buffer.size)).any():
            raise IndexError(f"offsets {offsets} reach outside of {buffer.size} elements")
        return (buffer.reshape(-1)[offsets],)

    def store(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        value, buffer, *index = operands
        lanes = np.size(value)
        count = _active(index.pop(), lanes) if op.attrs.get("masked") else lanes
        if count:
            start = _address(buffer, index, count)
            buffer.reshape(-1)[start : start + count] = np.reshape(value, -1)[:count]
        return ()

    def alloc(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        return (_unwritten(self.dims.static(op.result.type)),)

    def view(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        wanted = self.dims.static(op.result.type)
        start = self.dims.static(op.attrs.get("offset", 0))
        if len(operands) > 1:
            start += int(operands[1]) * self.dims.static(op.attrs["stride"])
        stop = start + wanted.tensor.bytes
        memory = _bytes(operands[0])
        if not 0 <= start <= stop <= memory.size:
            raise IndexError(f"bytes {start} to {stop} are outside of a buffer of {memory.size}")
        return (memory[start:stop].view(wanted.dtype.numpy).reshape(wanted.shape),)

    def launch(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        name = op.attrs["kernel"]
        if self.module is not None and name in self.module.functions:
            for i in sorted(written_args(self.module.functions[name])):
                for j, other in enumerate(operands):
                    if i != j and np.may_share_memory(operands[i], other):
                        raise TapecError(f"@{name} writes to operand {i}, which overlaps {j}")
        self.call(name, operands, self.dims)
        return ()

    def splat(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        return (np.full(op.attrs["lanes"], operands[0], np.asarray(operands[0]).dtype),)

    def lanes(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        wanted = op.result.type
        assert isinstance(wanted, VectorType)
        return (np.arange(wanted.lanes).astype(wanted.dtype.numpy),)

    def reduce_lanes(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        (vector,) = operands
        combine = OPS[op.attrs["combine"]]
        while vector.size > 1:
            if vector.size % 2:
                raise TapecError("reduce_lanes halves its vector: lanes must be a power of two")
            half = vector.size // 2
            vector = combine.evaluate(vector[:half], vector[half:])
        return (vector[0],)

    def shuffle(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        return (np.concatenate(operands)[list(op.attrs["mask"])],)


_RULES: Mapping[type[Op], Callable[[_Run, Operation, list[Array]], Sequence[Array]]] = {
    control.Call: lambda run, op, operands: run.call(op.attrs["callee"], operands),
    control.KernelOp: lambda run, op, operands: run.block(op.regions[0].block, operands),
    loop.For: _Run.run_for,
    loop.While: _Run.run_while,
    loop.If: _Run.run_if,
    loop.Load: _Run.load,
    loop.LoadAt: _Run.load_at,
    loop.Store: _Run.store,
    loop.Prefetch: lambda run, op, operands: (),
    loop.Alloc: _Run.alloc,
    loop.View: _Run.view,
    loop.Launch: _Run.launch,
    loop.Splat: _Run.splat,
    loop.Lanes: _Run.lanes,
    loop.ReduceLanes: _Run.reduce_lanes,
    loop.Shuffle: _Run.shuffle,
}


def _active(count: Any, lanes: int) -> int:
    """How many lanes a mask lets through."""
    return min(max(int(count), 0), lanes)


def _address(buffer: Array, index: Sequence[Any], count: int) -> int:
    """Where an index is in the flat buffer; ``count`` elements from there must be inside."""
    address = 0
    for i, size in zip(index, buffer.shape, strict=True):
        if not 0 <= i < size:
            at = ", ".join(str(int(i)) for i in index)
            raise IndexError(f"index [{at}] is outside of shape {list(buffer.shape)}")
        address = address * size + int(i)
    if address + count > buffer.size:
        raise IndexError(f"{count} lanes from element {address} leave a buffer of {buffer.size}")
    return address


def written_args(kernel: Function) -> set[int]:
    """Which arguments a kernel stores to, directly or through views of them."""
    written = set()
    for op in kernel.walk():
        for buffer in op.defn.written(op) if isinstance(op.defn, loop.LoopOp) else ():
            while buffer.op is not None and isinstance(buffer.op.defn, loop.View):
                buffer = buffer.op.operands[0]
            if buffer.owner is kernel.block:
                written.add(buffer.index)
    return written
