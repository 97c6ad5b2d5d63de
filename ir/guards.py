"""Guards: what type inference assumes about symbolic dims, recorded by the function that is being built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tapec.ir.core import Function
from tapec.ir.dims import DimLike
from tapec.ir.errors import ShapeError

_guards: ContextVar[list[tuple[str, str]] | None] = ContextVar("guards", default=None)


def assume_equal(m: DimLike, n: DimLike, message: Callable[[], str]) -> None:
    """Record that two dims must be equal at run time.

    Raises:
        ShapeError: no function is being built that could hold the guard.
    """
    guards = _guards.get()
    if guards is None:
        raise ShapeError(f"{message()}; nothing says that {m} = {n}")
    guard = (str(m), str(n))
    if guard not in guards:
        guards.append(guard)


@contextmanager
def recording_guards(function: Function) -> Iterator[None]:
    """Let type inference add what it assumes about symbolic dims to ``function.guards``."""
    token = _guards.set(function.guards)
    try:
        yield
    finally:
        _guards.reset(token)
