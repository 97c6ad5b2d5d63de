"""How many processors this process may use, and how many threads its programs."""

from __future__ import annotations

import os

#: Threads of one program at most: the pool's jobs have a bit for the part of each (`tapec.runtime.cpu.threads`).
MOST_THREADS = 64


def processors() -> int:
    """The processors that the calling thread may run on; all there are, on systems that know no difference."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
