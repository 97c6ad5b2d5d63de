"""DLPack: memory in common with other libraries, and no copy. TensorFlow's ``tf.experimental.dlpack``.

Tensors export themselves too (``numpy.from_dlpack(x)``, ``torch.from_dlpack(x)``): as memory to read only, which DLPack
can say since version 1.0. Who cannot understand that gets a copy, for a Tensor never changes.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from tapec.errors import TapecError, TypeError, ValueError
from tapec.frames import here
from tapec.ir.types import as_dtype
from tapec.recording import current_trace
from tapec.runtime.cuda.device.dlpack import CUDA, device_kind
from tapec.tensor import Array, EagerTensor, Tensor, as_tensor, type_of
from tapec.tensors.device_tensor import of_dlpack

#: DLPack's number for memory of the processor, and which one.
DEVICE = (1, 0)


def export(
    array: Array,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """What ``__dlpack__`` gives of a tensor's array: a capsule.

    Raises:
        ValueError: another device is wanted, or no copy by a library that would not know that it must not write.
        TypeError: DLPack has no such dtype.
    """
    if dl_device not in (None, DEVICE):
        raise ValueError(
            f"tensors are on the CPU, DLPack device {DEVICE}, not {dl_device}", location=here()
        )
    can_read_only = max_version is not None and max_version >= (1, 0)
    if copy or not can_read_only:
        if copy is False:
            raise ValueError(
                "a tensor cannot be given without a copy to a library that knows DLPack before 1.0",
                location=here(),
                hint="it could be written to; leave copy out",
            )
        array = array.copy()
    else:
        array = array.view()
        array.flags.writeable = False
    return _capsule(array, max_version if can_read_only else None)


def _capsule(array: Array, max_version: tuple[int, int] | None = None) -> Any:
    try:
        return (
            array.__dlpack__() if max_version is None else array.__dlpack__(max_version=max_version)
        )
    except BufferError as error:
        raise TypeError(
            f"DLPack cannot describe this {array.dtype} tensor: {error}",
            location=here(),
            hint="convert it with tapec.cast",
        ) from None


def to_dlpack(tf_tensor: Any) -> Any:
    """A capsule of the tensor's own memory, for ``from_dlpack`` of another library, which must not write to it.

    Raises:
        RuntimeError: the tensor belongs to a function that is being compiled.
        TypeError: DLPack has no such dtype.
    """
    return _capsule(as_tensor(tf_tensor).array)


class _Producer:
    """A capsule as an object that gives it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return DEVICE


def _is_on_gpu(given: Any) -> bool:
    """Whether an array, or the capsule of one, is in the memory of a GPU."""
    if hasattr(given, "__dlpack__"):
        return bool(given.__dlpack_device__()[0] == CUDA)
    return device_kind(given) == CUDA


def from_dlpack(dlcapsule: Any) -> Tensor:
    """A tensor in the memory of another library's, which must not write to it any more.

    Args:
        dlcapsule: a capsule, or an array of a library that knows DLPack.

    Raises:
        TypeError: it is neither, or of a dtype that tapec has not.
        ValueError: the memory is on another device than a CPU or a GPU of CUDA's; or the capsule was used before.
        TargetError: it is on a GPU, and there is no driver here.
    """
    if current_trace() is not None:
        raise ValueError(
            "from_dlpack inside of a compiled function",
            location=here(),
            hint="call it outside, and pass the tensor",
        )
    known = hasattr(dlcapsule, "__dlpack__")
    if not known and type(dlcapsule).__name__ != "PyCapsule":
        raise TypeError(
            f"from_dlpack takes a DLPack capsule or an array, got {type(dlcapsule).__name__}",
            location=here(),
        )
    is_on_gpu = _is_on_gpu(dlcapsule)
    try:
        if is_on_gpu:
            return of_dlpack(dlcapsule)
        array = np.from_dlpack(dlcapsule if known else _Producer(dlcapsule))
    except TapecError:
        raise
    except (BufferError, RuntimeError, builtins.ValueError) as error:
        raise ValueError(f"from_dlpack: {error}", location=here()) from None
    try:
        as_dtype(array.dtype)
    except TypeError as error:
        raise TypeError(str(error), location=here()) from None
    return EagerTensor(array, type_of(array))
