"""Memory that is short, told by a MemoryError: of libraries, in the loader's words; of LLVM, before it is asked."""

from __future__ import annotations

import contextlib
import errno
import mmap
import re
from collections.abc import Iterator

#: What the system's loader says, of glibc and of musl; not if "Operation not permitted" and the like follow.
_NO_ROOM = re.compile(
    r"failed to map segment from shared object$|cannot map zero-fill pages|[Cc]annot allocate memory$|: Out of memory$"
)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """A context, or a decorator, of what imports modules that may have code in libraries.

    llvmlite says of its library that it "could not find/load" it, and the loader's reason stands behind that; Python
    reads the folder of a package in an import, and says by a number that there is no room for its names. Who imports
    once more tries again.

    Raises:
        MemoryError: there is no room for a library.
    """
    try:
        yield
    except (ImportError, OSError) as error:
        reason: BaseException | None = error
        while reason is not None:
            if getattr(reason, "errno", None) == errno.ENOMEM or _NO_ROOM.search(str(reason)):
                raise MemoryError(str(reason)) from None
            reason = reason.__cause__ or reason.__context__
        raise


def has_room(size: int) -> bool:
    """Whether the process may have so many bytes of addresses more.

    Code that ends the process, or waits for ever, where it gets no memory is not called then. It is a look, no
    reservation, and one at addresses alone: no system tells how many pages it will have.
    """
    if not hasattr(mmap, "PROT_READ"):
        return True  # a system without mmap has no such limits either
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except OSError:
        return False
    return True
