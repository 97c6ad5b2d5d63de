"""The call of a user's program that a command waits for, wherever in the program it is made."""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tapec.recording import program_listeners

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
        code = getattr(function.python_function, "__code__", None)
        # A worker that is forked has nobody to tell; one that ended would be started again.
        if code is None or os.getpid() != self._process:
            return
        if self._name != code.co_qualname and self._name.rpartition(".")[2] != code.co_name:
            return
        seen = Seen(function, call, program)
        if Path(code.co_filename).resolve() != self._file:
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
