"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """`functools.cached_property` without the lock that it has up to Python 3.11.

    A process that forks while another thread holds such a lock leaves it to nobody, and the child waits for ever.
    Two threads may compute the same value here; one of them is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        """``compute`` is the method that gives the value."""
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | lazy[T]:
        """The value, which hides this descriptor from then on."""
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._compute(instance))  # type: ignore[no-any-return]
