"""The same elements in another shape or order, repeated, joined, cut or padded.

A shape argument is a sequence of numbers, a TensorShape or an integer tensor; an axis may be
negative. Raises of every function: InvalidArgumentError if a shape or an axis does not fit; while a
function is compiled the same mistake is a ValueError.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from tapec import arguments
from tapec.eager.composite import composed
from tapec.errors import TapecError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import conj
from tapec.functions.broadcasting import (
    axes_of,
    axis_of,
    broadcast,
    common_shape,
    has_dtype,
    like,
    may_equal,
    misfit,
    shape_text,
)
from tapec.functions.known import (
    as_dim,
    as_shape,
    is_less,
    known_elements,
    static_integer,
    static_value,
)
from tapec.functions.sliding import bound_of, entries_from, unknown_size
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import STRING, Shape
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def reshape(tensor: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """The same elements, row-major, in another shape; one size may be -1 and is found.

    Example: ``reshape(range(6), [2, -1])`` is ``[[0, 1, 2], [3, 4, 5]]``.
    """
    x = as_tensor(tensor)
    wanted = _completed(x, as_shape(shape))
    if wanted == x.type.shape:
        return x
    result: Tensor = apply("reshape", x, shape=wanted)
    return result


def _completed(x: Tensor, shape: Shape) -> Shape:
    """The shape with -1 replaced, checked against the number of elements."""
    size = x.type.size
    unknown = [i for i, n in enumerate(shape) if not isinstance(n, Dim) and n < 0]
    if len(unknown) > 1 or any(shape[i] != -1 for i in unknown):
        raise misfit(f"reshape: only one size may be -1, got {list(shape)}")
    rest = prod(n for i, n in enumerate(shape) if i not in unknown)
    fixed = not isinstance(size, Dim) and not isinstance(rest, Dim)
    if not unknown:
        if fixed and size != rest:
            raise misfit(
                f"Input to reshape is a tensor with {size} values, but the requested shape has {rest}"
            )
        return shape
    if rest == 0 or (fixed and size % rest):
        raise misfit(
            f"Input to reshape is a tensor with {size} values, but the requested shape requires a "
            f"multiple of {rest}"
        )
    return tuple(size // rest if i in unknown else n for i, n in enumerate(shape))


def transpose(
    a: TensorLike, perm: Any = None, conjugate: bool = False, name: str | None = None
) -> Tensor:
    """The axes in another order: axis ``perm[i]`` becomes axis ``i``; reversed without ``perm``.

    Args:
        a: the tensor.
        perm: a permutation of its axes.
        conjugate: whether complex elements are conjugated as well.
    """
    x = as_tensor(a)
    rank = x.type.rank
    axes = builtins.range(rank)[::-1] if perm is None else [axis_of(p, rank) for p in _list(perm)]
    order = tuple(axes)
    if sorted(order) != list(builtins.range(rank)):
        raise misfit(f"transpose: {list(order)} is no permutation of {rank} axes")
    if arguments.flag(conjugate, "conjugate"):
        x = conj(x)
    if order == tuple(builtins.range(rank)):
        return x
    result: Tensor = apply("transpose", x, permutation=order)
    return result


def _list(values: Any) -> list[Any]:
    """A list of numbers from a list, an array or a tensor that is known."""
    if has_dtype(values):
        return list(as_shape(values))
    return [n.item() if isinstance(n, np.generic) else n for n in arguments.items(values, "a list")]


def expand_dims(input: TensorLike, axis: Any, name: str | None = None) -> Tensor:
    """A new axis of size 1 in front of ``axis``; -1 appends it."""
    x = as_tensor(input)
    place = axis_of(axis, x.type.rank + 1)
    shape = x.type.shape
    result: Tensor = apply("reshape", x, shape=(*shape[:place], 1, *shape[place:]))
    return result


def squeeze(input: TensorLike, axis: Any = None, name: str | None = None) -> Tensor:
    """Without the axes of size 1 that are named, or without any."""
    x = as_tensor(input)
    shape = x.type.shape
    axes: Sequence[int] = [a for a, n in enumerate(shape) if n == 1]
    if axis is not None and not (isinstance(axis, list) and not axis):
        axes = axes_of(axis, len(shape), "squeeze dimension")
        for a in axes:
            if shape[a] != 1:
                raise misfit(f"Can not squeeze dim[{a}], expected a dimension of 1, got {shape[a]}")
    return reshape(x, tuple(n for a, n in enumerate(shape) if a not in axes))


def broadcast_to(input: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Repeated to a shape by NumPy's rule."""
    x, wanted = as_tensor(input), as_shape(shape)
    source = x.type.shape
    if len(source) > len(wanted) or common_shape(source, wanted) != wanted:
        raise misfit(f"Incompatible shapes: {shape_text(source)} vs. {shape_text(wanted)}")
    return broadcast(x, wanted)


