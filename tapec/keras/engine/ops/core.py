"""What Keras calls the core of a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from keras.src import tree
from keras.src.backend.common.name_scope import name_scope as name_scope

import tapec
from tapec.keras.engine.control import associative_scan as associative_scan
from tapec.keras.engine.control import cond as cond
from tapec.keras.engine.control import fori_loop as fori_loop
from tapec.keras.engine.control import map as map
from tapec.keras.engine.control import scan as scan
from tapec.keras.engine.control import switch as switch
from tapec.keras.engine.control import vectorized_map as vectorized_map
from tapec.keras.engine.control import while_loop as while_loop
from tapec.keras.engine.conversion import cast as cast
from tapec.keras.engine.conversion import convert_to_numpy as convert_to_numpy
from tapec.keras.engine.conversion import convert_to_tensor as convert_to_tensor
from tapec.keras.engine.conversion import is_tensor as is_tensor
from tapec.keras.engine.specs import compute_output_spec as compute_output_spec
from tapec.keras.engine.variable import Variable as Variable

IS_THREAD_SAFE = True
SUPPORTS_COMPLEX_DTYPES = True
SUPPORTS_GRADIENT = True
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_SPARSE_TENSORS = False


def shape(x: Any) -> tuple[Any, ...]:
    """The sizes: integers, and Tensors for those that only a call will know."""
    known = x.shape
    if isinstance(x, tapec.Tensor) and None in known:
        at_call = tapec.shape(x)
        return tuple(at_call[i] if n is None else n for i, n in enumerate(known))
    return tuple(known)


def random_seed_dtype() -> str:
    """Of the two integers that are a seed."""
    return "uint32"


def stop_gradient(variable: Any) -> tapec.Tensor:
    """The value, through which no gradient flows."""
    return tapec.stop_gradient(convert_to_tensor(variable))


def unstack(x: Any, num: int | None = None, axis: int = 0) -> list[tapec.Tensor]:
    """The entries along an axis."""
    return tapec.unstack(convert_to_tensor(x), num, axis)


def _places(indices: Any) -> tapec.Tensor:
    found = convert_to_tensor(indices)
    return found if found.dtype.name in ("int32", "int64") else tapec.cast(found, "int32")


def scatter(indices: Any, values: Any, shape: Any) -> tapec.Tensor:
    """Zeros, to which values are added at the places that the last axis of ``indices`` names."""
    return tapec.scatter_nd(_places(indices), convert_to_tensor(values), list(shape))


_REDUCTIONS: dict[str | None, Callable[..., tapec.Tensor]] = {
    None: tapec.tensor_scatter_nd_update,
    "add": tapec.tensor_scatter_nd_add,
    "max": tapec.tensor_scatter_nd_max,
    "min": tapec.tensor_scatter_nd_min,
}


def scatter_update(
    inputs: Any, indices: Any, updates: Any, reduction: str | None = None
) -> tapec.Tensor:
    """The inputs, with values put at places or combined with what is there.

    Raises:
        ValueError: ``reduction`` is not None, ``"add"``, ``"max"``, ``"min"`` or ``"mul"``.
    """
    x = convert_to_tensor(inputs)
    new = convert_to_tensor(updates, x.dtype.name)
    if reduction == "mul":
        return _multiplied_at(x, _places(indices), new)
    if reduction not in _REDUCTIONS:
        raise ValueError(f"Unsupported reduction: {reduction}")
    return _REDUCTIONS[reduction](x, _places(indices), new)


def _multiplied_at(x: tapec.Tensor, places: tapec.Tensor, factors: tapec.Tensor) -> tapec.Tensor:
    """``x`` with factors at places, of which one may be named several times."""
    whole = [convert_to_tensor(n, "int32") for n in shape(x)]
    depth = places.shape[-1]
    rest = whole[depth:]
    flat = tapec.constant(0)
    for axis in range(depth):
        flat = flat * whole[axis] + tapec.cast(places[..., axis], "int32")
    rows = tapec.reshape(factors, [-1, *rest])
    count = tapec.reduce_prod(tapec.stack(whole[:depth]))
    product = tapec.math.unsorted_segment_prod(rows, tapec.reshape(flat, [-1]), count)
    return x * tapec.reshape(product, whole)


def _begin(inputs: tapec.Tensor, start_indices: Any, sizes: Sequence[Any]) -> list[Any]:
    """Where a slice begins: as with JAX, moved so that it lies inside."""
    if isinstance(start_indices, list | tuple):
        starts = list(start_indices)
    else:
        starts = tapec.unstack(convert_to_tensor(start_indices))
    found: list[Any] = []
    for start, size, whole in zip(starts, sizes, shape(inputs), strict=True):
        if isinstance(start, int) and isinstance(size, int) and isinstance(whole, int):
            found.append(max(0, min(start, whole - size)))
        else:
            last = convert_to_tensor(whole, "int32") - convert_to_tensor(size, "int32")
            found.append(tapec.clip_by_value(convert_to_tensor(start, "int32"), 0, last))
    return found


def slice(inputs: Any, start_indices: Any, shape: Any) -> tapec.Tensor:
    """The part of a shape that begins at an index; -1 is all the rest of an axis."""
    x = convert_to_tensor(inputs)
    whole = x.shape
    sizes = [
        whole[i] - start_indices[i] if isinstance(n, int) and n == -1 else n
        for i, n in enumerate(shape)
    ]
    return tapec.slice(x, _begin(x, start_indices, sizes), sizes)


def slice_update(inputs: Any, start_indices: Any, updates: Any) -> tapec.Tensor:
    """The inputs, with another part from an index on."""
    x = convert_to_tensor(inputs)
    new = convert_to_tensor(updates, x.dtype.name)
    sizes = shape(new)
    starts = _begin(x, start_indices, sizes)
    ranges = [
        tapec.range(convert_to_tensor(size, "int32")) + convert_to_tensor(start, "int32")
        for start, size in zip(starts, sizes, strict=True)
    ]
    if not ranges:
        return new
    places = tapec.stack(tapec.meshgrid(*ranges, indexing="ij"), -1)
    return tapec.tensor_scatter_nd_update(x, places, new)


class custom_gradient:
    """A function whose gradient the user gives; Variables among its arguments are taken by value."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._function = tapec.custom_gradient(fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree.map_structure(
            lambda x: x.value if isinstance(x, Variable) else x, (args, kwargs)
        )
        return self._function(*args, **kwargs)


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function like ``f`` that is run again for its gradient, so that nothing from inside is kept."""
    return tapec.recompute_grad(f)


@contextmanager
def device_scope(device_name: Any) -> Iterator[None]:
    """Everything runs on the CPU.

    Raises:
        ValueError: another device is asked for.
    """
    name = str(device_name).lower()
    if not name.startswith(("cpu", "/cpu", "/device:cpu")):
        raise ValueError(f"tapec runs on the CPU, there is no device {device_name!r}")
    yield
