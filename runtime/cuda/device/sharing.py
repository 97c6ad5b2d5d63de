"""Memory on a device that other libraries own, as arrays of ours: by ``__cuda_array_interface__`` and by DLPack.

See https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html and `tapec.runtime.cuda.device.dlpack`. What
comes in is in the order of the stream that its owner names: the stream of ours waits for that.
"""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

import numpy as np

from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.types import as_dtype
from tapec.runtime.cuda.device import dlpack
from tapec.runtime.cuda.device.device_program import stream_of
from tapec.runtime.cuda.device.driver import Driver, device, device_of
from tapec.runtime.cuda.device.memory import Allocation, DeviceArray


def of_interface(value: Any) -> DeviceArray:
    """The array of an object, without a copy.

    Raises:
        TargetError: there is no device.
        ShapeError: it is not contiguous.
        DTypeError: tapec has no such dtype; what it says of itself makes no array.
    """
    shape, dtype, address, stream = _told(value)
    driver = device(device_of(address) if prod(shape) else 0)
    memory = _foreign(driver, address, prod(shape) * dtype.itemsize, value)
    if stream is not None:
        driver.order(stream, memory.stream)
    return DeviceArray(memory, dtype, shape)


def _told(value: Any) -> tuple[tuple[int, ...], Any, int, int | None]:
    """The sizes of an object's array, its dtype, where it is and in which stream.

    Raises:
        ShapeError, DTypeError: as `of_interface`.
    """
    told = value.__cuda_array_interface__
    try:
        shape = tuple(map(index, told["shape"]))
        named = np.dtype(told["typestr"])
        address = index(told["data"][0] or 0)
        strides = told.get("strides")
        strides = None if strides is None else tuple(map(index, strides))
        stream = told.get("stream")
        stream = None if stream is None else index(stream)
        if min(shape, default=0) < 0 or len(shape if strides is None else strides) != len(shape):
            raise ValueError(f"a shape of {list(shape)} with strides {strides}")
        if address < 0 or stream == 0:
            raise ValueError(f"data at {address}, in stream {stream}")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DTypeError(
            f"{type(value).__name__} has a __cuda_array_interface__ that makes no array: "
            f"{type(error).__name__}: {error}",
            hint="it takes shape, typestr and data: (address, read only)",
        ) from None
    dtype = _dtype(named)
    if strides is not None:
        counted = tuple(n // dtype.itemsize for n in strides)
        exact = all(n % dtype.itemsize == 0 for n in strides)
        if not exact or not dlpack.is_row_major(shape, counted):
            raise ShapeError(
                f"an array of shape {list(shape)} has strides of {list(strides)} bytes",
                hint="make it contiguous first",
            )
    if told.get("mask") is not None:
        raise DTypeError("a masked array is none of tapec's", hint="fill what is masked")
    return shape, dtype, address, stream


def of_dlpack(value: Any) -> DeviceArray:
    """The array of a capsule, or of an object that gives one, without a copy.

    Raises:
        TargetError: there is no device.
        ValueError: the capsule was used before.
        ShapeError: it is not contiguous.
        DTypeError: tapec has no such dtype.
    """
    if hasattr(value, "__dlpack__"):
        driver = device(value.__dlpack_device__()[1])
        try:
            value = value.__dlpack__(stream=stream_of(driver), max_version=(1, 0))
        except TypeError:  # it knows DLPack before 1.0
            value = value.__dlpack__(stream=stream_of(driver))
    found, owner = dlpack.taken(value)
    dtype = _dtype(found.dtype)
    driver = device(found.number)
    memory = _foreign(driver, found.address, prod(found.shape) * dtype.itemsize, owner)
    return DeviceArray(memory, dtype, found.shape)


def _foreign(driver: Driver, address: int, size: int, owner: Any) -> Allocation:
    return Allocation(driver, size, stream_of(driver), address=address, owner=owner)


def _dtype(dtype: Any) -> Any:
    """The dtype, if it is one of tapec's."""
    try:
        return as_dtype(dtype).numpy
    except TypeError as error:
        raise DTypeError(str(error)) from None
