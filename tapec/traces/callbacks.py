"""Functions of Python that programs call: each at an address, for native code, with a memory of what it gave.

What it raises cannot pass through native code. It is kept, the program goes on to its end without further calls and
updates nothing, and whoever ran it raises what was kept.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence

import numpy as np

from tapec.ir.ops.host import HOST_FUNCTIONS, RAISED
from tapec.ir.types import TensorType
from tapec.recording import tracing
from tapec.runtime.interrupts import called_back
from tapec.tensor import Array

#: A function of arrays; it gives as many arrays as were announced, of the types announced.
Host = Callable[..., Sequence[Array] | None]
_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class _Run(threading.local):
    """What happened in the calls of one thread."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        #: Whether functions are not called, but give again what they gave.
        self.replays = False


_run = _Run()


class Callback:
    """A function that a program calls with arrays.

    Attributes:
        address: of the C function ``int32 (void **memory, int64 *extents)``: the memory of operands and results, and
            the extents of all their axes; it gives 0, or `RAISED`.
        given: what it gave in this thread since `forget`, if `remembers`.
    """

    def __init__(
        self, host: Host, operands: Sequence[TensorType], results: Sequence[TensorType] = ()
    ) -> None:
        """``operands`` and ``results`` say what it is called with and gives; their dims may be symbols."""
        self._host = host
        self._types = (*operands, *results)
        self._count = len(operands)
        self._local = threading.local()
        self.remembers = False
        self._native = _SIGNATURE(self._called)
        self.address = ctypes.cast(self._native, ctypes.c_void_p).value or 0
        HOST_FUNCTIONS[self.address] = self

    @property
    def given(self) -> list[Sequence[Array]]:
        """What it gave, call by call."""
        if not hasattr(self._local, "given"):
            self._local.given = []
        found: list[Sequence[Array]] = self._local.given
        return found

    def forget(self) -> None:
        """Forget what it gave."""
        self._local.given = []

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        """What the function gives for arrays of its own."""
        with tracing(None):  # no tape that is open around the program hears what goes on inside
            results = self._host(*arrays) or ()
        if self.remembers:
            self.given.append(results)
        return results

    def meaning(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """What the evaluator gets: what the function gave in the same place, while it is repeated."""
        if _run.replays and self.given:
            return self.given.pop(0)
        return self(*(np.array(a) for a in arrays))

    def _called(self, memory: int, extents: int) -> int:
        """Be called by native code; never raise."""
        try:
            arrays = self._arrays(memory, extents)
            with called_back():
                results = self(*(a.copy() for a in arrays[: self._count]))
            for place, result in zip(arrays[self._count :], results, strict=True):
                place[...] = result
        except BaseException as error:
            _run.failure = error
            return RAISED
        return 0

    def _arrays(self, memory: int, extents: int) -> list[Array]:
        """Operands and results where they are."""
        found: list[Array] = []
        axis = 0
        for i, type in enumerate(self._types):
            sizes = (ctypes.c_int64 * type.rank).from_address(extents + 8 * axis)
            axis += type.rank + type.dtype.is_complex  # whose parts lie along one more axis
            shape, dtype = tuple(sizes), type.dtype.numpy
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            place = ctypes.c_void_p.from_address(memory + 8 * i).value
            if size and place is not None:
                held = (ctypes.c_char * size).from_address(place)
                found.append(np.frombuffer(memoryview(held), dtype).reshape(shape))
            else:
                found.append(np.empty(shape, dtype))
        return found


def raised() -> BaseException:
    """What the latest call in this thread raised."""
    failure, _run.failure = _run.failure, None
    return failure if failure is not None else RuntimeError("a callback failed")


class replaying:
    """Inside of the block, functions give again what they gave, in order, rather than being called."""

    def __enter__(self) -> None:
        _run.replays = True

    def __exit__(self, *error: object) -> None:
        _run.replays = False
