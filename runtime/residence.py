"""Where the newest numbers of an array are: with the host, or on a device.

A program on a device keeps the arrays that it updates there; the host's copy is brought up to date when somebody reads
it. `AWAY` holds the arrays of which that is still to be done; mostly it is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")

#: By the identity of an array: fetches its numbers from the device.
AWAY: dict[int, Callable[[], None]] = {}


def at_home(array: A) -> A:
    """The array, with the newest numbers; waits for the device if that has them."""
    if AWAY:
        fetch = AWAY.get(id(array))
        if fetch is not None:
            fetch()
    return array
