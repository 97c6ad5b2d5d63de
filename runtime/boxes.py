"""Boxes: objects that hold an array each, which a program takes and gives where its caller deals in such objects.

What class they are of is the caller's affair: it registers the class with `use`. A program that was compiled with
``boxed`` can then be called with boxes and makes boxes of its results itself, which takes a tenth of the time that
Python needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tapec.ir.errors import TargetError
from tapec.ir.type_text import parse_type
from tapec.ir.types import TensorType


@dataclass(frozen=True)
class Boxes:
    """A class of boxes, which are made without calling it.

    Attributes:
        kind: the class; apart from these three slots its objects begin with nothing.
        array: where in a box (in bytes) the array is.
        type: where its type is.
        number: where its number is.
        numbers: gives each box another one.
        type_of: what stands for a type in a box.
    """

    kind: type
    array: int
    type: int
    number: int
    numbers: Iterator[int]
    type_of: Callable[[TensorType], Any]

    @classmethod
    def of(
        cls,
        make: Callable[[Any, Any, int], Any],
        numbers: Iterator[int],
        type_of: Callable[[TensorType], Any],
    ) -> Boxes:
        """The class of what ``make`` makes of an array, a type and a number: one of them shows where it keeps these.

        Raises:
            TargetError: it does not keep them, once each.
        """
        held: tuple[Any, Any, int] = (np.zeros(1), object(), 2**40 + 1)
        box = make(*held)
        words = type(box).__basicsize__ // ctypes.sizeof(ctypes.c_void_p)
        memory = list((ctypes.c_size_t * words).from_address(id(box)))
        if any(memory.count(id(x)) != 1 for x in held):
            raise TargetError(f"{type(box).__name__} keeps its parts in an unknown way")
        array, kind, number = (memory.index(id(x)) * ctypes.sizeof(ctypes.c_void_p) for x in held)
        return cls(type(box), array, kind, number, numbers, type_of)


_used: list[Boxes] = []


def use(boxes: Boxes) -> None:
    """Let programs that are compiled or loaded from now on deal in these."""
    _used[:] = [boxes]
    _type.cache_clear()


def boxes() -> Boxes:
    """What programs deal in.

    Raises:
        TargetError: nobody registered a class.
    """
    if not _used:
        raise TargetError("this program takes and gives boxes, of which no class is registered")
    return _used[0]


@cache
def _type(text: str) -> Any:
    found = parse_type(text)
    assert isinstance(found, TensorType)
    return boxes().type_of(found)


def address(name: str) -> int:
    """Of ``kind``, ``numbers``, or ``type:f32[2,3]``, in this process; all of them live as long as it does."""
    what, _, text = name.partition(":")
    return id(_type(text) if what == "type" else getattr(boxes(), what))
