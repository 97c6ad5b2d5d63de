"""Entries dealt out into parts and put together again, and sequences turned around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.functions.arithmetic import (
    cast,
    equal,
    less,
    subtract,
    where,
)
from tapec.functions.arrays import counting
from tapec.functions.broadcasting import axis_of, misfit, refuse_in_trace, wrong_dtype
from tapec.functions.indexing import boolean_mask, gather
from tapec.functions.rearrangement import concat, expand_dims, reshape, transpose
from tapec.functions.scattering import scatter_nd
from tapec.ir.types import I32
from tapec.tensor import Tensor, TensorLike, as_tensor


def reverse_sequence(
    input: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: Any = None,
    batch_axis: Any = None,
    name: str | None = None,
) -> Tensor:
    """The first ``seq_lengths[i]`` entries of each sequence in reverse.

    Args:
        input: sequences.
        seq_lengths: ``[batch]`` integers.
        seq_axis: along which a sequence runs; 1 if None.
        batch_axis: which counts the sequences; 0 if None.

    Example: ``reverse_sequence([[1, 2, 3]], [2])`` is ``[[2, 1, 3]]``.
    """
    x, lengths = as_tensor(input), cast(as_tensor(seq_lengths), I32)
    along = axis_of(1 if seq_axis is None else seq_axis, x.type.rank)
    batch = axis_of(0 if batch_axis is None else batch_axis, x.type.rank)
    order = [batch, along, *(a for a in range(x.type.rank) if a not in (batch, along))]
    rows = transpose(x, order)
    place = expand_dims(counting(I32, x.type.shape[along]), 0)
    length = expand_dims(lengths, 1)
    source = where(less(place, length), subtract(subtract(length, 1), place), place)
    back = [order.index(a) for a in range(x.type.rank)]
    return transpose(gather(rows, source, axis=1, batch_dims=1), back)


def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Entries dealt out to lists by number.

    Args:
        data: entries along the leading axes, as many as ``partitions`` has.
        partitions: integers in ``[0, num_partitions)``.
        num_partitions: how many lists.

    Raises:
        NotImplementedError: while a function is compiled: sizes depend on values.
        InvalidArgumentError: a number out of range.
    """
    x, which = as_tensor(data), as_tensor(partitions)
    refuse_in_trace("dynamic_partition", "multiply by the mask of each part")
    array, num_partitions = which.array, arguments.integer(num_partitions, "num_partitions")
    if not which.type.dtype.is_integer:
        raise wrong_dtype(which.type.dtype, "integer partitions")
    if array.size and not 0 <= array.min() <= array.max() < num_partitions:
        raise misfit(
            f"partitions must be in [0, {num_partitions}), got {array.reshape(-1).tolist()[:20]}"
        )
    return [boolean_mask(x, equal(which, number)) for number in range(num_partitions)]


def dynamic_stitch(
    indices: Sequence[TensorLike], data: Sequence[TensorLike], name: str | None = None
) -> Tensor:
    """Entries put together at their indices; of several for one index the last counts.

    Args:
        indices: integers, a tensor for each of ``data``.
        data: ``indices[i].shape + rest``, with one ``rest`` for all.

    Returns:
        ``[greatest index + 1, *rest]``, 0 where there is no entry.

    Raises:
        NotImplementedError: while a function is compiled: the size depends on values.
    """
    refuse_in_trace("dynamic_stitch", "use tapec.scatter_nd, which is told the shape")
    places = [as_tensor(i, I32) for i in arguments.items(indices, "indices")]
    values = [as_tensor(v) for v in arguments.items(data, "data")]
    if not places or len(places) != len(values):
        raise misfit(f"dynamic_stitch: {len(places)} indices for {len(values)} pieces of data")
    rest = values[0].type.shape[places[0].type.rank :]
    flat = concat([reshape(i, (-1,)) for i in places], 0)
    entries = concat([reshape(v, (-1, *rest)) for v in values], 0)
    array = flat.array
    size = int(array.max()) + 1 if array.size else 0
    last = np.array([i for i, place in enumerate(array) if place not in array[i + 1 :]], np.int32)
    chosen = expand_dims(gather(flat, last), -1)
    return scatter_nd(chosen, gather(entries, last), (size, *rest))
