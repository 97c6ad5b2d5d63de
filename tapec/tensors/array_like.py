"""How numbers, nested lists and arrays of others become NumPy arrays of tapec's dtypes."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.ir.types import BOOL, F32, I32, STRING, DType, as_dtype
from tapec.tensors.texts import text_array

Array = np.ndarray[Any, Any]
#: What to do where a model is put together of symbolic tensors, which functions of tapec cannot take.
_IN_A_LAYER = (
    "call it in a layer, keras.layers.Lambda or an own one; or take the operation of keras.ops"
)


def as_array(value: Any, dtype: DType | None = None) -> Array:
    """A NumPy array of a dtype of ours from numbers, nested lists or arrays; see `as_tensor`."""
    try:
        array = np.asarray(value)
    except Exception as error:
        # It may be in a list, so its class would have to be searched for; Keras' own error names it.
        raise ValueError(
            f"cannot make a tensor of {value!r}: {error}",
            location=here(),
            hint=_IN_A_LAYER if "KerasTensor" in str(error) else None,
        ) from None
    listed = isinstance(value, list | tuple | range)
    if listed and dtype is not None and not array.size and array.dtype.kind == "f":
        return np.empty(array.shape, dtype.numpy)
    if array.dtype == object or array.dtype.kind in "US":
        texts = text_array(value)
        if texts is not None:
            if dtype in (None, STRING):
                return texts
            raise _refused(value, dtype)
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
        if listed or isinstance(value, bool | int | float):
            array = _of_numbers(array, value)
        return array.copy() if _may_change(array, value) else array
    if not from_numpy and _loses(array.dtype.kind, dtype):
        raise _refused(value, dtype)
    if (array.dtype.kind == "c" and not dtype.is_complex) or dtype == STRING:
        raise _refused(value, dtype)
    return array.astype(dtype.numpy)


def _loses(kind: str, dtype: DType) -> bool:
    """Whether numbers of Python of a kind are none of a dtype."""
    if dtype == BOOL:
        return kind in "iuf"
    return kind == "f" and not (dtype.is_floating or dtype.is_complex)


def _refused(value: Any, dtype: DType) -> TypeError:
    return TypeError(f"Cannot convert {value!r} to a tensor of dtype {dtype.name}", location=here())


def _of_numbers(array: Array, value: Any) -> Array:
    """Floats in the dtype of the first number, which is float32 for Python's; integers as int32.

    Integers are int64 where one of them is too large, whatever NumPy's dtypes in a list are.

    Raises:
        ValueError: a number is too large.
    """
    kind = array.dtype.kind
    if kind == "f":
        wanted = _first_dtype(value)
        with np.errstate(over="ignore"):
            narrow = array.astype(wanted)
        if not np.isinf(narrow).any() or (np.isinf(narrow) == np.isinf(array)).all():
            return narrow
    elif kind in "iu" and array.size and array.max() <= np.iinfo(np.int64).max:
        narrow = array.astype(I32.numpy)
        return narrow if (narrow == array).all() else array.astype(np.int64)
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


def _first_dtype(value: Any) -> np.dtype[Any]:
    """Of which dtype the first number in nested lists is, if it is a float of NumPy's; else float32."""
    while isinstance(value, list | tuple) and value:
        value = value[0]
    if isinstance(value, np.ndarray | np.generic) and as_dtype(value.dtype).is_floating:
        return value.dtype
    return F32.numpy
