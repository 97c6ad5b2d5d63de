"""The namespace ``tapec.autograph``: what TensorFlow does to the Python code of a compiled function.

A function that `tapec.compile` traces is run by Python itself: loops and branches over Python values are unrolled, and
those over tensors are written with `tapec.cond`, `tapec.while_loop`, `tapec.scan` and their kin.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tapec.absent import namespace
from tapec.autograph import experimental as experimental
from tapec.errors import TypeError
from tapec.frames import here

F = TypeVar("F", bound=Callable[..., Any])


def to_code(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> str:
    """The source of a function as it is traced: its own, as nothing is converted.

    The command ``tapec ir FILE`` shows the program that becomes of it.

    Raises:
        TypeError: the source is not available.
    """
    try:
        return inspect.getsource(getattr(entity, "python_function", entity))
    except (OSError, builtins.TypeError):
        raise TypeError(f"the source of {entity!r} is not available", location=here()) from None


def to_graph(entity: F, recursive: bool = True, experimental_optional_features: Any = None) -> F:
    """The function that is traced: itself, as nothing is converted."""
    return entity


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Without effect: nothing is converted, so nothing is said about it."""


def trace(*args: Any) -> None:
    """Print values while a function is traced."""
    sys.stdout.write(" ".join(map(str, args)) + "\n")


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("autograph")
