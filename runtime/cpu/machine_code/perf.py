"""Names of functions in memory for Linux's perf: its map, or a jitdump with the code itself.

``map``: a line for each function in ``/tmp/perf-PID.map``, where perf looks (tools/perf/Documentation/jit-interface.txt
in the kernel's sources). ``jitdump``: records in ``jit-PID.dump``, which ``perf inject --jit`` turns into files that
``perf annotate`` reads (jitdump-specification.txt there); a page of it is mapped executable, by which perf finds it.
Programs that the parent of a fork made are in the parent's file.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tapec.ir.errors import TargetError
from tapec.runtime.cpu.machine_code.linker import Linker
from tapec.runtime.cpu.parts import LOADED

#: Where perf looks for maps, whatever the folder for temporary files is.
_FOLDER = Path("/tmp")
_MAGIC, _VERSION, _HEADER = 0x4A695444, 1, 40
_LOAD, _PREFIX = 0, 56  # the kind of a record that tells of new code, and its bytes before the name
_lock = threading.Lock()


class Code(NamedTuple):
    """A function in memory."""

    name: str
    address: int
    code: bytes


def tell(form: str, base: int, linker: Linker, rename: Callable[[str], str] = str) -> None:
    """Write down the functions of an object that lies at an address, and the runtime's parts that are new.

    Args:
        form: ``map`` or ``jitdump``.
        base: the address.
        linker: the object.
        rename: names of functions, for people.

    Raises:
        TargetError: there is no such form, or the file cannot be written.
    """
    write = {"map": _to_map, "jitdump": _to_dump}.get(form)
    if write is None:
        raise TargetError(f"perf reads no {form!r}", hint="set TAPEC_PERF to map or jitdump")
    memory = bytes(linker.memory)
    found = [
        Code(rename(f.name), base + f.address, memory[f.address : f.address + f.size])
        for f in linker.functions()
        if f.size
    ]
    try:
        with _lock:
            write([*_parts(), *found])
    except OSError as error:
        raise TargetError(f"perf's file cannot be written: {error}") from error


def _parts() -> list[Code]:
    """What is new of the runtime, each part as one: it may come from a cache, without the names of its functions."""
    new = {name: part for name, part in LOADED.items() if (os.getpid(), name) not in _told}
    _told.update((os.getpid(), name) for name in new)
    return [Code(f"tapec.{name}", part.base, part.code()) for name, part in new.items()]


_told: set[tuple[int, str]] = set()


def _to_map(functions: Sequence[Code]) -> None:
    lines = [f"{address:x} {len(code):x} {name}\n" for name, address, code in functions]
    _open(_FOLDER / f"perf-{os.getpid()}.map").write("".join(lines).encode())


def _to_dump(functions: Sequence[Code]) -> None:
    file = _dump(os.getpid())
    for name, place, code in functions:
        text = name.encode() + b"\0"
        size = len(code)
        total = _PREFIX + len(text) + size
        head = struct.pack("<IIQ", _LOAD, total, time.monotonic_ns())
        body = struct.pack(
            "<IIQQQQ", os.getpid(), threading.get_native_id(), place, place, size, _next()
        )
        file.write(head + body + text + code)


@functools.cache
def _dump(pid: int) -> BinaryIO:
    """The file of a process, with its header, mapped once; the mapping stays until the process ends."""
    file = _open(_FOLDER / f"jit-{pid}.dump")
    machine = 62 if os.uname().machine == "x86_64" else 183
    file.write(
        struct.pack("<IIIIIIQQ", _MAGIC, _VERSION, _HEADER, machine, 0, pid, time.monotonic_ns(), 0)
    )
    _mapped.append(mmap.mmap(file.fileno(), _HEADER, prot=mmap.PROT_READ | mmap.PROT_EXEC))
    return file


_mapped: list[mmap.mmap] = []
_count = [0]


def _next() -> int:
    """The number of a function among all that the process told of."""
    _count[0] += 1
    return _count[0]


@functools.cache
def _open(path: Path) -> BinaryIO:
    """A new file of this process's own; one of that name was left by a process that had its number before."""
    if not sys.platform.startswith("linux"):
        raise TargetError(f"perf is a tool of Linux, not of {sys.platform}")
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    # Written at once: perf reads while the process runs, or after it was killed.
    return open(os.open(path, flags, 0o600), "r+b", buffering=0)
