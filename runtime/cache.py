"""A folder of compiled programs, found by what they were compiled from.

Entries are written aside and renamed, so a reader sees all of one or nothing; each carries a checksum, and a
damaged one counts as absent. The folder keeps below a size by forgetting what was not used for longest. Several
processes may share it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import warnings
from pathlib import Path

_MAGIC = b"tapec-cache 1\n"
_SUFFIX = ".image"
LIMIT = 512 * 1024 * 1024


def key_of(*parts: str) -> str:
    """The name of an entry: everything that its contents depend on, hashed."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class Cache:
    """The entries in one folder, at most ``limit`` bytes of them."""

    def __init__(self, folder: Path | str, limit: int = LIMIT) -> None:
        """The folder is made when something is put into it."""
        self.folder = Path(folder)
        self.limit = limit

    def get(self, key: str) -> bytes | None:
        """The entry's contents, or None if it is absent or damaged; using it makes it young."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + hashlib.sha256().digest_size
        contents = data[head:]
        if data[:head] != _MAGIC + hashlib.sha256(contents).digest():
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):  # a folder that only can be read serves as well
            os.utime(path)
        return contents

    def put(self, key: str, contents: bytes) -> None:
        """Keep an entry; a folder that cannot be written to costs a warning, not the program."""
        path = self._path(key)
        aside = path.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(_MAGIC + hashlib.sha256(contents).digest() + contents)
            os.replace(aside, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            warnings.warn(
                f"compiled programs cannot be kept in {self.folder}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        self.prune()

    def prune(self) -> None:
        """Forget the entries that were used least recently until the rest fits, and what a crash left."""
        entries = []
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):  # another process may be faster
                state = path.stat()
                entries.append((state.st_mtime_ns, state.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries, key=lambda entry: entry[0]):
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / (key + _SUFFIX)
