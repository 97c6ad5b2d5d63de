"""Pages of a large library that this process need not hold.

A library's code is in memory once, for every process; what a process has touched counts as its own all the same, and
with each page come its neighbours. LLVM's constructors alone, which run when it is loaded, bring in 35 MB, a
compilation 45 MB. Pages that nobody wrote to can be let go at any time: when one is read again, the system finds it
where it was.
"""

from __future__ import annotations

import ctypes
import functools
import re
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tapec.runtime.cpu.host import libc

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s*(.*)")
_DONTNEED = 4  # MADV_DONTNEED
#: Seconds that lie between two times: letting go and fetching again take 4 ms, so this is 4 % of a compilation.
APART = 0.1


class LibraryPages:
    """The pages of a library that are as its file has them."""

    def __init__(self, library: str) -> None:
        """``library`` occurs in the file's name; a system that does not tell of its mappings has none."""
        try:
            with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
                self.ranges = list(unwritten(lines, library))
        except OSError:
            self.ranges = []
        self._last = 0.0

    def let_go(self) -> None:
        """Hold none of them, unless that was so a moment ago."""
        now = time.monotonic()
        if now - self._last < APART:
            return
        self._last = now
        advise = libc().madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for start, end in self.ranges:
            advise(start, end - start, _DONTNEED)


@functools.cache
def pages_of(library: str) -> LibraryPages:
    """The pages of a library, for all who use it; it is loaded by now."""
    return LibraryPages(library)


def unwritten(maps: Iterable[str], library: str) -> Iterator[tuple[int, int]]:
    """The mappings of a library's file to which nobody ever wrote.

    What may be written to is at the end of it, and the beginning of that may be protected once relocations are
    written: so of those that are read only, the one in front of what is writable does not count.
    """
    mappings = [found.groups() for found in map(_MAPPING.match, maps) if found]
    for (start, end, rights, path), (_, _, rights_behind, path_behind) in pairwise(mappings):
        is_last = path != path_behind or "w" in rights_behind
        if library in path and "w" not in rights and ("x" in rights or not is_last):
            yield int(start, 16), int(end, 16)
