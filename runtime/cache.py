"""A folder of compiled programs, found by what they were compiled from.

What is in it becomes native code of this process, so the folder must be its user's (or root's), and nobody else may be
allowed to write to it; one that is not so is not used. It is checked once it is open, and used through that descriptor
alone, so nothing can be put in its place afterwards.

Entries are written aside and renamed, so a reader sees all of one or nothing, whenever a writer is killed. Each
carries a checksum of its name and contents; one that does not fit counts as absent and is removed. Several processes
may share the folder, without locks. Links are not followed, and what is no ordinary file is not waited for: a link
among the entries would have something written, or cut off, that is not the folder's.

The folder keeps below a size by forgetting what was not used for longest: the time of a file's last change is that of
its last use. To look at every entry when one is added would cost more than to compile it, so there is a count: a file
that is one byte long for each block of bytes that was added. A file opened for appending grows by exactly what each
process adds to it. When the count is above the limit, all entries are looked at, a quarter of the limit is made free,
and the count is set to what is left; so an addition costs the same however many entries there are.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"tapec-cache 2\n"
_SUFFIX = ".image"
_COUNT = "count"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
LIMIT = 512 * 1024 * 1024
#: Bytes in which the size of the folder is counted; file systems give room in such pieces.
BLOCK = 4096
#: How files of the folder are opened: not through a link, and without waiting, as one would for a pipe.
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Seconds after which a file that was written aside belongs to a process that was killed.
_ABANDONED = 3600


def key_of(*parts: str) -> str:
    """The name of an entry: everything that its contents depend on, hashed."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class Held(NamedTuple):
    """What a folder holds."""

    entries: int
    bytes: int


class _File(NamedTuple):
    """A file of the folder: when it was used, its size in bytes, its name."""

    used: int
    bytes: int
    name: str


class Cache:
    """The entries in one folder, about ``limit`` bytes of them at most."""

    def __init__(self, folder: Path | str, limit: int = LIMIT) -> None:
        """The folder is made when something is put into it."""
        self.folder = Path(folder)
        self.limit = limit

    def get(self, key: str) -> bytes | None:
        """The entry's contents, or None if it is absent or damaged; using it makes it young."""
        with self._opened() as folder:
            if folder is None:
                return None
            name = key + _SUFFIX
            try:
                data = _read(folder, name)
            except OSError:
                return None
            contents = data[_HEAD:]
            whole = data[:_HEAD] == _head(key, contents)
            with contextlib.suppress(OSError):  # a folder that only can be read serves as well
                if whole:
                    os.utime(name, dir_fd=folder)
                else:
                    os.unlink(name, dir_fd=folder)
            return contents if whole else None

    def put(self, key: str, contents: bytes) -> None:
        """Keep an entry; where that cannot be, it costs a warning, not the program."""
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            with self._opened() as folder:
                if folder is not None:
                    self._put(folder, key, contents)
        except OSError as error:
            _tell(f"compiled programs cannot be kept in {self.folder}: {error}")

    def held(self) -> Held:
        """How much there is now."""
        with self._opened() as folder:
            files = [] if folder is None else _files(folder)
        return Held(
            sum(file.name.endswith(_SUFFIX) for file in files), sum(file.bytes for file in files)
        )

    def clear(self) -> Held:
        """Remove everything; return how much it was."""
        held = self.held()
        with self._opened() as folder:
            if folder is not None:
                self._sweep(folder, 0)
        return held

    def refusal(self) -> str | None:
        """Why the folder is not used, if there is one and it is not."""
        try:
            return _refusal(self.folder.stat())
        except FileNotFoundError:
            return None
        except OSError as error:
            return str(error)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int | None]:
        """A descriptor of the folder; None if there is none, or it may not be used."""
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            yield None
            return
        try:
            refusal = _refusal(os.fstat(folder))
            if refusal is not None:
                _tell(f"{self.folder} is not used for compiled programs: {refusal}")
            yield folder if refusal is None else None
        finally:
            os.close(folder)

    def _put(self, folder: int, key: str, contents: bytes) -> None:
        # Counted first: what a writer that is killed leaves behind takes room as well.
        count = _add(folder, _blocks(_HEAD + len(contents)))
        aside = f"{key}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            _write(folder, aside, _head(key, contents) + contents)
            # Another process may have made room meanwhile, or emptied the folder: the entry is forgotten already.
            with contextlib.suppress(FileNotFoundError):
                os.replace(aside, key + _SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside, dir_fd=folder)
            raise
        if count * BLOCK > self.limit:
            self._sweep(folder, self.limit * 3 // 4)

    def _sweep(self, folder: int, limit: int) -> None:
        """Forget the entries that were used least recently until the rest fits, and what killed writers left."""
        files = _files(folder)
        total = sum(_blocks(file.bytes) for file in files)
        now = time.time_ns()
        for file in sorted(files):
            abandoned = (
                not file.name.endswith(_SUFFIX) and now - file.used > _ABANDONED * 1_000_000_000
            )
            if abandoned or total * BLOCK > limit:
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    os.unlink(file.name, dir_fd=folder)
                total -= _blocks(file.bytes)
        descriptor = _open_count(folder)
        try:
            os.truncate(descriptor, total)
        finally:
            os.close(descriptor)


def _head(key: str, contents: bytes) -> bytes:
    """What stands in front of an entry's contents."""
    digest = hashlib.sha256(key.encode())
    digest.update(contents)
    return _MAGIC + digest.digest()


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


def _refusal(state: os.stat_result) -> str | None:
    """Why a folder is not safe to take code from."""
    if state.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {state.st_uid}; set TAPEC_CACHE to a folder of your own"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it; chmod go-w it"
    return None


def _files(folder: int) -> list[_File]:
    """All files but the count."""
    found = []
    with os.scandir(folder) as listed:
        for each in listed:
            with contextlib.suppress(OSError):  # another process may be faster
                state = each.stat(follow_symlinks=False)
                if each.name != _COUNT and stat.S_ISREG(state.st_mode):
                    found.append(_File(state.st_mtime_ns, state.st_size, each.name))
    return found


def _read(folder: int, name: str) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | _PLAIN, dir_fd=folder)
    with open(descriptor, "rb") as file:
        return file.read()


def _write(folder: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _open_count(folder: int) -> int:
    """A descriptor of the count, which writes at its end; what stands there and is no file is removed first.

    Raises:
        OSError: it cannot be written, or is a folder.
    """
    with contextlib.suppress(FileNotFoundError):
        state = os.stat(_COUNT, dir_fd=folder, follow_symlinks=False)
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
            os.unlink(_COUNT, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _PLAIN
    return os.open(_COUNT, flags, 0o600, dir_fd=folder)


def _add(folder: int, blocks: int) -> int:
    """Count some blocks more; return how many there are."""
    descriptor = _open_count(folder)
    try:
        if os.fstat(descriptor).st_size == 0:  # a new folder, or somebody lost the count
            blocks += sum(_blocks(file.bytes) for file in _files(folder))
        os.write(descriptor, bytes(blocks))
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


@functools.cache
def _tell(text: str) -> None:
    """Warn, once in the life of a process for each text."""
    warnings.warn(text, RuntimeWarning, stacklevel=4)
