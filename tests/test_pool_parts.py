"""Which thread of the pool does which part of a job."""

from __future__ import annotations

import ctypes
import errno
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


@pytest.mark.parametrize("given", [0, 2])
def test_a_system_that_gives_few_threads(given: int) -> None:
    """Those that there are do all parts, and the next job asks again."""
    made = pool.require()
    table = made._mapped.address("tapec.host")
    slot = ctypes.c_void_p.from_address(table + 8 * pool._HOST.index("libc:pthread_create"))
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
    before = slot.value
    assert before
    create, left = kind(before), iter(range(given))
    refuse = kind(lambda *of: errno.EAGAIN if next(left, None) is None else create(*of))
    made.shutdown()
    slot.value = ctypes.cast(refuse, ctypes.c_void_p).value
    together = threading.Barrier(given + 1)  # each that is there has a part
    did: list[tuple[int, int]] = []

    def noted(context: Any, part: int, parts: int) -> None:
        if part <= given:
            together.wait(60)
        did.append((part, threading.get_ident()))

    try:
        run(noted, 6)
        assert sorted(part for part, _ in did) == list(range(6))
        assert len({thread for _, thread in did}) == given + 1
        assert made.workers == given
    finally:
        slot.value = before
    run(noted, 6)
    assert made.workers == 5
