"""Tensors whose elements are on a GPU, and come to the host when somebody reads them.

Programs with ``target="cuda"`` return them, and take them without a copy. Everything else in tapec sees a Tensor like
any other: its ``_array`` waits for the device and fetches, once.
"""

from __future__ import annotations

from typing import Any

from tapec.at_line import AtLine
from tapec.errors import ValueError
from tapec.frames import here
from tapec.ir.types import TensorType
from tapec.recording import current_trace
from tapec.runtime.residence import Remote
from tapec.tensor import Array, EagerTensor, Tensor, departs, type_with

#: The slot that every Tensor has; of these it holds a `Remote`.
_SLOT: Any = Tensor.__dict__["_array"]


class DeviceTensor(EagerTensor):
    """A Tensor on a GPU."""

    __slots__ = ()

    def __init__(self, held: Remote, type: TensorType | None = None) -> None:
        """Made of what a program on the device returned."""
        super().__init__(held, type or type_with(held.dtype, held.shape))  # type: ignore[arg-type]

    @property
    def held(self) -> Remote:
        """The array on the device."""
        found: Remote = _SLOT.__get__(self)
        return found

    @property
    def _array(self) -> Array:
        with AtLine():
            found: Array = self.held.fetch()
        return found

    @_array.setter
    def _array(self, held: Any) -> None:
        _SLOT.__set__(self, held)

    @property
    def device(self) -> str:
        """The device that holds it."""
        return f"/job:localhost/replica:0/task:0/device:GPU:{self.held.number}"

    def cpu(self) -> Tensor:
        """The tensor on the CPU; waits for the device."""
        return EagerTensor(self._array, self.type, self.id)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        departs(self, "__cuda_array_interface__")
        return self.held.interface()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and dl_device != self.__dlpack_device__():
            if dl_device != (1, 0):
                raise ValueError(
                    f"the tensor is on DLPack device {self.__dlpack_device__()}, not {dl_device}",
                    location=here(),
                )
            return self.cpu().__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
        departs(self, "DLPack")
        with AtLine(f"no memory for a copy of {self.type}"):
            return self.held.export(stream, max_version, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.held.number)


def held_or_array(x: Tensor) -> Any:
    """What a program on a device takes of a tensor: where it is there, or the host's array."""
    return x.held if isinstance(x, DeviceTensor) else x.array


def of_result(result: Any, type: TensorType) -> Tensor:
    """A tensor of what a program returned."""
    return DeviceTensor(result, type) if isinstance(result, Remote) else EagerTensor(result, type)


def of_interface(value: Any) -> DeviceTensor:
    """A tensor in the memory of an object that has ``__cuda_array_interface__``, which must not be written to any more.

    Raises:
        ValueError: it is not contiguous; a function is compiled that would need its elements.
        TypeError: it is of a dtype that tapec has not.
        TargetError: there is no device.
    """
    from tapec.runtime.cuda.device.sharing import of_interface as taken  # rarely wanted

    return _taken(lambda: taken(value))


def of_dlpack(value: Any) -> DeviceTensor:
    """A tensor in the memory of a capsule of a device's, or of an object that gives one.

    Raises:
        ValueError: it is not contiguous, or the capsule was used before; a function is compiled.
        TypeError: it is of a dtype that tapec has not.
        TargetError: there is no device.
    """
    from tapec.runtime.cuda.device.sharing import of_dlpack as taken  # rarely wanted

    return _taken(lambda: taken(value))


def _taken(take: Any) -> DeviceTensor:
    if current_trace() is not None:
        raise ValueError(
            "an array on a device, made a tensor inside of a compiled function",
            location=here(),
            hint="make it outside, and pass the tensor",
        )
    with AtLine():
        return DeviceTensor(take())
