"""Products of matrices and tensors."""

from __future__ import annotations

from typing import Any

import tapec
from tapec import numpy
from tapec.keras.engine.conversion import common_dtype, convert_to_tensor, floating, promoted
from tapec.tensor import Tensor

#: Dtypes whose products are summed in 32 bits.
_SMALL = ("bool", "int8", "int16", "uint8", "uint16")


def _summable(x: Tensor) -> Tensor:
    return tapec.cast(x, "int32") if x.dtype.name == "bool" else x


def matmul(x1: Any, x2: Any) -> Tensor:
    """The product of matrices; of two int8 it is int32."""
    a, b = convert_to_tensor(x1), convert_to_tensor(x2)
    if a.dtype.name == b.dtype.name == "int8":
        a, b = tapec.cast(a, "int32"), tapec.cast(b, "int32")
        return _of_ranks(a, b)
    a, b = promoted(a, b)
    return _restored(_of_ranks(_summable(a), _summable(b)), a)


def _restored(found: Tensor, operand: Tensor) -> Tensor:
    return tapec.cast(found, operand.dtype) if found.dtype != operand.dtype else found


def _of_ranks(a: Tensor, b: Tensor) -> Tensor:
    """A vector is a row on the left and a column on the right."""
    if a.type.rank == 1 and b.type.rank == 1:
        return tapec.tensordot(a, b, 1)
    if a.type.rank == 1:
        return tapec.squeeze(tapec.matmul(a[None], b), -2)
    if b.type.rank == 1:
        return tapec.squeeze(tapec.matmul(a, b[:, None]), -1)
    return tapec.matmul(a, b)


def dot(x1: Any, x2: Any) -> Tensor:
    """The sum over the last axis of the first and the one before the last of the second."""
    a, b = promoted(x1, x2)
    if not a.type.rank or not b.type.rank:
        return tapec.cast(_summable(a) * _summable(b), a.dtype)
    axes = [[a.type.rank - 1], [max(b.type.rank - 2, 0)]]
    return _restored(tapec.tensordot(_summable(a), _summable(b), axes), a)


def vdot(x1: Any, x2: Any) -> Tensor:
    """The sum of the products of all elements; those of the first are conjugated."""
    a, b = promoted(x1, x2)
    flat = tapec.reshape(tapec.math.conj(_summable(a)), [-1])
    return _restored(tapec.tensordot(flat, tapec.reshape(_summable(b), [-1]), 1), a)


def inner(x1: Any, x2: Any) -> Tensor:
    """The sum over the last axes of both."""
    a, b = promoted(x1, x2)
    if not a.type.rank or not b.type.rank:
        return dot(a, b)
    axes = [[a.type.rank - 1], [b.type.rank - 1]]
    return _restored(tapec.tensordot(_summable(a), _summable(b), axes), a)


def outer(x1: Any, x2: Any) -> Tensor:
    """All products of an element of the first and one of the second."""
    a, b = promoted(x1, x2)
    found = tapec.reshape(_summable(a), [-1, 1]) * tapec.reshape(_summable(b), [1, -1])
    return _restored(found, a)


def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Tensor:
    """The sum over pairs of axes."""
    a, b = promoted(x1, x2)
    if not isinstance(axes, int):
        axes = [[n] if isinstance(n, int) else list(n) for n in axes]
    return _restored(tapec.tensordot(_summable(a), _summable(b), axes), a)


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Tensor:
    """The sum that Einstein's notation says; of int8 alone it is int32."""
    tensors = [convert_to_tensor(x) for x in operands]
    is_int8 = {x.dtype.name for x in tensors} == {"int8"}
    dtype = "int32" if is_int8 else common_dtype(*tensors)
    wide = "int32" if dtype == "bool" else dtype
    found = tapec.einsum(subscripts, *(tapec.cast(x, wide) for x in tensors))
    return found if wide == dtype else tapec.cast(found, dtype)


def kron(x1: Any, x2: Any) -> Tensor:
    """The product of Kronecker."""
    a, b = promoted(x1, x2)
    return _restored(numpy.kron(_summable(a), _summable(b)), a)


def cross(
    x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """The vector product along axes of size 2 or 3."""
    a, b = promoted(x1, x2)
    if axis is not None:
        axisa = axisb = axisc = axis
    a = numpy.moveaxis(_summable(a), axisa, -1)
    b = numpy.moveaxis(_summable(b), axisb, -1)
    sizes = a.shape[-1], b.shape[-1]
    if any(n not in (2, 3, None) for n in sizes):
        raise ValueError(
            "`x1`'s dim on `axis` and `x2`'s dim on `axis` must be either 2 or 3, "
            f"got {sizes[0]} and {sizes[1]}"
        )
    if sizes == (2, 2):
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = _with_depth(a), _with_depth(b)
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return numpy.moveaxis(tapec.stack(parts, -1), -1, axisc)


def _with_depth(x: Tensor) -> Tensor:
    if x.shape[-1] == 3:
        return x
    return tapec.concat([x, tapec.zeros_like(x[..., :1])], -1)


def correlate(x1: Any, x2: Any, mode: str = "valid") -> Tensor:
    """The products of the first with the second, moved along it.

    Raises:
        ValueError: the operands are no vectors, or the mode is unknown.
    """
    a, b = promoted(x1, x2)
    dtype = a.dtype if a.dtype.is_floating else tapec.float32
    a, b = (x if x.dtype.name == "float64" else tapec.cast(x, "float32") for x in (a, b))
    if mode not in ("valid", "same", "full"):
        raise ValueError(
            f"`mode` must be either `valid`, `same`, or `full`. But instead received: {mode}"
        )
    if a.type.rank != 1 or b.type.rank != 1:
        raise ValueError("correlate takes two vectors")
    return tapec.cast(numpy.correlate(a, b, mode), dtype)


def corrcoef(x: Any) -> Tensor:
    """The coefficients of correlation of the rows."""
    return numpy.corrcoef(floating(x))
