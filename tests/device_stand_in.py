"""A device that is none: memory of NumPy's, kernels in the simulator, graphs as lists of launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tapec.runtime.cuda.launches import Launch, Memory
from tapec.runtime.cuda.simulator import Cells, Simulator
from tapec.runtime.cuda.text import Text


class StandIn:
    """See `tapec.runtime.cuda.driver.Driver`; ``room`` is how many bytes there are."""

    def __init__(self, room: int = 1 << 30, *, graphs: bool = True) -> None:
        """Nothing is on it."""
        self.room = room
        self.graphs = graphs
        self.memory: dict[int, Cells] = {}
        self.counts = {"upload": 0, "download": 0, "launch": 0, "record": 0, "replay": 0}
        self._next = 1 << 20
        self._recording: list[Any] | None = None
        self._texts: list[tuple[Text, Simulator]] = []

    def load(self, text: Text) -> Mapping[str, Any]:
        """Simulators."""
        simulator = Simulator(text, {})
        return {name: (simulator, kernel) for name, kernel in text.kernels.items()}

    def allocate(self, size: int) -> int:
        """Addresses far apart."""
        if size > self.room:
            raise MemoryError("the device has no memory left")
        self.room -= size
        address = self._next
        self._next += -(-max(size, 1) // 4096) * 4096
        self.memory[address] = Cells(np.full(max(size, 1), 0xFF, np.uint8), written=False)
        return address

    def free(self, address: int) -> None:
        """Forget it."""
        self.room += self.memory.pop(address).data.size

    def _place(self, address: int) -> Memory:
        base = max(start for start in self.memory if start <= address)
        return Memory("at", base, address - base)

    def upload(self, address: int, array: Any) -> None:
        """Copy."""
        self.counts["upload"] += 1
        place = self._place(address)
        cells = self.memory[place.number]
        end = place.offset + array.nbytes
        cells.data[place.offset : end] = array.reshape(-1).view(np.uint8)
        assert cells.known is not None
        cells.known[place.offset : end] = True

    def download(self, array: Any, address: int) -> None:
        """Copy."""
        self.counts["download"] += 1
        place = self._place(address)
        data = self.memory[place.number].data[place.offset : place.offset + array.nbytes]
        array.reshape(-1).view(np.uint8)[:] = data

    def launch(self, kernel: Any, one: Launch, addresses: list[int]) -> None:
        """Run, or note."""
        if self._recording is not None:
            self._recording.append((kernel, one, addresses))
            return
        self.counts["launch"] += 1
        simulator, _ = kernel
        places = [self._place(address) for address in addresses]
        simulator.memory = {("at", p.number): self.memory[p.number] for p in places}
        simulator.launch(replace(one, memory=tuple(places)))

    def record(self, launches: Callable[[], None]) -> Any:
        """A list."""
        if not self.graphs:
            return None
        self.counts["record"] += 1
        recording: list[Any] = []
        self._recording = recording
        launches()
        self._recording = None
        return recording

    def replay(self, graph: Any) -> None:
        """Each of them."""
        self.counts["replay"] += 1
        for kernel, one, addresses in graph:
            self.launch(kernel, one, addresses)
