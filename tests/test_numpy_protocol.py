"""NumPy's functions on tensors."""

from __future__ import annotations

import numpy as np
import pytest

import tapec
from tapec import errors


def test_numpy_functions_stay_on_the_tape() -> None:
    x = tapec.constant([1.0, 2.0])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(np.exp(x) * np.array([1.0, 3.0]))
    assert isinstance(y, tapec.Tensor)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), np.exp([1, 2]) * [1, 3], rtol=1e-6)


def test_numpy_functions_without_a_tape() -> None:
    x = tapec.constant([1.0, 2.0])
    assert isinstance(np.add(x, 1), tapec.Tensor)
    assert isinstance(np.sum(x), np.float32)
    assert np.add.reduce(x) == 3.0


def test_numpy_functions_that_cannot_be_followed() -> None:
    x = tapec.constant([1.0, 2.0])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        assert np.allclose(x, [1, 2])
        for lost in (lambda: np.median(x), lambda: np.add.reduce(x), lambda: np.cbrt(x)):
            with pytest.raises(errors.TypeError, match="cannot be followed by a tape"):
                lost()
