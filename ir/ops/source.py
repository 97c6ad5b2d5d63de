"""Operations that make values from nothing: constants and counting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import Dim
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Index, Kernel, Op, Sample, require_sizes
from tapec.ir.pairs import Pair
from tapec.ir.types import BOOL, F64, I32, INDEX, TensorType, VectorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Value


class Constant(Op):
    """A tensor that is known: ``value`` is the number that every element is, or an array."""

    name = "constant"
    typed = True
    levels = frozenset({"tensor", "loop"})
    differentiable = False
    cheap = True

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The given type; an array has its shape. At loop level a vector lists its lanes, an index may be a dim."""
        value, target = attrs["value"], attrs["type"]
        if isinstance(value, Dim) and target == TensorType(INDEX):
            return target
        if (
            isinstance(value, tuple)
            and isinstance(target, VectorType)
            and len(value) == target.lanes
        ):
            return target
        if not isinstance(target, VectorType):
            require_sizes(self.name, target.shape)
        if isinstance(value, np.ndarray) and value.shape != target.shape:
            raise ShapeError(f"constant: an array of shape {list(value.shape)} is no {target}")
        if not isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
            hint = "dense[1.0, 2.0] is an array in a program's text"
            raise ShapeError(f"constant: {value!r} is neither a number nor an array", hint=hint)
        return target

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """A new array each time."""
        value, target = attrs["value"], attrs["type"]
        if isinstance(value, np.ndarray):
            return value.astype(target.dtype.numpy)
        return np.full(target.static_shape, value, target.dtype.numpy)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The parts of the value."""
        value, target = np.asarray(attrs["value"]), attrs["type"]
        kind = target.with_dtype(target.dtype.real_dtype)
        parts = (np.real(value), np.imag(value))
        return Pair(*(b.constant(value=p if p.ndim else p.item(), type=kind) for p in parts))

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """A literal; an array of several elements is memory, which no index form can make."""
        value, target = attrs["value"], attrs["type"]
        if isinstance(value, np.ndarray):
            if value.size != 1:
                raise ShapeError(f"constant: the elements of a {target} are no literal")
            value = value.item()
        return k.constant(value, target.dtype)

    def samples(self) -> Iterator[Sample]:
        """Repeated numbers and arrays."""
        yield Sample((), {"value": 1.5, "type": TensorType(F64, (2, 3))})
        yield Sample((), {"value": 3, "type": TensorType(I32)})
        yield Sample((), {"value": True, "type": TensorType(BOOL, (0, 3))})
        yield Sample((), {"value": np.arange(6.0).reshape(2, 3), "type": TensorType(F64, (2, 3))})


class Iota(Op):
    """The index along ``axis``, which counts from 0."""

    name = "iota"
    typed = True
    differentiable = False
    cheap = True

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The given type."""
        axis, target = attrs["axis"], attrs["type"]
        require_sizes(self.name, target.shape)
        if not 0 <= axis < target.rank:
            raise ShapeError(f"iota: axis {axis} is outside of {target}")
        if target.dtype.is_bool:
            raise DTypeError("iota: a bool cannot count")
        return target

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """``np.arange``, repeated along the other axes."""
        axis, shape = attrs["axis"], attrs["type"].static_shape
        line = np.arange(shape[axis]).astype(attrs["type"].dtype.numpy)
        others = tuple(a for a in range(len(shape)) if a != axis)
        return np.broadcast_to(np.expand_dims(line, others), shape).copy()

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Real numbers."""
        kind = attrs["type"].with_dtype(attrs["type"].dtype.real_dtype)
        return Pair(b.iota(axis=attrs["axis"], type=kind), b.full(0, kind))

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The index as a number."""
        return k.number(i[attrs["axis"]], attrs["type"].dtype)

    def samples(self) -> Iterator[Sample]:
        """Both axes of a matrix, and no rows at all."""
        yield Sample((), {"axis": 0, "type": TensorType(F64, (2, 3))})
        yield Sample((), {"axis": 1, "type": TensorType(I32, (2, 3))})
        yield Sample((), {"axis": 1, "type": TensorType(F64, (0, 3))})


class Extent(Op):
    """A size as a number, which every element is: ``dim``, which only a call may know."""

    name = "extent"
    typed = True
    differentiable = False
    cheap = True

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The given type."""
        dim, target = attrs["dim"], attrs["type"]
        if target.dtype.is_bool:
            raise DTypeError("extent: a bool cannot count")
        require_sizes(self.name, (dim, *target.shape))
        return target

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """The number."""
        number = np.asarray(attrs["dim"]).astype(attrs["type"].dtype.numpy)
        return np.full(attrs["type"].static_shape, number)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """A real number."""
        kind = attrs["type"].with_dtype(attrs["type"].dtype.real_dtype)
        return Pair(b.extent(dim=attrs["dim"], type=kind), b.full(0, kind))

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The size as a number."""
        return k.number(attrs["dim"], attrs["type"].dtype)

    def samples(self) -> Iterator[Sample]:
        """Integers and floats, one, several and none."""
        yield Sample((), {"dim": 7, "type": TensorType(I32)})
        yield Sample((), {"dim": 7, "type": TensorType(F64, (2,))})
        yield Sample((), {"dim": 7, "type": TensorType(F64, (0,))})


def whole_number(value: Value) -> int | None:
    """The whole number that a value always is, if it is one."""
    op = value.op
    if op is None or not isinstance(op.defn, Constant):
        return None
    number = op.attrs["value"]
    return number if isinstance(number, int) else None
