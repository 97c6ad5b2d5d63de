"""How numbers, nested lists and arrays of others become NumPy arrays of tapec's dtypes."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.ir.types import F32, I32, STRING, DType, as_dtype
from tapec.texts import text_array

Array = np.ndarray[Any, Any]


def as_array(value: Any, dtype: DType | None = None) -> Array:
    """A NumPy array of a dtype of ours from numbers, nested lists or arrays; see `as_tensor`."""
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ValueError(f"cannot make a tensor of {value!r}: {error}", location=here()) from None
    if array.dtype == object or array.dtype.kind in "US":
        texts = text_array(value)
        if texts is not None and dtype in (None, STRING):
            return texts
    if array.dtype == object or array.dtype.kind in "USM":
        raise ValueError(
            f"cannot make a tensor of {type(value).__name__} {value!r}", location=here()
        )
    try:
        own = as_dtype(array.dtype.newbyteorder("=")).numpy
    except builtins.TypeError as error:
        raise TypeError(str(error), location=here(), hint="convert it with astype") from None
    if array.dtype is not own:
        array = array.astype(own)  # another byte order, or an unpickled array's equal dtype
    from_numpy = isinstance(value, np.ndarray | np.generic)
    if dtype is None:
        if not from_numpy and _python_leaf(value):
            array = _of_python_numbers(array)
        return array.copy() if _may_change(array, value) else array
    if not from_numpy and array.dtype.kind == "f" and not (dtype.is_floating or dtype.is_complex):
        raise TypeError(
            f"Cannot convert {value!r} to a tensor of dtype {dtype.name}", location=here()
        )
    if (array.dtype.kind == "c" and not dtype.is_complex) or dtype == STRING:
        raise TypeError(
            f"Cannot convert {value!r} to a tensor of dtype {dtype.name}", location=here()
        )
    return array.astype(dtype.numpy)


def _of_python_numbers(array: Array) -> Array:
    """Python's floats as float32, its integers as int32, or as int64 where one of them is too large.

    Raises:
        ValueError: a number is too large for either.
    """
    kind = array.dtype.kind
    if kind == "f":
        with np.errstate(over="ignore"):
            narrow = array.astype(F32.numpy)
        if not np.isinf(narrow).any() or (np.isinf(narrow) == np.isinf(array)).all():
            return narrow
    elif kind == "i":
        narrow = array.astype(I32.numpy)
        return narrow if (narrow == array).all() else array
    elif kind != "u":
        return array
    raise ValueError(
        f"a Python number is out of range: {array.max()}",
        location=here(),
        hint="say which dtype it should have",
    )


def _may_change(array: Array, value: Any) -> bool:
    """Whether somebody else may write into the memory of an array that was made from ``value``."""
    if isinstance(value, np.ndarray):
        return array is value and (value.flags.writeable or value.base is not None)
    # Whatever shares its memory (buffers, objects of other libraries) may write to it.
    return not isinstance(value, list | tuple | bool | int | float | complex | np.generic)


def _python_leaf(value: Any) -> bool:
    """Whether nested lists end in Python numbers: then float means float32 and int int32."""
    while isinstance(value, list | tuple):
        if not value:
            return True
        value = value[0]
    return isinstance(value, bool | int | float)
