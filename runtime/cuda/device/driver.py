"""A device, as far as programs need one: memory, copies, streams, launches, and launches recorded as a graph.

Everything that needs NVIDIA's driver is here, behind the few methods of `Driver`; tests put a stand-in in its place.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import warnings
from collections.abc import Callable, Mapping
from threading import local
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tapec.ir.errors import InternalError, TapecError, TargetError
from tapec.runtime.cuda.launches import Launch
from tapec.runtime.cuda.machine_code.assembly import REMEDY, Compiler
from tapec.runtime.cuda.text.module_text import Text

#: The oldest driver that takes what the toolkit makes: that of CUDA 13.0.
OLDEST = 13000
#: The oldest device that has all that kernels use: copies in the background, products of bfloat16.
OLDEST_DEVICE = (8, 0)

P = ParamSpec("P")
R = TypeVar("R")


class StreamHandle(int):
    """The number that the driver knows a stream by, which keeps whose that is: when it is gone, another may have it."""

    owner: Any

    def __new__(cls, number: int, owner: Any) -> StreamHandle:
        """Of a stream, with who destroys it when nobody refers to it any more; 0 and 1 are the same one."""
        made = super().__new__(cls, number or 1)
        made.owner = owner
        return made


class Driver(Protocol):
    """A device. Addresses are numbers. What is put into a stream happens in order, and not before somebody waits.

    Every method raises InternalError where the device fails, also for what was put into a stream before.

    Attributes:
        number: which device it is.
        stream: the stream of programs that are told no other.
    """

    number: int
    stream: int

    def load(self, text: Text) -> Mapping[str, Any]:
        """The kernels of a text, ready to be launched, by name."""

    def allocate(self, size: int, stream: int) -> int:
        """The address of so many bytes, for what is put into the stream from now on.

        Raises:
            MemoryError: the device has no such room.
        """

    def free(self, address: int, stream: int) -> None:
        """Give memory back, once all that was put into the stream is done with it."""

    def upload(self, address: int, array: Any, stream: int) -> None:
        """Copy a host's array to the device; it may be changed at once."""

    def download(self, array: Any, address: int, stream: int) -> None:
        """Wait for the stream, and copy from the device."""

    def copy(self, to: int, address: int, size: int, stream: int) -> None:
        """Copy so many bytes from one place of the device to another."""

    def order(self, first: int, then: int) -> None:
        """Let what is put into one stream from now on wait for what is in another one."""

    def wait(self, stream: int) -> None:
        """Wait for everything in a stream."""

    def launch(self, kernel: Any, one: Launch, addresses: list[int], stream: int) -> None:
        """Have a kernel run."""

    def record(self, launches: Callable[[], None], stream: int) -> Any:
        """What some launches into a stream are as one graph; None where there are no graphs."""

    def replay(self, graph: Any, stream: int) -> None:
        """Launch a graph."""

    def owner_of(self, address: int) -> int:
        """The number of the device that has an address.

        Raises:
            TargetError: none has.
        """


