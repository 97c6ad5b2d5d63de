"""What a call of a program leaves to do: raise what a check found, call what the program tells (`print`, say).

What a failed check says is found by running the program again, by the evaluator, from the same arguments: a failed
check has updated nothing, so they are all still there, and only a failure costs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec.compiler import lowered
from tapec.errors import InvalidArgumentError, NotImplementedError
from tapec.frames import here
from tapec.ir.core import Module, Operation
from tapec.ir.errors import TapecError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.host import Notify
from tapec.passes.commit import checks_of
from tapec.recording import current_trace, tracing
from tapec.tensor import Array, Tensor, apply

#: A function of the host that a program calls: it takes arrays.
Host = Callable[..., Any]


def tell(host: Host, values: Sequence[Tensor], what: str) -> None:
    """Call a function of arrays: at once, or whenever the program that is being traced runs, in program order.

    Raises:
        NotImplementedError: the trace is of something that runs for many rows, or not at all.
    """
    trace = current_trace()
    if trace is None:
        host(*(x.array for x in values))
        return
    root = trace
    while root.parent is not None:
        root = root.parent
    if root.hosts is None:
        raise NotImplementedError(
            f"{what} inside of {root.function.name}, which runs for all rows at once",
            location=here(),
            hint="call it outside, on what is returned",
        )
    root.hosts.append(host)
    with tracing(trace):  # no derivative goes through what is only told
        apply("notify", *values, number=len(root.hosts) - 1, what=what)


class Effects:
    """What calls of one program leave to do.

    Attributes:
        hosts: the functions that the program's `notify` operations number.
    """

    def __init__(self, module: Module, checks: int, hosts: Sequence[Host] = ()) -> None:
        """``module`` is the program as traced; ``checks`` is how many checks its executable makes."""
        self.module = module
        self.hosts = hosts
        self._checks = checks
        self._told: list[Operation] = []
        if hosts:
            # As far as `commit`, which makes results of them in this order.
            ops = lowered(module, "prune").entry.block.ops
            self._told = [op for op in ops if isinstance(op.defn, Notify)]

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._checks or self._told)

    def settle(self, arrays: Sequence[Array], results: list[Array]) -> None:
        """Do it after a call with these arguments; take what is not the caller's off the results.

        Raises:
            InvalidArgumentError: a check failed; the arguments are as they were before the call.
        """
        if self._checks:
            status = int(results.pop())
            if status:
                raise self._failure(arrays, status)
        if self._told:
            end = len(results) - sum(len(op.operands) for op in self._told)
            values = iter(results[end:])
            del results[end:]
            for op in self._told:
                self.call(op, [next(values) for _ in op.operands])

    def call(self, op: Operation, values: Sequence[Array]) -> None:
        """Call the function that a `notify` means."""
        self.hosts[op.attrs["number"]](*values)

    def _failure(self, arrays: Sequence[Array], status: int) -> InvalidArgumentError:
        program = lowered(self.module, "prune")

        def hear(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
            if isinstance(op.defn, Notify):
                self.call(op, operands)

        try:
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
