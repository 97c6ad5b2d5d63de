"""What Keras asks of a backend for `keras.distribution`: there is one process with one device, the CPU."""

from __future__ import annotations

from typing import Any

from tapec.errors import UnimplementedError
from tapec.frames import here

_DEVICE = "cpu:0"


def list_devices(device_type: str | None = None) -> list[str]:
    """The devices of a type, ``"cpu"``, ``"gpu"`` or ``"tpu"``: the CPU, or none."""
    return [_DEVICE] if device_type is None or device_type.lower() == "cpu" else []


def get_device_count(device_type: str | None = None) -> int:
    """How many devices of a type there are: 1 of ``"cpu"``, else 0."""
    return len(list_devices(device_type))


def num_processes() -> int:
    """How many processes train together."""
    return 1


def process_id() -> int:
    """Which of them this one is."""
    return 0


def initialize(
    job_addresses: str | None, num_processes: int | None, process_id: int | None
) -> None:
    """Begin to train in one process, which needs nothing.

    Raises:
        UnimplementedError: there are to be more processes.
    """
    if num_processes not in (None, 1) or "," in (job_addresses or ""):
        raise _refusal(
            f"initialize: tapec trains in one process, and got {job_addresses=}, {num_processes=}",
            "several processes",
        )


def distribute_tensor(tensor: Any, layout: Any) -> Any:
    """The tensor itself: one device holds all of it.

    Raises:
        UnimplementedError: the layout is over other devices.
    """
    layout.backend_layout  # noqa: B018 -- refuses other devices
    return tensor


def distribute_variable(value: Any, layout: Any) -> Any:
    """The value itself, as `distribute_tensor`."""
    return distribute_tensor(value, layout)


def _to_backend_layout(layout: Any) -> Any:
    """A layout of Keras over the one device, which is its own.

    Raises:
        ValueError: the layout has no mesh yet.
        UnimplementedError: its mesh has other devices.
    """
    if layout.device_mesh is None:
        raise ValueError(
            f"Cannot create sharding when device mesh is not set for TensorLayout: {layout}"
        )
    layout.device_mesh.backend_mesh  # noqa: B018 -- refuses other devices
    return layout


def _to_backend_mesh(mesh: Any) -> Any:
    """A mesh of Keras with the one device, which is its own.

    Raises:
        UnimplementedError: it has other devices.
    """
    devices = [str(device) for device in mesh.devices.flat]
    if devices != [_DEVICE]:
        raise _refusal(
            f"tapec has one device, {_DEVICE}, and the mesh has {', '.join(devices)}",
            "several devices",
        )
    return mesh


def _refusal(why: str, what: str) -> UnimplementedError:
    """Not Python's NotImplementedError: Keras takes that for a model that cannot be built yet, and goes on."""
    return UnimplementedError(
        f"keras.distribution: {why}",
        location=here(),
        hint=f"use one, or Keras on JAX or TensorFlow for {what}",
    )
