"""NumPy is silent inside of operations, whoever interrupts them, and says what it says outside."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.ir.quiet import quiet


def test_operations_do_not_warn_and_leave_numpy_as_it_is() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tapec.math.log(tapec.constant([0.0])).numpy() == -np.inf
        assert quiet(np.divide)(np.ones(1), np.zeros(1)) == np.inf
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.divide(np.ones(1), np.zeros(1))


def test_an_operation_may_interrupt_another() -> None:
    inner = quiet(np.log)

    def outer(x: Any) -> Any:
        return x + inner(x)  # as the finaliser of an object may run operations at any time

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quiet(outer)(np.zeros(1)) == -np.inf


def test_errors_pass_through() -> None:
    def refuse(x: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        quiet(refuse)(np.zeros(1))


def test_threads_do_not_meet() -> None:
    found: list[bool] = []

    def work() -> None:
        x = tapec.constant(np.zeros(1000, np.float32))
        found.extend(bool((tapec.math.log(x).numpy() == -np.inf).all()) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 200
