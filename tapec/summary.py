"""The namespace ``tapec.summary``: numbers over time in files that TensorBoard shows.

::

    writer = tapec.summary.create_file_writer("logs/run1")
    with writer.as_default():
        for step in range(100):
            tapec.summary.scalar("loss", train(batch), step=step)

In a compiled function the value is written when the program runs. The writer is the default one of that time, unless
the function itself says ``with writer.as_default()``. Files are written by tensorboardX, which is an extra:
``pip install tapec[tensorboard]``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapec import arguments
from tapec.absences.names import namespace
from tapec.errors import ImportError, InvalidArgumentError, RuntimeError, ValueError
from tapec.frames import here
from tapec.recording import current_trace
from tapec.scopes import get_current_name_scope
from tapec.tensor import Array, Tensor, TensorLike, as_tensor
from tapec.traces.effects import tell


class _Default(NamedTuple):
    """The writer in force, and whether a function that is being compiled put it there."""

    writer: SummaryWriter | None
    is_traced: bool


_NOBODY = _Default(None, False)
_default: ContextVar[_Default] = ContextVar("default writer", default=_NOBODY)
_step: ContextVar[Any] = ContextVar("step of summaries", default=None)
_recorded: ContextVar[Any] = ContextVar("whether summaries are recorded", default=True)


class SummaryWriter:
    """Writes to one file of events; made by `create_file_writer`. As a context manager it closes at the end."""

    def __init__(self, events: Any) -> None:
        """``events`` is tensorboardX's writer, or None for one that writes nothing."""
        self._events = events
        self._is_closed = False

    @contextmanager
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
        """Let this be the writer of what is logged in a block.

        Args:
            step: the step of what is logged there without one: a number, a Variable or a Tensor.
        """
        tokens = self._begin(step)
        try:
            yield self
            self.flush()
        finally:
            _default.reset(tokens[0])
            _step.reset(tokens[1])

    def set_as_default(self, step: Any = None) -> None:
        """Let this be the writer of what is logged from now on; see `as_default`."""
        self._begin(step)

    def _begin(self, step: Any) -> tuple[Any, Any]:
        self._require_open()
        token = _default.set(_Default(self, current_trace() is not None))
        return token, _step.set(_step.get() if step is None else step)

    def init(self) -> None:
        """Without effect: a writer is ready once it is made."""

    def flush(self) -> None:
        """Write what waits; not while a function is compiled."""
        if self._events is not None and not self._is_closed and current_trace() is None:
            self._events.flush()

    def close(self) -> None:
        """Write what waits, and write no more."""
        if self._events is not None and not self._is_closed:
            self._events.close()
        self._is_closed = True

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        kind: builtins.type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("SummaryWriter is already closed", location=here())

    def _write(self, method: str, *values: Any) -> None:
        self._require_open()
        if self._events is not None:
            getattr(self._events, method)(*values)


def create_file_writer(
    logdir: Any,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
) -> SummaryWriter:
    """A writer to a new file in a folder, which is made.

    Args:
        logdir: the folder.
        max_queue: how many values may wait; 10 by default.
        flush_millis: how long they may wait; two minutes by default.
        filename_suffix: what the name of the file ends with.
        name: not used.

    Raises:
        ImportError: tensorboardX is not installed.
    """
    try:
        from tensorboardX import SummaryWriter as Events  # an extra, and slow to import
    except builtins.ImportError:
        raise ImportError(
            "tapec.summary writes with tensorboardX, which is not installed",
            location=here(),
            hint="pip install 'tapec[tensorboard]'",
        ) from None
    events = Events(
        str(logdir),
        max_queue=10 if max_queue is None else arguments.integer(max_queue, "max_queue"),
        flush_secs=120
        if flush_millis is None
        else arguments.number(flush_millis, "flush_millis") / 1000,
        filename_suffix=".v2" if filename_suffix is None else filename_suffix,
    )
    return SummaryWriter(events)


