"""The call of a user's program that a command waits for, wherever in the program it is made."""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tapec.recording import program_listeners, refusal_listeners

if TYPE_CHECKING:
    from tapec.compiled.call import Call
    from tapec.compiled.function import CompiledFunction
    from tapec.compiled.program import Program


class Caught(BaseException):
    """Ends a user's program; not an Exception, which it might catch."""


class Seen(NamedTuple):
    """A call of a compiled function, with the program that was made for it."""

    function: CompiledFunction[Any, Any]
    call: Call
    program: Program


class Refused(NamedTuple):
    """A compiled function that could not be traced."""

    function: CompiledFunction[Any, Any]
    program: Program | None
    """That of its first call, if only the Variables that each call makes stand against it."""


def is_called(function: CompiledFunction[Any, Any], name: str) -> bool:
    """Whether a function has this name, or this path of names."""
    code = getattr(function.python_function, "__code__", None)
    return code is not None and (
        name == code.co_qualname or name.rpartition(".")[2] == code.co_name
    )


def is_in(function: CompiledFunction[Any, Any], file: Path) -> bool:
    """Whether a function is written in a file."""
    return Path(function.python_function.__code__.co_filename).resolve() == file.resolve()


@contextlib.contextmanager
def refusals(file: Path, name: str) -> Iterator[list[Refused]]:
    """Hear, inside, of the functions of that name in a file that cannot be traced."""
    heard: list[Refused] = []

    def hear(function: CompiledFunction[Any, Any], program: Program | None) -> None:
        if is_called(function, name) and is_in(function, file):
            heard.append(Refused(function, program))

    refusal_listeners.append(hear)
    try:
        yield heard
    finally:
        refusal_listeners.remove(hear)


class Catch:
    """Waits for the first call of a function, and ends the program there.

    Attributes:
        found: the call; None if there was none.
        elsewhere: the first call of a function of that name in another file, which does not end the program.
    """

    def __init__(self, file: Path, name: str) -> None:
        """For the function of that name, or of that path of names, in a file."""
        self.found: Seen | None = None
        self.elsewhere: Seen | None = None
        self._file = file.resolve()
        self._name = name
        self._process = os.getpid()

    def __call__(self, function: CompiledFunction[Any, Any], call: Call, program: Program) -> None:
        """Hear of a program that was made for a call.

        Raises:
            Caught: it is the one.
        """
        # A worker that is forked has nobody to tell; one that ended would be started again.
        if os.getpid() != self._process or not is_called(function, self._name):
            return
        seen = Seen(function, call, program)
        if not is_in(function, self._file):
            self.elsewhere = self.elsewhere or seen
            return
        self.found = self.found or seen
        if threading.current_thread() is not threading.main_thread():
            _thread.interrupt_main()
        raise Caught

    @contextlib.contextmanager
    def listening(self) -> Iterator[Catch]:
        """Hear of programs inside; a thread that is ended says nothing."""
        hook = threading.excepthook

        def quiet(args: threading.ExceptHookArgs) -> None:
            if args.exc_type is not Caught:
                hook(args)

        program_listeners.append(self)
        threading.excepthook = quiet
        try:
            yield self
        finally:
            program_listeners.remove(self)
            threading.excepthook = hook
