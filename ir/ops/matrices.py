"""What the operations on matrices share: a matrix is the last two axes, the axes in front are a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Index, Kernel, require_equal_dims
from tapec.ir.ops.arith import conj
from tapec.ir.types import F32, F64, I32, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Value


def require_matrix(name: str, x: TensorType, *, or_complex: bool = False) -> TensorType:
    """Hold a type to be matrices of a dtype that is precise enough."""
    if x.dtype not in (F32, F64) and not (or_complex and x.dtype.is_complex):
        others = ", complex64 and complex128" if or_complex else ""
        raise DTypeError(f"{name} takes float32 and float64{others}, got {x}")
    if x.rank < 2:
        raise ShapeError(f"{name}: expected matrices, got {x}")
    return x


def require_square(name: str, x: TensorType, *, or_complex: bool = False) -> TensorType:
    """Hold a type to be square matrices of a dtype that is precise enough."""
    require_matrix(name, x, or_complex=or_complex)
    rows, columns = x.shape[-2:]
    require_equal_dims(rows, columns, lambda: f"{name}: expected square matrices, got {x}")
    return x


# ---- in rules, which write programs


def places(b: Builder, x: Value) -> tuple[Value, Value]:
    """The row and the column of each element."""
    numbers = x.tensor.with_dtype(I32)
    rank = numbers.rank
    return b.iota(axis=rank - 2, type=numbers), b.iota(axis=rank - 1, type=numbers)


def part(b: Builder, x: Value, compare: str) -> Value:
    """The elements whose row compares so with their column, 0 elsewhere: ``ge`` is the lower triangle."""
    result: Value = b.where(b.emit(compare, *places(b, x)), x, b.full_like(0, x))
    return result


def halved(b: Builder, x: Value) -> Value:
    """The lower triangle, its diagonal halved."""
    rows, columns = places(b, x)
    scaled = b.where(b.eq(rows, columns), b.mul(x, b.full_like(0.5, x)), x)
    return part(b, scaled, "ge")


def swapped(b: Builder, x: Value) -> Value:
    """The last two axes swapped."""
    rank = x.tensor.rank
    result: Value = b.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))
    return result


def adjoint(b: Builder, x: Value) -> Value:
    """The last two axes swapped, the elements conjugated."""
    return conj(b, swapped(b, x))


def real_part(b: Builder, x: Value) -> Value:
    """The real part; of real elements they themselves."""
    return b.real(x) if x.tensor.dtype.is_complex else x


def like(b: Builder, x: Value, other: Value) -> Value:
    """Real elements in the dtype of others that may be complex."""
    dtype = other.tensor.dtype
    return b.cast(x, dtype=dtype) if dtype.is_complex else x


def product(b: Builder, x: Value, y: Value, *, turn: str = "") -> Value:
    """``x y`` for each pair of matrices; ``turn`` names the factors that are transposed first."""
    result: Value = b.matmul(x, y, transpose_a="x" in turn, transpose_b="y" in turn)
    return result


# ---- in loops


def exchange(k: Kernel, buffer: Value, one: Index, other: Index) -> None:
    """Swap two elements."""
    first, second = k.load(buffer, one), k.load(buffer, other)
    k.store(second, buffer, one)
    k.store(first, buffer, other)
