"""A program on a device: its memory, what is resident, and launches as one graph.

Each program has its arena, and buffers for arguments and results, for every set of sizes that it is called with. Arrays
that it updates live on the device from the first call on (`tapec.runtime.residence`); other arguments are copied
there at each call, results from there. Nothing is launched before all memory is there, so a call that fails for want
of it has changed nothing.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapec.ir.dims import DimLike, substitute
from tapec.ir.types import DType
from tapec.runtime.cuda.driver import Driver
from tapec.runtime.cuda.launches import Host, Launch, Memory, recorded
from tapec.runtime.cuda.text import Text
from tapec.runtime.python_text.program import Arrays
from tapec.runtime.residence import AWAY

#: Graphs that are kept for one set of sizes: each is for certain arrays.
_GRAPHS = 4


class _Resident:
    """The copy on the device of an array of the host's."""

    def __init__(self, driver: Driver, array: Any) -> None:
        self.driver = driver
        self.address = driver.allocate(array.nbytes)
        self._array = weakref.ref(array, lambda _: self._leave())
        self._key = id(array)

    def _leave(self) -> None:
        AWAY.pop(self._key, None)
        _RESIDENTS.pop((id(self.driver), self._key), None)
        self.driver.free(self.address)

    def take(self, array: Any) -> int:
        """The address of the newest numbers, which the device then has."""
        if self._key not in AWAY:
            self.driver.upload(self.address, array)
        return self.address

    def go_away(self) -> None:
        """The device has changed the numbers."""
        AWAY[self._key] = self.fetch

    def fetch(self) -> None:
        """Give the host the newest numbers."""
        array = self._array()
        if array is not None:
            self.driver.download(array, self.address)
        AWAY.pop(self._key, None)


_RESIDENTS: dict[tuple[int, int], _Resident] = {}


def _resident(driver: Driver, array: Any) -> _Resident:
    key = id(driver), id(array)
    found = _RESIDENTS.get(key)
    if found is None:
        found = _RESIDENTS[key] = _Resident(driver, array)
    return found


class DeviceProgram:
    """What an `Executable` calls."""

    def __init__(self, text: Text, driver: Driver) -> None:
        """Compile and load every kernel."""
        self._text = text
        self._driver = driver
        self._kernels = driver.load(text)
        self._arrays = Arrays(text.module)
        self._tables: list[int] = []
        for table in text.tables:
            address = driver.allocate(table.nbytes)
            driver.upload(address, table)
            self._tables.append(address)
        self._calls: dict[tuple[tuple[str, int], ...], _Call] = {}
        self._updated = {*self._arrays.signature.updates.values()}

    def __call__(self, *arrays: Any) -> list[Any] | None:
        """Run the program; what it updates stays on the device.

        Raises:
            TypeError: the arrays are not exactly of their types, without details.
            MemoryError: the device has no room; nothing was updated.
        """
        given, results, sizes, brought = self._arrays.take(arrays)
        numbers = {name: int(str(size)) for name, size in sizes.items()}
        key = tuple(sorted(numbers.items()))
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call(self, numbers, given, results)
        call.run(given, results)
        return None if brought else list(results)


class _Call:
    """The program for certain sizes."""

    def __init__(
        self, program: DeviceProgram, sizes: Mapping[str, int], given: Any, results: Any
    ) -> None:
        self._program = program
        self._driver = driver = program._driver
        self._sizes = sizes
        updated = program._updated
        self._inputs = {
            i: driver.allocate(a.nbytes) for i, a in enumerate(given) if i not in updated
        }
        self._results = [driver.allocate(a.nbytes) for a in results]
        arena = program._arrays.signature.arena_bytes
        self._arena = driver.allocate(_number(arena, sizes))
        self._launches = recorded(program._text, sizes)
        self._graphs: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._given: list[int] = []

    def run(self, given: Any, results: Any) -> None:
        """Copy what is not there, launch, and copy the results."""
        driver, updated = self._driver, self._program._updated
        residents = {i: _resident(driver, given[i]) for i in updated}
        self._given = []
        for i, array in enumerate(given):
            held = _RESIDENTS.get((id(driver), id(array))) if id(array) in AWAY else None
            if i in residents:
                self._given.append(residents[i].take(array))
            elif held is not None:
                self._given.append(held.address)
            else:
                driver.upload(self._inputs[i], array)
                self._given.append(self._inputs[i])
        for resident in residents.values():
            resident.go_away()
        self._launch_all()
        for array, address in zip(results, self._results, strict=True):
            driver.download(array, address)

    def _launch_all(self) -> None:
        if self._launches is None:
            Host(self._program._text, self, self._sizes).run()
            return
        launches = self._launches
        key = tuple(self._given)
        if key in self._graphs:
            self._graphs.move_to_end(key)
        else:
            self._graphs[key] = self._driver.record(lambda: self._each(launches))
            if len(self._graphs) > _GRAPHS:
                self._graphs.popitem(last=False)
        graph = self._graphs[key]
        if graph is None:
            self._each(launches)
        else:
            self._driver.replay(graph)

    def _each(self, launches: Sequence[Launch]) -> None:
        for one in launches:
            self.launch(one)

    # ---- the device of `Host`

    def launch(self, one: Launch) -> None:
        """Launch a kernel."""
        kernel = self._program._kernels[one.kernel.name]
        self._driver.launch(kernel, one, [self._address(place) for place in one.memory])

    def read(self, place: Memory, dtype: DType) -> Any:
        """Wait for a number."""
        array = np.empty(1, dtype.numpy)
        self._driver.download(array, self._address(place))
        return array[0]

    def write(self, place: Memory, dtype: DType, value: Any) -> None:
        """Put a number."""
        self._driver.upload(self._address(place), np.full(1, value, dtype.numpy))

    def _address(self, place: Memory) -> int:
        bases = {"arg": self._given, "result": self._results, "table": self._program._tables}
        base = self._arena if place.kind == "arena" else bases[place.kind][place.number]
        return base + place.offset


def _number(dim: DimLike, sizes: Mapping[str, int]) -> int:
    found = substitute(dim, sizes)
    assert isinstance(found, int)
    return found
