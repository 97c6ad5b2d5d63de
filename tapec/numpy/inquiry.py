"""What the namespace says of itself, of dtypes and of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tapec.devices import CPU
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast, identity
from tapec.ir.types import C64, DTYPES, F32, I32, I64, DType, as_dtype
from tapec.numpy.promotion import device_of
from tapec.tensor import Tensor, TensorLike, as_tensor

#: The standard's dtypes: those of DTYPES but for float16 and bfloat16, which it does not know.
_STANDARD = {d.name: d for d in DTYPES if d.bits != 16 or not d.is_floating}

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


class FloatLimits(NamedTuple):
    """What `finfo` says of a float dtype, or of the parts of a complex one."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        """The least positive number with all its digits."""
        return self.smallest_normal

    @property
    def resolution(self) -> float:
        """The last decimal digit that is sure, of a number at 1."""
        return float(ml_dtypes.finfo(self.dtype.numpy).resolution)


class IntegerLimits(NamedTuple):
    """What `iinfo` says of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(value: Any) -> DType:
    dtype = getattr(value, "dtype", None)
    return as_dtype(value if dtype is None else dtype)


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a float or complex dtype, or of the dtype of a tensor.

    Raises:
        TypeError: it is neither.
    """
    dtype = _dtype_of(type)
    if not dtype.is_differentiable:
        raise TypeError(f"expected a float or complex dtype, got {dtype.name}", location=here())
    real = dtype.real_dtype
    limits = ml_dtypes.finfo(real.numpy)
    return FloatLimits(
        real.bits,
        float(limits.eps),
        float(limits.max),
        float(limits.min),
        float(limits.smallest_normal),
        real,
    )


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer dtype, or of the dtype of a tensor.

    Raises:
        TypeError: it is none.
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise TypeError(f"expected an integer dtype, got {dtype.name}", location=here())
    return IntegerLimits(dtype.bits, int(dtype.max), int(dtype.min), dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, of a kind, or one of several.

    Args:
        dtype: the dtype.
        kind: a dtype, a kind (``bool``, ``signed integer``, ``unsigned integer``, ``integral``, ``real floating``,
            ``complex floating``, ``numeric``), or a tuple of these.

    Raises:
        ValueError: an unknown kind.
    """
    own = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, k) for k in kind)
    if not isinstance(kind, str):
        return own == as_dtype(kind)
    if kind not in _KINDS:
        raise ValueError(
            f"unknown kind {kind!r}: it is one of {', '.join(_KINDS)}", location=here()
        )
    return own.kind in _KINDS[kind]


def astype(x: TensorLike, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """``x`` in another dtype; its gradient is converted back.

    Args:
        x: the tensor.
        dtype: the dtype. Floats lose their fraction on the way to an integer, complex numbers their imaginary part.
        copy: whether a tensor that has the dtype becomes a new object.
        device: None or the CPU.
    """
    device_of(device)
    found = cast(x, dtype)
    return identity(found) if copy and found is x else found


def ndim(x: TensorLike, /) -> int:
    """The number of axes."""
    return as_tensor(x).type.rank


def shape(x: TensorLike, /) -> tuple[Any, ...]:
    """The sizes of the axes; one that only a call will know is None."""
    return tuple(as_tensor(x).shape)


def size(x: TensorLike, /, axis: int | None = None) -> Any:
    """The number of elements, or of the entries of an axis; None if only a call will know it."""
    sizes = shape(x) if axis is None else (shape(x)[axis],)
    return None if None in sizes else int(np.prod(sizes, dtype=np.int64))


class Inquiry:
    """What ``__array_namespace_info__`` gives: names and methods are the standard's."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and results whose shape depends on values: eagerly, that is; a compiled function refuses them."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The CPU."""
        return CPU

    def devices(self) -> list[str]:
        """The CPU."""
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """What Python's numbers and positions become."""
        device_of(device)
        return {
            "real floating": F32,
            "complex floating": C64,
            "integral": I32,
            "indexing": I64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of the standard by name, of all kinds or of those that `isdtype` would name."""
        device_of(device)
        chosen = () if kind is None else kind if isinstance(kind, tuple) else (kind,)
        return {n: d for n, d in _STANDARD.items() if kind is None or isdtype(d, tuple(chosen))}


def __array_namespace_info__() -> Inquiry:
    """What this namespace can do, as the array API standard asks."""
    return Inquiry()
