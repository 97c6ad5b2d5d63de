"""Turn kernels into loop nests, and a function of kernels into the entry that launches them.

The entry takes the function's arguments as buffers, a buffer for each result that updates no argument, and the arena.
Equal kernels are written once. A kernel gets each buffer once: what it updates in place is one argument.
"""

from __future__ import annotations

from collections.abc import Hashable

from tapec.ir.builder import Builder
from tapec.ir.compare import exact
from tapec.ir.core import Function, Module, Operation, Value
from tapec.ir.errors import PassError
from tapec.ir.ops.control import KernelOp
from tapec.ir.placement import Place, parse_place
from tapec.ir.types import U8, BufferType, TensorType
from tapec.passes.nest import KernelWriter
from tapec.passes.plan import home


def run(module: Module, options: object = None) -> bool:
    """Lower every function of the module."""
    lowered = Module()
    kernels: dict[Hashable, Function] = {}
    for function in list(module.functions.values()):
        lowered.add(_Entry(function, kernels).write())
    for kernel in kernels.values():
        lowered.add(kernel)
    module.functions = lowered.functions
    return True


class _Entry:
    """The loop-level form of one function."""

    def __init__(self, function: Function, kernels: dict[Hashable, Function]) -> None:
        self.source = function
        self.kernels = kernels
        fresh = [i for i in range(len(function.returns)) if i not in function.updates]
        types = [_buffer(a.tensor) for a in function.args]
        types += [_buffer(function.returns[i].tensor) for i in fresh]
        names = [a.name for a in function.args] + [f"result{i}" for i in fresh]
        arena = function.attrs.get("arena", 0)
        if arena:
            types.append(BufferType(U8, (arena,)))
            names.append("arena")
        self.entry = Function(function.name, types, names, updates=function.updates)
        self.entry.attrs = {"inputs": len(function.args), **function.attrs}
        self.builder = Builder(self.entry.block)
        self._results = dict(zip(fresh, self.entry.args[len(function.args) :], strict=False))
        self._places = {a: Place("arg", i) for i, a in enumerate(function.args)}
        self._views: dict[tuple[Place, BufferType], Value] = {}

    def write(self) -> Function:
        """Launch every kernel."""
        for op in self.source.block.ops[:-1]:
            with self.builder.at(op.location):
                if isinstance(op.defn, KernelOp):
                    self._launch(op)
                elif not op.operands or op.defn.form != "index":
                    raise PassError(
                        f"lower found {op.name} outside of a kernel",
                        hint="run fuse, schedule and plan first",
                    )
        self.builder.emit("return")
        return self.entry

    def _launch(self, op: Operation) -> None:
        for result, text in zip(op.results, op.attrs["place"], strict=True):
            place = parse_place(text)
            assert place is not None
            self._places[result] = place
        values = [*op.operands, *op.results]
        slots = [self._places[home(v)] for v in values]
        # Where a result replaces an operand, both are one argument of the kernel, the operand's. What has no elements
        # replaces nothing, wherever it is.
        written = set(slots[len(op.operands) :])
        keys = [
            (slot, slot if slot in written and value.tensor.size != 0 else value)
            for slot, value in zip(slots, values, strict=True)
        ]
        order = list(dict.fromkeys(keys))
        roles = [order.index(key) for key in keys]
        kernel = self._kernel(op, roles, len(order))
        firsts = [roles.index(n) for n in range(len(order))]
        buffers = [
            self._memory(slots[first], arg.type)
            for first, arg in zip(firsts, kernel.args, strict=True)
        ]
        self.builder.emit("launch", *buffers, kernel=kernel.name)

    def _kernel(self, op: Operation, roles: list[int], count: int) -> Function:
        """The loops of a kernel, or those of an equal one that are there already."""
        key = (tuple(roles), _structure(op))
        known = self.kernels.get(key)
        if known is None:
            known = self.kernels[key] = KernelWriter(op, roles, count).write()
            known.name = f"k{len(self.kernels) - 1}"
        return known

    def _memory(self, place: Place, type: object) -> Value:
        """A buffer of this type at a place."""
        assert isinstance(type, BufferType)
        key = (place, type)
        if key not in self._views:
            if place.kind == "arena":
                buffer, offset = self.entry.args[-1], place.number
            elif place.kind == "arg":
                buffer, offset = self.entry.args[place.number], 0
            else:
                buffer, offset = self._results[place.number], 0
            if buffer.type != type:
                buffer = self.builder.emit("view", buffer, type=type, offset=offset)
            self._views[key] = buffer
        return self._views[key]


def _structure(kernel: Operation) -> Hashable:
    """What tells one kernel from another: all but its operands, places, names and locations."""
    block = kernel.regions[0].block
    numbers: dict[Value, int] = {}
    for arg in block.args:
        numbers[arg] = len(numbers)
    parts: list[Hashable] = [tuple(a.type for a in block.args)]
    for op in block.ops:
        operands = tuple(numbers[v] for v in op.operands)
        parts.append((op.defn, operands, exact(op.attrs), tuple(r.type for r in op.results)))
        for result in op.results:
            numbers[result] = len(numbers)
    choices = {name: value for name, value in kernel.attrs.items() if name != "place"}
    return exact(choices), *parts


def _buffer(type: TensorType) -> BufferType:
    return BufferType(type.dtype, type.shape)
