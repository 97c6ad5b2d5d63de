"""Which dtype operands meet in.

Where the array API standard says it, its tables hold. Where it leaves the result open, integers take the float they
meet, whatever its width, and what no integer holds becomes float32: the order of JAX and of Keras. A number of Python
takes the dtype beside it, unless it is of a higher kind; then it brings the default of that kind. Defaults are
those of `tapec.constant`, int32 and float32, and complex64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast, not_equal
from tapec.ir.types import (
    BF16,
    BOOL,
    C64,
    C128,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U32,
    DType,
    as_dtype,
)
from tapec.tensor import Tensor, TensorLike, as_tensor

_SIGNED = {8: I8, 16: I16, 32: I32, 64: I64}
_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}
#: What a Python number is where no tensor of its kind is near, by its rank.
_DEFAULTS = (BOOL, I32, F32, C64)


@lru_cache(maxsize=1024)
def promote(a: DType, b: DType) -> DType:
    """The dtype in which two dtypes meet.

    Raises:
        TypeError: one of them is of strings.
    """
    if a == b:
        return a
    if a.kind not in _RANK or b.kind not in _RANK:
        raise TypeError(f"{a.name} and {b.name} have no common dtype", location=here())
    low, high = sorted((a, b), key=lambda d: (_RANK[d.kind], d.bits))
    if high.is_complex:
        wide = high is C128 or (low.is_complex and low is C128) or low is F64
        return C128 if wide else C64
    if high.is_floating:
        return F32 if {low, high} == {F16, BF16} else high
    if low.is_bool or low.kind == high.kind:
        return high
    unsigned, signed = (low, high) if low.is_unsigned else (high, low)
    if unsigned.bits < signed.bits:
        return signed
    return _SIGNED.get(2 * unsigned.bits, F32)


def number_rank(value: Any) -> int | None:
    """The kind of a Python number (0 bool, 1 integer, 2 float, 3 complex), or None for anything else."""
    if isinstance(value, np.generic):
        return None
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return 1
    if isinstance(value, float):
        return 2
    return 3 if isinstance(value, complex) else None


def weakly(dtype: DType, rank: int) -> DType:
    """The dtype in which a dtype and a Python number of a kind meet."""
    if rank <= _RANK[dtype.kind]:
        return dtype
    if rank == 3 and dtype is F64:
        return C128
    return _DEFAULTS[rank]


def dtype_of(value: Any) -> DType:
    """The dtype of a tensor or an array, or of what `tapec.constant` makes of a list."""
    dtype = getattr(value, "dtype", None)
    return as_tensor(value).type.dtype if dtype is None else as_dtype(dtype)


def common_dtype(values: Sequence[Any]) -> DType:
    """The dtype in which tensors, arrays and Python numbers meet."""
    ranks = [number_rank(v) for v in values]
    strong = [dtype_of(v) for v, rank in zip(values, ranks, strict=True) if rank is None]
    weak = max((rank for rank in ranks if rank is not None), default=0)
    return weakly(reduce(promote, strong), weak) if strong else _DEFAULTS[weak]


def of_dtype(value: TensorLike, dtype: DType) -> Tensor:
    """A tensor of a dtype: a cast of a tensor or an array, a Python number as it is meant.

    Raises:
        TypeError: a Python number that the dtype cannot hold.
    """
    if number_rank(value) is not None:
        return as_tensor(value, dtype)
    x = as_tensor(value)
    return x if x.type.dtype == dtype else cast(x, dtype)


def promoted(*values: TensorLike) -> list[Tensor]:
    """Tensors of the dtype in which all of them meet."""
    first = values[0]
    if isinstance(first, Tensor) and all(
        isinstance(v, Tensor) and v.type.dtype is first.type.dtype for v in values
    ):
        return list(values)
    dtype = common_dtype(values)
    return [of_dtype(v, dtype) for v in values]


def pair(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, Tensor]:
    """Two tensors of the dtype in which they meet."""
    x, y = promoted(x1, x2)
    return x, y


def inexact(x: TensorLike) -> Tensor:
    """Integers and bools as float32; what carries gradients as it is."""
    tensor = as_tensor(x)
    return tensor if tensor.type.dtype.is_differentiable else cast(tensor, F32)


def promoted_inexact(*values: TensorLike) -> list[Tensor]:
    """Tensors of the dtype in which all of them meet, which is a float or complex one."""
    return [inexact(x) for x in promoted(*values)]


def inexact_pair(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, Tensor]:
    """Two tensors of the float or complex dtype in which they meet."""
    x, y = promoted(x1, x2)
    return inexact(x), inexact(y)


def truth(x: TensorLike) -> Tensor:
    """Whether numbers are not 0."""
    tensor = as_tensor(x)
    if tensor.type.dtype.is_complex:
        return not_equal(tensor, 0)  # a cast would look at the real part alone
    return cast(tensor, BOOL)


def counted(dtype: DType) -> DType:
    """The dtype of sums and products: small integers and bools are added up as 32 bits."""
    if dtype.is_bool or (dtype.kind == "int" and dtype.bits < 32):
        return I32
    return U32 if dtype.kind == "uint" and dtype.bits < 32 else dtype


def device_of(device: Any) -> None:
    """Take a device argument: there is the CPU.

    Raises:
        ValueError: another device.
    """
    if device is not None and "cpu" not in str(device).lower():
        raise ValueError(
            f"expected a CPU as device, got {device!r}",
            location=here(),
            hint="leave device out: tapec runs on the CPU",
        )


# -- public


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype in which tensors, dtypes and Python numbers meet.

    Example: ``result_type(tapec.int8, tapec.uint8)`` is int16; ``result_type(tapec.int32, 1.0)`` is float32.

    Raises:
        ValueError: no argument.
    """
    if not arrays_and_dtypes:
        raise ValueError("result_type() needs at least one argument", location=here())
    dtypes = [_named(v) for v in arrays_and_dtypes]
    known = [d for d in dtypes if d is not None]
    ranks = [number_rank(v) for v, d in zip(arrays_and_dtypes, dtypes, strict=True) if d is None]
    weak = max((rank for rank in ranks if rank is not None), default=0)
    return weakly(reduce(promote, known), weak) if known else _DEFAULTS[weak]


def _named(value: Any) -> DType | None:
    """The dtype that an argument has or is; None for a Python number."""
    if number_rank(value) is not None:
        return None
    if isinstance(value, DType):
        return value
    if isinstance(value, str | type | np.dtype):
        return as_dtype(value)
    return dtype_of(value)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a conversion keeps every value: ``to`` is what both dtypes meet in.

    Args:
        from_: a dtype or a tensor.
        to: a dtype.

    Example: ``can_cast(tapec.int8, tapec.int16)`` is True, the other way round False.
    """
    source, target = _named(from_), as_dtype(to)
    assert source is not None
    if source.is_integer and target.is_floating:
        return source.bits < target.bits  # an integer's digits fit into a wider float alone
    return promote(source, target) == target
