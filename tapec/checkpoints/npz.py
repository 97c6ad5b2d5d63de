"""Files of named arrays in NumPy's format, which `numpy.load` reads.

NumPy's files have no bfloat16: such arrays are kept as the uint16 of the same bits, and named in one more. Objects are
never unpickled. The members of the archive have checksums, and its comment has one of their names.
"""

from __future__ import annotations

import builtins
import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tapec.checkpoints.replacing import contents_of, replaced
from tapec.errors import DataLossError, ValueError
from tapec.frames import here
from tapec.ir.types import BF16, as_dtype
from tapec.tensor import Array

#: The array that names those of bfloat16.
_MARK = "__bfloat16__"
_COMMENT = b"tapec crc32 "


def write(path: str | Path, arrays: Mapping[str, Array]) -> None:
    """Write named arrays, whole or not at all.

    Raises:
        ValueError: the name of an array cannot be one of a member.
    """
    if _MARK in arrays:
        raise ValueError(f"{_MARK!r} cannot be the name of an array", location=here())
    halves = [name for name, array in arrays.items() if as_dtype(array.dtype) == BF16]
    with replaced(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            _add(archive, name, array.view(np.uint16) if name in halves else array)
        if halves:
            _add(archive, _MARK, np.array(halves))
        archive.comment = _COMMENT + _sum(archive)


def _sum(archive: zipfile.ZipFile) -> bytes:
    return b"%08x" % zlib.crc32("\n".join(archive.namelist()).encode())


def _add(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read(path: str | Path) -> dict[str, Array]:
    """The named arrays in a file.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: it is none of this format, ends early, was changed, or holds Python objects.
    """
    contents = contents_of(path)
    try:
        _require_end(contents)
        with zipfile.ZipFile(io.BytesIO(contents)) as archive:
            if archive.comment.startswith(_COMMENT) and archive.comment != _COMMENT + _sum(archive):
                raise builtins.ValueError("its list of arrays was changed")
            found = {n.removesuffix(".npy"): _array(archive.read(n)) for n in archive.namelist()}
        for name in found.pop(_MARK, np.array([], str)).tolist():
            found[name] = found[name].view(BF16.numpy)
    except (
        zipfile.BadZipFile,
        zlib.error,
        builtins.ValueError,
        KeyError,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise DataLossError(
            f"{str(path)!r} is no whole .npz file: {error}", location=here()
        ) from None
    return found


def _require_end(contents: bytes) -> None:
    """The archive's last record says how many bytes of comment follow; `zipfile` does with less."""
    end = contents.rfind(b"PK\x05\x06")
    if end < 0 or end + 22 + int.from_bytes(contents[end + 20 : end + 22], "little") != len(
        contents
    ):
        raise builtins.ValueError("it does not end where it says")


def _array(contents: bytes) -> Array:
    found: Array = np.lib.format.read_array(io.BytesIO(contents), allow_pickle=False)
    return found
