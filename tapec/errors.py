"""The errors that a user of tapec catches.

Each derives from `TapecError` and from the builtin of the same name, or bears the name that TensorFlow gives it;
the names in capitals are TensorFlow's numbers for kinds of errors. `TapecError` and `OpError` are one class.
Messages say what was expected and what came, the user's line, and what to do.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.ir.errors import (
    DTypeError,
    InternalError,
    NotDifferentiableError,
    OpError,
    ParseError,
    PassError,
    ShapeError,
    TapecError,
    TargetError,
    VerifyError,
)

__all__ = [
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OK",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
    "AbortedError",
    "AlreadyExistsError",
    "AttributeError",
    "CancelledError",
    "DTypeError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InaccessibleTensorError",
    "InternalError",
    "InvalidArgumentError",
    "LookupError",
    "NotDifferentiableError",
    "NotFoundError",
    "NotImplementedError",
    "OpError",
    "OperatorNotAllowedInGraphError",
    "OutOfRangeError",
    "ParseError",
    "PassError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "RuntimeError",
    "ShapeError",
    "TapecError",
    "TargetError",
    "TypeError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "ValueError",
    "VerifyError",
]


OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class InvalidArgumentError(OpError):
    """An operation got shapes, dtypes or values that do not fit.

    Example: ``tapec.ones([2]) + tapec.ones([3])``. Not a ValueError, as in TensorFlow.
    """

    error_code = INVALID_ARGUMENT


class OutOfRangeError(OpError):
    """An index, or the end of what is read, is outside of what there is.

    Example: ``tapec.TensorArray(tapec.float32, 2).write(2, 1.0)``.
    """

    error_code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """The operation exists, but not for these operands or this target."""

    error_code = UNIMPLEMENTED


class OperatorNotAllowedInGraphError(OpError, builtins.TypeError):
    """Python asked for a value while a function is compiled, as ``if tensor:`` does."""


# -- raised by TensorFlow alone: they exist so that programs that catch them run


class CancelledError(OpError):
    """An operation was cancelled."""

    error_code = CANCELLED


class UnknownError(OpError):
    """An error of no other class."""

    error_code = UNKNOWN


class DeadlineExceededError(OpError):
    """An operation ran out of time."""

    error_code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """Something that was asked for, such as a file, does not exist."""

    error_code = NOT_FOUND


class AlreadyExistsError(OpError):
    """Something that was to be made exists."""

    error_code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller may not do this."""

    error_code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Memory, or another resource, ran out."""

    error_code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs."""

    error_code = FAILED_PRECONDITION


class AbortedError(OpError):
    """An operation was aborted."""

    error_code = ABORTED


class UnavailableError(OpError):
    """A service cannot be reached."""

    error_code = UNAVAILABLE


class DataLossError(OpError):
    """Data were lost or damaged."""

    error_code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The request has no valid credentials."""

    error_code = UNAUTHENTICATED


# -- the builtin ones


class ValueError(TapecError, builtins.ValueError):
    """A value that does not fit, found before anything runs."""


class TypeError(TapecError, builtins.TypeError):
    """An object of the wrong kind."""


class LookupError(TapecError, builtins.LookupError):
    """There is no derivative of an operation."""


class RuntimeError(TapecError, builtins.RuntimeError):
    """Something done at the wrong time: a tape used twice, a tensor that left its function."""


class InaccessibleTensorError(RuntimeError, builtins.ValueError):
    """A tensor of a function, branch or loop that was being compiled is used outside of it."""


class AttributeError(TapecError, builtins.AttributeError):
    """A name that tapec does not have; the message says what to use instead."""


class ImportError(TapecError, builtins.ImportError):
    """What a part of tapec needs is not installed, or was imported in another way."""


class NotImplementedError(TapecError, builtins.NotImplementedError):
    """A use that tapec refuses by name."""


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("errors")
