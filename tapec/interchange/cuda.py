"""GPUs, explicitly: what is on which of them, and in which stream programs run. See ``docs/cuda.md``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tapec.at_line import AtLine
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.tensors.device_tensor import DeviceTensor, held_or_array


def _opened(number: int) -> Any:
    """A device's driver.

    Raises:
        TargetError: there is no driver, an old one, or no such device; it names the caller's line.
    """
    from tapec.runtime.cuda.device.driver import device  # who has no GPU needs none of it

    with AtLine():
        return device(number)


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
    with AtLine(f"no memory for {given.type} on device {device}"):
        found = transferred(held_or_array(given), driver)
    made = DeviceTensor(found, given.type)
    made.id = given.id  # to tapes it is the same value
    return made


@contextlib.contextmanager
def stream(stream: Any, device: int = 0) -> Iterator[None]:
    """A context in which programs on a GPU launch into a stream of the caller's; a thread's own, as contexts are.

    Programs that share no memory run at once in different streams. Where one reads what another wrote, its stream
    waits for that of the other.

    Args:
        stream: an object of another library's: of cuda.core's, PyTorch's, CuPy's, Numba's; it is kept as long as memory
            is in use that it used last. Or its handle; then the stream has to live as long.
        device: the number of the GPU.

    Raises:
        TypeError: it is no stream.
    """
    from tapec.runtime.cuda.device.device_program import in_stream  # as above

    with in_stream(device, _handle(stream)):
        yield


def _handle(stream: Any) -> int:
    """The number that the driver knows a stream by, which keeps the stream."""
    from tapec.runtime.cuda.device.driver import StreamHandle  # as above

    if hasattr(stream, "__cuda_stream__"):
        return StreamHandle(int(stream.__cuda_stream__()[1]), stream)
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return StreamHandle(int(getattr(found, "value", found) or 0), stream)
    if isinstance(stream, int):
        return StreamHandle(stream, None)
    raise TypeError(
        f"a CUDA stream is wanted, or its handle, got {type(stream).__name__}", location=here()
    )


def synchronize(device: int = 0) -> None:
    """Wait until everything is done that was launched into the current stream of a GPU.

    Reading a result waits for it by itself; this is for clocks.

    Raises:
        TargetError: there is no driver, an old one, or no such device.
        InternalError: the device failed in something that was launched.
    """
    from tapec.runtime.cuda.device.device_program import stream_of  # as above

    driver = _opened(device)
    with AtLine():
        driver.wait(stream_of(driver))
