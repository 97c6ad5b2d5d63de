"""Context managers that TensorFlow's programs use: names, places, order, and code outside of a compiled function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from tapec.errors import InvalidArgumentError, ValueError
from tapec.frames import here
from tapec.recording import current_trace, tracing

__all__ = [
    "control_dependencies",
    "current_name_scope",
    "device",
    "get_current_name_scope",
    "init_scope",
    "inside_function",
    "name_scope",
]

_SCOPE: ContextVar[str] = ContextVar("name scope", default="")

#: The current scope with its slash, or nothing: what the name of a new Variable begins with.
current_name_scope = _SCOPE.get

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")

#: ``/job:localhost/replica:0/task:0/device:CPU:0`` and its shorter forms.
_DEVICE = re.compile(
    r"(?:/job:\w+)?(?:/replica:\d+)?(?:/task:\d+)?/?(?:device:)?(?:(\w+)(?::(\d+|\*))?)?",
    re.IGNORECASE,
)


class name_scope:
    """Names of Variables that are made in the block begin with ``name/``; blocks nest.

    A name that ends with a slash is taken from the top. ``with … as scope`` gives the whole prefix.

    Example: ``with name_scope("encoder"): w = tapec.Variable(1.0, name="w")`` is ``encoder/w:0``.

    Raises:
        ValueError: on entry, a name with characters that names do not have.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.", location=here())
        self._name = name
        self._tokens: list[Token[str]] = []

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    def __enter__(self) -> str:
        if self._name and not _NAME.fullmatch(self._name):
            raise ValueError(f"'{self._name}' is not a valid root scope name.", location=here())
        if not self._name:
            scope = ""
        elif self._name.endswith("/"):
            scope = self._name
        else:
            scope = f"{_SCOPE.get()}{self._name}/"
        self._tokens.append(_SCOPE.set(scope))
        return scope

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _SCOPE.reset(self._tokens.pop())


def get_current_name_scope() -> str:
    """The prefix that names of new Variables get, without its last slash."""
    return _SCOPE.get().rstrip("/")


@contextmanager
def device(device_name: Any) -> Iterator[None]:
    """Run a block on a device. There is one: the CPU.

    Args:
        device_name: such as ``"/CPU:0"``, ``"cpu"``, ``"/device:CPU:0"``; None or ``""`` for any.

    Raises:
        InvalidArgumentError: another device.
    """
    if device_name is not None and not callable(device_name):
        found = _DEVICE.fullmatch(str(device_name))
        kind, number = (found[1] or "CPU", found[2] or "0") if found else ("", "")
        if kind.upper() != "CPU" or number not in ("0", "*"):
            raise InvalidArgumentError(
                f"{device_name} unknown device.",
                location=here(),
                hint="tapec runs on /CPU:0, in several threads; leave tapec.device out",
            )
    yield


@contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Run a block after ``control_inputs``, as every program of tapec does: effects keep the order of the code.

    Args:
        control_inputs: tensors, not used; or a function, which is called first.
    """
    if callable(control_inputs):
        control_inputs()
    yield


@contextmanager
def init_scope() -> Iterator[None]:
    """Run a block eagerly, outside of the function that is being compiled and of all tapes.

    It runs once, when the function is traced: for making Variables and other lasting state.
    """
    with tracing(None):
        yield


def inside_function() -> bool:
    """Whether a function is being compiled here."""
    return current_trace() is not None


def scoped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs in a name scope."""

    def inside(*args: Any, **kwargs: Any) -> Any:
        with name_scope(name):
            return function(*args, **kwargs)

    return inside
