"""What a branch or loop watches beside lists, dicts and attributes, each thing as its kind asks."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from io import BytesIO, StringIO
from queue import SimpleQueue
from typing import Any

import numpy as np

from tapec.autograph.buffers import (
    ArrayBuffer,
    Buffer,
    Image,
    ItemBuffer,
    Queue,
    Stream,
    alike,
)
from tapec.compiled.guards.objects import is_released
from tapec.compiled.guards.positions import moves, position_of
from tapec.config import is_environment
from tapec.errors import TypeError
from tapec.frames import here

#: Classes of Python's library whose objects keep for themselves what the rest of a process goes by. Who has imported
#: none of a module has no such object.
_SETTINGS = {
    "logging": ("Logger",),
    "contextlib": ("ExitStack", "AsyncExitStack"),
    "threading": ("Event",),
}


class Setting(Buffer):
    """The environment, the level of a logger, an event, what an exit stack will call."""

    def _copy(self) -> Any:
        holder = self._holder
        if is_environment(holder):
            return tuple(holder.items())
        if _is_of("logging", holder):
            return holder.level, holder.disabled, holder.propagate
        if _is_of("threading", holder):
            return (holder.is_set(),)
        return list(holder._exit_callbacks)  # no method of it tells

    _now = _copy

    def _grew(self, now: Any, before: Any) -> bool:
        return False

    def _put(self, image: Image) -> None:
        holder, held = self._holder, image.copy
        if is_environment(holder):
            for key in holder.keys() - dict(held):
                del holder[key]
            holder.update(held)
        elif _is_of("logging", holder):
            holder.setLevel(held[0])
            holder.disabled, holder.propagate = held[1:]
        elif _is_of("threading", holder):
            (holder.set if held[0] else holder.clear)()
        else:
            holder._exit_callbacks.clear()
            holder._exit_callbacks.extend(held)

    def pairs(self, one: Image, other: Image) -> list[tuple[str, Any, Any]]:
        """Nothing.

        Raises:
            TypeError: the branches leave it in different states.
        """
        if not alike(one.copy, other.copy):
            self._raise(
                f"a branch of the program changes {self.name}, and the other does not do the same"
            )
        return []

    def refuse(self, found: Image) -> None:
        """For loops.

        Raises:
            TypeError: a turn changes it.
        """
        if not found.stays:
            self._raise(f"a loop of the program changes {self.name}")

    def _raise(self, what: str) -> None:
        raise TypeError(
            f"{what}: that happens once, when it is traced, whatever the run finds",
            location=here(),
            hint="change it outside, or in a tapec.py_function, which runs on the way that the program takes",
        )


class Cursor(Buffer):
    """Where an iterator or a generator of random numbers stands, which nobody moves back: no branch may move it."""

    def __init__(self, name: str, holder: Any, copies: dict[int, tuple[Any, Any]]) -> None:
        super().__init__(name, holder, copies)
        self._at = self._before.copy

    def _copy(self) -> Any:
        return position_of(self._holder)

    _now = _copy

    def _grew(self, now: Any, before: Any) -> bool:
        return True

    def _put(self, image: Image) -> None:
        """Nothing: it stays where it is."""

    def look(self, is_read: Callable[[Any], bool]) -> Image:
        """Whether it moved since the last look; what is kept of it is whether anybody else reads it."""
        now = self._now()
        if now == self._at:
            return self._before
        self._at = now
        return Image(is_read(self._holder), stays=False)

    def pairs(self, one: Image, other: Image) -> list[tuple[str, Any, Any]]:
        """Nothing.

        Raises:
            TypeError: both branches draw from it, or one does, and it is read elsewhere.
        """
        moved = [image for image in (one, other) if not image.stays]
        if len(moved) == 2 or any(image.copy for image in moved):
            self._raise("a branch")
        return []

    def refuse(self, found: Image) -> None:
        """For loops.

        Raises:
            TypeError: a turn draws from it.
        """
        if not found.stays:
            self._raise("a loop")

    def _raise(self, where: str) -> None:
        raise TypeError(
            f"{self.name} gives one item or number after the other, and {where} of the program draws from it: that "
            "happens once, when it is traced, whatever the run finds",
            location=here(),
            hint="draw in front of it; random numbers of tapec.random are drawn by the program, on the way that it "
            "takes and at each turn",
        )


def buffer_of(name: str, thing: Any, copies: dict[int, tuple[Any, Any]]) -> Buffer | None:
    """What a thing holds, as `Buffer` has it; None if it is none that somebody can write to."""
    kind: type[Buffer] | None = None
    if isinstance(thing, np.ndarray):
        kind = ArrayBuffer if thing.flags.writeable else None
    elif isinstance(thing, memoryview):
        kind = None if is_released(thing) or thing.readonly else ArrayBuffer
    elif isinstance(thing, bytearray | array):
        kind = ItemBuffer
    elif isinstance(thing, StringIO | BytesIO):
        kind = None if thing.closed else Stream
    elif isinstance(thing, SimpleQueue):
        kind = Queue
    elif is_environment(thing) or any(_is_of(module, thing) for module in _SETTINGS):
        kind = Setting
    elif moves(thing):
        kind = Cursor
    return None if kind is None else kind(name, thing, copies)


def _is_of(module: str, thing: Any) -> bool:
    """Whether a thing is of one of the classes that count in a module."""
    found = sys.modules.get(module)
    names = () if found is None else _SETTINGS[module]
    return any(isinstance(thing, getattr(found, name)) for name in names)
