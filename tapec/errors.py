"""The errors that a user of tapec catches.

Each derives from `TapecError` and from the builtin of the same name, or bears the name that TensorFlow gives it.
Messages say what was expected and what came, the user's line, and what to do.
"""

from __future__ import annotations

import builtins

from tapec.ir.errors import (
    DTypeError,
    NotDifferentiableError,
    ParseError,
    PassError,
    ShapeError,
    TapecError,
    TargetError,
    VerifyError,
)

__all__ = [
    "AttributeError",
    "DTypeError",
    "InvalidArgumentError",
    "NotDifferentiableError",
    "NotImplementedError",
    "OpError",
    "OutOfRangeError",
    "ParseError",
    "PassError",
    "RuntimeError",
    "ShapeError",
    "TapecError",
    "TargetError",
    "TypeError",
    "UnimplementedError",
    "ValueError",
    "VerifyError",
]


class OpError(TapecError):
    """Base of the errors that an operation raises while it runs.

    Cause: the operation met values or shapes it cannot take. Fix: see the line the message names.
    """


class InvalidArgumentError(OpError):
    """An operation got shapes, dtypes or values that do not fit.

    Example: ``tapec.ones([2]) + tapec.ones([3])``. Not a ValueError, as in TensorFlow.
    """


class OutOfRangeError(OpError):
    """An index, or the end of what is read, is outside of what there is.

    Example: ``tapec.TensorArray(tapec.float32, 2).write(2, 1.0)``.
    """


class UnimplementedError(OpError):
    """The operation exists, but not for these operands or this target."""


class ValueError(TapecError, builtins.ValueError):
    """A value that does not fit, found before anything runs."""


class TypeError(TapecError, builtins.TypeError):
    """An object of the wrong kind."""


class RuntimeError(TapecError, builtins.RuntimeError):
    """Something done at the wrong time: a tape used twice, a tensor that left its function."""


class AttributeError(TapecError, builtins.AttributeError):
    """A name that tapec does not have; the message says what to use instead."""


class NotImplementedError(TapecError, builtins.NotImplementedError):
    """A use that tapec refuses by name."""
