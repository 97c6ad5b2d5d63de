"""What a call of a program leaves to do: raise what a check found, call what the program tells (`print`, say).

What a failed check says is found by running the program again, by the evaluator, from the same arguments: a failed
check has updated nothing, so they are all still there, and only a failure costs anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapec.at_line import on_host
from tapec.compiler import lowered
from tapec.errors import InvalidArgumentError, NotImplementedError
from tapec.frames import here
from tapec.ir.core import Module, Operation
from tapec.ir.errors import TapecError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.host import ADDRESS, RAISED, Notify
from tapec.ir.types import TensorType
from tapec.passes.commit import calls_back, checks_of
from tapec.recording import current_trace, tracing
from tapec.tensor import Array, EagerTensor, Tensor, apply
from tapec.traces.callbacks import Callback, Host, replaying
from tapec.traces.callbacks import raised as raised_by_callback
from tapec.traces.scalars import settle_within


def tell(host: Host, values: Sequence[Tensor], what: str) -> None:
    """Call a function of arrays: at once, or whenever the program that is being traced runs, in program order.

    Raises:
        NotImplementedError: the trace is of something that runs for many rows, or not at all.
    """
    if current_trace() is None:
        host(*(x.array for x in values))
        return
    ask(host, values, (), what)


def ask(
    host: Host,
    values: Sequence[Tensor],
    results: Sequence[TensorType],
    what: str,
    back: Host | None = None,
) -> list[Tensor]:
    """What a function of arrays gives whenever the program that is being traced runs.

    Args:
        host: takes the arrays, gives those of the results.
        values: what it is called with.
        results: of what types the results are.
        what: it is called, in messages.
        back: its derivative, if it has one: of the values and the results' cotangents, for the values that carry any.

    Raises:
        NotImplementedError: the trace is of something that runs for many rows, or not at all.
    """
    trace = current_trace()
    assert trace is not None
    settle_within((host, back))
    root = trace
    while root.parent is not None:
        root = root.parent
    if root.hosts is None:
        raise NotImplementedError(
            f"{what} inside of {root.function.name}, which runs for all rows at once",
            location=here(),
            hint="call it outside, on what is returned",
        )
    types = [x.type for x in values]
    number = len(root.hosts)
    callbacks = [Callback(host, types, results)]
    if back is not None:
        flows = [t for t in types if t.dtype.is_differentiable]
        callbacks.append(Callback(back, [*types, *results], flows))
    root.hosts += callbacks
    addresses = [EagerTensor(np.array([c.address], np.uint64), ADDRESS) for c in callbacks]
    attrs = {"number": number, "what": what, "results": tuple(results)}
    if back is not None:
        found = apply("notify_back", *addresses, *values, **attrs)
    else:
        with tracing(trace):  # no derivative goes through what is only told
            found = apply("notify", *addresses, *values, **attrs)
    return [found] if isinstance(found, Tensor) else list(found)


class Effects:
    """What calls of one program leave to do.

    Attributes:
        hosts: the functions that the program's `notify` operations number.
    """

    def __init__(self, module: Module, checks: int, hosts: Sequence[Callback] = ()) -> None:
        """``module`` is the program as traced; ``checks`` is how many checks its executable makes."""
        self.module = module
        self.hosts = hosts
        self._checks = checks
        self._told: list[Operation] = []
        #: Whether the program calls the host itself.
        self._calls = False
        if hosts:
            # As far as `commit`, which makes results of them in this order.
            program = lowered(module, "prune").entry
            self._calls = calls_back(program)
            if not self._calls:
                self._told = [op for op in program.block.ops if isinstance(op.defn, Notify)]
            elif checks_of(program):
                self.remember()

    def remember(self) -> None:
        """Let the functions that the program calls remember what they give: it may be evaluated once more."""
        for host in self.hosts:
            host.remembers = self._calls

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._checks or self._told)

    @property
    def are_checks(self) -> bool:
        """Whether all that may be left to do is to say what a check found."""
        return not self.hosts

    def settle(self, arrays: Sequence[Array], results: list[Array]) -> None:
        """Do it after a call with these arguments; take what is not the caller's off the results.

        Raises:
            InvalidArgumentError: a check failed; the arguments are as they were before the call.
            Exception: what a function of the host raised; so are they then.
        """
        try:
            if self._checks:
                status = int(on_host(results.pop()))
                if status == RAISED:
                    raise raised_by_callback()
                if status:
                    raise self._failure(arrays, status)
        finally:
            if self._calls:
                for host in self.hosts:
                    host.forget()
        if self._told:
            end = len(results) - sum(len(op.operands) - 1 for op in self._told)
            values = iter(results[end:])
            del results[end:]
            for op in self._told:
                self.hosts[op.attrs["number"]](*(on_host(next(values)) for _ in op.operands[1:]))

    def call(self, op: Operation, values: Sequence[Array]) -> None:
        """Call the function that a `notify` means, unless the program has done so."""
        if not self._calls:
            self.hosts[op.attrs["number"]](*values[1:])

    def _failure(self, arrays: Sequence[Array], status: int) -> InvalidArgumentError:
        program = lowered(self.module, "prune")
        arrays = list(map(on_host, arrays))

        def hear(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
            if isinstance(op.defn, Notify):
                self.call(op, operands)

        try:
            with replaying():
                evaluate_module(program, arrays, observer=hear)
        except TapecError as error:
            return raised(error)
        # Native code rounds elsewhere than NumPy; a comparison may turn on that.
        check = checks_of(program.entry)[status - 1]
        message = str(check.attrs.get("message", ""))
        return InvalidArgumentError(
            f"{message} : {check.name} failed, by a rounding error: evaluated with NumPy it holds",
            location=check.location,
        )


def raised(error: TapecError) -> InvalidArgumentError:
    """The error that a user catches."""
    return InvalidArgumentError(error.message, location=error.location, hint=error.hint)
