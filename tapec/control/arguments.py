"""What users hand to branches, loops and arrays, held to what it must be."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from tapec.errors import TypeError
from tapec.frames import here
from tapec.functions.known import as_dim, known_elements
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import DType, as_dtype
from tapec.tensor import Tensor, TensorLike, as_tensor


def dtype_of(dtype: Any) -> DType:
    """A dtype.

    Raises:
        TypeError: it is none.
    """
    try:
        return as_dtype(dtype)
    except (builtins.TypeError, builtins.ValueError) as error:
        raise TypeError(f"expected a dtype, got {dtype!r}: {error}", location=here()) from None


def index_of(value: TensorLike, what: str) -> int | Tensor:
    """An integer, or a scalar integer Tensor whose value only the run knows.

    Raises:
        TypeError: it is neither.
    """
    tensor = as_tensor(value)
    if not tensor.dtype.is_integer or tensor.type.size != 1:
        raise TypeError(f"{what} must be an integer, got {_shown(value, tensor)}", location=here())
    found = known_elements(tensor)
    number = None if found is None else found.reshape(()).item()
    return tensor if number is None or isinstance(number, Dim) else int(number)


def length_of(value: TensorLike, what: str) -> DimLike | Tensor:
    """A number of turns or rows: known, a size that a call gives, or a scalar Tensor that a run computes.

    Raises:
        TypeError: it is no integer.
    """
    found = index_of(value, what)
    elements = known_elements(found) if isinstance(found, Tensor) else None
    return found if elements is None else as_dim(elements.reshape(()).item())


def integer_of(value: TensorLike, what: str) -> int:
    """An integer that is known.

    Raises:
        TypeError: it is none, or not known while a function is compiled.
    """
    found = index_of(value, what)
    if isinstance(found, Tensor):
        raise TypeError(
            f"{what} must be known while a function is compiled",
            location=here(),
            hint="pass a Python number",
        )
    return found


def integers_of(value: TensorLike, what: str) -> list[int]:
    """Integers that are known, as a flat list.

    Raises:
        TypeError: they are none, or not known while a function is compiled.
    """
    tensor = as_tensor(value)
    found = known_elements(tensor) if tensor.dtype.is_integer or tensor.type.size == 0 else None
    if found is None:
        raise TypeError(
            f"{what} must be integers that are known, got {_shown(value, tensor)}", location=here()
        )
    return [int(i) for i in found.reshape(-1)]


def pairs_of(items: Any, what: str) -> list[tuple[Any, Any]]:
    """Pairs: the items of a dict, or a sequence of pairs.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(items, Mapping):
        return list(items.items())
    pairs = items if isinstance(items, Sequence) and not isinstance(items, str | bytes) else None
    if pairs is None or not all(isinstance(p, tuple | list) and len(p) == 2 for p in pairs):
        raise TypeError(f"{what} must be pairs, got {items!r}", location=here())
    return [(a, b) for a, b in pairs]


def _shown(value: Any, tensor: Tensor) -> str:
    return str(tensor.type) if isinstance(value, Tensor) else repr(value)
