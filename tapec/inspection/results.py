"""What native code computes, and how far that is from what NumPy evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapec.errors import TapecError
from tapec.runtime import Executable

#: Relative difference that native code may have from NumPy's evaluation, by the size of the dtype in bytes:
#: sums are taken in another order.
_TOLERANCE = {1: 1e-1, 2: 2e-2, 4: 2e-4, 8: 1e-9, 16: 1e-9}


def native_results(program: Executable, arrays: Sequence[Any]) -> list[Any]:
    """All results of a native program, those of updates among them; the arrays are left alone."""
    given = [np.array(array) for array in arrays]
    fresh = iter(program(*given))
    updates = program.updates
    count = len(updates) + len(program.outputs)
    return [given[updates[i]] if i in updates else next(fresh) for i in range(count)]


def distance(index: int, right: Any, got: Any) -> float:
    """The largest difference, relative to the largest number.

    Raises:
        TapecError: it is larger than rounding explains.
    """
    if right.shape != got.shape or right.dtype != got.dtype:
        raise TapecError(f"result {index}: {got.dtype}{got.shape} for {right.dtype}{right.shape}")
    if right.dtype.kind in "biu":
        if not np.array_equal(right, got):
            raise TapecError(f"result {index}: {np.sum(right != got)} elements differ")
        return 0.0
    wide = [
        np.asarray(a, np.complex128 if a.dtype.kind == "c" else np.float64) for a in (right, got)
    ]
    finite = np.isfinite(wide[0])
    if not np.array_equal(wide[0][~finite], wide[1][~finite], equal_nan=True):
        raise TapecError(f"result {index}: numbers that are not finite differ")
    if not finite.any():
        return 0.0
    scale = max(float(np.max(np.abs(wide[0][finite]))), float(np.finfo(np.float32).tiny))
    distance = float(np.max(np.abs(wide[0][finite] - wide[1][finite]))) / scale
    if distance > _TOLERANCE[right.dtype.itemsize]:
        raise TapecError(
            f"result {index} differs by {distance:.1e}, relative to its largest number"
        )
    return distance
