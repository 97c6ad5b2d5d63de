"""Kernels that users wrote: one operation for each, made by `tapec.custom_op`.

A kernel of scalars is an elementwise operation like any other, so it is fused, vectorised and mapped like any other. A
kernel of arrays fills its results' memory itself; over a batch axis it is called for each row. ``content``, a hash of
the kernel's native code, is part of the operation: a program that was compiled or printed with another kernel of the
same name is not taken for this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tapec.ir.batching import batch_operations
from tapec.ir.builder import Builder
from tapec.ir.core import Module, Value, clone_operation
from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, NotDifferentiableError, ShapeError
from tapec.ir.foreign import ForeignCode, ForeignSource
from tapec.ir.loops.kernel import StoredOperand
from tapec.ir.op import OPS, Cotangents, Elementwise, Kernel, Op, require_same_shape, spread
from tapec.ir.ops.loop import LoopOp
from tapec.ir.types import BufferType, TensorType, Type, as_dtype

if TYPE_CHECKING:
    from tapec.ir.core import Operation

_NO_DEVICE = "kernels of custom ops are made for processors"
_NO_DERIVATIVE = "give the op one: @tapec.custom_op(..., vjp=lambda x, y, dy: ...)"


class Foreign(Op):
    """What kernels of both kinds share."""

    source: ClassVar[ForeignSource]
    no_derivative = _NO_DERIVATIVE
    no_device = _NO_DEVICE

    def code(
        self, content: str, operands: Sequence[Type], results: Sequence[Type] = ()
    ) -> ForeignCode:
        """The kernel's code for operands of these types.

        Raises:
            DTypeError: it has another hash, so another kernel is meant.
        """
        code = self.source.code(operands, results)
        if code.content != content:
            raise DTypeError(
                f"{self.name}: the program was made with another kernel of this name (content {content}, "
                f"the one registered here has {code.content})",
                hint="make the program again, or register the kernel that it was made with",
            )
        return code

    def derivative(self, b: Builder, op: Operation, cts: Sequence[Any], axes: int) -> Cotangents:
        """The program of the user's vjp; zeros stand for cotangents that do not exist.

        It was written for operands without the ``axes`` leading ones, over which it is mapped.
        """
        if not self.differentiable:
            raise NotDifferentiableError(
                f"{self.name} has no derivative", location=op.location, hint=self.no_derivative
            )
        operands, results = (
            [_core(v.tensor, axes) for v in values] for values in (op.operands, op.results)
        )
        program = self.source.derivative(operands, results)
        pairs = zip(op.results, cts, strict=True)
        carrying = [(r, ct) for r, ct in pairs if r.tensor.dtype.is_differentiable]
        given = [b.full_like(0, r) if ct is None else ct for r, ct in carrying]
        found = _written(b, program.function.block, [*op.operands, *op.results, *given], axes)
        cotangents: list[Value | None] = [None] * len(op.operands)
        for position, value in zip(program.flows, found, strict=True):
            cotangents[position] = value
        return tuple(cotangents)


def _core(type: TensorType, axes: int) -> TensorType:
    return type.with_shape(type.shape[axes:])


def _written(b: Builder, block: Any, given: Sequence[Value], axes: int) -> list[Value]:
    """Write a program's operations through ``b``, for arguments with ``axes`` more leading axes."""
    ops = block.ops[:-1]
    returned: Sequence[Value] = block.terminator.operands
    if not axes:
        mapping = dict(zip(block.args, given, strict=True))
        for op in ops:
            with b.at(op.location):
                b.insert(clone_operation(op, mapping))
        return [mapping.get(v, v) for v in returned]
    lead = given[0].tensor.shape[:axes]
    flat = [_reshaped(b, v, (_product(lead), *v.tensor.shape[axes:])) for v in given]
    values: dict[Value, Value] = dict(zip(block.args, flat, strict=True))
    mapped = set(block.args)
    batch_operations(b, ops, values, mapped)
    found = []
    for value in returned:
        new = values.get(value, value)
        if value not in mapped:
            (new,) = spread(b, (new, flat[0]), (False, True))[:1]
        found.append(_reshaped(b, new, (*lead, *new.tensor.shape[1:])))
    return found


def _reshaped(b: Builder, value: Value, shape: Sequence[DimLike]) -> Value:
    result: Value = b.reshape(value, shape=tuple(shape))
    return value if value.tensor.shape == tuple(shape) else result


def _product(shape: Sequence[DimLike]) -> Any:
    return prod(shape)


def foreign_symbols(module: Module) -> dict[str, tuple[str, ...]]:
    """For each custom op in a tensor-level program that calls what no program can hold, the names of that.

    Such a program runs in this process alone.
    """
    found: dict[str, dict[str, None]] = {}
    for op in module.walk():
        if isinstance(op.defn, Foreign):
            axes = op.attrs.get("axes", 0)
            given, made = ([_core(v.tensor, axes) for v in vs] for vs in (op.operands, op.results))
            for symbol in op.defn.source.code(given, made).foreign:
                found.setdefault(op.name, {})[symbol.name] = None
    return {name: tuple(symbols) for name, symbols in found.items()}


