"""GPUs, explicitly: what is on which of them, and in which stream programs run. See ``docs/cuda.md``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tapec.device_tensor import DeviceTensor, held_or_array
from tapec.errors import ResourceExhaustedError, TypeError, ValueError
from tapec.frames import here
from tapec.ir.errors import TargetError
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, as_tensor


def _opened(number: int) -> Any:
    """A device's driver.

    Raises:
        TargetError: there is no driver, an old one, or no such device; it names the caller's line.
    """
    from tapec.runtime.cuda.device.driver import device  # who has no GPU needs none of it

    try:
        return device(number)
    except TargetError as error:
        error.location = here()
        raise


def to_device(x: TensorLike, device: int = 0) -> Tensor:
    """A tensor on a GPU, where programs with ``target="cuda"`` find it at every call; gradients flow through.

    Args:
        x: a tensor, or what becomes one.
        device: the number of the GPU.

    Raises:
        TargetError: there is no driver, an old one, or no such device.
        ResourceExhaustedError: the device has no room.
        ValueError: called in a function that is being compiled, whose values are where it runs.
    """
    from tapec.runtime.cuda.device.device_program import transferred  # as above

    if current_trace() is not None:
        raise ValueError(
            "to_device inside of a compiled function",
            location=here(),
            hint="call it outside, and pass the tensor",
        )
    given = as_tensor(x)
    driver = _opened(device)
    try:
        found = transferred(held_or_array(given), driver)
    except MemoryError as error:
        raise ResourceExhaustedError(
            f"no memory for {given.type} on device {device}: {error}", location=here()
        ) from None
    made = DeviceTensor(found, given.type)
    made.id = given.id  # to tapes it is the same value
    return made


@contextlib.contextmanager
def stream(stream: Any, device: int = 0) -> Iterator[None]:
    """A context in which programs on a GPU launch into a stream of the caller's; a thread's own, as contexts are.

    Programs that share no memory run at once in different streams. Where one reads what another wrote, its stream
    waits for that of the other.

    Args:
        stream: its handle, or an object of another library's that has one: of cuda.core's, PyTorch's, CuPy's, Numba's.
        device: the number of the GPU.

    Raises:
        TypeError: it is no stream.
    """
    from tapec.runtime.cuda.device.device_program import in_stream  # as above

    with in_stream(device, _handle(stream)):
        yield


def _handle(stream: Any) -> int:
    """The number that the driver knows a stream by."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found))
    if isinstance(stream, int):
        return stream
    raise TypeError(
        f"a CUDA stream is wanted, or its handle, got {type(stream).__name__}", location=here()
    )


def synchronize(device: int = 0) -> None:
    """Wait until everything is done that was launched into the current stream of a GPU.

    Reading a result waits for it by itself; this is for clocks.

    Raises:
        TargetError: there is no driver, an old one, or no such device.
    """
    from tapec.runtime.cuda.device.device_program import stream_of  # as above

    driver = _opened(device)
    driver.wait(stream_of(driver))
