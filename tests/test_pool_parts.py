"""Which thread of the pool does which part of a job."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tapec.runtime.cpu import threads as pool


def run(task: Callable[[Any, int, int], None], threads: int) -> None:
    """Run a job whose parts are done in Python."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    signature = ctypes.CFUNCTYPE(None, kind, ctypes.c_void_p, ctypes.c_int64)
    signature(pool.require().address("run"))(kind(task), None, threads)


def test_parts_stay_with_their_threads() -> None:
    """What a thread wrote in one job is in its core's caches in the next."""
    together = threading.Barrier(4)  # nobody has time for the part of another
    did: list[set[int]] = [set() for _ in range(4)]

    def noted(context: Any, part: int, parts: int) -> None:
        did[part].add(threading.get_ident())
        together.wait(60)

    for _ in range(50):
        run(noted, 4)
    assert did[0] == {threading.get_ident()}
    assert [len(threads) for threads in did] == [1] * 4
    assert len(set.union(*did)) == 4


@pytest.mark.parametrize("threads", [1, 2, 3, 63, 64])
def test_every_part_is_done_once(threads: int) -> None:
    did: list[tuple[int, int]] = []
    run(lambda context, part, parts: did.append((part, parts)), threads)
    assert sorted(did) == [(part, threads) for part in range(threads)]