def _in_our_words(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of a driver that says in errors of ours what cuda.core raises in its own."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except (TapecError, MemoryError):
            raise
        except Exception as error:  # cuda.core does not name its own
            raise _failure(" ".join(str(error).split()), self.process) from error

    return call


def _failure(said: str, process: int) -> Exception:
    """The error for what the driver says, in a program that a process began with."""
    if "CUDA_ERROR_OUT_OF_MEMORY" in said:
        return MemoryError("the device has no memory left")
    if process != os.getpid():
        return InternalError(
            f"CUDA was begun in another process, of which this is a fork: {said}",
            hint='start processes that use GPUs with multiprocessing\'s "spawn"',
        )
    return InternalError(
        f"the CUDA device failed: {said}",
        hint="it may have failed in what ran before; a device that has needs a new process",
    )


class CudaDriver:
    """A device through cuda.core and cuda.bindings, which numba-cuda brings along.

    Attributes:
        process: the number of the process that it is for: a fork's child cannot use it.
    """

    @_in_our_words
    def __init__(self, number: int) -> None:
        """Take device number ``number``.

        Raises:
            TargetError: there is no driver, an old one, no such device, or an old one.
            MemoryError: the device has no room for what a process needs there.
        """
        self.process = os.getpid()
        self._recording = local()
        try:
            from cuda.bindings import driver
            from cuda.core import Device
        except ImportError as error:
            message = f"the cuda target needs numba-cuda, which is not installed ({error})"
            raise TargetError(message, hint=REMEDY) from error
        self._api = driver
        _hold_to_driver(driver)
        count = self._checked(driver.cuDeviceGetCount())
        if not 0 <= number < count:
            raise TargetError(
                f"there is no CUDA device {number}",
                hint=f"devices are counted from 0; there are {count}",
            )
        self.number = number
        self._device = Device(number)
        major, minor = self._device.compute_capability
        if (major, minor) < OLDEST_DEVICE:
            raise TargetError(
                f"CUDA device {number} is of compute capability {major}.{minor}, and this needs 8.0",
                hint="devices have that from Ampere (2020) on",
            )
        self._device.set_current()
        own = self._device.create_stream()
        self.stream = int(own.handle)
        self._streams: dict[int, Any] = {self.stream: own}
        self.architecture = f"sm_{major}{minor}"

    def _checked(self, answer: Any) -> Any:
        """What a function of the driver's gives.

        Raises:
            MemoryError: there is no memory.
            InternalError: it failed otherwise.
        """
        status, *found = answer
        if int(status):
            raise _failure(status.name, self.process)
        return found[0] if found else None

    @_in_our_words
    def load(self, text: Text) -> Mapping[str, Any]:
        """Compile every kernel for this device."""
        from cuda.core import ObjectCode

        compiled = Compiler(text, self.architecture).all()
        return {
            name: ObjectCode.from_cubin(one.cubin()[0]).get_kernel(one.entry)
            for name, one in compiled.items()
        }

    @_in_our_words
    def allocate(self, size: int, stream: int) -> int:
        """Memory in the order of the stream."""
        self._device.set_current()
        return int(self._checked(self._api.cuMemAllocAsync(max(size, 1), stream)))

    @_in_our_words
    def free(self, address: int, stream: int) -> None:
        """In the order of the stream."""
        self._device.set_current()
        self._checked(self._api.cuMemFreeAsync(address, stream))

    @_in_our_words
    def upload(self, address: int, array: Any, stream: int) -> None:
        """Pageable memory is staged before the call returns; of what is pinned the driver would read later."""
        if array.nbytes:
            self._device.set_current()
            place = array.ctypes.data
            self._checked(self._api.cuMemcpyHtoDAsync(address, place, array.nbytes, stream))
            attribute = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
            if not int(self._api.cuPointerGetAttribute(attribute, place)[0]):  # it is pinned
                self.wait(stream)

    @_in_our_words
    def download(self, array: Any, address: int, stream: int) -> None:
        """Waits for the stream."""
        self._device.set_current()
        if array.nbytes:
            self._checked(
                self._api.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, stream)
            )
        self.wait(stream)

    @_in_our_words
    def copy(self, to: int, address: int, size: int, stream: int) -> None:
        """In the order of the stream."""
        if size:
            self._device.set_current()
            self._checked(self._api.cuMemcpyDtoDAsync(to, address, size, stream))

    @_in_our_words
    def order(self, first: int, then: int) -> None:
        """By an event, which the driver drops once it has come."""
        self._device.set_current()
        flags = int(self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        event = self._checked(self._api.cuEventCreate(flags))
        try:
            self._checked(self._api.cuEventRecord(event, first))
            self._checked(self._api.cuStreamWaitEvent(then, event, 0))
        finally:
            self._checked(self._api.cuEventDestroy(event))

    @_in_our_words
    def wait(self, stream: int) -> None:
        """What failed since the last time is said here."""
        self._device.set_current()
        self._checked(self._api.cuStreamSynchronize(stream))

    @_in_our_words
    def launch(self, kernel: Any, one: Launch, addresses: list[int], stream: int) -> None:
        """Into the stream, or into the graph that is being recorded."""
        from cuda.core import LaunchConfig, launch

        config = LaunchConfig(
            grid=one.blocks, block=one.threads, shmem_size=one.kernel.shared or None
        )
        sizes = [_SIZES[code](n) for n, (_, code) in zip(one.sizes, one.kernel.sizes, strict=True)]
        target = getattr(self._recording, "builder", None) or self._stream(stream)
        launch(target, config, kernel, *map(ctypes.c_uint64, addresses), *sizes)

    def _stream(self, handle: int) -> Any:
        """A stream as cuda.core has it."""
        found = self._streams.get(handle)
        if found is None:
            from cuda.core import Stream

            found = self._streams[handle] = Stream.from_handle(handle)
        return found

    def record(self, launches: Callable[[], None], stream: int) -> Any:
        """Capture the launches in a graph; in a stream that nobody else knows, for others may be in use by then.

        What makes that fail is said as a warning: then each kernel is launched by itself, which raises what is wrong
        with one of them.
        """
        try:
            self._device.set_current()
            graph = self._captured(launches)
            graph.upload(self._stream(stream))
        except Exception as error:  # as above
            message = (
                f"a program is launched kernel by kernel, for no graph can be made of it: {error}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            return None
        return graph

    def _captured(self, launches: Callable[[], None]) -> Any:
        """A graph of what this thread launches; other threads may launch meanwhile."""
        builder = self._device.create_graph_builder()
        builder.begin_building()
        self._recording.builder = builder
        try:
            launches()
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong first is what counts
                builder.end_building()
            raise
        finally:
            self._recording.builder = None
        builder.end_building()
        return builder.complete()

    @_in_our_words
    def replay(self, graph: Any, stream: int) -> None:
        """Into the stream."""
        self._device.set_current()
        graph.launch(self._stream(stream))

    def owner_of(self, address: int) -> int:
        """Asks the driver, which knows all devices' memory."""
        attribute = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        try:
            return int(self._checked(self._api.cuPointerGetAttribute(attribute, address)))
        except InternalError as error:
            raise TargetError(f"no CUDA device has memory at {address:#x}") from error


def _hold_to_driver(api: Any) -> None:
    """Refuse to go on without a driver that is new enough.

    Raises:
        TargetError: it is missing, or too old.
    """
    try:
        (status,) = api.cuInit(0)
        version = 0
        if not int(status):
            status, version = api.cuDriverGetVersion()
    except RuntimeError as error:
        raise TargetError(_NO_DRIVER, hint=_INSTALL) from error
    if int(status):
        raise TargetError(f"{_NO_DRIVER} ({status.name})", hint=_INSTALL)
    if version < OLDEST:
        raise TargetError(
            f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}, and this needs 13.0",
            hint="install a driver from 580 on",
        )


_SIZES = {"u32": ctypes.c_uint32, "u64": ctypes.c_uint64}
_NO_DRIVER = "there is no CUDA driver on this machine"
_INSTALL = 'install NVIDIA\'s driver (580 or later), or use engine="simulator"'


#: Devices that were opened, by number. Tests put a stand-in here.
OPENED: dict[int, Driver] = {}


def device(number: int = 0) -> Driver:
    """The device of a number, opened once.

    Raises:
        TargetError: there is no driver, an old one, or no such device.
    """
    found = OPENED.get(number)
    if found is None:
        found = OPENED[number] = CudaDriver(number)
    return found


def device_of(address: int) -> int:
    """The number of the device that an address of other libraries' is on.

    Raises:
        TargetError: there is no driver, or the address is none of its.
    """
    return device().owner_of(address)
