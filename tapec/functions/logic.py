"""Logic of truth values; bits of integers have operators of their own."""

from __future__ import annotations

from tapec.functions.broadcasting import binary, converted, unary, wrong_dtype
from tapec.tensor import Tensor, TensorLike, as_tensor


def logical_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x and y`` of bools."""
    return binary("and", *_truths(x, y))


def logical_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x or y`` of bools."""
    return binary("or", *_truths(x, y))


def logical_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether one of two bools holds and the other does not."""
    return binary("xor", *_truths(x, y))


def logical_not(x: TensorLike, name: str | None = None) -> Tensor:
    """``not x`` of bools."""
    x = as_tensor(x)
    if not x.type.dtype.is_bool:
        raise wrong_dtype(x.type.dtype, "bool")
    return unary("not", x)


def _truths(x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    """Two tensors of bools.

    Raises:
        InvalidArgumentError: one holds numbers (TypeError while a function is compiled).
    """
    x, y = converted(x, y)
    for tensor in (x, y):
        if not tensor.type.dtype.is_bool:
            raise wrong_dtype(tensor.type.dtype, "bool")
    return x, y
