"""What becomes of values: told by passes while they work, to somebody who listens.

Values have no memory of their own: what a rule wrote looks like what a user wrote. So who replaces a value says so,
and by which rule; the adjoint pass says of which value each cotangent is; and who writes loops says where they compute
an element of a tensor. Nobody listens unless a program is looked at, and then nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # values tell of themselves
    from tapec.ir.core import Value


class Relation(Enum):
    """What one value is to another."""

    #: It stands for it from now on, in all its readers or in some.
    INSTEAD = auto()
    #: It is its cotangent.
    COTANGENT = auto()
    #: It is an element of it in a loop, or the memory that holds it.
    ELEMENT = auto()


class Told(NamedTuple):
    """One thing that was told: ``new`` is ``relation`` to ``old``, because of ``why``."""

    relation: Relation
    old: Value
    new: Value
    why: str


_told: ContextVar[list[Told] | None] = ContextVar("told", default=None)


def tell(relation: Relation, old: Value, new: Value, why: str = "") -> None:
    """Tell what a value is to another; ``why`` is a rule, or a few words."""
    told = _told.get()
    if told is not None:
        told.append(Told(relation, old, new, why))


@contextmanager
def listening() -> Iterator[list[Told]]:
    """Hear what passes tell inside of the block; whoever reads the list may clear it."""
    told: list[Told] = []
    token = _told.set(told)
    try:
        yield told
    finally:
        _told.reset(token)
