"""What is asked of a device: where that fails, the error names the user's line."""

from __future__ import annotations

from typing import Any, TypeVar

from tapec.errors import InternalError, ResourceExhaustedError, TargetError, TypeError, ValueError
from tapec.frames import here
from tapec.ir.errors import DTypeError, ShapeError
from tapec.runtime import residence

A = TypeVar("A")


class AtLine:
    """A context that asks a device for something: errors name the user's line, and are those of `tapec.errors`.

    It raises ResourceExhaustedError where there is no memory, ValueError where an array of another library's is not
    contiguous, TypeError where there is no such dtype.
    """

    def __init__(self, no_memory: str = "no memory") -> None:
        """``no_memory`` is what an error says first of memory that there is not."""
        self._no_memory = no_memory

    def __enter__(self) -> None:
        """Nothing has failed yet."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        """Say it in the other words."""
        if isinstance(error, MemoryError):
            message = f"{self._no_memory}: {error}"
            raise ResourceExhaustedError(message, location=here()) from None
        if isinstance(error, ShapeError):
            raise ValueError(error.message, location=here(), hint=error.hint) from None
        if isinstance(error, DTypeError):
            raise TypeError(error.message, location=here(), hint=error.hint) from None
        if isinstance(error, (TargetError, InternalError)):
            error.location = error.location or here()


def at_home(array: A) -> A:
    """The array of a Variable, with the newest numbers; waits for the device if that has them.

    Raises:
        InternalError: the device failed.
    """
    if not residence.AWAY:
        return array
    with AtLine():
        return residence.at_home(array)


def on_host(array: Any) -> Any:
    """An array of the host's of one that may be on a device; waits for that.

    Raises:
        InternalError: the device failed.
    """
    with AtLine():
        return residence.on_host(array)
