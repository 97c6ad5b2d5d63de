"""Types of values: dtypes, tensors, buffers, vectors, and their text.

``f32[N,784]`` a tensor (``f32`` alone is a scalar) · ``&f32[32,10]`` a buffer in memory, dense and row-major ·
``f32x16`` a vector register. `promote` is the table of Python-number promotion; tensors never promote silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import ml_dtypes
import numpy as np

from tapec.ir.dims import DimLike, Symbol, substitute, symbols
from tapec.ir.lazy import lazy

Kind = Literal["float", "int", "uint", "bool", "complex", "index", "string"]


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. ``name`` is TensorFlow's, ``code`` the one in program text, ``bits`` the storage width."""

    name: str
    code: str
    kind: Kind
    bits: int
    numpy: np.dtype[Any] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Compare with a dtype, or with anything that names one: ``tapec.float32 == "float32"``, ``np.float32``."""
        if isinstance(other, DType):
            return self.code == other.code
        try:
            return other is not None and as_dtype(other).code == self.code
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.code)

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"  # as TensorFlow's; program text has ``code``

    def __repr__(self) -> str:
        return f"tapec.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes; a bool takes one."""
        return max(self.bits // 8, 1)

    @property
    def is_floating(self) -> bool:
        """True for float16, bfloat16, float32, float64."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_complex(self) -> bool:
        """True for complex64, complex128."""
        return self.kind == "complex"

    @property
    def is_bool(self) -> bool:
        """True for bool."""
        return self.kind == "bool"

    @property
    def is_unsigned(self) -> bool:
        """True for unsigned integers."""
        return self.kind == "uint"

    @property
    def is_numeric(self) -> bool:
        """True for all but bool and string."""
        return self.kind not in ("bool", "string")

    @property
    def is_differentiable(self) -> bool:
        """Values of this dtype carry gradients: floats and complex numbers."""
        return self.kind in ("float", "complex")

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """The NumPy scalar type."""
        return self.numpy.type

    @property
    def real_dtype(self) -> DType:
        """The dtype of the real part."""
        return {"c64": F32, "c128": F64}.get(self.code, self)

    @property
    def size(self) -> int:
        """Storage of one element in bytes, under TensorFlow's name."""
        return self.bytes

    @property
    def base_dtype(self) -> DType:
        """Itself: tapec has no reference dtypes."""
        return self

    @property
    def is_quantized(self) -> bool:
        """Never: tapec has no quantised numbers."""
        return False

    @property
    def is_numpy_compatible(self) -> bool:
        """Always: every dtype is one of NumPy's."""
        return True

    def is_compatible_with(self, other: Any) -> bool:
        """Whether another dtype is the same."""
        return as_dtype(other) == self

    @property
    def limits(self) -> tuple[Any, Any]:
        """The bounds of what images of this dtype hold: 0 and 1 for floats."""
        return (0, 1) if self.is_floating else (max(self.min, 0), self.max)

    @property
    def min(self) -> Any:
        """Smallest finite value."""
        return _limits(self).min

    @property
    def max(self) -> Any:
        """Largest finite value."""
        return _limits(self).max

    @property
    def smallest_normal(self) -> float:
        """Least positive number with all its digits, of a float or complex dtype."""
        return float(_limits(self).smallest_normal)


def _limits(dtype: DType) -> Any:
    if dtype.is_integer:
        return np.iinfo(dtype.numpy)
    if dtype.kind in ("bool", "string"):
        raise TypeError(f"Cannot find minimum value of {dtype!r}.")
    return ml_dtypes.finfo(dtype.real_dtype.numpy)


def _dtype(name: str, code: str, kind: Kind, bits: int, numpy: Any = None) -> DType:
    return DType(name, code, kind, bits, np.dtype(numpy or name))


F16 = _dtype("float16", "f16", "float", 16)
BF16 = _dtype("bfloat16", "bf16", "float", 16, ml_dtypes.bfloat16)
F32 = _dtype("float32", "f32", "float", 32)
F64 = _dtype("float64", "f64", "float", 64)
I8, I16, I32, I64 = (_dtype(f"int{n}", f"i{n}", "int", n) for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (_dtype(f"uint{n}", f"u{n}", "uint", n) for n in (8, 16, 32, 64))
BOOL = _dtype("bool", "bool", "bool", 1)
C64 = _dtype("complex64", "c64", "complex", 64)
C128 = _dtype("complex128", "c128", "complex", 128)
#: Eager code only: elements are bytes objects.
STRING = _dtype("string", "str", "string", 0, object)
#: Loop level only: extents and positions, 64 bits.
INDEX = _dtype("index", "index", "index", 64, np.int64)

DTYPES = (F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, C64, C128)
BY_CODE = {d.code: d for d in (*DTYPES, INDEX)}
_BY_NAME = {d.name: d for d in (*DTYPES, STRING)} | {"double": F64, "half": F16}
_BY_NUMPY = {d.numpy: d for d in (*DTYPES, STRING)}


def as_dtype(type_value: Any) -> DType:
    """Return the dtype that ``type_value`` names: a DType, ``"float32"``, ``np.float32``, ``float``.

    Raises:
        TypeError: nothing here has that name.
    """
    if isinstance(type_value, DType):
        return type_value
    if isinstance(type_value, str) and type_value in _BY_NAME:
        return _BY_NAME[type_value]
    if type_value is float:
        return F32
    if type_value is int:
        return I32
    if type_value is str or type_value is bytes:
        return STRING
    try:
        return _BY_NUMPY[np.dtype(type_value)]
    except (TypeError, ValueError, KeyError):
        raise TypeError(f"{type_value!r} is not a dtype of tapec ({', '.join(_BY_NAME)})") from None


Shape = tuple[DimLike, ...]


@dataclass(frozen=True)
class TensorType:
    """A tensor: dtype and shape; a dim is an int or an expression over symbols. Rank 0 is a scalar."""

    dtype: DType
    shape: Shape = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @lazy
    def size(self) -> DimLike:
        """Number of elements."""
        return prod(self.shape)

    @property
    def is_static(self) -> bool:
        """No dim is symbolic."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as integers.

        Raises:
            ValueError: a dim is symbolic.
        """
        if not self.is_static:
            raise ValueError(f"{self} has symbolic dims")
        return tuple(int(d) for d in self.shape)  # type: ignore[arg-type]

    @property
    def bytes(self) -> DimLike:
        """Storage in bytes, dense."""
        return self.size * self.dtype.bytes

    def symbols(self) -> set[Symbol]:
        """The symbols that occur in the shape."""
        return {s for d in self.shape for s in symbols(d)}

    def substitute(self, values: Mapping[str, DimLike]) -> TensorType:
        """The type with symbols replaced by name."""
        return TensorType(self.dtype, tuple(substitute(d, values) for d in self.shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape, another dtype."""
        return TensorType(dtype, self.shape)

    def with_shape(self, shape: Shape) -> TensorType:
        """The same dtype, another shape."""
        return TensorType(self.dtype, shape)

    @lazy
    def _hash(self) -> int:
        return hash((self.dtype.code, self.shape))

    def __hash__(self) -> int:
        return self._hash  # types are keys of every cache on the way of an eager operation

    def __str__(self) -> str:
        code = self.dtype.code
        return f"{code}[{','.join(map(str, self.shape))}]" if self.shape else code


@dataclass(frozen=True)
class BufferType:
    """Memory that holds a tensor, dense and row-major. Loop level only."""

    dtype: DType
    shape: Shape = ()

    @property
    def tensor(self) -> TensorType:
        """The type of what the buffer holds."""
        return TensorType(self.dtype, self.shape)

    @property
    def strides(self) -> Shape:
        """Elements between neighbours along each axis."""
        strides: list[DimLike] = []
        step: DimLike = 1
        for dim in reversed(self.shape):
            strides.append(step)
            step = step * dim
        return tuple(reversed(strides))

    def address(self, index: tuple[DimLike, ...]) -> DimLike:
        """The offset, in elements, of an index."""
        total: DimLike = 0
        for i, stride in zip(index, self.strides, strict=True):
            total = total + i * stride
        return total

    def __str__(self) -> str:
        return f"&{self.tensor}"


@dataclass(frozen=True)
class VectorType:
    """A vector register of ``lanes`` elements. Loop level only."""

    dtype: DType
    lanes: int

    def with_dtype(self, dtype: DType) -> VectorType:
        """The same number of lanes, another dtype."""
        return VectorType(dtype, self.lanes)

    def __str__(self) -> str:
        return f"{self.dtype.code}x{self.lanes}"


Type = TensorType | BufferType | VectorType
