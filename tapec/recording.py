"""Who is listening when an operation runs: the tapes that record, and the trace that is being made.

Context variables, so that threads and async tasks do not hear each other. Beside them stand the tapes that only
overhear: from its block to its gradient, a tape takes note of what runs where it does not record, for its explanations.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from tapec.frames import origin

if TYPE_CHECKING:
    from tapec.alarms.culprit import Watch
    from tapec.alarms.numerics import AlarmedProgram
    from tapec.eager.composite import Step
    from tapec.eager.signatures import Signature
    from tapec.explanations.trail import Trail
    from tapec.ir.core import Function, Module, Operation
    from tapec.ir.location import Location
    from tapec.ir.op import Op
    from tapec.tape import GradientTape
    from tapec.tensor import Tensor
    from tapec.traces.effects import Effects
    from tapec.tracing import Trace
    from tapec.variable import Variable

P = ParamSpec("P")
R = TypeVar("R")

#: Numbers that tell tensors apart on tapes; never used twice, unlike ``id``.
numbers = count()
next_id = numbers.__next__
#: The number that was next when a tape or the trace of a function ended: neither knows a tensor with a later one.
heard = [0]

_tapes: ContextVar[tuple[GradientTape, ...]] = ContextVar("tapes", default=())
_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)
_missing: ContextVar[tuple[str, ...]] = ContextVar("missing", default=())

#: The tapes that record now, outermost first.
active_tapes = _tapes.get
#: The trace that is being made, or None in eager code.
current_trace = _trace.get
#: Told of each program that a compiled function makes for a call, before it runs: the function, the call, the program.
program_listeners: list[Callable[[Any, Any, Any], None]] = []
#: Told of each function that cannot be compiled, before the error is raised: the function, and the program of its first
#: call if all that stands against it is that each call makes Variables; else None.
refusal_listeners: list[Callable[[Any, Any], None]] = []
#: Told of the explanations of gradients that are None, when a tape gives them.
missing_listeners: list[Callable[[Sequence[Any]], None]] = []
#: Told of each error about a number that is NaN or infinite, before it is raised; see `tapec.alarms.numerics`.
accusation_listeners: list[Callable[[Any], None]] = []
#: Takes explanations of the gradients that the latest call gave as None.
note_missing = _missing.set


class Inspector(Protocol):
    """What looks at all that runs; see `tapec.alarms.numerics`."""

    def operation(
        self, signature: Signature, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        """Look at an eager operation that ran."""

    def blames(self, steps: Sequence[Step], values: Sequence[Any]) -> bool:
        """Whether it would raise at one of several eager operations that ran as one; see `tapec.eager.composite`."""

    def gradient(
        self, function: Function, arrays: Sequence[Any], origins: Mapping[Operation, Operation]
    ) -> None:
        """Find who is to blame in an eager gradient that raised an alarm."""

    def watch(self) -> Watch:
        """What looks at an evaluation of a gradient."""

    def replayed(self, op: Operation, results: Sequence[Tensor]) -> None:
        """Hear what an operation of a gradient became that tapes heard."""

    def place(self, result: int) -> Location | None:
        """The line of an operation that was replayed, by the id of its last result."""

    def searching(self, search: Callable[[], None]) -> AbstractContextManager[None]:
        """Call ``search`` where an operation that runs inside would be blamed."""

    def program(self, module: Module, effects: Effects, native: bool, boxed: int) -> AlarmedProgram:
        """A program that looks at itself."""


#: At most one: while `tapec.debugging.enable_check_numerics` is in force.
inspectors: list[Inspector] = []


#: Not empty while compiled functions are to run as plain Python.
plain_calls: list[bool] = []


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Whether functions that were compiled run as plain Python, for debugging: with values at every line.

    For all threads, until it is called again.
    """
    plain_calls[:] = [True] if run_eagerly else []


def functions_run_eagerly() -> bool:
    """Whether functions that were compiled run as plain Python; see `run_functions_eagerly`."""
    return bool(plain_calls)


def executing_eagerly() -> bool:
    """Whether operations compute at once: false while a function is compiled."""
    return current_trace() is None


def push_tape(tape: GradientTape) -> None:
    """Let a tape record from now on."""
    _tapes.set((*_tapes.get(), tape))


def remove_tape(tape: GradientTape) -> None:
    """Let a tape record no longer; it need not be the innermost."""
    _tapes.set(tuple(t for t in _tapes.get() if t is not tape))
    heard[0] = next_id()


#: The memories of tapes that wait for their gradient, in all threads, by ``id``: more than record here are overhearing.
bystanders: dict[int, weakref.ref[Trail]] = {}


def attend(trail: Trail) -> None:
    """Let a tape overhear what it does not record, until it is gone or `leave` is called."""
    key = id(trail)
    if key not in bystanders:
        bystanders[key] = weakref.ref(trail, lambda _: bystanders.pop(key, None))


def leave(trail: Trail) -> None:
    """Let a tape overhear no longer."""
    bystanders.pop(id(trail), None)


def _overhearing() -> list[Trail]:
    """The memories of the tapes that wait for their gradient and do not record here."""
    recorded = [tape.trail for tape in active_tapes()]
    waiting = [reference() for reference in list(bystanders.values())]
    return [t for t in waiting if t is not None and not any(t is r for r in recorded)]


def overhear(defn: Op, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Tell the tapes that do not record here of an operation."""
    where = origin()
    for trail in _overhearing():
        trail.overhear(defn, inputs, [y.id for y in outputs], where)


def overhear_read(variable: Variable, value: Tensor) -> None:
    """Tell the tapes that do not record here of a read."""
    for trail in _overhearing():
        trail.overhear_read(variable, value)


def announce_gradient(targets: Sequence[int], outputs: Sequence[int]) -> None:
    """Tell all tapes that wait for theirs of a gradient that was taken."""
    where, ends, found = origin(), tuple(targets), tuple(outputs)
    for tape in active_tapes():
        tape.trail.gradient_taken(ends, found, where, here=True)
    for trail in _overhearing():
        trail.gradient_taken(ends, found, where, here=False)


def about_none() -> str:
    """What to say of a None that stands in the place of a tensor: it may be a gradient."""
    texts = "".join(f"\n{text}" for text in _missing.get())
    which = f"; the latest that is None:{texts}" if texts else "; tape.explain says why"
    return f"a gradient is None where the target does not depend on the source{which}"


@contextmanager
def tracing(trace: Trace | None, tapes: tuple[GradientTape, ...] = ()) -> Iterator[None]:
    """Make ``trace`` the current one, with only these tapes recording; None runs eagerly inside of a trace."""
    trace_token, tapes_token = _trace.set(trace), _tapes.set(tapes)
    try:
        yield
    finally:
        _tapes.reset(tapes_token)
        _trace.reset(trace_token)
        for tape in _tapes.get():
            if not tape.is_recording:  # it gave its gradients in a branch
                remove_tape(tape)
