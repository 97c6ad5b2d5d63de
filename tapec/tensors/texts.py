"""String tensors: made, compared, moved around and printed eagerly; compiled code has none.

Their elements are ``bytes``; what Python gives as ``str`` is encoded as UTF-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapec.errors import NotImplementedError
from tapec.frames import here
from tapec.ir.types import BOOL, STRING, TensorType

Array = np.ndarray[Any, Any]


def text_array(value: Any) -> Array | None:
    """An array of bytes from a string, an array or nested list of strings; None if it is something else."""
    if isinstance(value, str | bytes):
        given: Array = np.empty((), object)
        given[()] = value
    elif isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "USO":
        given = np.asarray(value, object)
    elif isinstance(value, list | tuple) and value and _all_texts(value):
        given = np.array(value, object)
    else:
        return None
    if not all(isinstance(v, str | bytes) for v in given.flat):
        return None
    encoded: Array = np.empty(given.shape, object)
    encoded.reshape(-1)[:] = [v.encode() if isinstance(v, str) else bytes(v) for v in given.flat]
    return encoded


def _all_texts(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_all_texts, value))
    return isinstance(value, str | bytes)


def refuse_texts(type: TensorType) -> None:
    """Raise NotImplementedError for a string tensor, where a function is compiled."""
    if type.dtype == STRING:
        raise NotImplementedError(
            f"string tensors ({type}) cannot be compiled",
            location=here(),
            hint="pass the string as a Python str: it is a constant of the program",
        )


def texts_equal(x: Array, y: Array) -> Array:
    """Which strings are equal, by NumPy's rule of broadcasting."""
    return np.asarray(x == y, BOOL.numpy)
