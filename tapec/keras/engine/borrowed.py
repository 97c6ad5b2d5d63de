"""NumPy's functions, as tapec computes them on Tensors (`tapec.interchange`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapec.interchange.dispatch import FUNCTIONS
from tapec.interchange.ufuncs import UFUNCS


def numpy_function(function: Any) -> Callable[..., Any]:
    """Ours for a function of NumPy's, with its parameters."""
    return UFUNCS.get(getattr(function, "__name__", "")) or FUNCTIONS[function]
