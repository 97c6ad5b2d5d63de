"""Complex numbers as they lie in memory: real and imaginary parts in turn.

At the borders of a program, its arguments and results, complex tensors are memory of others. The pass `pairs` reads and
writes it as real tensors with one more axis of size 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.errors import DTypeError, ShapeError, TargetError
from tapec.ir.op import Cotangents, Index, Kernel, Op, Sample, require_same_shape, spread
from tapec.ir.ops.movement import Movement
from tapec.ir.pairs import Pair
from tapec.ir.types import C64, C128, F32, F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Reinterpretation(Movement):
    """The family: the same memory under another type. They stay outside of kernels, so what they read is in memory."""

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The same of the whole batch."""
        return b.emit(self, *operands)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """There is no index form: an element of one type is no element of the other."""
        raise TargetError(f"{self.name} cannot be computed by element")


class ViewAsReal(Reinterpretation):
    """``y[…, 0]`` is the real part of ``x``, ``y[…, 1]`` the imaginary part."""

    name = "view_as_real"

    def infer(self, *types: Any) -> TensorType:
        """One more axis, of size 2."""
        (x,) = types
        if not x.dtype.is_complex:
            raise DTypeError(f"view_as_real does not take {x.dtype.code}")
        return interleaved(x)

    def evaluate(self, *arrays: Any) -> Any:
        """NumPy's view."""
        x = np.ascontiguousarray(arrays[0]).reshape(arrays[0].shape)
        return x[..., None].view(x.real.dtype)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The parts in turn."""
        return b.interleave(operands[0].re, operands[0].im)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The pairs as complex numbers."""
        return (b.view_as_complex(cts[0]),)

    def samples(self) -> Iterator[Sample]:
        """A vector, a scalar, nothing."""
        for shape in ((2, 3), (), (0, 3)):
            yield Sample((TensorType(C128, shape),))


class ViewAsComplex(Reinterpretation):
    """``x[…, 0] + i x[…, 1]``."""

    name = "view_as_complex"

    def infer(self, *types: Any) -> TensorType:
        """All axes but the last, whose size is 2."""
        (x,) = types
        if x.dtype not in (F32, F64):
            raise DTypeError(f"view_as_complex takes float32 and float64, got {x.dtype.code}")
        if not x.rank or x.shape[-1] != 2:
            raise ShapeError(f"view_as_complex: the last axis of {x} must have size 2")
        return TensorType(C64 if x.dtype == F32 else C128, x.shape[:-1])

    def evaluate(self, *arrays: Any) -> Any:
        """NumPy's view."""
        x = np.ascontiguousarray(arrays[0])
        return x.view(np.result_type(x, np.complex64))[..., 0]

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The parts, each by itself."""
        return Pair(*deinterleaved(b, *operands))

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The parts in turn."""
        return (b.view_as_real(cts[0]),)

    def samples(self) -> Iterator[Sample]:
        """A vector, a scalar, nothing."""
        for shape in ((3, 2), (2,), (0, 2)):
            yield Sample((TensorType(F64, shape),))


class Interleave(Op):
    """``z[…, 0] = x``, ``z[…, 1] = y``: two tensors in turn along a new last axis."""

    name = "interleave"
    form = "nest"

    def infer(self, *types: Any) -> TensorType:
        """One more axis, of size 2."""
        x, y = types
        if x.dtype != y.dtype or x.dtype.is_complex:
            raise DTypeError(
                f"interleave takes two real tensors, got {x.dtype.code} and {y.dtype.code}"
            )
        require_same_shape(self.name, x, y)
        result: TensorType = x.with_shape((*x.shape, 2))
        return result

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.stack`."""
        return np.stack(arrays, axis=-1)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Every other element."""
        return deinterleaved(b, cts[0])

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.interleave(*spread(b, operands, batched))

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """Two stores for each index."""

        def both(i: Index) -> None:
            for part, x in enumerate(operands):
                k.store(x[i], outs[0], (*i, part))

        k.loop(operands[0].type.shape, both)

    def samples(self) -> Iterator[Sample]:
        """A matrix, scalars, nothing."""
        for shape in ((2, 3), (), (0, 3)):
            yield Sample((TensorType(F64, shape),) * 2)


def interleaved(x: TensorType) -> TensorType:
    """The real type of complex numbers in memory."""
    return TensorType(x.dtype.real_dtype, (*x.shape, 2))


def deinterleaved(b: Builder, x: Value) -> tuple[Value, Value]:
    """The two tensors that take turns along the last axis."""
    shape = x.tensor.shape[:-1]
    none, ones = (0,) * len(shape), (1,) * len(shape)
    first, second = (
        b.reshape(
            b.slice(x, starts=(*none, part), sizes=(*shape, 1), strides=(*ones, 1)), shape=shape
        )
        for part in (0, 1)
    )
    return first, second
