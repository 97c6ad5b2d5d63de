"""Memory of large results: given again when nobody holds it any more, and never before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.runtime.cpu import blocks

COUNT = 3 * blocks.LEAST // 4


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """No block of another test, or of a first call, is in the way."""
    result()
    blocks.require().release()
    yield
    blocks.require().release()


@tapec.compile
def doubled(x: Any) -> Any:
    """A large result."""
    return x + x


def result(count: int = COUNT) -> np.ndarray[Any, Any]:
    """Its array itself, no copy."""
    array: np.ndarray[Any, Any] = doubled(np.ones(count, np.float32)).array
    return array


def test_memory_that_nobody_holds_is_used_again() -> None:
    address = result().ctypes.data
    assert blocks.require().kept >= 4 * COUNT
    again = result()
    assert again.ctypes.data == address
    assert blocks.require().kept == 0
    assert np.array_equal(again, np.full(COUNT, 2, np.float32))


def test_a_view_holds_the_memory() -> None:
    tail = result()[-3:]
    other = result()
    assert not np.may_share_memory(tail, other)
    other[:] = 7
    assert tail.tolist() == [2, 2, 2]


def test_a_result_owns_its_memory_and_may_be_resized() -> None:
    array = result()
    assert blocks.is_ours(array)
    assert array.flags.owndata
    assert array.base is None
    array.resize(COUNT + 5, refcheck=False)
    assert array[:COUNT].tolist() == [2] * COUNT
    assert array[COUNT:].tolist() == [0] * 5


def test_small_results_are_numpys() -> None:
    assert not blocks.is_ours(result(16))


def test_a_block_serves_only_what_is_nearly_as_large() -> None:
    address = result(2 * COUNT).ctypes.data
    small = result(COUNT)
    assert small.ctypes.data != address
    assert result(2 * COUNT).ctypes.data == address


def test_what_is_kept_is_bounded() -> None:
    count = blocks.MOST_KEPT // 4 // 4
    held = [result(count + 1024 * i) for i in range(6)]
    held.clear()
    assert 0 < blocks.require().kept <= blocks.MOST_KEPT
    blocks.require().release()
    assert blocks.require().kept == 0


def test_more_blocks_than_slots() -> None:
    held = [result() for _ in range(blocks.SLOTS + 3)]
    held.clear()
    assert blocks.require().kept == blocks.SLOTS * 4 * COUNT


def test_threads_get_different_memory() -> None:
    wrong: list[float] = []

    def run(number: float) -> None:
        for _ in range(200):
            array = doubled(np.full(COUNT, number, np.float32)).array
            if array.min() != 2 * number or array.max() != 2 * number:
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
