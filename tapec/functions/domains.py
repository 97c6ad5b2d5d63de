"""What integers may be divided by and raised to: anything but 0, and nothing negative.

Anything else is refused now, or when the program runs.
"""

from __future__ import annotations

from tapec.errors import InvalidArgumentError, TapecError
from tapec.frames import here
from tapec.functions.requirements import refuse_unless
from tapec.tensor import Tensor, TensorLike, as_tensor


def refuse_integer_zero(given: TensorLike, y: Tensor, op: str) -> None:
    """Raise if an integer is divided by 0; in a trace, let the program do that.

    Args:
        given: the divisor as the caller gave it, which may have fewer elements to look at.
        y: the divisor in the quotient's shape.
        op: what the message calls the operation.

    Raises:
        InvalidArgumentError: an element is 0 and known to be.
    """
    _refuse_integers("ne", given, y, f"Integer division by zero [{op}]")


def refuse_negative_power(given: TensorLike, y: Tensor) -> None:
    """Raise if an integer is raised to a negative power; in a trace, let the program do that.

    Args:
        given: the exponent as the caller gave it, which may have fewer elements to look at.
        y: the exponent in the result's shape.

    Raises:
        InvalidArgumentError: an element is negative and known to be.
    """
    if not y.type.dtype.is_unsigned:
        _refuse_integers("ge", given, y, "Integers to negative integer powers are not allowed")


def _refuse_integers(comparison: str, given: TensorLike, y: Tensor, message: str) -> None:
    if not y.type.dtype.is_integer:
        return
    if isinstance(given, Tensor) and given.type.dtype == y.type.dtype:
        y = given
    elif isinstance(given, int):  # one number, however many y has of it
        y = as_tensor(given, y.type.dtype)
    refuse_unless(comparison, y, InvalidArgumentError(message, location=here()))


def refuse_zero(y: Tensor, error: TapecError) -> None:
    """Raise an error if an element is known to be 0; in a trace, let the program raise what it says.

    Raises:
        TapecError: ``error``.
    """
    refuse_unless("ne", y, error)
