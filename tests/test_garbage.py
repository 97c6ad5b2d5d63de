"""How often Python looks for garbage while tapec makes much that stays."""

from __future__ import annotations

import gc
import threading

import pytest

from tapec.garbage import collecting_rarely


def test_settings_come_back() -> None:
    usual = gc.get_threshold()
    with collecting_rarely():
        rare = gc.get_threshold()
        assert rare[0] > usual[0]
        with collecting_rarely():
            assert gc.get_threshold() == rare
        assert gc.get_threshold() == rare
    assert gc.get_threshold() == usual
    with pytest.raises(KeyError), collecting_rarely():
        raise KeyError
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("chosen", [(0, 10, 10), (1_000_000, 1, 1)])
def test_who_wants_less_keeps_it(chosen: tuple[int, int, int]) -> None:
    usual = gc.get_threshold()
    gc.set_threshold(*chosen)
    try:
        with collecting_rarely():
            assert gc.get_threshold() == chosen
        assert gc.get_threshold() == chosen
    finally:
        gc.set_threshold(*usual)


def test_threads_take_turns() -> None:
    usual = gc.get_threshold()

    def work() -> None:
        for _ in range(300):
            with collecting_rarely():
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == usual
