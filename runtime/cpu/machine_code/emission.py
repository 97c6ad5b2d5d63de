"""Writing the code of several LLVM modules side by side.

llvmlite holds one lock while it is in LLVM, so its own functions never run at once. LLVM needs none where each thread
has modules of its own contexts and a target machine of its own, as here; what a module becomes does not depend on the
others. So the one function that takes long is called without the lock, and the short ones with it.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from llvmlite.binding import ffi

_Todo = SimpleQueue["tuple[int, Any] | None"]
_T = TypeVar("_T")

#: Bytes of stack that LLVM gets at least; it goes down into expressions by calling itself.
_STACK = 8 << 20


def on_deep_stack(task: Callable[[], _T]) -> _T:
    """What a task returns or raises; it has a thread of its own where the program gives its threads small stacks."""
    size = threading.stack_size()
    threading.stack_size(size)  # to read it is to set it back
    if not 0 < size < _STACK or threading.current_thread() is threading.main_thread():
        return task()
    found: list[_T] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found.append(context.run(task))
        except BaseException as error:  # it is the caller's
            errors.append(error)

    with _deep_stacks():
        thread = Thread(target=run, daemon=True)
        thread.start()
        thread.join()  # in here: it sets the size, too
    if errors:
        raise errors[0]
    return found[0]


@contextlib.contextmanager
def _deep_stacks() -> Iterator[None]:
    """Threads that begin meanwhile have stacks that are large enough, whatever the program set for its own."""
    before = threading.stack_size(_STACK)
    try:
        yield
    finally:
        threading.stack_size(before)


def emit_all(machines: Sequence[Any], modules: Iterable[Any]) -> list[bytes]:
    """Return the objects of modules, each of its own context; one thread for each target machine writes them.

    The calling thread makes the modules; it writes code, too, when all are there, or at once if it is alone. So it is
    where the system has no more threads to give.

    Raises:
        RuntimeError: LLVM has no code for a module.
        MemoryError: there is no room for it.
    """
    todo: _Todo = SimpleQueue()
    found: dict[int, bytes] = {}
    own, *helpers = (_Emitter(machine, todo, found) for machine in machines)
    others: list[_Emitter] = []
    count = 0
    try:
        with contextlib.suppress(RuntimeError), _deep_stacks():
            for helper in helpers:
                helper.start()
                others.append(helper)
        for count, module in enumerate(modules, 1):
            todo.put((count, module))
            if not others:
                own.step()
    finally:
        for _ in machines:
            todo.put(None)
        own.run()
        for other in others:
            other.join()
    for emitter in (own, *others):
        if emitter.error is not None:
            raise emitter.error
    return [found[number] for number in range(1, count + 1)]


class _Emitter(Thread):
    """Writes code for modules until None comes."""

    def __init__(self, machine: Any, todo: _Todo, found: dict[int, bytes]) -> None:
        super().__init__(daemon=True)
        self._machine, self._todo, self._found = machine, todo, found
        self.error: Exception | None = None

    def run(self) -> None:
        """Write code as long as there are modules."""
        while self.step():
            pass

    def step(self) -> bool:
        """Write the code of the next module, or return false if there is none."""
        following = self._todo.get()
        if following is None:
            return False
        number, module = following
        try:
            self._found[number] = emit(self._machine, module)
        except Exception as error:  # it is the caller's
            self.error = error
        return True


def emit(machine: Any, module: Any) -> bytes:
    """The object of a module; as ``machine.emit_object(module)``, without llvmlite's lock."""
    locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    # What the lock is wrapped around; private, so it may be gone.
    write = getattr(locked, "_cfn", locked)
    with ffi.OutputString() as message:
        buffer = write(machine, module, 1, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        start = ffi.lib.LLVMPY_GetBufferStart(buffer)
        return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
