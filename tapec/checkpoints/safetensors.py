"""Files of named arrays, in the format of safetensors: a header in JSON, then the arrays as they lie in memory.

Format: https://huggingface.co/docs/safetensors (the length of the header in eight bytes, little-endian; for each array
its dtype, shape, and first and last byte). It is read and written here, since it takes less than a dependency would.
The format has no checksum; among the notes that it allows, tapec writes one, and heeds it where it is.
"""

from __future__ import annotations

import builtins
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tapec.checkpoints.replacing import contents_of, replaced
from tapec.errors import DataLossError, TypeError
from tapec.frames import here
from tapec.ir.types import BY_CODE, as_dtype
from tapec.tensor import Array

_CODES = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32",
    "I16": "i16", "I8": "i8", "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool",
    "C64": "c64",
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
#: The header's own name for what is not an array.
_NOTES = "__metadata__"
_SUM = "crc32"
#: Headers are small; a length beyond this is none.
_LONGEST_HEADER = 2**30


def to_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Arrays as a file.

    Raises:
        TypeError: the format has no such dtype.
    """
    return b"".join(parts(arrays))


def parts(arrays: Mapping[str, Array]) -> Iterator[Any]:
    """A file piece by piece: the header, then each array; the widest elements come first, so all are aligned."""
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    held = {name: _memory(arrays[name]) for name in order}
    places, end, total = {}, 0, 0
    for name, memory in held.items():
        places[name] = [end, end := end + len(memory)]
        total = zlib.crc32(memory, total)
    head: dict[str, Any] = {}
    for name, array in arrays.items():
        shape = list(array.shape)
        head[name] = {"dtype": _code(name, array), "shape": shape, "data_offsets": places[name]}
    text = _text({_NOTES: {_SUM: f"{zlib.crc32(_text(head), total):08x}"}, **head})
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text))
    yield text
    yield from held.values()


def _text(head: Mapping[str, Any]) -> bytes:
    return json.dumps(head, separators=(",", ":")).encode()


def _memory(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _code(name: str, array: Array) -> str:
    code = as_dtype(array.dtype).code
    if code not in _NAMES:
        raise TypeError(
            f"safetensors has no dtype {as_dtype(array.dtype).name}, which {name!r} has",
            location=here(),
            hint="save it as .npz",
        )
    return _NAMES[code]


def from_bytes(contents: bytes) -> dict[str, Array]:
    """The arrays in a file, all of which must be whole.

    Raises:
        DataLossError: it is none of this format, ends early, or was changed.
    """
    try:
        return _arrays(contents)
    except (
        struct.error,
        KeyError,
        builtins.TypeError,
        AttributeError,
        builtins.ValueError,
    ) as error:
        raise DataLossError(f"no file of safetensors: {error}", location=here()) from None


def _arrays(contents: bytes) -> dict[str, Array]:
    """The same; what does not fit raises one of Python's errors."""
    (length,) = struct.unpack_from("<Q", contents)
    if length > min(len(contents) - 8, _LONGEST_HEADER):
        raise builtins.ValueError(f"its header of {length} bytes is not there")
    head = json.loads(contents[8 : 8 + length])
    notes = head.pop(_NOTES, {})
    data = memoryview(contents)[8 + length :]
    _require_no_gaps([row["data_offsets"] for row in head.values()], len(data))
    if _SUM in notes and f"{zlib.crc32(_text(head), zlib.crc32(data)):08x}" != notes[_SUM]:
        raise builtins.ValueError("its checksum differs: bytes were changed")
    found = {}
    for name, row in head.items():
        dtype = BY_CODE[_CODES[row["dtype"]]]
        first, last = row["data_offsets"]
        if last - first != prod(row["shape"]) * dtype.bytes:
            raise builtins.ValueError(f"{name!r} does not have the size that its shape says")
        found[name] = np.frombuffer(data[first:last], dtype.numpy).reshape(row["shape"]).copy()
    return found


def _require_no_gaps(places: Iterable[tuple[int, int]], size: int) -> None:
    """Every byte belongs to one array, as the format demands."""
    end = 0
    for first, last in sorted(map(tuple, places)):
        if first != end or last < first:
            raise builtins.ValueError(f"no array begins at byte {end}")
        end = last
    if end != size:
        raise builtins.ValueError(f"it has {size} bytes of arrays, and should have {end}")


def write(path: str | Path, arrays: Mapping[str, Array]) -> None:
    """Write named arrays to a file of safetensors, whole or not at all.

    Raises:
        TypeError: the format has no such dtype.
    """
    with replaced(path) as file:
        for part in parts(arrays):
            file.write(part)


def read(path: str | Path) -> dict[str, Array]:
    """The named arrays in a file of safetensors.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: it is none of this format, ends early, or was changed.
    """
    return from_bytes(contents_of(path))
