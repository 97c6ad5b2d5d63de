"""DLPack for memory of a device: capsules made and read through their C structures.

See https://dmlc.github.io/dlpack/latest/c_api.html. NumPy makes and reads capsules of the host's memory only.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from math import prod
from threading import RLock
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tapec.ir.errors import DTypeError, ShapeError

#: DLPack's number for CUDA's memory.
CUDA = 2
_READ_ONLY, _COPIED = 1, 2
_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
_USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}
#: DLPack's numbers for kinds of dtypes.
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_CODES = {number: kind for kind, number in _KINDS.items()}


class Described(NamedTuple):
    """An array on a device: where, on which, of what elements, how large; ``read_only`` if it says so."""

    address: int
    number: int
    dtype: Any
    shape: tuple[int, ...]
    read_only: bool = False


class _Device(Structure):
    _fields_ = [("kind", c_int32), ("number", c_int32)]


class _DType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", _Device),
        ("rank", c_int32),
        ("dtype", _DType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_uint64),
    ]


class _Plain(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_FORMS: dict[bool, Any] = {False: _Plain, True: _Versioned}
_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


def _of_python(name: str, result: Any, *operands: Any) -> Any:
    """A function of Python's own C interface; attributes of `ctypes.pythonapi` are anybody's to change."""
    return ctypes.PYFUNCTYPE(result, *operands)((name, ctypes.pythonapi))


_new = _of_python("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
_pointer = _of_python("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_is_valid = _of_python("PyCapsule_IsValid", ctypes.c_int, c_void_p, c_char_p)
_rename = _of_python("PyCapsule_SetName", ctypes.c_int, c_void_p, c_char_p)

#: What capsules point to, by address, until who took it is done.
_given: dict[int, tuple[Any, ...]] = {}
#: Capsules that nobody has taken yet, as far as is known. They have no destructor: that would run while an error of
#: others is on its way, such as of a library that refuses a device, which no function of Python's may do.
_offered: dict[int, Any] = {}
#: Held while these are looked through; what goes away meanwhile may make others look.
_looking = RLock()


def given() -> int:
    """How many arrays others have from us, and are not done with."""
    look_through()
    return len(_given)


def _forget(address: int | None) -> None:
    _given.pop(address or 0, None)


def _references(address: int) -> int:
    return sys.getrefcount(_offered[address])


_offered[0] = object()
#: How many references there are to what is offered, and nobody has.
_ALONE = _references(0)
del _offered[0]


def look_through() -> None:
    """Forget capsules that went away: if nobody took what they hold, nobody will."""
    with _looking:
        for address in list(_offered):
            if address not in _offered:  # whoever looked meanwhile has forgotten it
                continue
            is_alone = _references(address) == _ALONE
            is_taken = not any(_is_valid(id(_offered[address]), name) for name in _NAMES.values())
            if is_alone or is_taken:
                del _offered[address]
            if is_alone and not is_taken:
                _forget(address)


def _delete(managed: Any) -> None:
    if managed.deleter:
        _Deleter(managed.deleter)(ctypes.addressof(managed))


_deleter = _Deleter(_forget)


def capsule(array: Described, owner: Any, *, versioned: bool, copied: bool = False) -> Any:
    """A capsule of an array, which keeps ``owner`` until its taker is done, or `look_through` finds that there is none.

    ``versioned`` is DLPack's form since 1.0, which can say that memory is to be read only.

    Raises:
        DTypeError: DLPack has no such dtype.
    """
    managed = _FORMS[versioned]()
    shape = (c_int64 * len(array.shape))(*array.shape)
    strides = (c_int64 * len(array.shape))(*_strides(array.shape))
    tensor = managed.tensor
    tensor.data = array.address
    tensor.device = _Device(CUDA, array.number)
    tensor.rank = len(array.shape)
    tensor.dtype = _dtype_to(array.dtype)
    tensor.shape = ctypes.cast(shape, POINTER(c_int64))
    tensor.strides = ctypes.cast(strides, POINTER(c_int64))
    managed.deleter = ctypes.cast(_deleter, c_void_p)
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = _COPIED if copied else _READ_ONLY
    with _looking:
        look_through()
        address = ctypes.addressof(managed)
        _given[address] = (managed, shape, strides, owner)
        made = _offered[address] = _new(address, _NAMES[versioned], None)
    return made


class Taken:
    """What was taken out of a capsule; whose memory it is hears when nobody refers to this any more."""

    __slots__ = ("_managed",)

    def __init__(self, managed: Any) -> None:
        """``managed`` is one of DLPack's structures."""
        self._managed = managed

    def __del__(self) -> None:
        _delete(self._managed)


def device_kind(capsule: Any) -> int | None:
    """DLPack's number for the kind of device that has a capsule's memory; None if it was used before."""
    for versioned, name in _NAMES.items():
        if _is_valid(id(capsule), name):
            managed = _FORMS[versioned].from_address(_pointer(id(capsule), name))
            return int(managed.tensor.device.kind)
    return None


def taken(capsule: Any) -> tuple[Described, Taken]:
    """What is in a capsule, which is used up by that.

    Raises:
        ValueError: it was used before, or is of a later version.
        DTypeError: elements of a dtype that tapec has not.
        ShapeError: rows that do not lie one behind the other.
    """
    versioned = next((v for v, name in _NAMES.items() if _is_valid(id(capsule), name)), None)
    if versioned is None:
        raise ValueError("the capsule was used before, or holds no array")
    managed = _FORMS[versioned].from_address(_pointer(id(capsule), _NAMES[versioned]))
    if versioned and managed.major > 1:
        raise ValueError(f"the capsule is of DLPack {managed.major}, and tapec knows 1")
    found = _described(managed, versioned=versioned)
    _rename(id(capsule), _USED[versioned])
    return found, Taken(managed)


def _described(managed: Any, *, versioned: bool) -> Described:
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.rank])
    strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else _strides(shape)
    if tensor.device.kind != CUDA:
        raise ValueError(f"the memory is DLPack's device {tensor.device.kind}, not {CUDA}: CUDA's")
    if not is_row_major(shape, strides):
        raise ShapeError(
            f"an array of shape {list(shape)} has strides {list(strides)}",
            hint="make it contiguous first",
        )
    address = (tensor.data or 0) + tensor.offset
    read_only = versioned and bool(managed.flags & _READ_ONLY)
    return Described(address, tensor.device.number, _dtype_of(tensor.dtype), shape, read_only)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[n + 1 :]) for n in range(len(shape)))


def is_row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie one behind the other; strides count elements."""
    pairs = zip(shape, strides, _strides(shape), strict=True)
    return 0 in shape or all(n == 1 or own == usual for n, own, usual in pairs)


def _dtype_to(dtype: Any) -> _DType:
    bits = dtype.itemsize * 8
    if dtype == ml_dtypes.bfloat16:
        return _DType(_BFLOAT, bits, 1)
    if dtype.kind not in _KINDS:
        raise DTypeError(f"DLPack has no {dtype}", hint="convert it with tapec.cast")
    return _DType(_KINDS[dtype.kind], bits, 1)


def _dtype_of(kind: Any) -> Any:
    if kind.code == _BFLOAT and (kind.bits, kind.lanes) == (16, 1):
        return np.dtype(ml_dtypes.bfloat16)
    if kind.code not in _CODES or kind.lanes != 1 or kind.bits % 8:
        raise DTypeError(f"DLPack's dtype {kind.code} of {kind.bits} bits is none of tapec's")
    return np.dtype(bool if kind.code == _KINDS["b"] else f"{_CODES[kind.code]}{kind.bits // 8}")
