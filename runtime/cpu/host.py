"""What compiled programs get from the process around them, how their images get into memory, and how Python calls them.

A program asks by name (`address`): ``python:PyErr_NoMemory`` a function of Python's C interface, ``libc:syscall`` one
of the C library's, ``numpy:PyArray_Empty`` one of NumPy's, ``error:TypeError``, ``type:ndarray``, ``dtype:f32``,
``none:``, ``bool:True`` and ``notimplemented:`` objects, ``box:`` something of `tapec.runtime.boxes`, ``interrupts:`` a
word of `tapec.runtime.interrupts`, ``foreign:NAME:HASH:SYMBOL`` what a user's kernel calls or is.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import mmap
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapec.ir.errors import TargetError
from tapec.ir.op import OPS
from tapec.ir.types import BY_CODE
from tapec.runtime import boxes
from tapec.runtime.cpu.image import Image
from tapec.runtime.interrupts import handling

#: Where more names come from: other parts of the runtime that are native code (the thread pool, `blocks`).
PROVIDERS: dict[str, Callable[[str], int]] = {}


def address(name: str) -> int:
    """The address of something outside.

    Raises:
        TargetError: nothing here has that name.
    """
    kind, _, rest = name.partition(":")
    provider = PROVIDERS.get(kind)
    if provider is None:
        raise TargetError(f"nothing in this process is called {name}")
    return provider(rest)


def _function(library: Any) -> Callable[[str], int]:
    def find(name: str) -> int:
        try:
            found = ctypes.cast(getattr(library(), name), ctypes.c_void_p).value
        except AttributeError:
            raise TargetError(f"this process has no function {name}") from None
        assert found is not None
        return found

    return find


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library that is loaded already."""
    return ctypes.CDLL(None, use_errno=True)


#: Where the C interface of NumPy has a function, which its headers promise to keep.
_NUMPY_TABLE = {"PyArray_Empty": 184, "PyDataMem_SetHandler": 304}


def _numpy_function(name: str) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    core = sys.modules.get("numpy._core._multiarray_umath")
    if core is None:  # before NumPy 2
        core = sys.modules["numpy.core._multiarray_umath"]
    table = get(core._ARRAY_API, None)
    found = ctypes.c_void_p.from_address(table + 8 * _NUMPY_TABLE[name]).value
    assert found is not None
    return found


def _foreign_function(rest: str) -> int:
    name, content, symbol = rest.split(":", 2)
    source = getattr(OPS.get(name), "source", None)
    if source is None:
        raise TargetError(f"this program calls {name}, a custom op that is not registered here")
    found: int = source.address(content, symbol)
    return found


PROVIDERS |= {
    "foreign": _foreign_function,
    "numpy": _numpy_function,
    "python": _function(lambda: ctypes.pythonapi),
    "libc": _function(libc),
    "error": lambda name: id(getattr(builtins, name)),
    "type": lambda name: id(getattr(np, name)),
    "dtype": lambda code: id(BY_CODE[code].numpy),
    "none": lambda _: id(None),
    "bool": lambda name: id(name == "True"),
    "notimplemented": lambda _: id(NotImplemented),
    "box": boxes.address,
    "interrupts": lambda _: ctypes.addressof(handling),
}


class Mapped:
    """An image in memory, executable; it stays as long as this object."""

    def __init__(self, image: Image, host: Sequence[str]) -> None:
        """Copy the image and fill its table ``tapec.host`` with the addresses of these names."""
        if not sys.platform.startswith("linux"):
            raise TargetError(f"the cpu target maps its code on Linux only, not on {sys.platform}")
        # Private: by default a child of fork would write to the same pages.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, len(image.code) + 1, flags=flags)
        self._memory.write(image.code)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._symbols = image.symbols
        self._executable = image.writable
        for at in image.bases:
            (offset,) = struct.unpack_from("<Q", self._memory, at)
            struct.pack_into("<Q", self._memory, at, self.base + offset)
        table = image.symbols.get("tapec.host", 0)
        for i, name in enumerate(host):
            struct.pack_into("<Q", self._memory, table + 8 * i, address(name))
        # Never writable and executable at once.
        size = image.writable
        protect = libc().mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if protect(self.base, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise TargetError("the system does not let this process run code that it wrote")

    def address(self, name: str) -> int:
        """Where an exported symbol is."""
        return self.base + self._symbols[name]

    def code(self) -> bytes:
        """What is executable of it."""
        return self._memory[: self._executable]


class Opened:
    """A shared object that the system's loader put into memory, where tools find it, until the process ends."""

    def __init__(self, path: Path, host: Sequence[str]) -> None:
        """Load it and fill its table ``tapec.host`` with the addresses of these names."""
        self._library = ctypes.CDLL(str(path))
        table = self.address("tapec.host")
        for i, name in enumerate(host):
            ctypes.c_size_t.from_address(table + 8 * i).value = address(name)

    def address(self, name: str) -> int:
        """Where an exported symbol is."""
        found = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert found is not None
        return found


#: CPython's METH_NOARGS and METH_FASTCALL.
NO_ARGUMENTS, FAST_CALL = 0x4, 0x80


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Builtin:
    """A C function of which Python makes built-in functions; it has to live as long as these."""

    def __init__(self, name: str, address: int, flags: int) -> None:
        """``flags`` say how it is called: `NO_ARGUMENTS` or `FAST_CALL`."""
        self._definition = _MethodDef(name.encode(), address, flags, None)

    def of(self, owner: Any) -> Any:
        """The function that gets an object as its first argument, and keeps it alive."""
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._definition), owner, None)
