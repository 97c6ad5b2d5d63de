"""For tests whose answers are the same eagerly and compiled: the fixture ``wrap`` is in `conftest`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapec

#: Makes of a function what is run: the function itself, or `tapec.compile` of it.
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def value(x: Any) -> Any:
    """Tensors as NumPy values, structures kept."""
    if isinstance(x, list | tuple):
        return type(x)([value(v) for v in x])
    return x.numpy() if hasattr(x, "numpy") else x


def slope(f: Callable[..., tapec.Tensor]) -> Callable[..., tapec.Tensor]:
    """The gradient of the square of ``f`` by its first operand: of a linear ``f`` it has a derivative too."""

    def gradient(*operands: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            tape.watch(operands[0])
            y = tapec.square(f(*operands))
        result: tapec.Tensor = tape.gradient(y, operands[0])
        return result

    return gradient
