"""Text of attribute values, and how large constants are abbreviated in it.

``true false none 3 0.5 -inf "text" f32 f32[4] f32[] &f32[4] f32x16 2*N+1 [0, 1] complex(1.0,
2.0)``: a bare code is a dtype, with brackets it is a tensor type. An array is ``dense[1.0,
2.0]``, flat and row-major, of the type that stands after the operation; elsewhere it says its
own: ``dense<f32[2]>[1.0, 2.0]``.

An array of more than `LARGE` elements is abbreviated: ``dense<8a66cba2…>[0.1, 0.2, 0.3, ...]``,
where the hexadecimal digits are the start of its SHA-256. The elements are then in a side file,
or lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from tapec.ir.dims import Dim, Symbol, symbols
from tapec.ir.errors import TapecError
from tapec.ir.types import DTYPES, BufferType, DType, TensorType, VectorType, as_dtype

#: Arrays of more elements are abbreviated.
LARGE = 16
#: How many elements an abbreviated array shows, and how many digits of its hash.
SHOWN, DIGITS = 3, 16

_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    np.generic,
    Dim,
    DType,
    TensorType,
    BufferType,
    VectorType,
)
_NUMPY_DTYPES = frozenset(dtype.numpy for dtype in DTYPES)


def digest(array: np.ndarray[Any, Any]) -> str:
    """The first digits of the SHA-256 of dtype, shape and elements."""
    head = f"{as_dtype(array.dtype).code}{list(array.shape)}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:DIGITS]


def literal(value: Any, large: MutableMapping[str, Any] | None = None, given: Any = None) -> str:
    """The text of an attribute value.

    ``large`` collects the arrays that are abbreviated, by hash; None prints every element.
    ``given`` is the type that the reader will know already, so that an array need not repeat it.
    """
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case DType():
            return value.code
        case int() | Dim() | BufferType() | VectorType():
            return str(value)
        case float():
            return repr(value)
        case complex():
            return f"complex({value.real!r}, {value.imag!r})"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case TensorType():
            return str(value) if value.shape else f"{value}[]"
        case tuple() | list():
            text = ", ".join(literal(item, large) for item in value)
            # Two brackets before a letter start a variable in the language of golden tests.
            return f"[ {text}]" if text[:1] == "[" and text[1:2].isalpha() else f"[{text}]"
        case np.ndarray():
            return _dense(value, large, given)
    raise TapecError(f"an attribute of type {type(value).__name__} has no text: {value!r}")


def is_attribute(value: Any) -> bool:
    """Whether a value can be an attribute: `literal` has a text for it."""
    if isinstance(value, tuple):
        return all(is_attribute(item) for item in value)
    if isinstance(value, np.ndarray):
        return value.dtype in _NUMPY_DTYPES
    return value is None or isinstance(value, _PLAIN)


def symbols_in(value: Any) -> Iterator[Symbol]:
    """The symbols of the dims in a type or an attribute, with repeats."""
    if isinstance(value, TensorType | BufferType):
        value = value.shape
    if isinstance(value, Dim):
        yield from symbols(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from symbols_in(item)


def _dense(array: np.ndarray[Any, Any], large: MutableMapping[str, Any] | None, given: Any) -> str:
    own = TensorType(as_dtype(array.dtype), array.shape)
    head = [] if own == given else [literal(own)]
    flat = array.reshape(-1)
    if large is None or flat.size <= LARGE:
        body = ", ".join(_elements(flat))
    else:
        key = digest(array)
        large[key] = array
        head.append(key)
        body = ", ".join([*_elements(flat[:SHOWN]), "..."])
    return f"dense<{' '.join(head)}>[{body}]" if head else f"dense[{body}]"


def _elements(flat: np.ndarray[Any, Any]) -> list[str]:
    """Each element as the shortest text that reads back as the same value of the dtype."""
    dtype = as_dtype(flat.dtype)
    if dtype.is_bool:
        return ["true" if x else "false" for x in flat.tolist()]
    if dtype.is_complex:
        re, im = _elements(flat.real), _elements(flat.imag)
        return [f"complex({x}, {y})" for x, y in zip(re, im, strict=True)]
    if dtype.is_floating:
        # NumPy's str of a half does not read back exactly; that of the same number in single does.
        wide = flat.astype(np.float32) if dtype.bits < 32 else flat
        texts: list[str] = wide.astype(np.str_).tolist()
        return texts
    return list(map(str, flat.tolist()))
