"""Which function a frame runs: CPython knows, but tells Python only of the code."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from types import FrameType, FunctionType
from typing import Any

#: Where CPython's PyFrameObject has its inner frame, and where that has the function.
_INNER = 24
_FUNCTION = 0 if sys.version_info < (3, 12) else 16
#: The bits of a reference that are none of the address (from Python 3.14 on).
_TAGS = 3


def function_of(frame: FrameType) -> FunctionType | None:
    """The function that a frame runs; None if it is not known."""
    if not _is_known():
        return None
    found: Any = ctypes.cast(_word(frame), ctypes.py_object).value
    is_it = isinstance(found, FunctionType) and found.__code__ is frame.f_code
    return found if is_it else None


def _word(frame: FrameType) -> int:
    inner = ctypes.c_uint64.from_address(id(frame) + _INNER).value
    return ctypes.c_uint64.from_address(inner + _FUNCTION).value & ~_TAGS


@cache
def _is_known() -> bool:
    """Whether frames have their functions where they are looked for."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 15):
        return False

    def own() -> int:
        return _word(sys._getframe())

    def generated() -> Any:
        yield _word(sys._getframe())

    return own() == id(own) and next(generated()) == id(generated)
