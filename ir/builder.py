"""The Builder: the one way to create operations, with inference of types and locations.

``b.mul(x, y)`` emits the operation of that name at the insertion point and returns its result (a tuple if it has
several). Rules (`Op.vjp`, `Op.batch`), passes and the tracer all write programs through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapec.ir.core import Block, Operation, Region, Value
from tapec.ir.location import Location
from tapec.ir.op import OPS, Op
from tapec.ir.types import DType, Shape, TensorType, Type


class Builder:
    """Emits operations at the end of a block, or in front of an operation."""

    def __init__(self, block: Block, before: Operation | None = None) -> None:
        """Insert into ``block``: in front of ``before``, or at the end."""
        self.block = block
        self.before = before
        self.location: Location | None = None

    @contextmanager
    def at(self, location: Location | None) -> Iterator[None]:
        """Give operations emitted inside this location."""
        saved, self.location = self.location, location
        try:
            yield
        finally:
            self.location = saved

    def insert(self, op: Operation) -> Operation:
        """Put a finished operation at the insertion point."""
        if self.before is None:
            return self.block.append(op)
        return self.block.insert_before(self.before, op)

    def emit(
        self,
        defn: Op | str,
        *operands: Value,
        regions: Sequence[Region] = (),
        result_types: Sequence[Type] | None = None,
        **attrs: Any,
    ) -> Any:
        """Create an operation; return its result, or a tuple if it has none or several.

        ``result_types`` overrides inference for operations whose results their regions determine. What in regions
        has no location of its own, has the operation's.

        Raises:
            ShapeError, DTypeError: the operands do not fit the operation.
        """
        defn = OPS[defn] if isinstance(defn, str) else defn
        if result_types is None:
            inferred = defn.infer(*(v.type for v in operands), **attrs)
            result_types = inferred if isinstance(inferred, tuple) else (inferred,)
        op = self.insert(Operation(defn, operands, result_types, attrs, regions, self.location))
        if regions:
            for inner in op.walk():
                inner.location = inner.location or self.location
        return op.results[0] if len(op.results) == 1 else op.results

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """``b.matmul``: emit the operation of that name (``b.and_`` for names that Python reserves)."""
        defn = OPS.get(name.removesuffix("_"))
        if defn is None:
            raise AttributeError(f"no operation is called {name!r}")
        return lambda *operands, **attrs: self.emit(defn, *operands, **attrs)

    def full(self, value: Any, type: TensorType) -> Value:
        """A constant with every element equal to ``value``."""
        result: Value = self.emit("constant", value=value, type=type)
        return result

    def full_like(self, value: Any, like: Value) -> Value:
        """A constant of the type of another value."""
        return self.full(value, like.tensor)

    def dense(self, array: np.ndarray[Any, Any], dtype: DType) -> Value:
        """A constant tensor with these elements."""
        result: Value = self.emit("constant", value=array, type=TensorType(dtype, array.shape))
        return result

    def broadcast_to(self, x: Value, shape: Shape) -> Value:
        """Repeat ``x`` to a shape by NumPy's rule; ``x`` itself if it has the shape already."""
        source = x.tensor.shape
        if source == shape:
            return x
        lead = len(shape) - len(source)
        kept = [a for a, n in enumerate(source) if n != 1 or shape[a + lead] == 1]
        if len(kept) < len(source):
            x = self.reshape(x, shape=tuple(source[a] for a in kept))
        result: Value = self.broadcast(x, shape=shape, axes=tuple(a + lead for a in kept))
        return result