def create_noop_writer() -> SummaryWriter:
    """A writer that writes nothing."""
    return SummaryWriter(None)


def scalar(name: str, data: TensorLike, step: Any = None, description: str | None = None) -> bool:
    """Log a number.

    Args:
        name: what it is called; name scopes stand in front.
        data: one number.
        step: at which step: a number, a Variable or a Tensor. By default the one of `SummaryWriter.as_default` or
            `tapec.summary.experimental.set_step`.
        description: not used: the files have no place for it.

    Returns:
        Whether it is written: False where nobody writes.

    Raises:
        ValueError: there is no step.
        InvalidArgumentError: ``data`` is more than one number.
    """
    value = as_tensor(data)
    if value.type.rank:
        raise InvalidArgumentError(
            f"expected one number for the summary {name!r}, got {value.type}",
            location=here(),
            hint="take the mean of it, or log it as a histogram",
        )
    return _log("add_scalar", name, value, step, float)


def histogram(
    name: str,
    data: TensorLike,
    step: Any = None,
    buckets: int | None = None,
    description: str | None = None,
) -> bool:
    """Log how numbers are distributed; see `scalar`.

    Args:
        name: what they are called.
        data: the numbers.
        step: at which step.
        buckets: into how many parts; 30 by default.
        description: not used.
    """
    parts = 30 if buckets is None else arguments.integer(buckets, "buckets")

    def counted(array: Array) -> Any:
        return np.asarray(array, np.float64).reshape(-1)

    return _log("add_histogram", name, as_tensor(data), step, counted, parts)


def text(name: str, data: Any, step: Any = None, description: str | None = None) -> bool:
    """Log a text, in Markdown; see `scalar`. In a compiled function it is the text of the trace."""
    written = arguments.text(data, "data")
    return _log("add_text", name, as_tensor(0), step, lambda _: written)


def _log(
    method: str,
    name: str,
    value: Tensor,
    step: Any,
    convert: Callable[[Array], Any],
    *more: Any,
) -> bool:
    """Write a value now, or whenever the program runs that is being traced."""
    scope = get_current_name_scope()
    tag = f"{scope}/{arguments.text(name, 'name')}" if scope else arguments.text(name, "name")
    at = _step.get() if step is None else step
    default, is_eager = _default.get(), current_trace() is None
    if is_eager and (default.writer is None or not _is_recorded()):
        return False
    if at is None:
        raise ValueError(
            f"No step set for the summary {tag!r}",
            location=here(),
            hint="pass step=, or writer.as_default(step), or tapec.summary.experimental.set_step(step)",
        )
    inside = default.writer if default.is_traced else None

    def write(array: Array, number: Array) -> None:
        writer = inside or _default.get().writer
        if writer is not None and _is_recorded():
            writer._write(method, tag, convert(array), int(number), *more)

    tell(write, [value, as_tensor(at)], "summary")
    return True


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> None:
    """Write what waits, of a writer or of the default one."""
    chosen = _default.get().writer if writer is None else writer
    if chosen is not None:
        chosen.flush()


def should_record_summaries() -> bool:
    """Whether what is logged is written: there is a default writer, and `record_if` does not forbid it."""
    return _default.get().writer is not None and _is_recorded()


def _is_recorded() -> bool:
    condition = _recorded.get()
    return bool(condition() if callable(condition) else condition)


@contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Write what is logged in a block only if a condition holds.

    Args:
        condition: a bool, a Tensor, or a function that gives one and is asked each time.
    """
    token = _recorded.set(condition)
    try:
        yield
    finally:
        _recorded.reset(token)


class _Experimental:
    """The namespace ``tapec.summary.experimental``."""

    @staticmethod
    def set_step(step: Any) -> None:
        """The step of what is logged without one, from now on: a number, a Variable or a Tensor."""
        _step.set(step)

    @staticmethod
    def get_step() -> Any:
        """What `set_step` or `SummaryWriter.as_default` set; None if there is none."""
        return _step.get()


experimental = _Experimental

if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("summary")
