"""Numbers as the bits that stand for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.composed import Composed
from tapec.ir.errors import DTypeError
from tapec.ir.op import Cotangents, Elementwise, Index, Kernel, Sample
from tapec.ir.types import BF16, F16, F32, F64, I8, I16, I32, I64, U8, U32, U64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Bitcast(Elementwise):
    """The number of another dtype, of as many bits, that the same bits stand for."""

    name = "bitcast"
    cheap = True
    arity = 1
    differentiable = False

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The same shape, the dtype asked for."""
        (x,), target = types, attrs["dtype"]
        for dtype in (x.dtype, target):
            if not (dtype.is_floating or dtype.is_integer):
                raise DTypeError(f"bitcast takes floats and integers, got {dtype.code}")
        if x.dtype.bits != target.bits:
            raise DTypeError(f"bitcast: {x.dtype.code} and {target.code} have not as many bits")
        return x.with_dtype(target)

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """NumPy's view, as an array of its own."""
        return np.asarray(arrays[0]).view(attrs["dtype"].numpy).copy()

    def samples(self) -> Iterator[Sample]:
        """Every width, both ways."""
        for source, target in (
            (F64, I64),
            (F32, U32),
            (I32, F32),
            (U64, F64),
            (F16, I16),
            (I16, BF16),
            (I8, U8),
        ):
            yield Sample((TensorType(source, (2, 3)),), {"dtype": target})
        yield Sample((TensorType(F64, (0, 3)),), {"dtype": U64})


class NextAfter(Composed):
    """The number next to ``x`` on the way to ``y``; ``y`` itself if both are equal, NaN if one is NaN."""

    name = "nextafter"
    arity = 2

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The operands' type."""
        result = super().infer(*types, **attrs)
        if result.dtype not in (F32, F64):
            raise DTypeError(f"nextafter takes float32 and float64, got {result.dtype.code}")
        return result

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct``, and 0 for ``y``: so TensorFlow has it."""
        return cts[0], b.full_like(0, op.operands[1])

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """Floats of one sign are ordered as their bits are."""
        (x, y), dtype = (operand[i] for operand in operands), operands[0].type.dtype
        word = I32 if dtype == F32 else I64
        zero = k.constant(0, dtype)
        up = k.lt(x, y)
        away = k.eq(up, k.gt(x, zero))
        step = k.where(away, k.constant(1, word), k.constant(-1, word))
        near = k.bitcast(k.add(k.bitcast(x, dtype=word), step), dtype=dtype)
        least = k.bitcast(k.constant(1, word), dtype=dtype)
        near = k.where(k.eq(x, zero), k.where(up, least, k.neg(least)), near)
        near = k.where(k.eq(x, y), y, near)
        unordered = k.or_(k.is_nan(x), k.is_nan(y))
        result: Value = k.where(unordered, k.add(x, y), near)
        return result

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """`numpy.nextafter`."""
        with np.errstate(all="ignore"):
            return np.nextafter(*arrays)
