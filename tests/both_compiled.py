"""Functions run eagerly and compiled, for tests of control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapec


def both(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives, which is the same compiled and eagerly."""
    eager = function(*args)
    compiled = tapec.compile(function)(*args)
    for one, other in zip(numbers(eager), numbers(compiled), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    return eager


def numbers(result: Any) -> list[Any]:
    """The numbers in a result."""
    if isinstance(result, list | tuple):
        return [n for item in result for n in numbers(item)]
    return [np.asarray(result)]


def scalar(x: Any) -> tapec.Tensor:
    """A float32 scalar."""
    return tapec.constant(x, tapec.float32)
