"""Write one kernel as loops: the elements of its results, computed where the loops are, and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import MappingProxyType

import numpy as np

from tapec.ir.core import Function, Operation, Value
from tapec.ir.dims import DimLike, Symbol, bounds, symbols
from tapec.ir.errors import PassError, TargetError
from tapec.ir.history import Relation, tell
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import OPS, Elementwise, Index
from tapec.ir.ops.movement import Broadcast, renumber
from tapec.ir.ops.source import Constant
from tapec.ir.types import BOOL, BufferType, Shape, TensorType
from tapec.passes.contractions.contraction import lower_contraction
from tapec.passes.contractions.products import each
from tapec.passes.contractions.tiling import Tiling
from tapec.passes.fusion.access import loops_of
from tapec.passes.fusion.depth import DEEP, below, depths
from tapec.passes.fusion.rows import values_by_rows
from tapec.passes.fusion.totals import reduce_in_parts, total_of
from tapec.passes.kernels import loop_choice
from tapec.passes.kernels.operand import Operand
from tapec.passes.schedule import core_of

#: Places where a loop is split, at most.
_MOST_BREAKS = 6

#: An element, a buffer, and the index in it.
_Store = tuple[Value, Value, Index]
#: The first index of a loop's turn, and how many it stands for.
_Turn = tuple[DimLike, int]


@dataclass
class _Product:
    """An element of a contraction, while what follows is computed.

    It has ``index`` in the contraction's result and ``place`` in the kernel's loops. ``elements`` are of other values
    at the place: the builder cannot tell which turn of the contraction's loops they belong to.
    """

    index: Index
    value: Value
    place: Index
    elements: dict[Value, Value] = field(default_factory=dict)


class KernelWriter:
    """The loop-level function of one kernel operation.

    ``roles`` says, for each operand and then for each result, which of the function's ``count`` arguments it is.
    """

    def __init__(self, op: Operation, roles: Sequence[int], count: int) -> None:
        """Make the function with its arguments."""
        self.op = op
        self.block = op.regions[0].block
        self.core = core_of(op)
        ops = self.block.ops[:-1]
        self._total = total_of(ops, op.results) if self.core is None else None
        self.space = loops_of(op)
        self.flat = self._is_flat()
        values = [*op.operands, *op.results]
        firsts = [list(roles).index(n) for n in range(count)]
        outputs = set(roles[len(op.operands) :])
        types = [self._buffer(values[first].tensor) for first in firsts]
        names = [f"{'out' if n in outputs else 'in'}{n}" for n in range(count)]
        self.function = Function("kernel", types, names, kind="kernel")
        self.buffers = [self.function.args[role] for role in roles]
        self.inputs = dict(zip(self.block.args, self.buffers, strict=False))
        self.outputs = self.buffers[len(op.operands) :]
        self._arrays: dict[Operation, Value] = {}
        self._product: _Product | None = None
        #: By axis the symbol of its loop, where the loops are in the axes' order.
        self._turns: list[Symbol | None] = []
        self._sum: Value | None = None
        #: Values that wait in memory row by row, with how many loops are around a row.
        plain = self.core is None and not self.flat and self._total is None
        self._rows = values_by_rows(op, self.space) if plain else {}
        self._depths = depths(ops)

    def write(self) -> Function:
        """Write the loops."""
        if self.core is None:
            self._best_loops()
        elif self.core.defn.form == "contraction":
            self._contraction()
        elif self.core.defn.form == "nest":
            self._nest()
        else:
            raise TargetError(
                f"{self.core.name} has no native code on this target", location=self.core.location
            )
        return self.function

    def _best_loops(self) -> None:
        """Lanes along the last axis; where they would be far apart in memory, the best of what else there is."""
        if self._total is not None:
            self._total_loops(self._total)
            return
        k = self._loops(vector=True)
        # The simplest kernels only: rows have places of their own in the loops.
        simple = not self._rows and all(r.tensor.shape == self.space for r in self.op.results)
        phases: dict[int, int] = {}
        if simple and not k.compact:
            phases = loop_choice.written_out(
                k.periods, self._turns, self.space, len(self.block.ops)
            )
        if phases:
            self._start_again()
            k = self._loops(vector=True, phases=phases)
        tries: list[tuple[float, Function]] = [(k.gathers, self.function)]
        if k.gathers and 0 < len(k.breaks) <= _MOST_BREAKS:
            self._start_again()
            tries.append((self._loops(vector=True, breaks=k.breaks).gathers, self.function))
        if min(gathers for gathers, _ in tries):
            # A loop inside may vectorise better. Moving single elements is no slower than gathering them.
            self._start_again()
            scalars = self._loops(vector=False)
            moves = not any(
                op.defn.loops or op.defn.costly for op in self.block.ops if not op.defn.cheap
            )
            if scalars.vectorised or moves:
                tries.append((scalars.gathers, self.function))
            order = loop_choice.order_for_gathers(self.block, self.space) if simple else ()
            if order and not scalars.vectorised:
                self._start_again()
                tries = [(self._loops(vector=True, order=order).gathers, self.function)]
        self._rebind(min(tries, key=lambda pair: pair[0])[1])

    def _start_again(self) -> None:
        """Write into a new function."""
        self._rebind(
            Function(
                "kernel",
                [a.type for a in self.function.args],
                [a.name for a in self.function.args],
                kind="kernel",
            )
        )

    def _rebind(self, function: Function) -> None:
        """Write into another function with the same arguments."""
        place = dict(zip(self.function.args, function.args, strict=True))
        self.function = function
        self.buffers = [place.get(b, b) for b in self.buffers]
        self.inputs = dict(zip(self.block.args, self.buffers, strict=False))
        self.outputs = self.buffers[len(self.op.operands) :]
        self._arrays = {}

    def _builder(self) -> LoopBuilder:
        k = LoopBuilder(
            self.function,
            lanes=self.op.attrs["lanes"],
            masked=self.op.attrs.get("masked", True),
            compact=self.op.attrs.get("compact", False),
        )
        k.location = self.op.location
        k.mutable(*self.outputs)
        return k

    # ---- shapes

    def _is_flat(self) -> bool:
        """Whether every element depends on elements of the same number, so that one loop does for all axes."""
        space = self.space
        if self.core is not None or len(space) < 2:
            return False
        values = [*self.block.args, *(r for op in self.block.ops[:-1] for r in op.results)]
        return all(v.tensor.shape in (space, ()) for v in values) and all(
            isinstance(op.defn, Elementwise | Constant)
            or (isinstance(op.defn, Broadcast) and not op.attrs["axes"])
            or op is self._total
            for op in self.block.ops[:-1]
        )

    def _buffer(self, type: TensorType) -> BufferType:
        if self.flat and type.rank:
            return BufferType(type.dtype, (type.size,))
        return BufferType(type.dtype, self._product_shape(type.shape))

    def _product_shape(self, shape: Shape) -> Shape:
        """The shape in memory: behind a contraction that is reshaped, that of the contraction."""
        if self.core is None or self.core.defn.form != "contraction" or shape != self.space:
            return shape
        return self.core.results[0].tensor.shape

    # ---- loops

    def _loops(
        self,
        *,
        vector: bool,
        breaks: Iterable[int] = (),
        order: Sequence[int] = (),
        phases: Mapping[int, int] = MappingProxyType({}),
    ) -> LoopBuilder:
        """All indices of the results, one after the other or several at a time.

        ``breaks`` are where the loop over the last axis is split; ``order`` is that of the loops, if not the axes';
        ``phases`` how many turns of an axis are written out.
        """
        k = self._builder()
        space = self.space
        if self.flat:
            space = (TensorType(BOOL, space).size,)
        natural = not order
        order = order or range(len(space))
        place = {axis: n for n, axis in enumerate(order)}
        last = loop_choice.vector_axis(space)
        parallel = self.op.attrs["parallel"]
        shared = loop_choice.shared_axis(space, order, self.op.attrs["lanes"]) if parallel else None
        self._turns = []

        def nest(turns: tuple[_Turn, ...]) -> None:
            stores: list[_Store] = []
            if natural or len(turns) == len(space):
                # Computed before loops inside write over what is read; written after these have read the old values.
                placed = [turns[place[axis]] for axis in range(len(turns))]
                for index in product(*map(_indices, placed)):
                    stores += self._stores(k, index)
            if len(turns) < len(space):
                axis = order[len(turns)]
                extent = space[axis]
                inside = sorted(n for n in breaks if isinstance(extent, int) and 0 < n < extent)
                phase = phases.get(axis, 1)

                def turn(i: DimLike) -> None:
                    if natural and len(self._turns) == len(turns):
                        self._turns.append(next(symbols(i), None))
                    nest((*turns, (i * phase, phase)))

                k.along(
                    extent // phase,
                    turn,
                    vector=vector and axis == last and k.lanes > 1,
                    parallel=axis == shared,
                    splits=inside if axis == last else (),
                )
                if phase > 1:
                    each(k, extent // phase * phase, extent, lambda i: nest((*turns, (i, 1))))
            for store in stores:
                k.store(*store)

        nest(())
        k.effect(OPS["return"])
        return k

    def _total_loops(self, total: Operation) -> None:
        """All indices of what is added up, with the stores of what is as large; then those of single numbers."""
        k = self._builder()
        space = (TensorType(BOOL, self.space).size,) if self.flat else self.space

        def one(index: Index) -> Value:
            value = self.element(k, total.operands[0], index)
            for store in self._stores(k, index):
                k.store(*store)
            return value

        parallel, work = self.op.attrs["parallel"], len(self.block.ops)
        self._sum = reduce_in_parts(k, total, space, one, parallel=parallel, work=work)
        tell(Relation.ELEMENT, total.result, self._sum)
        for store in self._stores(k, ()):
            k.store(*store)
        k.effect(OPS["return"])

    def _stores(self, k: LoopBuilder, index: Index) -> list[_Store]:
        """Elements of the results that have as many axes, with where they go; all are read before one is written."""
        results = zip(self.block.terminator.operands, self.outputs, strict=True)
        rank = len(self.space) if self.flat and index else len(index)
        return [
            (self.element(k, value, index), buffer, self.address(value, index))
            for value, buffer in results
            if value.tensor.rank == rank
            and (value not in self._rows or self._row(k, value, index) is not buffer)
        ]

    def address(self, value: Value, index: Index) -> Index:
        """The index into the buffer of a value."""
        shape = value.tensor.shape
        memory = self._product_shape(shape)
        return index if shape == memory else renumber(shape, memory, index)

    def _contraction(self) -> None:
        assert self.core is not None
        k, core = self._builder(), self.core
        operands = [Operand(self, k, v) for v in core.operands]
        contraction = core.defn.contraction(*(o.type for o in operands), **core.parameters)

        def write(index: Index, value: Value) -> None:
            shape = core.result.tensor.shape
            place = index if shape == self.space else renumber(shape, self.space, index)
            tell(Relation.ELEMENT, core.result, value)
            self._product = _Product(index, value, place)
            for store in self._stores(k, place):
                k.store(*store)
            self._product = None

        in_place = any(b in self.inputs.values() for b in self.outputs)
        tiling = Tiling.from_attrs(self.op.attrs)
        lower_contraction(
            k,
            contraction,
            operands,
            write,
            tiling,
            in_place=in_place,
            fetch=lambda index: self._fetch(k, index),
        )
        k.effect(OPS["return"])

    def _fetch(self, k: LoopBuilder, index: Index) -> None:
        """Prefetch what is read and written with one element of a contraction."""
        assert self.core is not None
        shape = self.core.result.tensor.shape
        place = index if shape == self.space else renumber(shape, self.space, index)
        values = [*self.block.args, *self.block.terminator.operands]
        at_hand = {
            buffer: value
            for buffer, value in zip(self.buffers, values, strict=True)
            if value.tensor.shape == self.space and value not in self.core.operands
        }
        for buffer, value in at_hand.items():
            k.prefetch(buffer, self.address(value, place))

    def _nest(self) -> None:
        assert self.core is not None
        k, core = self._builder(), self.core
        operands = [Operand(self, k, v) for v in core.operands]
        if core.defn.starts_as is not None:
            self._copy(k, core.operands[core.defn.starts_as])
        core.defn.lower_nest(k, self.outputs, *operands, **core.parameters)
        k.effect(OPS["return"])

    def _copy(self, k: LoopBuilder, value: Value) -> None:
        """Copy a value into the one result, unless both are in one place."""
        (out,) = self.outputs
        if self.inputs.get(value) is out:
            return
        shape = value.tensor.shape
        last = loop_choice.vector_axis(shape)

        def axis(index: Index) -> None:
            if len(index) == len(shape):
                k.store(self.element(k, value, index), out, index)
                return
            vector = len(index) == last and k.lanes > 1
            k.along(shape[len(index)], lambda i: axis((*index, i)), vector=vector)

        axis(())

    def memory(self, k: LoopBuilder, value: Value) -> Value:
        """The buffer of a value; of what the kernel computes itself, such as a constant, scratch with its elements."""
        if value in self.inputs:
            return self.inputs[value]
        op, shape = value.op, value.tensor.shape
        if (
            op is not None
            and isinstance(op.defn, Constant)
            and isinstance(op.attrs["value"], np.ndarray)
        ):
            return self._array(k, op)
        scratch = k.alloc(BufferType(value.tensor.dtype, shape))
        k.loop(shape, lambda index: k.store(self.element(k, value, index), scratch, index))
        return scratch

    # ---- elements

    def element(self, k: LoopBuilder, value: Value, index: Index) -> Value:
        """An element of a value: loaded, or computed from elements of others."""
        if self._total is not None and value.op is self._total:
            assert self._sum is not None
            return self._sum
        if value in self._rows:
            row = self._row(k, value, index)
            inner = index if row in self.outputs else index[self._rows[value] :]
            return k.once(value, index, lambda: k.load(row, inner))
        product = self._product
        if product is not None and value.op is self.core:
            if index != product.index:
                raise PassError(
                    f"the result of {self.core} is read elsewhere than where it is made"
                )
            return product.value
        return self._once(k, value, index, partial(self._element, k, value, index))

    def _once(
        self, k: LoopBuilder, value: Value, index: Index, compute: Callable[[], Value]
    ) -> Value:
        """``compute()`` for an element, once for all that read it where the builder can tell that it is the same."""
        product = self._product
        if product is None:
            return k.once(value, index, compute)
        if index != product.place:
            return compute()
        if value not in product.elements:
            product.elements[value] = compute()
        return product.elements[value]

    def _row(self, k: LoopBuilder, value: Value, index: Index) -> Value:
        """The memory that holds the row of a value around an index, with the row in it: its buffer, or scratch."""
        loops = self._rows[value]
        shape = value.tensor.shape[loops:]
        outer = index[:loops]

        def fill() -> Value:
            results = zip(self.block.terminator.operands, self.outputs, strict=True)
            buffer = next((b for v, b in results if v is value), None)
            scratch = buffer is None or buffer in self.inputs.values()
            if buffer is None or scratch:
                most = tuple([bounds(n)[1] or 0 for n in shape])
                buffer = k.alloc(BufferType(value.tensor.dtype, most))

            def axis(inner: Index) -> None:
                if len(inner) == len(shape):
                    element = self._element(k, value, (*outer, *inner))
                    k.store(element, buffer, inner if scratch else (*outer, *inner))
                    return
                vector = len(inner) == len(shape) - 1 and k.lanes > 1
                k.along(shape[len(inner)], lambda i: axis((*inner, i)), vector=vector)

            axis(())
            return buffer

        return k.once(("row", value), outer, fill)

    def _element(self, k: LoopBuilder, value: Value, index: Index) -> Value:
        op = value.op
        if op is None:
            return k.load(self.inputs[value], self.address(value, index))
        if isinstance(op.defn, Constant) and isinstance(op.attrs["value"], np.ndarray):
            return k.load(self._array(k, op), self.address(value, index))
        if self._depths[value] < DEEP:
            return self._lowered(k, value, index, {})
        made: dict[Value, Value] = {}
        for inner in below(value, self._depths, self._rows):
            made[inner] = self._once(k, inner, index, partial(self._lowered, k, inner, index, made))
        return self._lowered(k, value, index, made)

    def _lowered(
        self, k: LoopBuilder, value: Value, index: Index, made: Mapping[Value, Value]
    ) -> Value:
        """An element that an operation in index form makes; those of its operands may be ``made`` already."""
        op = value.op
        assert op is not None
        operands = [Operand(self, k, v, made.get(v)) for v in op.operands]
        saved, k.location = k.location, op.location or k.location
        element: Value = op.defn.lower(k, index, *operands, **op.parameters)
        tell(Relation.ELEMENT, value, element)
        k.location = saved
        return element

    def _array(self, k: LoopBuilder, op: Operation) -> Value:
        """The memory of a constant array."""
        if op not in self._arrays:
            type = self._buffer(op.result.tensor)
            array = op.attrs["value"].reshape(type.tensor.static_shape)
            self._arrays[op] = k.table(array, type.dtype)
        return self._arrays[op]


def _indices(turn: _Turn) -> list[DimLike]:
    """What a turn of a loop stands for."""
    first, count = turn
    return [first + n for n in range(count)]
