"""Boxes: objects that hold an array each, which a program takes and gives where its caller deals in such objects.

What class they are of is the caller's affair: it registers the class with `use`. A program that was compiled with
``boxed`` can then be called with boxes and makes boxes of its results itself, which takes a tenth of the time that
Python needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from tapec.ir.errors import TargetError
from tapec.ir.text.type_text import parse_type
from tapec.ir.types import TensorType

#: Bytes from which on an array that is updated has a place of its own.
LARGE = 1024


class Boxes(NamedTuple):
    """A class of boxes, which are made without calling it; and one of holders, whose arrays programs update.

    Attributes:
        kind: the class of boxes; apart from these three slots its objects begin with nothing.
        array: where in a box (in bytes) the array is.
        kept_type: where its type is.
        number: where its number is.
        numbers: gives each box another one.
        type_of: what stands for a type in a box.
        holder: the class of holders.
        held: where in a holder the array is. A program writes into it if nobody else refers to it.
        memory: the class of what such an array lies in, if it has `LARGE` bytes or more.
    """

    kind: type
    array: int
    kept_type: int
    number: int
    numbers: Iterator[int]
    type_of: Callable[[TensorType], Any]
    holder: type
    held: int
    memory: type


def places_in(thing: Any, *parts: Any) -> list[int]:
    """Where (in bytes) an object keeps its parts, each of which it has once, and nobody else need have.

    Raises:
        TargetError: it does not.
    """
    word = ctypes.sizeof(ctypes.c_void_p)
    size = type(thing).__basicsize__ // word
    memory = list((ctypes.c_size_t * size).from_address(id(thing)))
    if any(memory.count(id(part)) != 1 for part in parts):
        raise TargetError(f"{type(thing).__name__} keeps its parts in an unknown way")
    return [word * memory.index(id(part)) for part in parts]


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