def ensure_shape(x: TensorLike, shape: Sequence[Any], name: str | None = None) -> Tensor:
    """``x`` itself, whose shape must be ``shape``; None stands for any size."""
    tensor = as_tensor(x)
    sizes = [None if n is None else as_dim(n) for n in arguments.items(shape, "a shape")]
    fits = len(sizes) == tensor.type.rank and all(
        wanted is None or isinstance(n, Dim) or wanted == n
        for wanted, n in zip(sizes, tensor.type.shape, strict=True)
    )
    if not fits:
        raise misfit(
            f"Shape of tensor {tensor.shape} is not compatible with expected shape {shape}"
        )
    return tensor


# -- joining and cutting


def _tensors(values: Any, name: str) -> list[Tensor]:
    """Tensors of one dtype from a list; numbers take the dtype of the first tensor in it."""
    if not isinstance(values, list | tuple):
        values = (
            list(as_tensor(values))
            if has_dtype(values)
            else arguments.items(values, f"the tensors of {name}")
        )
    if not values:
        raise ValueError(f"{name} needs at least one tensor", location=here())
    first = next((as_tensor(v) for v in values if has_dtype(v)), None)
    first = as_tensor(values[0]) if first is None else first
    return [like(v, first.type.dtype) for v in values]


def concat(values: Any, axis: Any, name: str | None = None) -> Tensor:
    """Tensors one behind the other along an axis; they agree in every other size and in dtype.

    Example: ``concat([[[1.0]], [[2.0]]], axis=1)`` is ``[[1.0, 2.0]]``.
    """
    if has_dtype(values):
        return as_tensor(values)
    parts = _tensors(values, "concat")
    if any(p.type.rank == 0 for p in parts):
        raise misfit("ConcatOp : Expected concatenating dimensions of at least rank 1", "use stack")
    place = axis_of(axis, parts[0].type.rank, "concat dimension")
    if len(parts) == 1:
        return parts[0]
    result: Tensor = apply("concat", *parts, axis=place)
    return result


def stack(values: Any, axis: Any = 0, name: str | None = None) -> Tensor:
    """Tensors of one shape along a new axis.

    Example: ``stack([[1, 2], [3, 4]], axis=1)`` is ``[[1, 3], [2, 4]]``.
    """
    if isinstance(values, list | tuple) and not any(map(has_dtype, values)):
        values = _of_one_dtype(values)
    parts = _tensors(values, "stack")
    for i, part in enumerate(parts):
        if not may_equal(part.type.shape, parts[0].type.shape):
            raise misfit(
                f"Shapes of all inputs must match: values[0].shape = "
                f"{shape_text(parts[0].type.shape)} != values[{i}].shape = "
                f"{shape_text(part.type.shape)}"
            )
    place = axis_of(axis, parts[0].type.rank + 1)
    return composed(_stacked, *parts, place=place)  # type: ignore[no-any-return]


