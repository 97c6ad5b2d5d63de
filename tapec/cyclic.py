"""Structures without an end: a list that contains itself, or containers in containers deeper than Python's stack."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from tapec.errors import ValueError
from tapec.frames import here
from tapec.records import is_made_of_fields

#: Of a structure that is less deep, whoever went through it was to blame: a function that calls itself.
_DEEP = 100


class Finite:
    """A context that goes through a structure, whose user is told if that has no end.

    Raises, as it is left: ValueError, where the structure was too deep for Python's stack.
    """

    def __init__(self, structure: Any) -> None:
        """``structure`` is what is gone through."""
        self._structure = structure

    def __enter__(self) -> None:
        """Nothing has failed yet."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        """Say what is wrong with the structure, if that is to blame."""
        if isinstance(error, RecursionError) and (why := _blame(self._structure)) is not None:
            what, hint = why
            raise ValueError(
                f"no structure of tensors: {what}", location=here(), hint=hint
            ) from None


def _blame(structure: Any) -> tuple[str, str] | None:
    """What is wrong with a structure, and what to do; None if something else made Python's stack too short."""
    way, depth = _way_round(structure)
    if way is not None:
        what = f"a {type(way[0]).__name__} contains itself: it is its own {way[1]}"
        hint = "leave that out: objects that are no containers may refer to themselves, as a tapec.Module may"
        return what, hint
    if depth > _DEEP:
        what = f"a {type(structure).__name__} is nested {depth} levels deep"
        return what, "make it flatter, or keep its inner parts in objects that are no containers"
    return None


def _way_round(structure: Any) -> tuple[tuple[Any, str] | None, int]:
    """What contains itself, with the way from it to itself; None if nothing does. And how deep the structure is."""
    above: dict[int, int] = {id(structure): 0}
    done: set[int] = set()
    waiting = [(structure, "", iter(_parts(structure)))]
    deepest = 1
    while waiting:
        node, _, parts = waiting[-1]
        for entry, part in parts:
            if (at := above.get(id(part))) is not None:
                steps = [step for _, step, _ in waiting[at + 1 :]]
                return (part, "".join([*steps, entry])), deepest
            inner = [] if id(part) in done else _parts(part)
            if inner:
                above[id(part)] = len(waiting)
                waiting.append((part, entry, iter(inner)))
                deepest = max(deepest, len(waiting))
                break
        else:
            del above[id(node)]
            done.add(id(node))
            waiting.pop()
    return None, deepest


def _parts(node: Any) -> list[tuple[str, Any]]:
    """What a container or a record is made of, with the way there."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(node, Mapping):
        items = node.items()
    elif isinstance(node, list | tuple | deque):
        items = enumerate(node)
    elif is_made_of_fields(type(node)):
        names = [*getattr(node, "__dict__", ()), *getattr(type(node), "__slots__", ())]
        return [(f".{name}", getattr(node, name)) for name in names if hasattr(node, name)]
    return [(f"[{key!r}]", part) for key, part in items]