class ForeignScalar(Foreign, Elementwise):
    """The family of kernels of scalars: their operands may have different dtypes."""

    costly = True
    predicate = False

    def infer(self, *types: Any, content: str) -> Any:
        """The operands' shape, and the dtype that the kernel returns for their dtypes."""
        if len(types) != self.arity:
            raise ShapeError(f"{self.name} takes {self.arity} operands, got {len(types)}")
        for type in types:
            require_same_shape(self.name, types[0].with_dtype(type.dtype), type)
        (result,) = self.code(content, types).results
        return types[0].with_dtype(result)

    def evaluate(self, *arrays: Any, content: str) -> Any:
        """The kernel, for each element."""
        return self.source.meaning([_type_of(a) for a in arrays])(*arrays)

    def kernel(self, **attrs: Any) -> Callable[..., Any]:
        """`evaluate`, which remembers what it called for arrays of the same dtypes."""
        known: dict[Any, Callable[..., Any]] = {}

        def run(*arrays: Any) -> Any:
            key = tuple([a.dtype for a in arrays])
            call = known.get(key)
            if call is None:
                call = known[key] = self.source.meaning([_type_of(a) for a in arrays])
            return call(*arrays)

        return run

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """No kernel takes complex numbers."""
        return Op.pairs(self, b, *operands, **attrs)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """What the user's vjp makes of operands, result and cotangent."""
        return self.derivative(b, op, cts, 0)


class ForeignArrays(Foreign):
    """The family of kernels of arrays, which stand behind ``axes`` leading ones over which they are mapped."""

    form = "nest"

    def infer(self, *types: Any, content: str, axes: int = 0) -> Any:
        """By the user's rule."""
        lead = types[0].shape[:axes]
        for type in types:
            if type.shape[:axes] != lead:
                raise ShapeError(f"{self.name}: operands are mapped over different axes")
        operands = [t.with_shape(t.shape[axes:]) for t in types]
        results = self.source.result_types(operands)
        self.code(content, operands, results)
        found = tuple(r.with_shape((*lead, *r.shape)) for r in results)
        return found[0] if len(found) == 1 else found

    def evaluate(self, *arrays: Any, content: str, axes: int = 0) -> Any:
        """The kernel, for each row."""
        types = [_type_of(a) for a in arrays]
        inferred = self.infer(*types, content=content, axes=axes)
        results = inferred if isinstance(inferred, tuple) else (inferred,)
        outputs = [np.empty(r.static_shape, r.dtype.numpy) for r in results]
        call = self.source.meaning(*([_core(t, axes) for t in group] for group in (types, results)))
        inputs = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in arrays]
        for row in np.ndindex(*types[0].static_shape[:axes]):
            call(*(a[(*row, ...)] for a in (*inputs, *outputs)))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis to be mapped over."""
        mapped = spread(b, operands, batched)
        return b.emit(self, *mapped, **(attrs | {"axes": attrs.get("axes", 0) + 1}))

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: StoredOperand,
        content: str,
        axes: int = 0,
    ) -> None:
        """Call the kernel for each row."""
        buffers = [*(x.memory for x in operands), *outs]
        attrs = {"op": self.name, "content": content, "inputs": len(operands)}
        lead = operands[0].type.shape[:axes]

        def call(row: DimLike | None) -> None:
            parts = [_part(k, buffer, axes, row) for buffer in buffers]
            k.effect(OPS["call_foreign"], *parts, **attrs)

        if axes:
            k.loop((_product(lead),), lambda index: call(index[0]))
        else:
            call(None)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """What the user's vjp makes of operands, results and cotangents."""
        return self.derivative(b, op, cts, op.attrs.get("axes", 0))


def _part(k: Kernel, buffer: Value, axes: int, row: DimLike | None) -> Value:
    """The memory of one row of a buffer."""
    if row is None:
        return buffer
    kind = buffer.type
    assert isinstance(kind, BufferType)
    core = BufferType(kind.dtype, kind.shape[axes:])
    return k.view(buffer, core, row)


def _type_of(array: Any) -> TensorType:
    return TensorType(as_dtype(np.asarray(array).dtype), np.shape(array))


class CallForeign(LoopOp):
    """Run the kernel of a user's operation on buffers: ``inputs`` that it reads, then those that it fills."""

    name = "call_foreign"
    pure = False
    no_device = _NO_DEVICE

    def infer(self, *types: Any, op: str, content: str, inputs: int) -> tuple[Type, ...]:
        """No results."""
        defn = OPS.get(op)
        if not isinstance(defn, ForeignArrays):
            raise DTypeError(f"call_foreign: {op} is no custom op that is registered here")
        defn.code(content, types[:inputs], types[inputs:])
        return ()

    def evaluate(self, *arrays: Any, op: str, content: str, inputs: int) -> Any:
        """The kernel, on memory."""
        defn = OPS[op]
        assert isinstance(defn, ForeignArrays)
        types = [_type_of(a) for a in arrays]
        defn.source.meaning(types[:inputs], types[inputs:])(*arrays)
        return ()

    def written(self, op: Operation) -> Sequence[Value]:
        """What the kernel fills."""
        return op.operands[op.attrs["inputs"] :]