def _of_one_dtype(values: Sequence[Any]) -> list[TensorLike]:
    """Numbers and lists as tensors of the dtype that all of them have together, if they are alike otherwise."""
    if not values:
        return [as_tensor([])]
    try:
        dtype = as_tensor(values).type.dtype
    except TapecError:
        return list(values)
    return [as_tensor(value, dtype) for value in values]


def _stacked(*parts: Tensor, place: int) -> Tensor:
    return concat([expand_dims(p, place) for p in parts], place)


def unstack(
    value: TensorLike, num: int | None = None, axis: Any = 0, name: str | None = None
) -> list[Tensor]:
    """The tensors along an axis, in a list; ``num`` if given must be their number."""
    x = as_tensor(value)
    place = axis_of(axis, x.type.rank)
    count = x.type.shape[place]
    if isinstance(count, Dim) or not arguments.is_one_of(num, (None, count)):
        raise misfit(f"unstack: axis {place} of {x.type} has {count} entries, not {num}")
    rest = tuple(n for a, n in enumerate(x.type.shape) if a != place)
    return [reshape(part(x, place, i, 1), rest) for i in builtins.range(count)]


def part(x: Tensor, axis: int, start: DimLike, size: DimLike, stride: int = 1) -> Tensor:
    """``size`` entries of an axis from ``start`` on, ``stride`` apart."""
    shape = x.type.shape
    if start == 0 and stride == 1 and size == shape[axis]:
        return x
    starts: list[DimLike] = [0] * len(shape)
    sizes, strides = list(shape), [1] * len(shape)
    starts[axis], sizes[axis], strides[axis] = start, size, stride
    result: Tensor = apply(
        "slice", x, starts=tuple(starts), sizes=tuple(sizes), strides=tuple(strides)
    )
    return result


