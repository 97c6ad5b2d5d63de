"""What `tapec.autograph.experimental.set_loop_options` says of the loop whose body calls it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass
class LoopOptions:
    """Of one loop, while its body is traced.

    Attributes:
        maximum_iterations: how often it turns at most, if that is said.
        varying: the values whose shapes may change from turn to turn.
    """

    maximum_iterations: int | None = None
    varying: list[Any] = field(default_factory=list)


_current: ContextVar[LoopOptions | None] = ContextVar("loop_options", default=None)

#: The options of the innermost loop that is being traced, or None.
current_options = _current.get


@contextmanager
def of_this_loop() -> Iterator[LoopOptions]:
    """Options that a body which runs inside sets."""
    options = LoopOptions()
    token = _current.set(options)
    try:
        yield options
    finally:
        _current.reset(token)
