"""Files that come into place whole, and what is read of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from tapec.errors import NotFoundError
from tapec.frames import here


@contextmanager
def replaced(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` once everything is written.

    It lies beside it until then, so whoever reads ``path`` meanwhile, or after an error, finds what was there before.

    Raises:
        NotFoundError: there is no such folder.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise NotFoundError(f"there is no folder {str(target.parent)!r}", location=here())
    handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, _permissions(target))
        os.replace(aside, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside)
        raise


def _permissions(target: Path) -> int:
    """Those of the file that is replaced, or of a new one."""
    with suppress(FileNotFoundError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def contents_of(path: Any) -> bytes:
    """The bytes of a file.

    Raises:
        NotFoundError: there is none.
    """
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise NotFoundError(f"there is no file {str(path)!r}", location=here()) from None
