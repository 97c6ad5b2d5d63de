"""Libraries that cannot be loaded because memory is short: the loader's words for it become a MemoryError."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

#: What the system's loader says, of glibc and of musl; not if "Operation not permitted" and the like follow.
_NO_ROOM = re.compile(
    r"failed to map segment from shared object$|cannot map zero-fill pages|[Cc]annot allocate memory$|: Out of memory$"
)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """A context, or a decorator, of what imports modules that may have code in libraries.

    llvmlite says of its library that it "could not find/load" it, and the loader's reason stands behind that. Who
    imports once more tries again.

    Raises:
        MemoryError: there is no room for a library.
    """
    try:
        yield
    except (ImportError, OSError) as error:
        reason: BaseException | None = error
        while reason is not None:
            if _NO_ROOM.search(str(reason)):
                raise MemoryError(str(reason)) from None
            reason = reason.__cause__ or reason.__context__
        raise
