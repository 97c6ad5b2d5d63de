"""Parts of tensors: by index and slice, by lists of indices, by masks.

An integer from Python becomes part of the program; an index that is a tensor is data, and may
change from call to call.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    floordiv,
    floormod,
    less,
    less_equal,
    multiply,
    where,
)
from tapec.functions.assertions import require_inside
from tapec.functions.broadcasting import (
    axis_of,
    has_dtype,
    misfit,
    refuse_in_trace,
    refuse_outside,
    wrong_dtype,
)
from tapec.functions.known import (
    as_shape,
    dim_tensor,
    dims_tensor,
    known_elements,
    static_integer,
    static_value,
)
from tapec.functions.logic import logical_and
from tapec.functions.rearrangement import (
    bounds_of,
    expand_dims,
    part,
    reshape,
    reverse,
    stack,
    unstack,
)
from tapec.functions.reductions import reduce_all
from tapec.functions.sliding import bound_of, slid
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import BOOL
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def getitem(x: TensorLike, key: Any) -> Tensor:
    """The operator ``x[key]``.

    Args:
        x: the tensor.
        key: integers, slices, ``...``, ``tapec.newaxis``, scalar integer tensors, or a tuple of
            these; or a mask of bools for the leading axes (eager only).

    A slice past the end is cut off, as in Python. In a compiled function, bounds of slices may be tensors where it is
    known how far they are apart, ``x[i:i + 2]``; such a slice is not cut off.

    Raises:
        InvalidArgumentError: an index out of range, or more indices than axes (ValueError while a
            function is compiled).
        TypeError: an index of another kind.
    """
    tensor = as_tensor(x)
    if is_mask(key):
        return boolean_mask(tensor, key)
    if isinstance(key, list):
        raise misfit(f"a list {key} is no index", "use tapec.gather for a list of indices")
    keys = key if isinstance(key, tuple) else (key,)
    if isinstance(key, builtins.int) and tensor.type.rank:
        return _entry(tensor, 0, key)  # the common case
    axis = 0
    for item in _without_ellipsis(keys, tensor.type.rank):
        if item is None:
            tensor, axis = expand_dims(tensor, axis), axis + 1
        elif isinstance(item, builtins.slice):
            tensor, axis = _sliced(tensor, axis, item), axis + 1
        else:
            tensor = _entry(tensor, axis, item)
    return tensor


def is_mask(key: Any) -> bool:
    """Whether a key of ``x[key]`` chooses by bools."""
    if has_dtype(key):
        return key.dtype == BOOL  # type: ignore[no-any-return]
    return isinstance(key, np.ndarray | np.bool_ | bool) and np.asarray(key).dtype == bool


def _without_ellipsis(keys: Sequence[Any], rank: int) -> list[Any]:
    """The keys with ``...`` written out as full slices."""
    used = builtins.sum(k is not None and k is not Ellipsis for k in keys)
    for k in keys:
        if isinstance(k, str | bytes | float | complex):
            raise _no_index(k)
    if used > rank:
        raise misfit(f"Index out of range using input dim {rank}; input has only {rank} dims", None)
    if builtins.sum(k is Ellipsis for k in keys) > 1:
        raise misfit("Multiple ellipses in slice spec not allowed")
    found: list[Any] = []
    for k in keys:
        if k is Ellipsis:
            found += [builtins.slice(None)] * (rank - used)
        else:
            found.append(k)
    return found


def _no_index(key: Any) -> TypeError:
    return TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tapec.newaxis (`None`) and scalar "
        f"integer tensors are valid indices, got {key!r}",
        location=here(),
        hint="use tapec.gather for a list of indices",
    )


def _entry(x: Tensor, axis: int, index: Any) -> Tensor:
    """One entry of an axis, which disappears."""
    extent = x.type.shape[axis]
    if has_dtype(index):
        return _entry_at(x, axis, as_tensor(index))
    try:
        number = index.__index__()
    except (AttributeError, builtins.TypeError):
        raise _no_index(index) from None
    if not isinstance(extent, Dim) and not -extent <= number < extent:
        raise misfit(f"slice index {number} of dimension {axis} out of bounds.")
    row = part(x, axis, number if number >= 0 else extent + number, 1)
    shape = x.type.shape
    result: Tensor = apply("reshape", row, shape=(*shape[:axis], *shape[axis + 1 :]))
    return result


def _entry_at(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """The entry at an index that is data."""
    if not index.type.dtype.is_integer or index.type.rank:
        raise TypeError(
            f"an index must be an integer scalar, got {index.type}",
            location=here(),
            hint="use tapec.gather for several indices",
        )
    extent = dim_tensor(x.type.shape[axis], index.type.dtype)
    place = where(less(index, 0), add(index, extent), index)
    require_inside(place, x.type.shape[axis])
    return entries(x, place, axis)


def _sliced(x: Tensor, axis: int, key: builtins.slice) -> Tensor:
    start, stop = (bound_of(v, "a bound of a slice") for v in (key.start, key.stop))
    step = None if key.step is None else static_integer(key.step, "the step of a slice")
    if step == 0:
        raise misfit("the step of a slice must not be 0")
    if start is stop is None and step in (None, 1):
        return x
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        return slid(x, axis, start, stop, step)
    extent = x.type.shape[axis]
    if isinstance(extent, Dim) or isinstance(start, Dim) or isinstance(stop, Dim):
        return _sliced_symbolic(x, axis, (start, stop, step))
    places = range(*builtins.slice(start, stop, step).indices(extent))
    if not places:
        return part(x, axis, 0, 0)
    if places.step < 0:
        x = reverse(x, [axis])
        places = range(extent - 1 - places[0], extent - places[-1], -places.step)
    return part(x, axis, places[0], len(places), places.step)


def _sliced_symbolic(x: Tensor, axis: int, key: tuple[Any, Any, Any]) -> Tensor:
    """A slice of an axis whose size only a call will know: bounds are taken to be inside."""
    extent = x.type.shape[axis]
    start, stop, step = key
    if step is not None and step < 0:
        if start is not None or stop is not None:
            raise misfit(
                f"a backward slice with bounds of an axis of unknown size {extent}",
                "reverse the whole axis, then slice",
            )
        x, step = reverse(x, [axis]), -step

    def place(bound: DimLike | None, default: DimLike) -> DimLike:
        if bound is None:
            return default
        return bound if isinstance(bound, Dim) or bound >= 0 else extent + bound

    first, stride = place(start, 0), step or 1
    size = (place(stop, extent) - first + stride - 1) // stride
    return part(x, axis, first, size, stride)


def strided_slice(
    input_: TensorLike,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: None = None,
    name: str | None = None,
) -> Tensor:
    """``input_[begin:end:strides]`` for the leading axes; bit ``i`` of a mask is about the ``i``-th item.

    Args:
        input_: the tensor.
        begin: the first index of each item.
        end: the index behind the last one.
        strides: the distance between two; 1 if None.
        begin_mask: where ``begin`` counts as the start of the axis.
        end_mask: where ``end`` counts as its end.
        ellipsis_mask: where the item is ``...``.
        new_axis_mask: where the item is a new axis.
        shrink_axis_mask: where the item is the index ``begin``, whose axis disappears.
        var: not used; a Variable's slices are assigned with ``v[begin:end].assign``.
    """
    starts, stops = (bounds_of(bounds) for bounds in (begin, end))
    steps = [1] * len(starts) if strides is None else static_values(strides)
    items: list[Any] = []
    if not len(starts) == len(stops) == len(steps):
        lengths = [len(starts), len(stops), len(steps)]
        raise misfit(f"Expected begin, end, and strides to be of equal length, got {lengths}")
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask = (
        arguments.integer(mask, "a mask of strided_slice") for mask in masks
    )
    for i, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            items.append(Ellipsis)
        elif new_axis_mask & bit:
            items.append(None)
        elif shrink_axis_mask & bit:
            items.append(start)
        else:
            first = None if begin_mask & bit else start
            items.append(builtins.slice(first, None if end_mask & bit else stop, step))
    return getitem(input_, tuple(items))


def static_values(values: Any) -> list[Any]:
    """Python numbers from a sequence or vector that must be known."""
    if has_dtype(values):
        values = unstack(as_tensor(values))
    return [static_value(v, "a bound of a slice") for v in arguments.items(values, "bounds")]


# -- lists of indices


def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """The entries of an axis at integer indices of any shape.

    Args:
        params: ``[..., n, ...]``.
        indices: integers in ``[0, n)``.
        validate_indices: ignored; indices are checked.
        axis: of the entries; ``batch_dims`` if None.
        batch_dims: how many leading axes the two have in common.

    Returns:
        ``params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]``.

    Example: ``gather([10, 20, 30], [2, 0])`` is ``[30, 10]``.

    Raises:
        InvalidArgumentError: an index out of range. A compiled function finds that too, before it changes a Variable.
    """
    x = as_tensor(params)
    positions = as_tensor(indices)
    if not positions.type.dtype.is_integer:
        raise wrong_dtype(positions.type.dtype, "integer indices")
    shared = static_integer(batch_dims, "batch_dims")
    shared = shared if shared >= 0 else shared + positions.type.rank
    place = axis_of(shared if axis is None else static_value(axis, "axis"), x.type.rank)
    require_inside(positions, x.type.shape[place])
    if place == 0:
        refuse_outside(positions, x.type.shape[0])
        return apply("lookup", x, positions, axis=0)  # type: ignore[no-any-return]
    return entries(x, positions, place, shared)


def entries(x: Tensor, indices: Tensor, axis: int, batch_dims: int = 0) -> Tensor:
    """As `gather`, with a dense gradient always: for functions that look entries up in their own way."""
    refuse_outside(indices, x.type.shape[axis])
    result: Tensor = apply("gather", x, indices, axis=axis, batch_dims=batch_dims)
    return result


def gather_nd(
    params: TensorLike,
    indices: TensorLike,
    batch_dims: int = 0,
    name: str | None = None,
    bad_indices_policy: str = "",
) -> Tensor:
    """Entries at tuples of indices.

    Args:
        params: the tensor.
        indices: ``[..., k]``, indices for ``k`` axes of ``params`` behind the batch axes.
        batch_dims: how many leading axes the two have in common.
        bad_indices_policy: ``IGNORE`` gives 0 for an index that is out of range.

    Returns:
        ``indices.shape[:-1] + params.shape[batch_dims + k:]``.

    Example: ``gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]])`` is ``[2, 3]``.
    """
    x, places = as_tensor(params), as_tensor(indices)
    valid, batch_dims = None, static_integer(batch_dims, "batch_dims")
    if ignores(bad_indices_policy):
        places, valid = valid_indices(places, x.type.shape[batch_dims:])
    flat, count = linear_index(places, x.type.shape[batch_dims:])
    lead, rest = x.type.shape[:batch_dims], x.type.shape[batch_dims + count :]
    inner = prod(x.type.shape[batch_dims : batch_dims + count])
    rows = reshape(x, (*lead, inner, *rest))
    found = gather(rows, flat, axis=batch_dims, batch_dims=batch_dims)
    return found if valid is None else where(expand_to(valid, found.type.rank), found, 0)


def ignores(bad_indices_policy: str) -> bool:
    """Whether indices out of range are passed over rather than refused.

    Raises:
        ValueError: no such policy.
    """
    if arguments.text(bad_indices_policy, "bad_indices_policy") not in (
        "",
        "DEFAULT",
        "ERROR",
        "IGNORE",
    ):
        raise ValueError(
            f"bad_indices_policy must be '', 'DEFAULT', 'ERROR' or 'IGNORE', got "
            f"{bad_indices_policy!r}",
            location=here(),
        )
    return bad_indices_policy == "IGNORE"


def valid_indices(indices: Tensor, shape: Sequence[DimLike]) -> tuple[Tensor, Tensor]:
    """Tuples of indices ``[..., k]`` with 0 for one out of range, and whether each is within range."""
    if not indices.type.rank:
        raise misfit("indices are tuples [..., k], got a scalar")
    count = indices.type.shape[-1]
    extents = dims_tensor(shape[: builtins.int(count)], indices.type.dtype)  # type: ignore[arg-type]
    valid = reduce_all(logical_and(less_equal(0, indices), less(indices, extents)), -1)
    return where(expand_dims(valid, -1), indices, 0), valid


def expand_to(x: Tensor, rank: int) -> Tensor:
    """With axes of size 1 behind its own, up to a rank."""
    return reshape(x, (*x.type.shape, *(1,) * (rank - x.type.rank)))


def linear_index(indices: Tensor, shape: Sequence[DimLike]) -> tuple[Tensor, int]:
    """Row-major positions from tuples of indices ``[..., k]``, and ``k``.

    Raises:
        InvalidArgumentError: an index out of range; see `gather`.
    """
    if not indices.type.rank:
        raise misfit("indices are tuples [..., k], got a scalar")
    count = indices.type.shape[-1]
    if isinstance(count, Dim) or count > len(shape):
        raise misfit(f"index innermost dimension length must be <= params rank; saw {count}")
    flat = as_tensor(0, indices.type.dtype)
    for index, extent in zip(unstack(indices, axis=-1), shape, strict=False):
        refuse_outside(index, extent)
        require_inside(index, extent)
        flat = add(multiply(flat, dim_tensor(extent, indices.type.dtype)), index)
    if not count:
        flat = reshape(
            apply("sum", indices, axes=(indices.type.rank - 1,)), indices.type.shape[:-1]
        )
    return flat, count


def boolean_mask(
    tensor: TensorLike, mask: TensorLike, axis: Any = None, name: str | None = None
) -> Tensor:
    """The entries at which a mask holds, in one axis.

    Args:
        tensor: the tensor.
        mask: bools in the shape of some axes of the tensor, from ``axis`` on.
        axis: the first of these axes; 0 by default.

    Raises:
        NotImplementedError: while a function is compiled, unless the mask is a literal: the result's shape depends on
            values.
        ValueError: the mask does not fit.
    """
    x, condition = as_tensor(tensor), as_tensor(mask, BOOL)
    held = known_elements(condition)
    if held is None:
        refuse_in_trace("boolean_mask", "multiply by the mask, or use tapec.where")
        held = condition.array
    place = axis_of(0 if axis is None else axis, x.type.rank)
    shape, covered = x.type.shape, condition.type.shape
    if not covered or shape[place : place + len(covered)] != covered:
        raise ValueError(
            f"boolean_mask: a mask of shape {condition.shape} for axes of {x.shape}",
            location=here(),
        )
    rest = shape[place + len(covered) :]
    flat = reshape(x, (*shape[:place], prod(covered), *rest))
    rows = np.flatnonzero(held)
    dtype = np.int32 if flat.type.shape[place] < 2**31 else np.int64  # type: ignore[operator]
    return entries(flat, as_tensor(rows.astype(dtype)), place)


def unravel_index(indices: TensorLike, dims: Any, name: str | None = None) -> Tensor:
    """Tuples of indices, along the first axis, from row-major positions in a tensor of a shape.

    Example: ``unravel_index([7, 3], [3, 4])`` is ``[[1, 0], [3, 3]]``.

    Raises:
        InvalidArgumentError: a position is outside.
    """
    rest, shape = as_tensor(indices), as_shape(dims)
    if not rest.type.dtype.is_integer:
        raise wrong_dtype(rest.type.dtype, "integers")
    refuse_outside(rest, prod(shape))
    require_inside(rest, prod(shape))
    found: list[Tensor] = []
    for n in reversed(shape):
        size = dim_tensor(n, rest.type.dtype)
        found.append(floormod(rest, size))
        rest = floordiv(rest, size)
    return stack(found[::-1])
