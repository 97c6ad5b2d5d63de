"""Programs that are native code already: mapped, callable from Python, found in the cache.

Nothing here knows how they are made, so a process that finds its programs loads neither LLVM nor what writes for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import json
import os
import platform
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tapec.ir.errors import TargetError
from tapec.runtime.cache import Cache, key_of
from tapec.runtime.cpu import blocks
from tapec.runtime.cpu import threads as pool
from tapec.runtime.cpu.host import FAST_CALL, Builtin, Mapped, Opened
from tapec.runtime.cpu.image import Image
from tapec.runtime.executable import Executable, Signature
from tapec.runtime.processors import MOST_THREADS
from tapec.runtime.sources import version_of

#: Exported by every program: what Python calls, and, if it has an arena, what gives that back. Some can be called with
#: boxes, too.
CALL, RELEASE, BOXED = "tapec.call", "tapec.release", "tapec.boxed"
#: Exported by programs that keep the time of their kernels (`tapec.runtime.cpu.text.clock`): a table, behind so many
#: bytes.
TIMES, TIMES_HEAD = "tapec.times", 16


class Code:
    """A program in memory with the C function that Python calls; it lives as long as that function."""

    def __init__(self, image: Image, host: list[str], name: str, path: Path | None = None) -> None:
        """Map the image, or load the shared object that holds it."""
        self._mapped = Mapped(image, host) if path is None else Opened(path, host)
        self._functions = {
            symbol: Builtin(name, self._mapped.address(symbol), FAST_CALL)
            for symbol in (CALL, BOXED)
            if symbol in image.symbols
        }
        self._keeps_time = TIMES in image.symbols
        self._release = None
        if RELEASE in image.symbols:
            release = self._mapped.address(RELEASE)
            self._release = ctypes.PYFUNCTYPE(None)(release)

    @property
    def base(self) -> int:
        """Where its image begins, which no file holds."""
        assert isinstance(self._mapped, Mapped)
        return self._mapped.base

    def times(self) -> np.ndarray[Any, Any] | None:
        """The table of `tapec.runtime.cpu.text.clock` itself, i64[kernels, 2], if the program keeps the time."""
        if not self._keeps_time:
            return None
        head = self._mapped.address(TIMES)
        count = ctypes.c_int64.from_address(head).value
        table = (ctypes.c_int64 * (2 * count)).from_address(head + TIMES_HEAD)
        return np.ctypeslib.as_array(table).reshape(count, 2)

    def function(self, symbol: str) -> Any:
        """A built-in function of Python that runs the program; it keeps this object alive. None if there is none."""
        found = self._functions.get(symbol)
        return None if found is None else found.of(self)

    def __del__(self) -> None:
        if getattr(self, "_release", None) is not None:
            self._release()  # type: ignore[misc]


def find_program(key: str, *, threads: int = 1, cache: Cache, opt: int = 1) -> Executable | None:
    """The program that `compile_program` kept under a key, or None."""
    kept = cache.get(program_key(key, usable_threads(threads), opt))
    return None if kept is None else load(kept, cache)


def usable_threads(threads: int) -> int:
    """How many threads a program is compiled for: 1 where there is no pool."""
    if threads > MOST_THREADS:
        raise TargetError(f"at most {MOST_THREADS} threads can run a loop, got {threads}")
    return threads if pool.is_available() else 1


def program_key(source: str, threads: int, opt: int) -> str:
    """The name of a program in the cache."""
    return key_of(source, machine(), str(threads), str(opt))


def to_bytes(image: Image, host: list[str], signature: Signature, threads: int) -> bytes:
    """A program for a file."""
    head = f"{signature.to_json()}\n{json.dumps([host, threads])}\n"
    return head.encode() + image.to_bytes()


def load(kept: bytes, cache: Cache | None) -> Executable:
    """Start what `to_bytes` wrote."""
    signature, table, image = kept.split(b"\n", 2)
    host, threads = json.loads(table)
    return start(
        Image.from_bytes(image), host, Signature.from_json(signature.decode()), threads, cache
    )


def keep(folder: Path, name: str, contents: bytes) -> Path:
    """Write a shared object into a folder, under the program's name and a hash of the contents.

    Raises:
        TargetError: others may write to the folder, so what lies in it may be theirs.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise TargetError(
            f"code with line tables is not kept in {folder}, to which others may write",
            hint="set TAPEC_DEBUG to a folder of your own",
        )
    plain = re.sub(r"\W+", "_", name).strip("_") or "program"
    path = folder / f"{plain}-{hashlib.sha256(contents).hexdigest()[:16]}.so"
    if not path.exists():
        aside = path.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}")
        aside.write_bytes(contents)
        os.replace(aside, path)
    return path


def start(
    image: Image,
    host: list[str],
    signature: Signature,
    threads: int,
    cache: Cache | None,
    path: Path | None = None,
) -> Executable:
    """Put a program into memory: its image, or the shared object at ``path``, which holds the same."""
    if threads > 1:
        pool.require(cache)  # it provides what the table asks for
    if blocks.are_wanted(host):
        blocks.require(cache)
    code = Code(image, host, signature.name, path)
    call, boxed = code.function(CALL), code.function(BOXED)
    return Executable(signature, call, call_boxed=boxed, times=code.times())


@functools.cache
def machine() -> str:
    """What compiled code depends on besides its source: processor, Python, NumPy, LLVM, and this package."""
    parts = [platform.machine(), sys.version, str(object.__basicsize__), np.__version__]
    parts += _processor()
    # The version without the import: the folder of the package changes with it.
    spec = find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        parts.append(str(os.stat(spec.origin).st_mtime_ns))
    parts.append(version_of([Path(__file__).parents[1]]))
    return "\n".join(parts)


def _processor() -> list[str]:
    """What Linux says of the first processor; the others are not waited for."""
    wanted = ("flags", "Features", "model name", "cpu family", "model", "CPU part")
    with (
        contextlib.suppress(OSError),
        open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines,
    ):
        first = itertools.takewhile(str.strip, lines)
        return [line for line in first if line.split("\t")[0].strip() in wanted]
    return []
