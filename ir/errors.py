"""Errors that a program can raise, and how they point at the place.

Everything tapec raises on purpose derives from `TapecError`. The classes here speak of programs (types, text,
invariants); the classes a TensorFlow user catches (`tapec.errors`) derive from the same base.

A message has up to three parts: what was expected and what came; the user's line; what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapec.ir.core import Operation
    from tapec.ir.location import Location


class OpError(Exception):
    """Base of every error that tapec raises on purpose; `TapecError` is its other name.

    TensorFlow's users know it as the base of what an operation raises while it runs, right below Exception.

    Args:
        arguments: the message; or TensorFlow's three: a node and an operation, which are kept, and the message.
        message: the same by name.
        location: the user's line.
        hint: what to do.
    """

    #: TensorFlow's number for the kind of error; `tapec.errors` has names for them.
    error_code: int = 2

    def __init__(
        self,
        *arguments: Any,
        message: str | None = None,
        location: Location | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the parts apart: an outer layer may know the user's line that an inner one does not."""
        if message is not None:
            arguments = (*arguments, message)
        self.node_def, self.op = arguments[:2] if len(arguments) >= 3 else (None, None)
        self.message: str = arguments[2] if len(arguments) >= 3 else "".join(arguments[:1])
        super().__init__(self.message)
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        """Message, then the user's line, then the remedy."""
        lines = [self.message]
        if self.location is not None:
            lines.append(f"  {self.location.describe()}")
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


TapecError = OpError


class ShapeError(TapecError, ValueError):
    """Shapes of operands do not fit together, or an axis is out of range."""


class DTypeError(TapecError, TypeError):
    """An operation does not take these dtypes."""


class ParseError(TapecError, ValueError):
    """The text is not a program; the message shows the line with a caret."""


class VerifyError(TapecError, ValueError):
    """A program breaks one of the numbered invariants of `tapec.ir.verifier`."""


class NotDifferentiableError(TapecError, TypeError):
    """A gradient is asked through an operation that has none."""


class PassError(TapecError):
    """A pass got options or a program that it cannot take, or left a broken one behind."""


class BudgetError(TapecError):
    """A program cannot run within the memory that it was given; the message has the least that it needs."""


class TargetError(TapecError):
    """A target cannot do what the program asks; the message names the operation and the target."""


class InternalError(TapecError):
    """An invariant of the system is broken, or a device failed."""

    error_code = 13  # TensorFlow's INTERNAL


class CheckError(TapecError):
    """What a program checks while it runs does not hold."""


def underline(op: Operation, message: str) -> str:
    """Return ``message`` with the printed operation below it, its name underlined by carets."""
    from tapec.ir.printer import print_operation  # the printer itself raises errors of this module

    text = print_operation(op).splitlines()[0]
    start = text.find(op.name)
    return f"{message}\n    {text}\n    {' ' * start}{'^' * len(op.name)}"
