"""Turn kernels into loop nests, and a function of kernels into the entry that launches them.

The entry takes the function's arguments as buffers, a buffer for each result that updates no argument, and the arena.
Equal kernels are written once. A kernel gets each buffer once: what it updates in place is one argument. Branches and
loops around kernels become those of the entry; rows of what is stacked are views at an offset that the turn gives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tapec.ir.builder import Builder
from tapec.ir.compare import exact
from tapec.ir.core import Block, Body, Function, Module, Operation, Region, Value
from tapec.ir.dims import DimLike
from tapec.ir.errors import PassError
from tapec.ir.history import Relation, tell
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import Place, parse_place, symbols_of
from tapec.ir.types import INDEX, U8, BufferType, DType, TensorType, Type
from tapec.passes.kernels.nest import KernelWriter
from tapec.passes.plan import home


@dataclass(frozen=True)
class Options:
    """Whether launches tell which kernel of the program they run, by its number in program order."""

    numbered: bool = False


def run(module: Module, options: Options) -> bool:
    """Lower every function of the module."""
    lowered = Module()
    kernels: dict[Hashable, _Written] = {}
    for function in list(module.functions.values()):
        lowered.add(_Entry(function, kernels, numbered=options.numbered).write())
    for written in kernels.values():
        lowered.add(written.function)
    module.functions = lowered.functions
    return True


class Row(NamedTuple):
    """A row of what is stacked: number ``turn`` (a value of the entry) of those of ``bytes`` each."""

    of: Slot
    stack: BufferType
    turn: Value
    bytes: DimLike


#: Where a value lives: a place of the whole function, or a row of what does.
Slot = Place | Row


@dataclass
class _Scope:
    """Where the arguments and results of the function or region are that is being written."""

    args: Sequence[Slot]
    results: Sequence[Slot | None]


class _Written(NamedTuple):
    """The loops of kernels that are equal, and what they were written from: the first of these."""

    function: Function
    block: Block


def _values(block: Block) -> list[Value]:
    """All that a kernel's block defines, in order."""
    return [*block.args, *(r for op in block.ops for r in op.results)]


class _Entry:
    """The loop-level form of one function."""

    def __init__(
        self, function: Function, kernels: dict[Hashable, _Written], *, numbered: bool
    ) -> None:
        self.source = function
        self.kernels = kernels
        launched = (op for op in function.walk() if isinstance(op.defn, KernelOp))
        self._numbers = {op: i for i, op in enumerate(launched)} if numbered else {}
        self._known = symbols_of(function)
        fresh = [i for i in range(len(function.returns)) if i not in function.updates]
        types = [_buffer(a.tensor) for a in function.args]
        types += [_buffer(function.returns[i].tensor) for i in fresh]
        names = [a.name for a in function.args] + [f"result{i}" for i in fresh]
        arena = function.attrs.get("arena", 0)
        if arena:
            types.append(BufferType(U8, (arena,)))
            names.append("arena")
        self.entry = Function(function.name, types, names, updates=function.updates)
        self.entry.guards = list(function.guards)
        self.entry.attrs = {"inputs": len(function.args), **function.attrs}
        self.builder = Builder(self.entry.block)
        self._results = dict(zip(fresh, self.entry.args[len(function.args) :], strict=False))
        self._slots: dict[Value, Slot] = {a: Place("arg", i) for i, a in enumerate(function.args)}
        self._views: dict[tuple[Slot, BufferType], Value] = {}
        self._scope = _Scope(
            [Place("arg", i) for i in range(len(function.args))],
            [Place("result", i) for i in range(len(function.returns))],
        )

    def write(self) -> Function:
        """Launch every kernel."""
        self._block(self.source.block)
        self.builder.emit("return")
        return self.entry

    def _block(self, block: Block) -> None:
        for op in block.ops[:-1]:
            with self.builder.at(op.location):
                if isinstance(op.defn, KernelOp):
                    self._launch(op)
                elif isinstance(op.defn, RegionOp):
                    self._place_results(op)
                    op.defn.lower_regions(_Regions(self, op), op)
                elif not op.operands or op.defn.form != "index":
                    raise PassError(
                        f"lower found {op.name} outside of a kernel",
                        hint="run fuse, schedule and plan first",
                    )

    # ---- kernels

    def _place_results(self, op: Operation) -> None:
        for result, text in zip(op.results, op.attrs["place"], strict=True):
            place = parse_place(text, self._known)
            assert place is not None
            self._slots[result] = self._slot(place)

    def _slot(self, place: Place) -> Slot:
        """Where a place of the scope is in the whole function."""
        if place.kind == "arena":
            return place
        found = (self._scope.args if place.kind == "arg" else self._scope.results)[_number(place)]
        assert found is not None
        return found

    def slot(self, value: Value) -> Slot:
        """Where a value lives."""
        return self._slots[home(value)]

    def _launch(self, op: Operation) -> None:
        self._place_results(op)
        values = [*op.operands, *op.results]
        slots = [self.slot(v) for v in values]
        if _is_copy(op) and slots[0] == slots[1]:
            return
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
            self.memory(slots[first], arg.type)
            for first, arg in zip(firsts, kernel.args, strict=True)
        ]
        for value, role in zip(values, roles, strict=True):
            tell(Relation.ELEMENT, value, buffers[role])
            tell(Relation.ELEMENT, value, kernel.args[role])
        attrs: dict[str, Any] = {"kernel": kernel.name}
        if self._numbers:
            attrs["number"] = self._numbers[op]
        self.builder.emit("launch", *buffers, **attrs)

    def _kernel(self, op: Operation, roles: list[int], count: int) -> Function:
        """The loops of a kernel, or those of an equal one that are there already."""
        key = (tuple(roles), _structure(op))
        block = op.regions[0].block
        known = self.kernels.get(key)
        if known is None:
            known = self.kernels[key] = _Written(KernelWriter(op, roles, count).write(), block)
            known.function.name = f"k{len(self.kernels) - 1}"
        else:
            for value, same in zip(_values(block), _values(known.block), strict=True):
                tell(Relation.ELEMENT, value, same)
        return known.function

    def memory(self, slot: Slot, type: object) -> Value:
        """A buffer of this type at a place."""
        assert isinstance(type, BufferType)
        key = (slot, type)
        if key not in self._views:
            self._views[key] = self._view(slot, type)
        return self._views[key]

    def _view(self, slot: Slot, type: BufferType) -> Value:
        if isinstance(slot, Row):
            stack = self.memory(slot.of, slot.stack)
            row: Value = self.builder.emit("view", stack, slot.turn, type=type, stride=slot.bytes)
            return row
        offset: DimLike = 0
        if slot.kind == "arena":
            buffer, offset = self.entry.args[-1], slot.number
        elif slot.kind == "arg":
            buffer = self.entry.args[_number(slot)]
        else:
            buffer = self._results[_number(slot)]
        if buffer.type == type:
            return buffer
        view: Value = self.builder.emit("view", buffer, type=type, offset=offset)
        return view

    # ---- regions

    def region(
        self, body: Body, types: Sequence[Type], arguments: Any, results: Any, end: Any
    ) -> Region:
        """A region of the entry, in which the operations of a body run; see `_Regions.region`."""
        block = Block(types)
        outside = self.builder, self._scope, self._views
        self.builder, self._views = Builder(block), dict(self._views)
        self._scope = _Scope(arguments(block.args), results(block.args))
        self._slots.update(zip(body.args, self._scope.args, strict=True))
        self._block(body.block)
        self.builder.emit("yield", *end(block.args))
        self.builder, self._scope, self._views = outside
        return Region([block])


