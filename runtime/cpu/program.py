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
from tapec.runtime.executable import Executable, Signature

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
    module: Module,
    *,
    threads: int = 1,
    cache: Cache | None = None,
    key: str | None = None,
    opt: int = 1,
) -> Executable:
    """Compile a module for this process.

    ``opt`` is LLVM's level, 0 to 3. On systems without a thread pool (`threads.is_available`) parallel loops run on
    the calling thread.
    """
    threads = _usable(threads)
    text, host = write_text(module, threads=threads)
    signature = Signature.of(module)
    # The text alone would not do: a copy of float16 is a copy of bfloat16, to the letter.
    source = "\n".join([text, *host, signature.to_json()]) if key is None else key
    name = _entry_name(source, threads, opt)
    kept = cache.get(name) if cache is not None and key is None else None
    if kept is not None:
        return _load(kept, cache)
    from tapec.runtime.cpu.jit import host_compiler  # slow to import; a warm start goes without

    image = link(host_compiler(opt).compile(text))
    if cache is not None:
        head = f"{signature.to_json()}\n{json.dumps([host, threads])}\n"
        cache.put(name, head.encode() + image.to_bytes())
    return _start(image, host, signature, threads, cache)


def find_program(key: str, *, threads: int = 1, cache: Cache, opt: int = 1) -> Executable | None:
    """The program that `compile_program` kept under a key, or None."""
    kept = cache.get(_entry_name(key, _usable(threads), opt))
    return None if kept is None else _load(kept, cache)


def _usable(threads: int) -> int:
    if threads > pool.MOST:
        raise TargetError(f"at most {pool.MOST} threads can run a loop, got {threads}")
    return threads if pool.is_available() else 1


def _entry_name(source: str, threads: int, opt: int) -> str:
    return key_of(source, machine(), str(threads), str(opt), _VERSION)


def _load(kept: bytes, cache: Cache | None) -> Executable:
    signature, table, image = kept.split(b"\n", 2)
    host, threads = json.loads(table)
    return _start(
        Image.from_bytes(image), host, Signature.from_json(signature.decode()), threads, cache
    )


def _start(
    image: Image, host: list[str], signature: Signature, threads: int, cache: Cache | None
) -> Executable:
    """Put a program into memory."""
    if threads > 1:
        pool.require(cache)  # it provides what the table asks for
    return Executable(signature, Code(image, host, signature.name).function())


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
