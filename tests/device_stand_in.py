"""Devices that are none: memory of NumPy's, kernels in the simulator, graphs as lists, streams as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tapec.ir.errors import TargetError
from tapec.runtime.cuda.launches import Launch, Memory
from tapec.runtime.cuda.simulator.memory import Cells
from tapec.runtime.cuda.simulator.simulator import Simulator
from tapec.runtime.cuda.text.module_text import Text

#: Addresses of one device; those of the next begin there.
_SPAN = 1 << 40


class StandIn:
    """See `tapec.runtime.cuda.device.driver.Driver`; ``room`` is how many bytes there are.

    Everything is done at once, so an order that is kept too little shows in nothing but in ``ordered``: pairs of
    streams, of which the second one waits for the first.
    """

    def __init__(self, room: int = 1 << 30, *, graphs: bool = True, number: int = 0) -> None:
        """Nothing is on it."""
        self.room = room
        self.graphs = graphs
        self.number = number
        self.stream = 100 + number
        self.memory: dict[int, Cells] = {}
        self.counts = dict.fromkeys(
            ("upload", "download", "copy", "launch", "record", "replay", "wait"), 0
        )
        self.ordered: list[tuple[int, int]] = []
        self.launched_in: list[int] = []
        self._next = number * _SPAN + (1 << 20)
        self._recording: list[Any] | None = None

    def load(self, text: Text) -> Mapping[str, Any]:
        """Simulators."""
        simulator = Simulator(text, {})
        return {name: (simulator, kernel) for name, kernel in text.kernels.items()}

    def allocate(self, size: int, stream: int) -> int:
        """Addresses far apart."""
        if size > self.room:
            raise MemoryError("the device has no memory left")
        self.room -= size
        address = self._next
        self._next += -(-max(size, 1) // 4096) * 4096
        self.memory[address] = Cells(np.full(max(size, 1), 0xFF, np.uint8), written=False)
        return address

    def free(self, address: int, stream: int) -> None:
        """Forget it."""
        self.room += self.memory.pop(address).data.size

    def _place(self, address: int) -> Memory:
        base = max(start for start in self.memory if start <= address)
        return Memory("at", base, address - base)

    def bytes_at(self, address: int, size: int) -> Any:
        """The memory itself, which then counts as written to."""
        place = self._place(address)
        cells = self.memory[place.number]
        end = place.offset + size
        assert cells.known is not None
        cells.known[place.offset : end] = True
        return cells.data[place.offset : end]

    def upload(self, address: int, array: Any, stream: int) -> None:
        """Copy."""
        self.counts["upload"] += 1
        self.bytes_at(address, array.nbytes)[:] = array.reshape(-1).view(np.uint8)

    def download(self, array: Any, address: int, stream: int) -> None:
        """Copy."""
        self.counts["download"] += 1
        place = self._place(address)
        data = self.memory[place.number].data[place.offset : place.offset + array.nbytes]
        array.reshape(-1).view(np.uint8)[:] = data

    def copy(self, to: int, address: int, size: int, stream: int) -> None:
        """Copy."""
        self.counts["copy"] += 1
        self.bytes_at(to, size)[:] = self.bytes_at(address, size)

    def order(self, first: int, then: int) -> None:
        """Note."""
        self.ordered.append((first, then))

    def wait(self, stream: int) -> None:
        """All is done."""
        self.counts["wait"] += 1

    def owner_of(self, address: int) -> int:
        """By the address."""
        if address < 1 << 20:
            raise TargetError(f"no CUDA device has memory at {address:#x}")
        return address // _SPAN

    def launch(self, kernel: Any, one: Launch, addresses: list[int], stream: int) -> None:
        """Run, or note."""
        if self._recording is not None:
            self._recording.append((kernel, one, addresses))
            return
        self.counts["launch"] += 1
        self.launched_in.append(stream)
        simulator, _ = kernel
        places = [self._place(address) for address in addresses]
        simulator.memory = {("at", p.number): self.memory[p.number] for p in places}
        simulator.launch(replace(one, memory=tuple(places)))

    def record(self, launches: Callable[[], None], stream: int) -> Any:
        """A list."""
        if not self.graphs:
            return None
        self.counts["record"] += 1
        recording: list[Any] = []
        self._recording = recording
        launches()
        self._recording = None
        return recording

    def replay(self, graph: Any, stream: int) -> None:
        """Each of them."""
        self.counts["replay"] += 1
        for kernel, one, addresses in graph:
            self.launch(kernel, one, addresses, stream)
