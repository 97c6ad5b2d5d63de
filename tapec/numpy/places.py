"""What ``x[key]`` means to NumPy: integers, slices, masks, and arrays of integers, which broadcast.

In effect for the operator once `experimental_enable_numpy_behavior` was called. TensorFlow's meaning, which is
narrower, is `tapec.functions.indexing.getitem`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tapec.errors import TypeError
from tapec.frames import here
from tapec.functions import arithmetic
from tapec.functions.broadcasting import broadcast, common_shape, has_dtype, misfit
from tapec.functions.indexing import boolean_mask, entries
from tapec.functions.indexing import getitem as _basic
from tapec.functions.rearrangement import reshape, transpose
from tapec.ir.types import I64
from tapec.numpy.ordering import from_start, nonzero
from tapec.numpy.promotion import of_dtype
from tapec.recording import active_tapes, current_trace, heard, next_id
from tapec.tensor import Array, Tensor, as_tensor


def getitem(x: Tensor, key: Any) -> Tensor:
    """The entries that a key names, with their gradients.

    Args:
        x: the tensor.
        key: integers, slices, ``...``, None, tensors, arrays or lists of integers or bools, or a tuple of these. Masks
            run eagerly only.

    Raises:
        InvalidArgumentError: an index out of range, or more of them than axes (ValueError while a function is
            compiled).
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [as_tensor(k) if isinstance(k, list | np.ndarray | np.generic) else k for k in keys]
    chosen = [isinstance(k, Tensor) and (k.type.rank > 0 or k.type.dtype.is_bool) for k in keys]
    if not any(chosen):
        found = _basic(x, tuple(keys))
        if _is_unheard(x) and found is not x:
            found.assign = partial(_set_through, x, key)  # type: ignore[assignment]
        return found
    if len(keys) == 1 and isinstance(keys[0], Tensor) and not keys[0].type.rank:
        return boolean_mask(reshape(x, (1, *x.type.shape)), reshape(keys[0], (1,)))
    keys = _without_masks(keys)
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > x.type.rank:
        raise misfit(f"too many indices: {used} for {x.type}")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    at = next(n for n, k in enumerate(keys) if k is Ellipsis)
    keys[at : at + 1] = [slice(None)] * (x.type.rank - used)
    return _chosen(x, keys)


def _without_masks(keys: Sequence[Any]) -> list[Any]:
    """Masks as the positions of what is true."""
    found: list[Any] = []
    for k in keys:
        is_mask = isinstance(k, Tensor) and k.type.dtype.is_bool
        found += nonzero(k) if is_mask else [k]
    return found


def _chosen(x: Tensor, keys: list[Any]) -> Tensor:
    """A key with a part for each axis, None for a new one, in which there are tensors."""
    single = [k is not None and not isinstance(k, slice) for k in keys]
    spots = [n for n, is_index in enumerate(single) if is_index]
    basic = [slice(None) if is_index else k for k, is_index in zip(keys, single, strict=True)]
    y = _basic(x, tuple(basic))
    together = spots == list(range(spots[0], spots[-1] + 1))
    indices = [as_tensor(keys[n]) for n in spots]
    sizes = [y.type.shape[n] for n in spots]
    indices = [from_start(i, n) for i, n in zip(indices, sizes, strict=True)]
    shape = common_shape(*[i.type.shape for i in indices])
    rest = [n for n in range(y.type.rank) if n not in spots]
    moved = transpose(y, [*spots, *rest])
    row = reshape(moved, (prod(sizes), *moved.type.shape[len(spots) :]))
    place = None
    for index, size in zip(indices, sizes, strict=True):
        _check(index, size)
        wide = broadcast(of_dtype(index, I64), shape)
        place = wide if place is None else arithmetic.add(arithmetic.multiply(place, size), wide)
    assert place is not None
    found = entries(row, place, 0)
    if not together or not spots[0]:
        return found
    rank, lead = len(shape), spots[0]
    order = [*range(rank, rank + lead), *range(rank), *range(rank + lead, found.type.rank)]
    return transpose(found, order)


def _check(index: Tensor, size: Any) -> None:
    array = index._array
    if array is not None and array.size and isinstance(size, int):
        if array.min() < 0 or array.max() >= size:
            raise misfit(f"an index is out of range of an axis of size {size}")


def _is_unheard(x: Tensor) -> bool:
    """Whether neither a tape nor a compiled function can know a tensor."""
    quiet = not active_tapes() and current_trace() is None
    return quiet and x._array is not None and x.id >= heard[0]


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``: the tensor has other elements from now on.

    For libraries that follow the array API standard. A value that is known elsewhere must not change, so this is for
    tensors that no tape and no compiled function can have seen. A part that indices and slices gave, ``y = x[1:]``, is
    a view in one direction: what is assigned to it is assigned to ``x`` as well.

    Raises:
        TypeError: the tensor has no elements, or a tape or a compiled function may know it.
    """
    if not _is_unheard(x):
        raise TypeError(
            "this tensor cannot be assigned to: a tape or a compiled function may know it",
            location=here(),
            hint="make another one with tapec.tensor_scatter_nd_update or tapec.where; "
            "tapec.numpy.asarray(x, copy=True) can be assigned to, outside of tapes",
        )
    assert x._array is not None
    array: Array = x._array.copy()
    array[_plain(key)] = _plain(value)
    x._array, x.id = array, next_id()
    whole: Any = getattr(x, "assign", None)
    if isinstance(whole, partial) and whole.func is _set_through:
        whole(x)


def _set_through(whole: Tensor, key: Any, part: Tensor) -> None:
    """Give a tensor the elements that were assigned to a part of it."""
    setitem(whole, key, part)


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_plain(k) for k in key)
    return as_tensor(key).array if has_dtype(key) else key
