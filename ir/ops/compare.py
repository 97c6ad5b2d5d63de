"""Elementwise comparison, logic, selection, conversion, and the parts of complex numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir import pairs
from tapec.ir import scalar as primitives
from tapec.ir.composed import Composed
from tapec.ir.errors import DTypeError, ShapeError, TargetError
from tapec.ir.op import (
    Cotangents,
    Elementwise,
    Index,
    Kernel,
    Sample,
    require_same_shape,
)
from tapec.ir.ops.arith import split_by
from tapec.ir.pairs import Pair
from tapec.ir.types import BOOL, C64, C128, F32, F64, I8, I32, U8, DType, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Predicate(Elementwise):
    """A test whose result is bool; it has no derivative."""

    differentiable = False
    cheap = True


class Eq(Predicate):
    """``x == y``; NaN equals nothing."""

    name = "eq"
    scalar = primitives.EQ
    commutative = True


class Ne(Predicate):
    """``x != y``; true if either is NaN."""

    name = "ne"
    scalar = primitives.NE
    commutative = True


class Lt(Predicate):
    """``x < y``."""

    name = "lt"
    scalar = primitives.LT


class Le(Predicate):
    """``x <= y``."""

    name = "le"
    scalar = primitives.LE


class Gt(Predicate):
    """``x > y``."""

    name = "gt"
    scalar = primitives.GT


class Ge(Predicate):
    """``x >= y``."""

    name = "ge"
    scalar = primitives.GE


class IsFinite(Predicate):
    """True unless ``x`` is infinite or NaN."""

    name = "is_finite"
    scalar = primitives.IS_FINITE


class IsNan(Predicate):
    """True where ``x`` is NaN."""

    name = "is_nan"
    scalar = primitives.IS_NAN


class Bitwise(Elementwise):
    """An operation on the bits of integers, or on truth values."""

    differentiable = False
    cheap = True


class And(Bitwise):
    """Bitwise and; logical and of bools."""

    name = "and"
    scalar = primitives.AND
    commutative = True


class Or(Bitwise):
    """Bitwise or; logical or of bools."""

    name = "or"
    scalar = primitives.OR
    commutative = True


class Xor(Bitwise):
    """Bitwise exclusive or; inequality of bools."""

    name = "xor"
    scalar = primitives.XOR
    commutative = True


class Not(Bitwise):
    """Every bit inverted; logical not of bools."""

    name = "not"
    scalar = primitives.NOT


class Shl(Bitwise):
    """``x`` shifted left by ``y`` bits; nothing is left of it unless ``0 <= y < bits``."""

    name = "shl"
    scalar = primitives.SHL


class Shr(Bitwise):
    """``x`` shifted right by ``y`` bits, filled with its sign, if it has one.

    Nothing but the filling is left of it unless ``0 <= y < bits``.
    """

    name = "shr"
    scalar = primitives.SHR


class Where(Elementwise):
    """``x`` where the condition holds, ``y`` elsewhere: operands condition (bool), ``x``, ``y``."""

    name = "where"
    scalar = primitives.WHERE
    stays_finite = True
    cheap = True

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The type of both choices."""
        if len(types) != 3:
            raise ShapeError(f"where takes 3 operands, got {len(types)}")
        condition, x, y = types
        if condition.dtype != BOOL:
            raise DTypeError(f"where: the condition must be bool, got {condition}")
        if x.dtype != y.dtype:
            raise DTypeError(
                f"where: the choices differ in dtype: {x.dtype.code} and {y.dtype.code}"
            )
        require_same_shape(self.name, condition, x)
        require_same_shape(self.name, y, x)
        return x

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The cotangent goes to the one that was chosen."""
        return None, *split_by(b, op.operands[0], cts[0])

    def samples(self) -> Iterator[Sample]:
        """Floats, and one dtype that carries no gradient."""
        for dtype, shape in ((F64, (2, 3)), (F64, ()), (F64, (0, 3)), (I32, (4,)), (BOOL, (4,))):
            chosen = TensorType(dtype, shape)
            yield Sample((TensorType(BOOL, shape), chosen, chosen))


class Cast(Elementwise):
    """``x`` converted to ``dtype``.

    Floats lose their fraction on the way to an integer; what does not fit becomes the nearest
    integer that does, and NaN becomes 0. Integers wrap around. A number is true as a bool unless it
    is 0. A complex number loses its imaginary part on the way to another dtype.
    """

    name = "cast"
    cheap = True
    arity = 1

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The same shape, the dtype asked for."""
        (x,) = types
        for dtype in (x.dtype, attrs["dtype"]):
            if dtype.kind == "string":
                raise DTypeError(f"cast does not take {dtype.code}")
        return x.with_dtype(attrs["dtype"])

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """NumPy's conversion, made total from floats to integers."""
        x = np.asarray(arrays[0])
        dtype: DType = attrs["dtype"]
        if x.dtype.kind == "c" and not dtype.is_complex:
            x = x.real
        if dtype.is_bool:
            return x != 0
        if x.dtype.kind in "biu" and dtype.bits >= 32:
            return x.astype(dtype.numpy)  # NumPy has nothing to warn of
        with np.errstate(all="ignore"):
            if dtype.is_integer and x.dtype.kind not in "biu":
                return _truncate(x.astype(np.float64), dtype)
            return x.astype(dtype.numpy)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The cotangent converted back; none from or to a dtype that carries no gradient."""
        source, target = op.operands[0].tensor.dtype, op.result.tensor.dtype
        if not (source.is_differentiable and target.is_differentiable):
            return (None,)
        return (b.cast(cts[0], dtype=source),)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Each part, or the real one alone; a real number gets an imaginary part of 0."""
        (x,), dtype = operands, attrs["dtype"]
        if isinstance(x, Pair):
            if not dtype.is_complex:
                return b.cast(x.re, dtype=dtype)
            return Pair(*(b.cast(part, dtype=dtype.real_dtype) for part in (x.re, x.im)))
        re = b.cast(x, dtype=dtype.real_dtype)
        return Pair(re, b.full_like(0, re))

    def samples(self) -> Iterator[Sample]:
        """Every pair of kinds, and between widths."""
        for source, target in (
            (F64, F64),
            (F64, C128),
            (C128, F64),
            (F64, F32),
            (F32, F64),
            (F64, I32),
            (F64, U8),
            (F64, BOOL),
            (I32, F64),
            (I32, I8),
            (U8, I32),
            (BOOL, F32),
            (I32, BOOL),
        ):
            yield Sample((TensorType(source, (2, 3)),), {"dtype": target})
        yield Sample((TensorType(F64, (0, 3)),), {"dtype": F32})


