"""A program on a device: its memory, what is resident, and launches as one graph.

Each program has its arena, and room for arguments, for every set of sizes that it is called with. Arrays that it
updates live on the device from the first call on (`tapec.runtime.cuda.device.residents`); Variables that it only reads
are copied there when they have changed, and so are other arguments: at each call that brings others. Results are
`tapec.runtime.cuda.device.memory.DeviceArray`: a call returns when all is launched, and who reads a result waits for
it. Nothing is launched before all memory is there, so a call that fails for want of it has changed nothing.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import repeat
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from tapec.ir.types import DType
from tapec.runtime.cuda.device import dlpack
from tapec.runtime.cuda.device.driver import Driver
from tapec.runtime.cuda.device.memory import Allocation, DeviceArray, moved, uploaded
from tapec.runtime.cuda.device.residents import Resident, newest, resident
from tapec.runtime.cuda.launches import Host, Launch, Memory, recorded
from tapec.runtime.cuda.text.module_text import Text
from tapec.runtime.python_text.program import Arrays
from tapec.runtime.residence import AWAY, at_home
from tapec.runtime.symbols import value_of

#: Graphs that are kept for one set of sizes: each is for certain addresses.
_GRAPHS = 4
#: Bytes up to which it takes less to compare an argument with the one before than to copy it to the device.
_COMPARED = 1 << 14
#: Where buffers begin, in bytes: `tapec.passes.device.widen` counts on it. The driver's memory begins at multiples of
#: 256.
_ALIGNMENT = 16
#: The streams that were chosen, by the number of the device.
_CHOSEN: ContextVar[Mapping[int, int]] = ContextVar("tapec_cuda_streams", default={})  # noqa: B039


@contextlib.contextmanager
def in_stream(number: int, stream: int) -> Iterator[None]:
    """Have programs of a device put what they launch into a stream."""
    token = _CHOSEN.set({**_CHOSEN.get(), number: stream})
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def stream_of(driver: Driver) -> int:
    """The stream that was chosen for a device, or the usual one."""
    return _CHOSEN.get().get(driver.number, driver.stream)


class DeviceProgram:
    """What an `Executable` calls.

    Attributes:
        steady: see `Executable`.
    """

    def __init__(self, text: Text, driver: Driver) -> None:
        """Compile and load every kernel.

        Raises:
            MemoryError: the device has no room for the constants.
        """
        self.text = text
        self.driver = driver
        self.kernels = driver.load(text)
        self.arrays = Arrays(text.module)
        self.tables: list[Allocation] = []
        for table in text.tables:
            held = Allocation(driver, table.nbytes, driver.stream)
            driver.upload(held.address, table, driver.stream)
            self.tables.append(held)
        self._calls: dict[tuple[tuple[str, int], ...], _Call] = {}
        self.updated = {*self.arrays.signature.updates.values()}
        self.steady: set[int] = set()
        #: The same with indices of 64 bits, for sizes that take them.
        self._wide: DeviceProgram | None = None
        #: Held while a call puts its launches into a stream: its memory is that of all calls.
        self._lock = Lock()

    def __call__(self, *arrays: Any) -> list[Any] | None:
        """Run the program; what it updates stays on the device, and so do results, unless arrays are brought for them.

        Raises:
            TypeError: the arrays are not exactly of their types, without details.
            MemoryError: the device has no room; nothing was updated.
        """
        given, brought, sizes = self.arrays.hold(arrays)
        key = tuple(sorted(sizes.items()))
        with self._lock:
            call = self._calls.get(key)
            if call is None:
                call = self._calls[key] = _Call(self._for(sizes), sizes)
            found = call.run(given)
        if not brought:
            return found
        for array, result in zip(brought, found, strict=True):
            memory = result.memory
            memory.driver.download(array, memory.address, memory.stream)
        return None

    def _for(self, sizes: Mapping[str, int]) -> DeviceProgram:
        """The program whose indices are wide enough for these sizes."""
        text = self.text.of_sizes(sizes)
        if text is self.text:
            return self
        if self._wide is None:
            self._wide = DeviceProgram(text, self.driver)
            self._wide.steady = self.steady
        return self._wide


class _Call:
    """The program for certain sizes."""

    def __init__(self, program: DeviceProgram, sizes: Mapping[str, int]) -> None:
        self._program = program
        self._driver = program.driver
        self._sizes = sizes
        of = program.arrays.signature
        self._results = [
            (t.dtype.numpy, tuple(value_of(d, sizes) for d in t.shape)) for t in of.outputs
        ]
        #: Memory of results that nobody needs any more: the same addresses again, so the same graphs.
        self._pools: list[list[Allocation]] = [[] for _ in self._results]
        self._bytes = value_of(of.arena_bytes, sizes)
        self._arena: Allocation | None = None
        self._inputs: dict[int, Allocation] = {}
        #: Steady arrays that the rooms for arguments have a copy of. The reference is what keeps others from writing.
        self._copied: dict[int, Any] = {}
        #: The bytes of other arrays there, if these are few.
        self._bytes_there: dict[int, bytes] = {}
        self._launches = recorded(program.text, sizes)
        self._graphs: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        #: Addresses with which the program ran once, when there were graphs enough.
        self._seen: set[tuple[int, ...]] = set()
        self._bases: dict[str, list[int]] = {}
        self._stream = 0

    def run(self, given: Sequence[Any]) -> list[DeviceArray]:
        """Copy what is not there, launch, and name the results."""
        dlpack.look_through()
        self._stream = stream = stream_of(self._driver)
        results = [
            DeviceArray(self._result(pool, prod(shape) * dtype.itemsize), dtype, shape, pool)
            for pool, (dtype, shape) in zip(self._pools, self._results, strict=True)
        ]
        if self._arena is None:
            self._arena = self._room(self._bytes)
        updated = [resident(self._driver, given[i], stream) for i in sorted(self._program.updated)]
        self._bases = {
            "arena": [self._arena.at(stream)],
            "table": [table.at(stream) for table in self._program.tables],
            "result": [r.memory.at(stream) for r in results],
            "arg": [self._argument(i, array) for i, array in enumerate(given)],
        }
        graph = self._graph()
        if graph is not None:
            # Whatever happens, all of it was launched or nothing: the device has whole numbers.
            for one in updated:
                one.go_away()
            self._driver.replay(graph, stream)
        else:
            self._one_by_one(updated)
        return results

    def _result(self, pool: list[Allocation], size: int) -> Allocation:
        if not pool:
            return self._room(size)
        found = pool.pop()
        found.end_loan()
        return found

    def _room(self, size: int) -> Allocation:
        return Allocation(self._driver, size, self._stream)

    def _argument(self, i: int, array: Any) -> int:
        """Where an argument is on the device, in the order of the stream."""
        driver, stream = self._driver, self._stream
        if i in self._program.updated:
            return resident(driver, array, stream).take(array, stream)
        if isinstance(array, DeviceArray) and array.memory.driver is driver:
            address = array.memory.at(stream)
            if address % _ALIGNMENT == 0:
                return address
            # Others' memory may begin anywhere.
            inside = self._input(i, array.nbytes)
            self._forget(i)
            driver.copy(inside, address, array.nbytes, stream)
            return inside
        if isinstance(array, DeviceArray):
            return self._from_host(i, array.fetch())
        held = newest(driver, array)
        if held is not None:
            self._copied.pop(i, None)
            return held.memory.at(stream)
        return self._from_host(i, at_home(array))

    def _from_host(self, i: int, array: Any) -> int:
        """Where the program's own copy of an argument is, which is made if there is none."""
        address = self._input(i, array.nbytes)
        if self._copied.get(i) is array:
            return address
        found = array.tobytes() if array.nbytes <= _COMPARED else None
        if found is not None and self._bytes_there.get(i) == found:
            return address
        self._forget(i)
        self._driver.upload(address, array, self._stream)
        if i in self._program.steady:
            self._copied[i] = array
        if found is not None:
            self._bytes_there[i] = found
        return address

    def _forget(self, i: int) -> None:
        """Something else is about to be in the room for an argument."""
        self._copied.pop(i, None)
        self._bytes_there.pop(i, None)

    def _input(self, i: int, size: int) -> int:
        """The program's own room for an argument."""
        if i not in self._inputs:
            self._inputs[i] = self._room(size)
        return self._inputs[i].at(self._stream)

    def _graph(self) -> Any:
        """All launches for these addresses as one; None where there is no graph, or none that is worth it."""
        launches = self._launches
        if launches is None:
            return None
        key = tuple(a for kind in ("arg", "result") for a in self._bases[kind])
        if key in self._graphs:
            self._graphs.move_to_end(key)
        elif len(self._graphs) < _GRAPHS or key in self._seen:
            self._seen.discard(key)
            self._graphs[key] = self._driver.record(lambda: self._each(launches), self._stream)
            if len(self._graphs) > _GRAPHS:
                self._graphs.popitem(last=False)
        else:
            # Recording takes longer than launching: what comes once is not worth it.
            if len(self._seen) > _GRAPHS:
                self._seen.clear()
            self._seen.add(key)
            return None
        return self._graphs[key]

    def _one_by_one(self, updated: Sequence[Resident]) -> None:
        """Launch every kernel by itself; where that ends in the middle, what was updated is what it was before.

        A kernel may turn out to be none that the device launches when those before it are under way, and Ctrl-C comes
        between any two. So a copy is made first of numbers that are on the device alone.
        """
        news = {one.key: one.fetch for one in updated}
        copies = {one: copy for one in updated if (copy := one.copied(self._stream)) is not None}
        _written = [one.memory for one in copies]  # so that nothing is given back in between
        # Either end is one call of C, in the middle of which no signal handler runs.
        back = map(setattr, copies, repeat("memory"), copies.values())
        try:
            if self._launches is None:
                Host(self._program.text, self, self._sizes).run()
            else:
                self._each(self._launches)
        except BaseException:
            list(back)
            raise
        AWAY.update(news)

    def _each(self, launches: Sequence[Launch]) -> None:
        for one in launches:
            self.launch(one)

    # ---- the device of `Host`

    def launch(self, one: Launch) -> None:
        """Launch a kernel."""
        kernel = self._program.kernels[one.kernel.name]
        places = [self._address(place) for place in one.memory]
        self._driver.launch(kernel, one, places, self._stream)

    def read(self, place: Memory, dtype: DType) -> Any:
        """Wait for a number."""
        array = np.empty(1, dtype.numpy)
        self._driver.download(array, self._address(place), self._stream)
        return array[0]

    def write(self, place: Memory, dtype: DType, value: Any) -> None:
        """Put a number."""
        array = np.full(1, value, dtype.numpy)
        self._driver.upload(self._address(place), array, self._stream)

    def _address(self, place: Memory) -> int:
        return self._bases[place.kind][place.number] + place.offset


def transferred(array: Any, driver: Driver) -> DeviceArray:
    """An array on a device, in the stream that was chosen for it: the same one if it is there already.

    Raises:
        MemoryError: the device has no room.
    """
    stream = stream_of(driver)
    if isinstance(array, DeviceArray):
        return moved(array, driver, stream)
    return uploaded(driver, at_home(array), stream)
