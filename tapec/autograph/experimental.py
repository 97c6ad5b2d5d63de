"""The namespace ``tapec.autograph.experimental``."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar, overload

from tapec.autograph.conversion import converting
from tapec.autograph.options import current_options
from tapec.errors import TypeError, ValueError
from tapec.frames import here

F = TypeVar("F", bound=Callable[..., Any])


class Feature(Enum):
    """Conversions that TensorFlow has on request; they are without effect here."""

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"


@overload
def do_not_convert(func: F) -> F: ...
@overload
def do_not_convert(func: None = None) -> Callable[[F], F]: ...
def do_not_convert(func: Any = None) -> Any:
    """Decorate a function that is to run as it is while a function around it is compiled, with all that it calls.

    Example: code that decides by Python values alone and that the converter has trouble with.
    """
    if func is None:
        return do_not_convert

    @functools.wraps(func)
    def as_it_is(*args: Any, **kwargs: Any) -> Any:
        with converting(False):
            return func(*args, **kwargs)

    as_it_is.__tapec_unconverted__ = True  # type: ignore[attr-defined]
    return as_it_is


def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Say something of the loop whose body calls this, while a function is compiled; elsewhere without effect.

    Args:
        parallel_iterations: without effect.
        swap_memory: without effect.
        maximum_iterations: how often it turns at most, a number that is known.
        shape_invariants: pairs of a loop variable and a shape, for those whose shape changes from turn to turn. A loop
            with such variables is written out, turn by turn; so it must be known how often it turns.

    Raises:
        TypeError: ``maximum_iterations`` is not known.
        ValueError: a variable does not have the shape that is given for it.
    """
    options = current_options()
    if options is None:
        return
    if maximum_iterations is not None:
        options.maximum_iterations = _count(maximum_iterations)
    for value, shape in shape_invariants or ():
        if not value.shape.is_compatible_with(shape):
            raise ValueError(
                f"shape_invariants: {shape} is not compatible with {value.type}", location=here()
            )
        options.varying.append(value)


def _count(number: Any) -> int:
    """A number of turns."""
    try:
        return max(operator.index(number), 0)
    except builtins.TypeError:
        raise TypeError(
            f"maximum_iterations must be a number that is known, got {number!r}",
            location=here(),
            hint="count in a variable, and let the loop's condition ask for it",
        ) from None
