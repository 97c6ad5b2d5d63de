"""NVIDIA's driver as cuda.bindings and cuda.core show it, with memory of the host's and nothing behind it."""

from __future__ import annotations

import ctypes
import sys
from enum import IntEnum
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tapec.runtime.cuda.device import driver


class CUresult(IntEnum):
    """Those that matter."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class DriverStandIn(ModuleType):
    """``cuda.bindings.driver``; notes what is called.

    Attributes:
        calls: names of functions, and what they were given.
        failing: names of functions that fail from now on, and how.
        pinned: addresses of the host's that the driver knows.
        capability: of each device.
    """

    CUresult = CUresult
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUpointer_attribute = SimpleNamespace(
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE=2, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9
    )

    def __init__(self, version: int, status: int, devices: int, room: int) -> None:
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[Any, ...]] = []
        self._version, self._status = version, status
        self._devices, self._room = devices, room
        self._memory: dict[int, Any] = {}
        self.failing: dict[str, CUresult] = {}
        self.pinned: set[int] = set()
        self.capability = (9, 0)

    def __getattribute__(self, name: str) -> Any:
        """A function that fails if it is told to."""
        if name.startswith("cu") and name in self.failing:
            return lambda *_: (self.failing[name], None)
        return super().__getattribute__(name)

    def cuPointerGetAttribute(self, attribute: int, address: int) -> Any:
        """2: host memory that is pinned."""
        return (CUresult(0), 1) if address in self.pinned else (CUresult(1), None)

    def cuInit(self, flags: int) -> Any:
        """Whether there is a driver."""
        return (CUresult(self._status),)

    def cuDriverGetVersion(self) -> Any:
        """Of CUDA."""
        return CUresult(0), self._version

    def cuDeviceGetCount(self) -> Any:
        """How many."""
        return CUresult(0), self._devices

    def cuMemAllocAsync(self, size: int, stream: int) -> Any:
        """Memory of the host's."""
        self.calls.append(("cuMemAllocAsync", size, stream))
        if size > self._room:
            return CUresult(2), None
        memory = ctypes.create_string_buffer(size)
        self._memory[ctypes.addressof(memory)] = memory
        return CUresult(0), ctypes.addressof(memory)

    def cuMemFreeAsync(self, address: int, stream: int) -> Any:
        """Forget it."""
        self.calls.append(("cuMemFreeAsync", address, stream))
        del self._memory[address]
        return (CUresult(0),)

    def _copy(self, name: str, to: int, address: int, size: int, stream: int) -> Any:
        self.calls.append((name, to, address, size, stream))
        ctypes.memmove(to, address, size)
        return (CUresult(0),)

    def cuMemcpyHtoDAsync(self, *args: int) -> Any:
        """Copy."""
        return self._copy("cuMemcpyHtoDAsync", *args)

    def cuMemcpyDtoHAsync(self, *args: int) -> Any:
        """Copy."""
        return self._copy("cuMemcpyDtoHAsync", *args)

    def cuEventCreate(self, flags: int) -> Any:
        """A number."""
        self.calls.append(("cuEventCreate", flags))
        return CUresult(0), 1

    def __getattr__(self, name: str) -> Any:
        """Whatever gives nothing."""
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> Any:
            self.calls.append((name, *args))
            return (CUresult(0),)

        return call


class _Error(Exception):
    """``cuda.core``'s own, which it does not name."""


class _Device:
    """``cuda.core.Device``, of a driver."""

    def __init__(self, api: DriverStandIn, number: int) -> None:
        self.number = number
        self.compute_capability = api.capability
        self._api = api

    def set_current(self) -> None:
        """Nothing else is."""
        status = self._api.failing.get("set_current")
        if status is not None:
            raise _Error(f"{status.name}: as the driver describes it")

    def create_stream(self) -> Any:
        """Number 3."""
        return SimpleNamespace(handle=3)


def install(
    monkeypatch: pytest.MonkeyPatch,
    *,
    version: int = 13000,
    status: int = 0,
    devices: int = 1,
    room: int = 1 << 20,
) -> DriverStandIn:
    """Let this be the driver, with no device opened yet."""
    api = DriverStandIn(version, status, devices, room)
    core: Any = ModuleType("cuda.core")
    core.Device = partial(_Device, api)
    bindings: Any = ModuleType("cuda.bindings")
    bindings.driver = api
    for name, module in (
        ("cuda", ModuleType("cuda")),
        ("cuda.bindings", bindings),
        ("cuda.bindings.driver", api),
        ("cuda.core", core),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(driver, "OPENED", {})
    return api
