"""From what Keras passes around to Tensors and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable, standardize_dtype
from keras.src.backend.common.dtypes import result_type
from keras.src.backend.common.keras_tensor import KerasTensor

import tapec
from tapec.tensor import Tensor, as_tensor

#: Also the numbers that a program being traced takes as inputs: they pass for these.
_NUMBERS = (bool, int, float, complex)
_WIDER = {"float32": "float64", "complex64": "complex128"}


def is_tensor(x: Any) -> bool:
    """Whether it is a Tensor, eager or of a function that is being compiled."""
    return isinstance(x, Tensor | tapec.IndexedSlices)


def convert_to_tensor(
    x: Any, dtype: Any = None, sparse: bool | None = None, ragged: bool | None = None
) -> Tensor:
    """A Tensor; what has no dtype of its own gets Keras' default for its kind.

    Raises:
        ValueError: a sparse or ragged tensor is asked for.
    """
    if sparse or ragged:
        kind = "sparse" if sparse else "ragged"
        raise ValueError(f"`{kind}=True` is not supported with the tapec backend")
    if type(dtype) is not str and dtype is not None:
        dtype = standardize_dtype(dtype)
    if isinstance(x, KerasVariable):
        x = x.value
    if isinstance(x, tapec.IndexedSlices):
        x = tapec.convert_to_tensor(x)
    if isinstance(x, Tensor):
        return x if dtype is None or x.type.dtype.name == dtype else tapec.cast(x, dtype)
    if isinstance(x, KerasTensor):
        raise ValueError(
            "A KerasTensor is symbolic: it's a placeholder for a shape an a dtype. It doesn't have any actual "
            "numerical value. You cannot convert it to a tapec.Tensor."
        )
    return _converted(x, _natural_dtype(x) if dtype is None else standardize_dtype(dtype))


def _natural_dtype(x: Any) -> str:
    """The dtype that Keras gives a value; 64 bits only on request, as with JAX."""
    if isinstance(x, tapec.Variable):
        return x.dtype.name
    if hasattr(x, "dtype"):
        return result_type(x.dtype)
    kinds = {getattr(item, "dtype", item.__class__) for item in tree.flatten(x)}
    return result_type(*kinds)


def _converted(x: Any, dtype: str) -> Tensor:
    if isinstance(x, _NUMBERS) and _holds(dtype, x):
        return as_tensor(x, tapec.as_dtype(dtype))
    if isinstance(x, list | tuple) and any(map(_is_symbolic, tree.flatten(x))):
        return tapec.stack([convert_to_tensor(item, dtype) for item in x])
    if not isinstance(x, np.ndarray | tapec.Variable):
        x = np.asarray(x)
    if isinstance(x, np.ndarray) and x.dtype.kind in "OUS":
        raise ValueError(f"cannot convert {x!r} to a tensor of dtype {dtype}")
    tensor = as_tensor(x)
    return tensor if tensor.type.dtype.name == dtype else tapec.cast(tensor, dtype)


def _holds(dtype: str, number: Any) -> bool:
    """Whether a number becomes a constant of the dtype as it is; others are cast."""
    if isinstance(number, complex):
        return dtype.startswith("complex")
    if isinstance(number, int):  # a bool, too
        return not dtype.startswith(("bool", "uint")) or isinstance(number, bool)
    return dtype.startswith(("float", "bfloat", "complex"))


def _is_symbolic(item: Any) -> bool:
    return (
        isinstance(item, Tensor | KerasVariable | tapec.Variable)
        or type(item) is not item.__class__
    )


def convert_to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """An array of its own."""
    if isinstance(x, KerasVariable):
        x = x.value
    if isinstance(x, tapec.IndexedSlices):
        x = tapec.convert_to_tensor(x)
    return np.array(x)


def cast(x: Any, dtype: Any) -> Tensor:
    """A Tensor of another dtype."""
    return convert_to_tensor(x, dtype)


def dtype_of(x: Any) -> Any:
    """What `result_type` takes for a value: its dtype, or the class of a Python number."""
    if isinstance(x, Tensor):
        return x.type.dtype.name
    return getattr(x, "dtype", x.__class__)


def common_dtype(*values: Any) -> str:
    """The dtype that Keras gives an operation on such values; of 64 bits where a float64 tensor is among them.

    Such a tensor was asked for by name. Keras' own tables have no 64 bits, and would take from it what it was made for.
    """
    dtype = result_type(*map(dtype_of, values))
    is_wide = any(isinstance(v, Tensor) and v.type.dtype.name == "float64" for v in values)
    return _WIDER.get(dtype, dtype) if is_wide else dtype


def promoted(*values: Any) -> list[Tensor]:
    """Tensors of the one dtype that Keras gives an operation on such values."""
    values = tuple(
        v if isinstance(v, Tensor | int | float) else convert_to_tensor(v) for v in values
    )
    dtype = common_dtype(*values)
    return [convert_to_tensor(v, dtype) for v in values]


def floating(x: Any) -> Tensor:
    """A Tensor of a floating or complex dtype: integers become what Keras computes floats in."""
    x = convert_to_tensor(x)
    if x.type.dtype.is_floating or x.type.dtype.is_complex:
        return x
    return tapec.cast(x, result_type(x.type.dtype.name, float))
