"""Who is listening when an operation runs: the tapes that record, and the trace that is being made.

Context variables, so that threads and async tasks do not hear each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapec.tape import GradientTape
    from tapec.tracing import Trace

_tapes: ContextVar[tuple[GradientTape, ...]] = ContextVar("tapes", default=())
_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)

#: The tapes that record now, outermost first.
active_tapes = _tapes.get
#: The trace that is being made, or None in eager code.
current_trace = _trace.get


def push_tape(tape: GradientTape) -> None:
    """Let a tape record from now on."""
    _tapes.set((*_tapes.get(), tape))


def remove_tape(tape: GradientTape) -> None:
    """Let a tape record no longer; it need not be the innermost."""
    _tapes.set(tuple(t for t in _tapes.get() if t is not tape))


@contextmanager
def tracing(trace: Trace | None) -> Iterator[None]:
    """Make ``trace`` the current one, with no tape recording; None runs eagerly inside of a trace."""
    trace_token, tapes_token = _trace.set(trace), _tapes.set(())
    try:
        yield
    finally:
        _tapes.reset(tapes_token)
        _trace.reset(trace_token)
