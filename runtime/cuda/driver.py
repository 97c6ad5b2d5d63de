"""A device, as far as programs need one: memory, copies, launches, and launches recorded as a graph.

Everything that needs NVIDIA's driver is here, behind the few methods of `Driver`; tests put a stand-in in its place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from tapec.ir.errors import TargetError
from tapec.runtime.cuda.assembly import REMEDY, Compiler
from tapec.runtime.cuda.launches import Launch
from tapec.runtime.cuda.text import Text

#: The oldest driver that takes what the toolkit makes: that of CUDA 13.0.
OLDEST = 13000


class Driver(Protocol):
    """A device. Addresses are numbers; everything happens in order, and not before somebody waits."""

    def load(self, text: Text) -> Mapping[str, Any]:
        """The kernels of a text, ready to be launched, by name."""

    def allocate(self, size: int) -> int:
        """The address of so many bytes.

        Raises:
            MemoryError: the device has no such room.
        """

    def free(self, address: int) -> None:
        """Give memory back, once all that was launched is done with it."""

    def upload(self, address: int, array: Any) -> None:
        """Copy a host's array to the device; it may be changed at once."""

    def download(self, array: Any, address: int) -> None:
        """Wait, and copy from the device."""

    def launch(self, kernel: Any, one: Launch, addresses: list[int]) -> None:
        """Have a kernel run."""

    def record(self, launches: Callable[[], None]) -> Any:
        """What some launches are as one graph; None where there are no graphs."""

    def replay(self, graph: Any) -> None:
        """Launch a graph."""


class CudaDriver:
    """A device through cuda.core and cuda.bindings, which numba-cuda brings along."""

    def __init__(self, number: int) -> None:
        """Take device number ``number``.

        Raises:
            TargetError: there is no driver, an old one, or no such device.
        """
        try:
            from cuda.bindings import driver
            from cuda.core import Device
        except ImportError as error:
            message = f"the cuda target needs numba-cuda, which is not installed ({error})"
            raise TargetError(message, hint=REMEDY) from error
        self._api = driver
        try:
            (status,) = driver.cuInit(0)
            version = self._checked(driver.cuDriverGetVersion()) if not int(status) else 0
        except RuntimeError as error:
            raise TargetError(_NO_DRIVER, hint=_INSTALL) from error
        if int(status):
            raise TargetError(f"{_NO_DRIVER} ({status.name})", hint=_INSTALL)
        if version < OLDEST:
            raise TargetError(
                f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}, and this needs 13.0",
                hint="install a driver from 580 on",
            )
        count = self._checked(driver.cuDeviceGetCount())
        if number >= count:
            raise TargetError(f"there is no CUDA device {number}; there are {count}")
        self._device = Device(number)
        self._device.set_current()
        self._stream = self._device.create_stream()
        self._buffers: dict[int, Any] = {}
        major, minor = self._device.compute_capability
        self.architecture = f"sm_{major}{minor}"

    def _checked(self, answer: Any) -> Any:
        """What a function of the driver's gives.

        Raises:
            MemoryError: there is no memory.
            RuntimeError: it failed otherwise.
        """
        status, *found = answer
        if int(status):
            if status == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                raise MemoryError("the device has no memory left")
            raise RuntimeError(f"the CUDA driver failed: {status.name}")
        return found[0] if found else None

    def load(self, text: Text) -> Mapping[str, Any]:
        """Compile every kernel for this device."""
        from cuda.core import ObjectCode

        compiled = Compiler(text, self.architecture).all()
        return {
            name: ObjectCode.from_cubin(one.cubin()[0]).get_kernel(one.entry)
            for name, one in compiled.items()
        }

    def allocate(self, size: int) -> int:
        """Memory in the order of the stream."""
        self._device.set_current()
        address = int(
            self._checked(self._api.cuMemAllocAsync(max(size, 1), int(self._stream.handle)))
        )
        return address

    def free(self, address: int) -> None:
        """In the order of the stream."""
        self._checked(self._api.cuMemFreeAsync(address, int(self._stream.handle)))

    def upload(self, address: int, array: Any) -> None:
        """Pageable memory is staged before the call returns."""
        if array.nbytes:
            handle = int(self._stream.handle)
            self._checked(
                self._api.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, handle)
            )

    def download(self, array: Any, address: int) -> None:
        """Waits for the stream."""
        if array.nbytes:
            handle = int(self._stream.handle)
            self._checked(
                self._api.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, handle)
            )
        self._stream.sync()

    def launch(self, kernel: Any, one: Launch, addresses: list[int]) -> None:
        """Into the stream, or into the graph that is being recorded."""
        from cuda.core import LaunchConfig, launch

        config = LaunchConfig(
            grid=one.blocks, block=one.threads, shmem_size=one.kernel.shared or None
        )
        sizes = [_SIZES[code](n) for n, (_, code) in zip(one.sizes, one.kernel.sizes, strict=True)]
        launch(self._target, config, kernel, *map(ctypes.c_uint64, addresses), *sizes)

    @property
    def _target(self) -> Any:
        return self._recording or self._stream

    _recording: Any = None

    def record(self, launches: Callable[[], None]) -> Any:
        """Capture the launches in a graph."""
        builder = self._stream.create_graph_builder()
        builder.begin_building()
        self._recording = builder
        try:
            launches()
        finally:
            self._recording = None
            builder.end_building()
        graph = builder.complete()
        graph.upload(self._stream)
        return graph

    def replay(self, graph: Any) -> None:
        """Into the stream."""
        graph.launch(self._stream)


_SIZES = {"u32": ctypes.c_uint32, "u64": ctypes.c_uint64}
_NO_DRIVER = "there is no CUDA driver on this machine"
_INSTALL = 'install NVIDIA\'s driver (580 or later), or use engine="simulator"'


@cache
def device(number: int = 0) -> Driver:
    """The device of a number, opened once."""
    return CudaDriver(number)
