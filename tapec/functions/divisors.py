"""What integers may be divided by: anything but 0, which is refused now or when the program runs."""

from __future__ import annotations

from tapec.errors import InvalidArgumentError, TapecError
from tapec.frames import here
from tapec.functions.broadcasting import binary
from tapec.functions.known import is_never_zero
from tapec.recording import current_trace, tracing
from tapec.tensor import Tensor, TensorLike, apply


def refuse_integer_zero(given: TensorLike, y: Tensor, op: str) -> None:
    """Raise if an integer is divided by 0; in a trace, let the program do that.

    Args:
        given: the divisor as the caller gave it, which may have fewer elements to look at.
        y: the divisor in the quotient's shape.
        op: what the message calls the operation.

    Raises:
        InvalidArgumentError: an element is 0 and known to be.
    """
    if not y.type.dtype.is_integer:
        return
    if isinstance(given, Tensor) and given.type.dtype == y.type.dtype:
        y = given
    refuse_zero(y, InvalidArgumentError(f"Integer division by zero [{op}]", location=here()))


def refuse_zero(y: Tensor, error: TapecError) -> None:
    """Raise an error if an element is known to be 0; in a trace, let the program raise what it says.

    Raises:
        TapecError: ``error``.
    """
    well, trace = is_never_zero(y), current_trace()
    if well is False:
        raise error
    if well is None and trace is not None:
        with tracing(trace):  # no derivative goes through what is only looked at
            apply("assert", binary("ne", y, 0), message=error.message)