class _Regions:
    """What the rules of branches and loops write with (`tapec.ir.ops.regions.EntryWriter`)."""

    def __init__(self, entry: _Entry, op: Operation) -> None:
        self._entry = entry
        self.op = op
        assert isinstance(op.defn, RegionOp)
        self._bodies = op.defn.bodies(op)

    @property
    def b(self) -> Builder:
        """Writes into the entry, where it is now."""
        return self._entry.builder

    def operand(self, index: int) -> Slot:
        """Where an operand lives."""
        return self._entry.slot(self.op.operands[index])

    def result(self, index: int) -> Slot:
        """Where a result lives."""
        return self._entry.slot(self.op.results[index])

    def row(self, slot: Slot, stack: TensorType, index: Value) -> Slot:
        """Where a row of what is stacked lives."""
        return Row(slot, _buffer(stack), index, stack.with_shape(stack.shape[1:]).bytes)

    def number(self, value: int) -> Value:
        """An index."""
        result: Value = self.b.emit("constant", value=value, type=TensorType(INDEX))
        return result

    def load(self, slot: Slot, dtype: DType) -> Value:
        """The one element that is in a place."""
        result: Value = self.b.load(self._entry.memory(slot, BufferType(dtype, ())))
        return result

    def store(self, value: Value, slot: Slot) -> None:
        """Write the one element of a place."""
        memory = self._entry.memory(slot, BufferType(value.type.dtype, ()))
        self.b.emit("store", value, memory)

    def yielded(self, region: int, index: int) -> Value:
        """The one element of what the operation's region yields."""
        value = self._bodies[region].returns[index]
        return self.load(self._entry.slot(value), value.type.dtype)

    def region(
        self,
        number: int,
        types: Sequence[Type],
        arguments: Callable[[Sequence[Value]], Sequence[Slot]],
        results: Callable[[Sequence[Value]], Sequence[Slot | None]],
        end: Callable[[Sequence[Value]], Sequence[Value]] = lambda args: (),
    ) -> Region:
        """A region of the entry with arguments of these types, in which the operation's region runs.

        ``arguments`` and ``results`` say, of the entry's arguments, where those of the operation's region are;
        ``end`` what the entry's region yields.
        """
        return self._entry.region(self._bodies[number], types, arguments, results, end)


def _is_copy(kernel: Operation) -> bool:
    """Whether a kernel gives its only operand as it is."""
    block = kernel.regions[0].block
    return (
        len(block.ops) == 1
        and list(block.terminator.operands) == block.args
        and len(block.args) == 1
    )


def _structure(kernel: Operation) -> Hashable:
    """What tells one kernel from another: all but its operands, places, names and locations."""
    block = kernel.regions[0].block
    numbers: dict[Value, int] = {}
    for arg in block.args:
        numbers[arg] = len(numbers)
    parts: list[Hashable] = [tuple(a.type for a in block.args)]
    for op in block.ops:
        operands = tuple(numbers[v] for v in op.operands)
        parts.append((op.defn, operands, exact(op.parameters), tuple(r.type for r in op.results)))
        for result in op.results:
            numbers[result] = len(numbers)
    choices = {name: value for name, value in kernel.attrs.items() if name != "place"}
    return exact(choices), *parts


def _number(place: Place) -> int:
    """Which argument or result a place is."""
    assert isinstance(place.number, int)
    return place.number


def _buffer(type: TensorType) -> BufferType:
    return BufferType(type.dtype, type.shape)
