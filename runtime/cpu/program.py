"""From a loop-level module to an executable in this process: text, cache, compiler, memory, and the C function."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tapec.ir.core import Module
from tapec.ir.errors import TargetError
from tapec.runtime.cache import Cache, key_of
from tapec.runtime.cpu import entry
from tapec.runtime.cpu import threads as pool
from tapec.runtime.cpu.entry import EntryWriter
from tapec.runtime.cpu.host import Mapped
from tapec.runtime.cpu.image import Image, link
from tapec.runtime.cpu.llvm import ModuleWriter
from tapec.runtime.executable import Executable

#: Counts changes to what this package writes around the text that is hashed.
_VERSION = "1"
_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Code:
    """A program in memory with the C function that Python calls; it lives as long as that function."""

    def __init__(self, image: Image, host: list[str], name: str) -> None:
        """Map the image."""
        self._mapped = Mapped(image, host)
        start = self._mapped.address(entry.CALL)
        self._definition = _MethodDef(name.encode(), start, _FASTCALL, None)
        self._release = None
        if entry.RELEASE in image.symbols:
            release = self._mapped.address(entry.RELEASE)
            self._release = ctypes.PYFUNCTYPE(None)(release)

    def function(self) -> Any:
        """A built-in function of Python that runs the program; it keeps this object alive."""
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._definition), self, None)

    def __del__(self) -> None:
        if getattr(self, "_release", None) is not None:
            self._release()  # type: ignore[misc]


def compile_program(
    module: Module, *, threads: int = 1, cache: Cache | None = None, opt: int = 1
) -> Executable:
    """Compile a module for this process.

    ``opt`` is LLVM's level, 0 to 3. On systems without a thread pool (`threads.is_available`) parallel loops run on
    the calling thread.
    """
    if threads > pool.MOST:
        raise TargetError(f"at most {pool.MOST} threads can run a loop, got {threads}")
    if not pool.is_available():
        threads = 1
    text, host = write_text(module, threads=threads)
    image = None
    key = key_of(text, json.dumps(host), machine(), str(opt), _VERSION)
    if cache is not None:
        kept = cache.get(key)
        image = Image.from_bytes(kept) if kept is not None else None
    if image is None:
        from tapec.runtime.cpu.jit import host_compiler  # slow to import; a warm start goes without

        image = link(host_compiler(opt).compile(text))
        if cache is not None:
            cache.put(key, image.to_bytes())
    if threads > 1:
        pool.require(cache)  # it provides what the table asks for
    code = Code(image, host, module.entry.name)
    return Executable(module, code.function())


def write_text(module: Module, *, threads: int = 1) -> tuple[str, list[str]]:
    """The LLVM text of a module, and what it needs from this process."""
    writer = ModuleWriter(module, threads=threads)
    long = entry.work(module) > entry.LONG_WORK
    EntryWriter(writer, module.entry, release_gil=long).write()
    return writer.write(), writer.host


@functools.cache
def machine() -> str:
    """What compiled code depends on besides its text: processor, Python, NumPy and LLVM."""
    parts = [platform.machine(), sys.version, str(object.__basicsize__), np.__version__]
    info = Path("/proc/cpuinfo")
    if info.exists():
        wanted = ("flags", "Features", "model name", "cpu family", "model", "CPU part")
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        first = lines[: lines.index("")] if "" in lines else lines
        parts += [line for line in first if line.split("\t")[0].strip() in wanted]
    # The version without the import: the folder of the package changes with it.
    spec = find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        parts.append(str(os.stat(spec.origin).st_mtime_ns))
    return "\n".join(parts)
