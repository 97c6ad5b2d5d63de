"""What ``tapec.config`` says of devices: there is the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here


class PhysicalDevice(NamedTuple):
    """A device of the machine."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that programs run on."""

    name: str
    device_type: str


_CPU = "/physical_device:CPU:0"
#: Arguments that mean it.
_TYPES = (None, "CPU")
#: What tensors and Variables say of where they are.
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a type, or all: the CPU. ``list_physical_devices("GPU")`` is empty."""
    return [PhysicalDevice(_CPU, "CPU")] if arguments.is_one_of(device_type, _TYPES) else []


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that programs run on: the CPU."""
    is_cpu = arguments.is_one_of(device_type, _TYPES)
    return [LogicalDevice("/device:CPU:0", "CPU")] if is_cpu else []


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices that may be used; see `list_physical_devices`."""
    return list_physical_devices(device_type)


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Choose devices: without effect if the CPU is among them, or if devices of another type are chosen.

    Raises:
        ValueError: a device that there is not, or no CPU.
    """
    chosen = devices if isinstance(devices, list | tuple) else [devices]
    known = list_physical_devices()
    unknown = [d for d in chosen if not arguments.is_one_of(d, known)]
    if unknown or (arguments.is_one_of(device_type, _TYPES) and not chosen):
        raise ValueError(
            f"the devices are {list_physical_devices()}, got {list(chosen)}",
            location=here(),
            hint="tapec runs on the CPU; leave set_visible_devices out",
        )


def set_soft_device_placement(enabled: bool) -> None:
    """Without effect: there is one device."""


def get_soft_device_placement() -> bool:
    """Whether operations may run elsewhere than asked: no, another device than the CPU is refused."""
    return False


def enable_op_determinism() -> None:
    """Without effect: results are the same from run to run anyway, for any number of threads."""


_PRECISION = {"tf32": False}
#: Called when that was chosen.
listeners: list[Callable[[], None]] = []


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Whether a GPU may multiply float32 by its tensor cores, which look at 10 bits of mantissa; see ``docs/cuda.md``.

    Functions for GPUs are compiled again at their next call; their programs for the other choice are kept for its
    return. Processors multiply in float32 in any case.
    """
    _PRECISION["tf32"] = bool(enabled)
    for hear in listeners:
        hear()


def tensor_float_32_execution_enabled() -> bool:
    """Whether a GPU may multiply float32 with less precision: not unless somebody has said so."""
    return _PRECISION["tf32"]


_LOGS = {"placement": False}


def set_log_device_placement(enabled: bool) -> None:
    """Whether to say on which device each operation runs; remembered, but nothing is said: all run on the CPU."""
    _LOGS["placement"] = bool(enabled)


def get_log_device_placement() -> bool:
    """What was set with `set_log_device_placement`."""
    return _LOGS["placement"]
