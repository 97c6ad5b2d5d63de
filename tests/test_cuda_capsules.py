"""DLPack capsules of a device's memory that nobody takes: they are forgotten, whoever looks for them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tapec.runtime.cuda.device import dlpack


def test_threads_make_capsules_at_once() -> None:
    """Each looks for those that nobody took, also of the others."""
    array = dlpack.Described(64, 0, np.dtype(np.float32), (2,))
    before = dlpack.given()

    def make(_: int) -> None:
        for turn in range(2000):
            dlpack.capsule(array, None, versioned=turn % 2 == 0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(make, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert dlpack.given() == before


class Asking:
    """An owner that asks for capsules when it goes."""

    def __del__(self) -> None:
        dlpack.given()


def test_what_goes_with_a_capsule_may_look_for_others() -> None:
    array = dlpack.Described(64, 0, np.dtype(np.float32), (2,))
    before = dlpack.given()
    offered = [dlpack.capsule(array, Asking(), versioned=True) for _ in range(3)]
    del offered
    assert dlpack.given() == before
