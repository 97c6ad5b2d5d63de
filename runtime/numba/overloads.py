"""What Numba is to make of the functions that Python text calls: their own bodies, or an instruction."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba.extending import overload

from tapec.runtime.python_text import primitives


@functools.cache
def register() -> None:
    """Tell Numba, once."""
    for name, to in primitives.DTYPES.items():
        _use(getattr(primitives, name), _conversion(to))
    for name, function in vars(primitives).items():
        private = name.startswith("_") and name != "_on_grid"
        if isinstance(function, FunctionType) and not private and name not in primitives.DTYPES:
            _use(function, function)


def _use(function: Callable[..., Any], implementation: Callable[..., Any]) -> None:
    """Let calls of a function be calls of another one, whatever the types are."""

    def typed(*args: Any) -> Callable[..., Any]:
        return implementation

    # Division by 0 is a number, not an exception.
    overload(function, jit_options={"error_model": "numpy"}, strict=False)(typed)


def _conversion(to: Any) -> Callable[[Any], Any]:
    def convert(x: Any) -> Any:
        return to(x)

    return convert
