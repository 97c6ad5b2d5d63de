"""Files of named arrays, in the format of safetensors: a header in JSON, then the arrays as they lie in memory.

Format: https://huggingface.co/docs/safetensors (the length of the header in eight bytes, little-endian; for each array
its dtype, shape, and first and last byte). It is read and written here, since it takes less than a dependency would.
"""

from __future__ import annotations

import builtins
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tapec.errors import ValueError
from tapec.frames import here
from tapec.ir.types import BY_CODE, DType, as_dtype

_CODES = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32",
    "I16": "i16", "I8": "i8", "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool",
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
#: The header's own name for what is not an array.
_NOTES = "__metadata__"


def to_bytes(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Arrays as a file, in their order."""
    head: dict[str, Any] = {}
    data = bytearray()
    for name, array in arrays.items():
        held = np.ascontiguousarray(array).tobytes()
        head[name] = {
            "dtype": _NAMES[as_dtype(array.dtype).code],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(held)],
        }
        data += held
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def from_bytes(contents: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays in a file.

    Raises:
        ValueError: it is none of this format, or ends early.
    """
    try:
        (length,) = struct.unpack_from("<Q", contents)
        head = json.loads(contents[8 : 8 + length])
        found = {}
        for name, row in head.items():
            if name == _NOTES:
                continue
            dtype: DType = BY_CODE[_CODES[row["dtype"]]]
            first, last = row["data_offsets"]
            held = contents[8 + length + first : 8 + length + last]
            found[name] = np.frombuffer(held, dtype.numpy).reshape(row["shape"]).copy()
    except (struct.error, KeyError, TypeError, AttributeError, builtins.ValueError) as error:
        raise ValueError(f"no file of safetensors: {error}", location=here()) from None
    return found


def write(path: str | Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write named arrays to a file of safetensors."""
    Path(path).write_bytes(to_bytes(arrays))


def read(path: str | Path) -> dict[str, np.ndarray[Any, Any]]:
    """The named arrays in a file of safetensors.

    Raises:
        ValueError: it is none of this format, or ends early.
    """
    return from_bytes(Path(path).read_bytes())
