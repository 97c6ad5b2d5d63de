"""NumPy's functions that move, choose or repeat elements, with NumPy's parameters."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tapec.functions import arithmetic, elementary, indexing, ordering, rearrangement
from tapec.functions.arithmetic import multiply, where
from tapec.functions.broadcasting import axis_of, common_shape, converted
from tapec.functions.indexing import entries, getitem
from tapec.functions.rearrangement import concat, expand_dims, reshape, transpose
from tapec.interchange.statistics import flat, floats
from tapec.interchange.ufuncs import trunc
from tapec.ir.types import BOOL, I64
from tapec.tensor import Tensor, as_tensor

Function = Callable[..., Any]


def _reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: Any = None) -> Any:
    if order != "C" or shape is None:
        return NotImplemented
    return reshape(a, [shape] if isinstance(shape, builtins.int) else shape)


def _ravel(a: Any, order: str = "C") -> Any:
    return reshape(a, [-1]) if order == "C" else NotImplemented


def _transpose(a: Any, axes: Any = None) -> Tensor:
    x = as_tensor(a)
    rank = x.type.rank
    return transpose(x, None if axes is None else [axis_of(n, rank) for n in axes])


def _move_axis(a: Any, source: Any, destination: Any) -> Tensor:
    x = as_tensor(a)
    rank = x.type.rank
    starts, ends = (
        [axis_of(n, rank) for n in (v if isinstance(v, Sequence) else [v])]
        for v in (source, destination)
    )
    order = [n for n in range(rank) if n not in starts]
    for end, start in sorted(zip(ends, starts, strict=True)):
        order.insert(end, start)
    return transpose(x, order)


def _swap_axes(a: Any, axis1: int, axis2: int) -> Tensor:
    x = as_tensor(a)
    order = list(range(x.type.rank))
    one, other = axis_of(axis1, x.type.rank), axis_of(axis2, x.type.rank)
    order[one], order[other] = order[other], order[one]
    return transpose(x, order)


def _expand_dims(a: Any, axis: Any) -> Tensor:
    x = as_tensor(a)
    axes = axis if isinstance(axis, tuple | list) else [axis]
    rank = x.type.rank + len(axes)
    for place in sorted(axis_of(n, rank) for n in axes):
        x = expand_dims(x, place)
    return x


def _squeeze(a: Any, axis: Any = None) -> Tensor:
    return rearrangement.squeeze(a, list(axis) if isinstance(axis, tuple) else axis)


def _at_least(rank: int) -> Function:
    def widened(*arrays: Any) -> Any:
        found = []
        for a in arrays:
            x = as_tensor(a)
            if x.type.rank < rank and rank == 3 and x.type.rank:
                lead = 1 if x.type.rank == 1 else 0
                x = reshape(x, [*[1] * lead, *x.type.shape, 1])
            while x.type.rank < rank:
                x = expand_dims(x, 0)
            found.append(x)
        return found[0] if len(found) == 1 else tuple(found)

    return widened


def _together(arrays: Any) -> list[Tensor]:
    """Arrays beside tensors take their dtype."""
    parts = [
        a if isinstance(a, Tensor) else as_tensor(a) if hasattr(a, "read_value") else a
        for a in arrays
    ]
    known = next((p for p in parts if isinstance(p, Tensor)), None)
    return [as_tensor(p) if known is None else converted(known, p)[1] for p in parts]


def _concatenate(arrays: Any, /, axis: Any = 0) -> Tensor:
    parts = _together(arrays)
    if axis is None:
        return concat([reshape(a, [-1]) for a in parts], 0)
    return concat(parts, axis)


def _stack(arrays: Any, axis: int = 0) -> Tensor:
    return rearrangement.stack(_together(arrays), axis)


def _vertical(tup: Any) -> Tensor:
    parts = _together(tup)
    return concat([reshape(a, [1, -1]) if a.type.rank < 2 else a for a in parts], 0)


def _horizontal(tup: Any) -> Tensor:
    parts = [reshape(a, [1]) if not a.type.rank else a for a in _together(tup)]
    return concat(parts, 0 if parts[0].type.rank == 1 else 1)


def _columns(tup: Any) -> Tensor:
    parts = _together(tup)
    return concat([reshape(a, [-1, 1]) if a.type.rank < 2 else a for a in parts], 1)


def _in_depth(tup: Any) -> Tensor:
    widen = _at_least(3)
    return concat([widen(a) for a in _together(tup)], 2)


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0, *, equal: bool = False) -> Any:
    x = as_tensor(ary)
    place = axis_of(axis, x.type.rank)
    extent = x.type.shape[place]
    if not isinstance(extent, builtins.int):
        return NotImplemented
    if isinstance(indices_or_sections, builtins.int):
        if equal and extent % indices_or_sections:
            return NotImplemented  # NumPy says why
        ends = [len(p) for p in np.array_split(np.empty(extent), indices_or_sections)]
        bounds = [0, *np.cumsum(ends).tolist()]
    else:
        bounds = [0, *[int(i) for i in indices_or_sections], extent]
    lead = (builtins.slice(None),) * place
    pairs = pairwise(bounds)
    return [getitem(x, (*lead, builtins.slice(a, b))) for a, b in pairs]


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return _array_split(ary, indices_or_sections, axis, equal=True)


def _tile(A: Any, reps: Any) -> Tensor:
    x = as_tensor(A)
    counts = list(reps) if isinstance(reps, Sequence | np.ndarray) else [reps]
    counts = [1] * (x.type.rank - len(counts)) + counts
    while x.type.rank < len(counts):
        x = expand_dims(x, 0)
    return rearrangement.tile(x, counts)


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    x, place = flat(a, axis)
    return rearrangement.repeat(x, repeats, place)


def _pad(array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0) -> Any:
    x = as_tensor(array)
    modes = {"constant": "CONSTANT", "reflect": "REFLECT", "symmetric": "SYMMETRIC"}
    if mode not in modes or np.ndim(constant_values):
        return NotImplemented
    widths = np.broadcast_to(pad_width, (x.type.rank, 2)).tolist()
    return rearrangement.pad(x, widths, modes[mode], constant_values)


def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    if axis is None:
        return reshape(rearrangement.roll(reshape(a, [-1]), shift, 0), as_tensor(a).type.shape)
    return rearrangement.roll(a, shift, axis)


def _flip(m: Any, axis: Any = None) -> Tensor:
    x = as_tensor(m)
    axes = range(x.type.rank) if axis is None else axis if isinstance(axis, tuple) else [axis]
    return rearrangement.reverse(x, list(axes))


def _rotate(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    one, other = axes
    for _ in range(k % 4):
        m = _flip(_swap_axes(m, one, other), one)
    return as_tensor(m)


def _take(a: Any, indices: Any, axis: Any = None, *, mode: str = "raise") -> Any:
    x, place = flat(a, axis)
    at = as_tensor(indices)
    if mode != "raise":
        return NotImplemented
    size = x.type.shape[axis_of(place, x.type.rank)]
    return entries(x, where(arithmetic.less(at, 0), at + size, at), axis_of(place, x.type.rank))


def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x, place = flat(arr, axis)
    place = axis_of(place, x.type.rank)
    at = as_tensor(indices)
    size, rank = x.type.shape[place], x.type.rank
    lead = (*x.type.shape[:place], *x.type.shape[place + 1 :])
    if at.type.rank != rank or lead != (*at.type.shape[:place], *at.type.shape[place + 1 :]):
        return NotImplemented
    at = where(arithmetic.less(at, 0), at + size, at)
    back = _move_axis(
        entries(_move_axis(x, place, -1), _move_axis(at, place, -1), rank - 1, rank - 1), -1, place
    )
    return back


def _compress(condition: Any, a: Any, axis: Any = None) -> Any:
    x, place = flat(a, axis)
    mask = as_tensor(condition)
    size = x.type.shape[axis_of(place, x.type.rank)]
    return indexing.boolean_mask(x, mask, place) if mask.type.shape == (size,) else NotImplemented


def _extract(condition: Any, arr: Any) -> Any:
    mask = arithmetic.cast(reshape(condition, [-1]), BOOL)
    return indexing.boolean_mask(reshape(arr, [-1]), mask)


def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    found = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        found = where(condition, choice, found)
    return found


def _where(condition: Any, x: Any, y: Any, /) -> Tensor:
    return where(arithmetic.cast(condition, BOOL), x, y)


def _sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    return ordering.sort(*flat(a, axis))


def _argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    return arithmetic.cast(ordering.argsort(*flat(a, axis)), I64)


def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Tensor:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x = as_tensor(a)
    x = x if low is None else arithmetic.maximum(x, low)
    return x if high is None else arithmetic.minimum(x, high)


def _round(a: Any, decimals: int = 0) -> Tensor:
    if not decimals:
        return arithmetic.round(a)
    scale = 10.0**decimals
    return arithmetic.divide(arithmetic.round(multiply(floats(a), scale)), scale)


def _nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    if not copy:
        return NotImplemented
    tensor = floats(x)
    limits = tensor.type.dtype
    tensor = where(arithmetic.is_nan(tensor), nan, tensor)
    infinite = arithmetic.is_inf(tensor)
    up = limits.max if posinf is None else posinf
    down = limits.min if neginf is None else neginf
    return where(infinite, where(arithmetic.greater(tensor, 0), up, down), tensor)


def _sinc(x: Any) -> Tensor:
    angle = multiply(floats(x), np.pi)
    zero = arithmetic.equal(angle, 0)
    safe = where(zero, 1, angle)
    return where(zero, 1, arithmetic.divide(elementary.sin(safe), safe))


def _angle(z: Any, deg: bool = False) -> Tensor:
    return multiply(arithmetic.angle(z), 180 / np.pi if deg else 1)


def _meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> Any:
    return NotImplemented if sparse else tuple(rearrangement.meshgrid(*xi, indexing=indexing))


def _broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    tensors = _together(args)
    shape = common_shape(*[t.type.shape for t in tensors])
    return tuple(rearrangement.broadcast_to(t, shape) for t in tensors)


def _append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    return _concatenate([arr, values], axis=axis)


ARRAYS: dict[Any, Function] = {
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.transpose: _transpose,
    np.permute_dims: _transpose,
    np.moveaxis: _move_axis,
    np.swapaxes: _swap_axes,
    np.expand_dims: _expand_dims,
    np.squeeze: _squeeze,
    np.atleast_1d: _at_least(1),
    np.atleast_2d: _at_least(2),
    np.atleast_3d: _at_least(3),
    np.broadcast_to: lambda array, shape, subok=False: rearrangement.broadcast_to(array, shape),
    np.broadcast_arrays: _broadcast_arrays,
    np.concatenate: _concatenate,
    np.append: _append,
    np.stack: _stack,
    np.vstack: _vertical,
    np.hstack: _horizontal,
    np.dstack: _in_depth,
    np.column_stack: _columns,
    np.split: _split,
    np.array_split: _array_split,
    np.vsplit: lambda ary, indices_or_sections: _split(ary, indices_or_sections, 0),
    np.hsplit: lambda ary, indices_or_sections: _split(
        ary, indices_or_sections, 0 if as_tensor(ary).type.rank == 1 else 1
    ),
    np.unstack: lambda x, /, *, axis=0: tuple(rearrangement.unstack(x, axis=axis)),
    np.tile: _tile,
    np.repeat: _repeat,
    np.pad: _pad,
    np.roll: _roll,
    np.flip: _flip,
    np.fliplr: lambda m: _flip(m, 1),
    np.flipud: lambda m: _flip(m, 0),
    np.rot90: _rotate,
    np.meshgrid: _meshgrid,
    np.take: _take,
    np.take_along_axis: _take_along_axis,
    np.compress: _compress,
    np.extract: _extract,
    np.select: _select,
    np.where: _where,
    np.sort: _sort,
    np.argsort: _argsort,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.fix: trunc,
    np.nan_to_num: _nan_to_num,
    np.sinc: _sinc,
    np.real: arithmetic.real,
    np.imag: arithmetic.imag,
    np.angle: _angle,
    np.copy: lambda a, order="K", subok=False: arithmetic.identity(as_tensor(a)),
    np.astype: lambda x, dtype, /, *, copy=True, device=None: arithmetic.cast(x, dtype),
}
