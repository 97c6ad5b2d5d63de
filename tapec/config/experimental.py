"""The namespace ``tapec.config.experimental``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapec.absences.names import namespace
from tapec.config.names import hold
from tapec.devices import (
    PhysicalDevice,
    enable_op_determinism,
    enable_tensor_float_32_execution,
    tensor_float_32_execution_enabled,
)
from tapec.devices import get_visible_devices as get_visible_devices
from tapec.devices import list_logical_devices as list_logical_devices
from tapec.devices import list_physical_devices as list_physical_devices
from tapec.devices import set_visible_devices as set_visible_devices
from tapec.errors import ValueError
from tapec.frames import here

__all__ = [
    "enable_op_determinism",
    "enable_tensor_float_32_execution",
    "get_device_details",
    "get_memory_growth",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "set_memory_growth",
    "set_visible_devices",
    "tensor_float_32_execution_enabled",
]


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """How a GPU reserves memory; there is none.

    Raises:
        ValueError: always: only a GPU has this setting.
    """
    raise ValueError("Cannot set memory growth on non-GPU devices", location=here())


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Whether a GPU reserves memory as it is needed; of the CPU, that it does."""
    return True


def get_device_details(device: PhysicalDevice) -> dict[str, Any]:
    """Nothing more is known of the CPU than its name."""
    return {}


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("config.experimental")

hold(__name__)