def _truncate(x: Any, dtype: DType) -> Any:
    """Floats to integers, saturated: what LLVM's ``fptosi.sat`` does."""
    limits = np.iinfo(dtype.numpy)
    # The upper limit may not be a float; 2 ** bits is, and everything from there on saturates.
    top = np.ldexp(1.0, dtype.bits - (dtype.kind == "int"))
    fits = (x > float(limits.min) - 1) & (x < top)
    whole = np.where(fits, np.trunc(x), 0.0).astype(dtype.numpy)
    whole = np.where(x >= top, dtype.numpy.type(limits.max), whole)
    return np.where(x <= float(limits.min), dtype.numpy.type(limits.min), whole)


class ComplexPart(Composed):
    """A real part of complex numbers: half their bits."""

    kinds = frozenset({"complex"})

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The float dtype of the part."""
        z = super().infer(*types)
        return z.with_dtype(z.dtype.real_dtype)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """There is no index form: in loops, complex numbers are pairs."""
        raise TargetError(f"{self.name}: loops cannot be written over complex numbers")


class Real(ComplexPart):
    """The real part."""

    name = "real"

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """A copy: results never alias."""
        return np.real(arrays[0]).copy()

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The first."""
        return operands[0].re

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``z_bar = ct + 0i``."""
        return (b.complex(cts[0], b.full_like(0, cts[0])),)


class Imag(ComplexPart):
    """The imaginary part."""

    name = "imag"

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """A copy: results never alias."""
        return np.imag(arrays[0]).copy()

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The second."""
        return operands[0].im

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``z_bar = 0 + i ct``."""
        return (b.complex(b.full_like(0, cts[0]), cts[0]),)


class Conj(ComplexPart):
    """The complex conjugate."""

    name = "conj"

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The operand's type."""
        return Composed.infer(self, *types)

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """``np.conj``."""
        return np.conj(arrays[0])

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The second with the other sign."""
        return pairs.conj(b, *operands)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``z_bar = conj(ct)``."""
        return (b.conj(cts[0]),)


class Complex(Composed):
    """``x + iy`` from float32 or float64 parts."""

    name = "complex"
    arity = 2

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """complex64 or complex128."""
        x = super().infer(*types)
        if x.dtype not in (F32, F64):
            raise DTypeError(f"complex: the parts must be float32 or float64, got {x.dtype.code}")
        return x.with_dtype(C64 if x.dtype == F32 else C128)

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """Parts written one by one: ``1j * inf`` would be NaN in its real part."""
        x, y = arrays
        z = np.empty(np.shape(x), np.result_type(x, np.complex64))
        z.real, z.imag = x, y
        return z

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The operands."""
        return Pair(*operands)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The parts of the cotangent."""
        return b.real(cts[0]), b.imag(cts[0])

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """There is no index form: see `ComplexPart`."""
        raise TargetError("complex: loops cannot be written over complex numbers")
