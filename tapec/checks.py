"""What a failed check says: the program is run again, by the evaluator, from the same arguments.

A failed check has updated nothing, so they are all still there; and only a failure costs anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.compiler import Executable, lowered
from tapec.errors import InvalidArgumentError
from tapec.ir.core import Module
from tapec.ir.errors import CheckError
from tapec.ir.evaluator import evaluate_module
from tapec.passes.commit import checks_of
from tapec.tensor import Array


def settle(
    executable: Executable, module: Module, arrays: Sequence[Array], results: list[Array]
) -> None:
    """Take the status off the results of a call of ``executable``, which was made of ``module``.

    Raises:
        InvalidArgumentError: a check failed; the arguments are as they were before the call.
    """
    if executable.checks:
        status = int(results.pop())
        if status:
            raise _failure(module, arrays, status)


def _failure(module: Module, arrays: Sequence[Array], status: int) -> InvalidArgumentError:
    # As far as `commit`, which numbered them.
    program = lowered(module, "prune")
    try:
        evaluate_module(program, arrays)
    except CheckError as error:
        return raised(error)
    # Native code rounds elsewhere than NumPy; a comparison may turn on that.
    check = checks_of(program.entry)[status - 1]
    message = str(check.attrs.get("message", ""))
    return InvalidArgumentError(
        f"{message} : {check.name} failed, by a rounding error: evaluated with NumPy it holds",
        location=check.location,
    )


def raised(error: CheckError) -> InvalidArgumentError:
    """The error that a user catches."""
    return InvalidArgumentError(error.message, location=error.location)
