"""Memory that begins where a line of the caches does.

NumPy's arrays begin at any multiple of 16 bytes: most vectors of 64 bytes in them then lie in two lines of the cache
each, and take two accesses. What a compiled step updates in place, over and over, is worth a place of its own.
"""

from __future__ import annotations

import numpy as np

from tapec.runtime.boxes import LARGE
from tapec.tensor import Array

#: Bytes of a line, and of the widest vectors.
_LINE = 64


class LineMemory(np.ndarray):
    """Bytes that one array lies in. Views of that array have the array as their base, since this is of another type."""


def aligned_copy(array: Array) -> Array:
    """A contiguous copy; of `LARGE` bytes or more, it begins at a line."""
    if array.nbytes < LARGE:
        return np.array(array, order="C")
    memory = LineMemory(array.nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    copy: Array = np.ndarray(array.shape, array.dtype, memory, start)
    copy[...] = array
    return copy


def owns_place(array: Array) -> bool:
    """Whether an array is one that `aligned_copy` might return, no view of another."""
    memory = array.base
    return type(memory) is LineMemory or (memory is None and array.nbytes < LARGE)
