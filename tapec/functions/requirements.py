"""What elements have to be: looked at now where they are known, else by the program that is being traced."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tapec.errors import InvalidArgumentError, TapecError
from tapec.frames import here
from tapec.functions.broadcasting import binary
from tapec.functions.known import always, known_elements
from tapec.ir.op import OPS
from tapec.ir.ops.check import Check
from tapec.recording import current_trace, tracing
from tapec.tensor import Tensor, apply

_COMPARE = {"ne": operator.ne, "ge": operator.ge}


def require(holds: Tensor, message: str) -> None:
    """Raise InvalidArgumentError with this message unless a condition holds in every element."""
    require_shown(holds, message=message)


def require_shown(holds: Tensor, *shown: Tensor, **attrs: Any) -> None:
    """The same with a message that shows elements of tensors; ``attrs`` of the operation ``assert`` say how."""
    trace = current_trace()
    known = known_elements(holds) if trace is not None else None
    if trace is not None and (known is None or known.dtype == object):
        with tracing(trace):  # no derivative goes through what is only looked at
            apply("assert", holds, *shown, **attrs)
        return
    values = [known_elements(x) for x in (holds, *shown)]
    if any(v is None for v in values):
        values = [values[0], *(np.full(x.shape.as_list(), "?") for x in shown)]
    definition = OPS["assert"]
    assert isinstance(definition, Check)
    wrong = definition.failure(*values, **attrs)
    if wrong is not None:
        raise InvalidArgumentError(wrong, location=here())


def refuse_unless(comparison: str, y: Tensor, error: TapecError) -> None:
    """Raise an error unless all elements are, by the operation ``ne`` or ``ge``, so to 0; no guard comes of that.

    Raises:
        TapecError: ``error``, if that is known of what every call has; else the program raises what it says.
    """
    well, trace = always(y, _COMPARE[comparison]), current_trace()
    if well is False:
        raise error
    if well is None and trace is not None:
        with tracing(trace):  # no derivative goes through what is only looked at
            apply("assert", binary(comparison, y, 0), message=error.message)
