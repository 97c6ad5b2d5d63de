"""Calls of the host's functions from Python text, as `tapec.runtime.cpu.text.calling` has them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

_HOST = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


def invoke(
    address: Any, token: Any, following: Any, arrays: Sequence[Any], extents: Sequence[int]
) -> None:
    """Call the function at an address if the token is 0; say with the next token how it went.

    ``arrays`` are operands and results, ``extents`` the lengths of all their axes.
    """
    if token[0] != 0:
        following[0] = token[0]
        return
    places = (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))
    sizes = (ctypes.c_int64 * max(len(extents), 1))(*extents)
    following[0] = _HOST(int(address[0]))(places, sizes)
