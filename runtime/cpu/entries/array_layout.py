"""Where this Python and this NumPy keep the fields of an array object."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import numpy as np

from tapec.ir.errors import TargetError


@dataclass(frozen=True)
class ArrayLayout:
    """Offsets in bytes of an array object's fields."""

    type: int
    data: int
    rank: int
    shape: int
    dtype: int
    flags: int


@functools.cache
def array_layout() -> ArrayLayout:
    """Where this Python and this NumPy keep an array's fields.

    Raises:
        TargetError: not where they are known to be.
    """
    head = object.__basicsize__
    layout = ArrayLayout(head - 8, head, head + 8, head + 16, head + 40, head + 48)
    probe = np.zeros((3, 5), np.float32)

    def field(offset: int) -> int:
        return ctypes.c_size_t.from_address(id(probe) + offset).value

    found = (field(layout.type), field(layout.data), field(layout.dtype))
    wanted = (id(np.ndarray), probe.ctypes.data, id(np.dtype(np.float32)))
    shape = field(layout.shape)
    extents = [ctypes.c_ssize_t.from_address(shape + 8 * i).value for i in range(2)]
    rank = ctypes.c_int.from_address(id(probe) + layout.rank).value
    flags = ctypes.c_int.from_address(id(probe) + layout.flags).value
    if found != wanted or extents != [3, 5] or rank != 2 or flags != probe.flags.num:
        raise TargetError("this build of Python or NumPy lays arrays out in an unknown way")
    return layout