def split(
    value: TensorLike,
    num_or_size_splits: Any,
    axis: Any = 0,
    num: int | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Cut along an axis: into so many equal parts, or into parts of these sizes (one may be -1).

    ``num`` is the number of sizes, which is known anyway: another one is refused.

    Example: ``split(range(5), [2, -1])`` is ``[[0, 1], [2, 3, 4]]``.
    """
    x = as_tensor(value)
    place = axis_of(axis, x.type.rank)
    extent = x.type.shape[place]
    sizes: list[DimLike]
    if isinstance(num_or_size_splits, list | tuple | np.ndarray):
        sizes = list(as_shape(num_or_size_splits))
        if not arguments.is_one_of(num, (None, len(sizes))):
            raise misfit(f"split: {len(sizes)} sizes, but num = {num}")
        rest = extent - sum(n for n in sizes if n != -1)
        sizes = [rest if n == -1 else n for n in sizes]
    else:
        count = static_integer(num_or_size_splits, "the number of parts")
        if count < 1:
            raise misfit(f"split: the number of parts must be positive, got {count}")
        sizes = [extent // count] * count
    if sum(sizes) != extent or any(not isinstance(n, Dim) and n < 0 for n in sizes):
        raise misfit(f"split: {num_or_size_splits} does not divide axis {place} of size {extent}")
    return composed(_cut, x, place=place, sizes=tuple(sizes))  # type: ignore[no-any-return]


def _cut(x: Tensor, place: int, sizes: Sequence[DimLike]) -> list[Tensor]:
    starts = accumulate(sizes, initial=0)
    return [part(x, place, start, n) for start, n in zip(starts, sizes, strict=False)]


def slice(input_: TensorLike, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """``size`` entries from ``begin`` on, for each axis; a size of -1 means up to the end.

    Raises:
        InvalidArgumentError: these are not inside of an axis.
        NotImplementedError: while a function is compiled, a size is -1 where ``begin`` is known to the run alone.
    """
    x = as_tensor(input_)
    starts, sizes = bounds_of(begin), as_shape(size)
    if not len(starts) == len(sizes) == x.type.rank:
        raise misfit(f"slice: begin {starts} and size {list(sizes)} do not fit {x.type}")
    for axis, start in enumerate(starts):
        if isinstance(start, Tensor):
            if sizes[axis] == -1:
                raise unknown_size()
            x, starts[axis] = entries_from(x, axis, start, sizes[axis]), 0
    whole = zip(starts, sizes, x.type.shape, strict=True)
    sizes = tuple(n - start if length == -1 else length for start, length, n in whole)
    result: Tensor = apply("slice", x, starts=tuple(starts), sizes=sizes, strides=(1,) * len(sizes))
    return result


def bounds_of(values: Any) -> list[Any]:
    """Bounds of slices, from a number, sequence or vector: numbers, and Tensors that only the run knows."""
    if isinstance(values, Tensor) or hasattr(values, "read_value"):
        tensor = as_tensor(values)
        known = known_elements(tensor) is not None
        values = as_shape(tensor) if known or tensor.type.rank != 1 else unstack(tensor)
    if isinstance(values, builtins.int):
        values = (values,)
    return [bound_of(v, "a bound of a slice") for v in arguments.items(values, "bounds")]


# -- repeating, padding, turning round


def tile(input: TensorLike, multiples: Any, name: str | None = None) -> Tensor:
    """The whole tensor so many times along each axis.

    Example: ``tile([1, 2], [2])`` is ``[1, 2, 1, 2]``.
    """
    x, times = as_tensor(input), as_shape(multiples)
    if len(times) != x.type.rank:
        raise misfit(f"Expected multiples argument to be a vector of length {x.type.rank}")
    pairs = list(zip(times, x.type.shape, strict=True))
    wide = tuple(n for pair in pairs for n in pair)
    repeated = apply("broadcast", x, shape=wide, axes=tuple(builtins.range(1, len(wide), 2)))
    return reshape(repeated, tuple(m * n for m, n in pairs))


def repeat(
    input: TensorLike, repeats: TensorLike, axis: Any = None, name: str | None = None
) -> Tensor:
    """Every entry of an axis so many times in a row; the flat elements without an axis.

    Example: ``repeat([1, 2], 2)`` is ``[1, 1, 2, 2]``; ``repeat([1, 2], [0, 3])`` is ``[2, 2, 2]``.

    Raises:
        TypeError: ``repeats`` is not known while a function is compiled.
    """
    x = as_tensor(input)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    place = axis_of(axis, x.type.rank)
    shape = x.type.shape
    counts = as_shape(repeats)
    if any(not isinstance(n, Dim) and n < 0 for n in counts):
        raise misfit(f"repeats must not be negative, got {list(counts)}")
    if len(counts) == 1:
        wide = (*shape[: place + 1], counts[0], *shape[place + 1 :])
        axes = (*builtins.range(place + 1), *builtins.range(place + 2, len(wide)))
        repeated = apply("broadcast", x, shape=wide, axes=axes)
        return reshape(repeated, (*shape[:place], shape[place] * counts[0], *shape[place + 1 :]))
    if len(counts) != shape[place]:
        raise misfit(f"repeat: {len(counts)} counts for {shape[place]} entries")
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)  # type: ignore[arg-type]
    result: Tensor = apply("gather", x, as_tensor(rows.tolist() or rows), axis=place, batch_dims=0)
    return result


def pad(
    tensor: TensorLike,
    paddings: Any,
    mode: str = "CONSTANT",
    constant_values: Any = 0,
    name: str | None = None,
) -> Tensor:
    """More entries in front of and behind each axis.

    Args:
        tensor: the tensor.
        paddings: ``[rank, 2]``, how many entries before and after.
        mode: CONSTANT fills with ``constant_values``; REFLECT mirrors without the edge, SYMMETRIC
            with it.
        constant_values: a number.

    Raises:
        ValueError: an unknown mode.
    """
    x = as_tensor(tensor)
    if has_dtype(paddings):
        flat = as_shape(paddings)
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
    else:
        pairs = [as_shape(pair) for pair in arguments.items(paddings, "paddings")]  # type: ignore[misc]
    if any(len(pair) != 2 for pair in pairs):
        raise misfit(f"pad: paddings must be pairs, got {arguments.shown(paddings)}")
    if len(pairs) != x.type.rank:
        raise misfit(f"pad: paddings for {len(pairs)} axes, the tensor has {x.type.rank}")
    mode = arguments.text(mode, "mode")
    if mode.upper() == "CONSTANT":
        low, high = (tuple(p[i] for p in pairs) for i in (0, 1))
        value = static_value(constant_values, "constant_values")
        if isinstance(value, str | bytes) != (x.type.dtype == STRING):
            raise TypeError(
                f"constant_values must be of dtype {x.type.dtype.name}, got {arguments.shown(value)}",
                location=here(),
            )
        if not isinstance(value, str | bytes | complex):
            value = arguments.number(value, "constant_values")
        interior = (0,) * len(pairs)
        result: Tensor = apply("pad", x, value=value, low=low, high=high, interior=interior)
        return result
    if mode.upper() not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(f"Unknown padding mode: {mode}", location=here())
    skip = int(mode.upper() == "REFLECT")
    for axis, (before, after) in enumerate(pairs):
        x = _mirrored(x, axis, int(before), int(after), skip)  # type: ignore[arg-type]
    return x


def _mirrored(x: Tensor, axis: int, before: int, after: int, skip: int) -> Tensor:
    extent = x.type.shape[axis]
    if is_less(extent - skip, builtins.max(before, after)):
        raise misfit(f"pad: {before} and {after} mirrored entries of an axis of size {extent}")
    parts = [x]
    if before:
        parts.insert(0, reverse(part(x, axis, skip, before), [axis]))
    if after:
        parts.append(reverse(part(x, axis, extent - after - skip, after), [axis]))
    return concat(parts, axis)


def reverse(tensor: TensorLike, axis: Any, name: str | None = None) -> Tensor:
    """The entries of these axes in the opposite order."""
    x = as_tensor(tensor)
    axes = axes_of(axis, x.type.rank, "reverse axis")
    if not axes:
        return x
    result: Tensor = apply("reverse", x, axes=axes)
    return result


def roll(input: TensorLike, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """The entries moved by ``shift`` places along an axis; what leaves at the end enters in front.

    Example: ``roll([1, 2, 3], 1, 0)`` is ``[3, 1, 2]``.
    """
    x = as_tensor(input)
    shifts, axes = as_shape(shift), as_shape(axis)
    if len(shifts) != len(axes):
        raise misfit(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for by, place in zip(shifts, (axis_of(a, x.type.rank) for a in axes), strict=True):
        extent = x.type.shape[place]
        if extent == 0:
            continue
        cut = (extent - by) % extent
        x = concat([part(x, place, cut, extent - cut), part(x, place, 0, cut)], place)
    return x


def meshgrid(*args: TensorLike, indexing: str = "xy") -> list[Tensor]:
    """Coordinate tensors of a grid from vectors of coordinates.

    Args:
        args: vectors, the coordinates along each axis.
        indexing: ``ij`` gives result axis ``i`` to vector ``i``; ``xy`` swaps the first two.

    Raises:
        ValueError: an unknown ``indexing``.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError("Argument `indexing` must be one of ('xy', 'ij')", location=here())
    vectors = [reshape(v, (-1,)) for v in args]
    order = list(builtins.range(len(vectors)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    shape = tuple(vectors[i].type.shape[0] for i in order)
    return [
        apply("broadcast", v, shape=shape, axes=(order.index(i),)) for i, v in enumerate(vectors)
    ]


def parallel_stack(values: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """`tapec.stack` along a new first axis."""
    return stack(values)
