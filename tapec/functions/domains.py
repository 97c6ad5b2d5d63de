"""What integers may be divided by and raised to: anything but 0, and nothing negative.

Anything else is refused now, or when the program runs.
"""

from __future__ import annotations

import operator

from tapec.errors import InvalidArgumentError, TapecError
from tapec.frames import here
from tapec.functions.broadcasting import binary
from tapec.functions.known import always
from tapec.recording import current_trace, tracing
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

_COMPARE = {"ne": operator.ne, "ge": operator.ge}


def refuse_integer_zero(given: TensorLike, y: Tensor, op: str) -> None:
    """Raise if an integer is divided by 0; in a trace, let the program do that.

    Args:
        given: the divisor as the caller gave it, which may have fewer elements to look at.
        y: the divisor in the quotient's shape.
        op: what the message calls the operation.

    Raises:
        InvalidArgumentError: an element is 0 and known to be.
    """
    _refuse_unless("ne", given, y, f"Integer division by zero [{op}]")


def refuse_negative_power(given: TensorLike, y: Tensor) -> None:
    """Raise if an integer is raised to a negative power; in a trace, let the program do that.

    Args:
        given: the exponent as the caller gave it, which may have fewer elements to look at.
        y: the exponent in the result's shape.

    Raises:
        InvalidArgumentError: an element is negative and known to be.
    """
    if not y.type.dtype.is_unsigned:
        _refuse_unless("ge", given, y, "Integers to negative integer powers are not allowed")


def _refuse_unless(comparison: str, given: TensorLike, y: Tensor, message: str) -> None:
    if not y.type.dtype.is_integer:
        return
    if isinstance(given, Tensor) and given.type.dtype == y.type.dtype:
        y = given
    elif isinstance(given, int):  # one number, however many y has of it
        y = as_tensor(given, y.type.dtype)
    _refuse(comparison, y, InvalidArgumentError(message, location=here()))


def refuse_zero(y: Tensor, error: TapecError) -> None:
    """Raise an error if an element is known to be 0; in a trace, let the program raise what it says.

    Raises:
        TapecError: ``error``.
    """
    _refuse("ne", y, error)


def _refuse(comparison: str, y: Tensor, error: TapecError) -> None:
    well, trace = always(y, _COMPARE[comparison]), current_trace()
    if well is False:
        raise error
    if well is None and trace is not None:
        with tracing(trace):  # no derivative goes through what is only looked at
            apply("assert", binary(comparison, y, 0), message=error.message)
