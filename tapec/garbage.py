"""Python's search for garbage, while much is made that stays: it would look at all of that again and again.

Imports and traces make hundreds of thousands of objects that refer to one another. By its usual settings Python looks
through them at every 700 new ones, and through everything there is whenever that has grown by a quarter: a tenth of the
time of a first call.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects from which on Python looks; so garbage of passes, which make many copies, stays within some 10 MB.
_RARELY = (100_000, 50, 100)
#: One entry for each block that is being run, in all threads.
_inside: list[None] = []
#: The settings outside of these.
_usual = list(gc.get_threshold())


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let Python look for garbage less often, in all threads, until the block ends."""
    now = gc.get_threshold()
    if now != _RARELY:
        if not 0 < now[0] < _RARELY[0]:
            yield  # who set that wants even less
            return
        _usual[:] = now
    _inside.append(None)
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        _inside.pop()
        if not _inside:
            gc.set_threshold(*_usual)


def thresholds() -> tuple[int, int, int]:
    """What `gc.get_threshold` gives outside of these blocks."""
    first, second, third = _usual if _inside else gc.get_threshold()
    return first, second, third


def as_usual() -> None:
    """Go on with the settings of the user, for code that asks for them."""
    gc.set_threshold(*thresholds())


@contextmanager
def importing() -> Iterator[None]:
    """The same around imports, whose objects then join the old ones at once.

    Python would look through all of them first, to find out that they are in use.
    """
    with collecting_rarely():
        yield
        if len(_inside) == 1 and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
