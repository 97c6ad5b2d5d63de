"""Where things stand that give something else each time they are asked: iterators, generators of random numbers."""

from __future__ import annotations

import random
import warnings
from types import GeneratorType
from typing import Any

import numpy as np

from tapec.compiled.guards.ownership import is_users_class


def moves(thing: Any) -> bool:
    """Whether a thing is such, and tells where it stands."""
    return draws(thing) or iterates(thing)


def draws(thing: Any) -> bool:
    """Whether a thing gives random numbers, from a state that it tells."""
    known = np.random.Generator | np.random.RandomState | random.Random
    return isinstance(thing, known) and not isinstance(thing, random.SystemRandom)


def iterates(thing: Any) -> bool:
    """Whether it is an iterator of Python's, or what a generator function of the user's gives."""
    return hasattr(type(thing), "__next__") and not is_users_class(type(thing))


def position_of(thing: Any) -> Any:
    """Where a thing stands that moves, to be compared; None where it does not tell."""
    if isinstance(thing, np.random.RandomState):
        return repr([np.asarray(part).tobytes() for part in thing.get_state()])
    if isinstance(thing, np.random.Generator):
        return repr(thing.bit_generator.state)
    if isinstance(thing, random.Random):
        return thing.getstate()
    try:
        return [_place(part) for part in _parts_of(thing)]
    except Exception:  # of whatever class it is
        return None


def _parts_of(thing: Any) -> tuple[Any, ...]:
    """What an iterator would be made of again."""
    if isinstance(thing, GeneratorType):
        frame = thing.gi_frame
        return (None,) if frame is None else (frame.f_lasti, *frame.f_locals.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some of them will not tell any more
        found = thing.__reduce__()
    return found if isinstance(found, tuple) else (found,)


def _place(part: Any) -> Any:
    if isinstance(part, tuple):
        return [_place(inner) for inner in part]
    if isinstance(part, int | str | None):
        return part
    if isinstance(part, list):
        return len(part)
    return position_of(part) if iterates(part) else id(part)
