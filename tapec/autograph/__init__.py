"""The namespace ``tapec.autograph``: Python control flow over tensors, in functions that `tapec.compile` traces.

``if``, ``while``, ``for``, ``and``, ``or``, ``not`` and conditional expressions of user code are asked at run time of
the trace what they decide over (`tapec.autograph.rewriting`): over Python's values they do what Python does; over
tensors they become branches and loops of the program. ``docs/control-flow.md`` has the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from tapec.absences.names import namespace
from tapec.autograph import experimental as experimental
from tapec.autograph.conversion import converted_code, converted_source, with_code
from tapec.errors import TypeError
from tapec.frames import here

F = TypeVar("F", bound=Callable[..., Any])


def to_code(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> str:
    """The source of a function as it runs while a function is compiled.

    The command ``tapec ir FILE`` shows the program that becomes of it.

    Args:
        entity: the function; a method's or compiled function's is taken.
        recursive: without effect: functions that it calls are converted when they are called.
        experimental_optional_features: without effect.

    Raises:
        TypeError: it is no function.
        ValueError: it is not converted; the message says why.
    """
    return converted_source(_function(entity))


def to_graph(entity: F, recursive: bool = True, experimental_optional_features: Any = None) -> F:
    """The function as it runs while a function is compiled; elsewhere it does what the original does.

    Arguments and errors are those of `to_code`.
    """
    function = _function(entity)
    converted_source(function)  # which refuses what is not converted
    code = converted_code(function)
    assert not isinstance(code, str)
    return with_code(function, code)  # type: ignore[return-value]


def _function(entity: Any) -> FunctionType:
    found = getattr(entity, "python_function", entity)
    found = getattr(found, "__func__", found)
    if not isinstance(found, FunctionType):
        raise TypeError(f"expected a function, got {entity!r}", location=here())
    return found


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Without effect: `to_code` shows what is converted."""


def trace(*args: Any) -> None:
    """Print values while a function is traced."""
    sys.stdout.write(" ".join(map(str, args)) + "\n")


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("autograph")
