"""Rewriting rules for operations that move elements.

Movement of movement becomes one movement, movement that moves nothing goes, and a tensor of equal
elements is not moved but made.
"""

from __future__ import annotations

import numpy as np

from tapec.ir.builder import Builder
from tapec.ir.core import Operation, Value
from tapec.ir.ops.contraction import MatMul
from tapec.ir.ops.movement import Broadcast, Movement, Reshape, Reverse, Slice, Transpose
from tapec.ir.ops.padding import Concat, Pad
from tapec.ir.ops.reduction import Sum
from tapec.passes.rules.rewrite import Replacement, Rule, plain, producer, splat


def move_equal_elements(b: Builder, op: Operation) -> Replacement:
    if len(op.operands) != 1 or isinstance(op.defn, Pad):
        return None
    number = splat(op.operands[0])
    return None if number is None else b.full(plain(number), op.result.tensor)


def broadcast_nothing(b: Builder, op: Operation) -> Replacement:
    (x,) = op.operands
    return x if x.tensor.rank == op.result.tensor.rank else None


def broadcast_twice(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], Broadcast)
    if inner is None:
        return None
    axes = tuple(op.attrs["axes"][a] for a in inner.attrs["axes"])
    return b.broadcast(*inner.operands, shape=op.attrs["shape"], axes=axes)


def broadcast_to_units(b: Builder, op: Operation) -> Replacement:
    shape, axes = op.attrs["shape"], op.attrs["axes"]
    new = [n for axis, n in enumerate(shape) if axis not in axes]
    return b.reshape(*op.operands, shape=shape) if all(n == 1 for n in new) else None


def reshape_nothing(b: Builder, op: Operation) -> Replacement:
    (x,) = op.operands
    return x if x.tensor.shape == op.result.tensor.shape else None


def reshape_twice(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], Reshape)
    return b.reshape(*inner.operands, shape=op.attrs["shape"]) if inner else None


def transpose_nothing(b: Builder, op: Operation) -> Replacement:
    (x,) = op.operands
    permutation = op.attrs["permutation"]
    if permutation == tuple(range(len(permutation))):
        return x
    long = [p for p in permutation if x.tensor.shape[p] != 1]
    return b.reshape(x, shape=op.result.tensor.shape) if long == sorted(long) else None


def transpose_twice(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], Transpose)
    if inner is None:
        return None
    first = inner.attrs["permutation"]
    permutation = tuple(first[p] for p in op.attrs["permutation"])
    return b.transpose(*inner.operands, permutation=permutation)


def transpose_repeated(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], Broadcast)
    if inner is None:
        return None
    permutation = op.attrs["permutation"]
    axes = [permutation.index(a) for a in inner.attrs["axes"]]
    (x,) = inner.operands
    order = sorted(range(len(axes)), key=axes.__getitem__)
    moved = b.transpose(x, permutation=tuple(order))
    return b.broadcast(moved, shape=op.result.tensor.shape, axes=tuple(sorted(axes)))


def slice_everything(b: Builder, op: Operation) -> Replacement:
    (x,) = op.operands
    return x if x.tensor.shape == op.result.tensor.shape else None


def slice_twice(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], Slice)
    if inner is None:
        return None
    first, second = inner.attrs, op.attrs
    steps = zip(first["starts"], second["starts"], first["strides"], strict=True)
    return b.slice(
        *inner.operands,
        starts=tuple(s + t * stride for s, t, stride in steps),
        sizes=second["sizes"],
        strides=tuple(s * t for s, t in zip(first["strides"], second["strides"], strict=True)),
    )


def slice_what_was_padded(b: Builder, op: Operation) -> Replacement:
    padded = producer(op.operands[0], Pad)
    if padded is None:
        return None
    (x,) = padded.operands
    steps = tuple(between + 1 for between in padded.attrs["interior"])
    same = (op.attrs["starts"], op.attrs["sizes"]) == (padded.attrs["low"], x.tensor.shape)
    return x if same and op.attrs["strides"] == steps else None


def pad_nothing(b: Builder, op: Operation) -> Replacement:
    (x,) = op.operands
    sides = (*op.attrs["low"], *op.attrs["high"])
    return x if not any(sides) and x.type == op.result.type else None


def pad_with_more_of_it(b: Builder, op: Operation) -> Replacement:
    number = splat(op.operands[0])
    if number is None:
        return None
    value = np.asarray(op.attrs["value"]).astype(number.dtype)
    same = value.tobytes() == number.tobytes()
    return b.full(plain(number), op.result.tensor) if same else None


def reverse_nothing(b: Builder, op: Operation) -> Replacement:
    (x,) = op.operands
    return x if all(x.tensor.shape[a] == 1 for a in op.attrs["axes"]) else None


def reverse_twice(b: Builder, op: Operation) -> Replacement:
    inner = producer(op.operands[0], Reverse)
    if inner is None:
        return None
    once = set(op.attrs["axes"]) ^ set(inner.attrs["axes"])
    return b.reverse(*inner.operands, axes=tuple(sorted(once)))


def concat_one(b: Builder, op: Operation) -> Replacement:
    axis = op.attrs["axis"]
    parts = [v for v in op.operands if v.tensor.shape[axis] != 0] or [op.operands[0]]
    if len(parts) == 1:
        return parts[0]
    return b.concat(*parts, axis=axis) if len(parts) < len(op.operands) else None


def sum_over_nothing(b: Builder, op: Operation) -> Replacement:
    return op.operands[0] if not op.attrs["axes"] else None


def multiply_transposed(b: Builder, op: Operation) -> Replacement:
    operands, flags = list(op.operands), {}
    for i, flag in enumerate(("transpose_a", "transpose_b")):
        turned = op.attrs.get(flag, False)
        straight = _rows_kept(b, op, operands[i])
        if straight is not None:
            operands[i] = straight
            turned = not turned
        if turned:
            flags[flag] = True
    same = flags == op.parameters and tuple(operands) == tuple(op.operands)
    return None if same else b.matmul(*operands, **flags)


def _rows_kept(b: Builder, op: Operation, matrix: Value) -> Value | None:
    """The matrices before their last two axes changed places, if they are rows of memory as they were.

    Other axes may have changed places, too: that copies rows, where columns would have to be picked together. A
    product takes blocks of what is turned as it packs them.
    """
    inner = producer(matrix, Transpose)
    rank = matrix.tensor.rank
    if inner is None or rank < 2 or inner.attrs["permutation"][-2] != rank - 1:
        return None
    *outer, row, column = inner.attrs["permutation"]
    if outer == sorted(outer) and column == rank - 2:
        return inner.operands[0]
    alone = all(user is op for user in matrix.users)
    return b.transpose(*inner.operands, permutation=(*outer, column, row)) if alone else None


RULES = (
    Rule("move(full(c)) -> full(c)", Movement, move_equal_elements),
    Rule("broadcast(x) -> x along no new axis", Broadcast, broadcast_nothing),
    Rule("broadcast(broadcast(x)) -> broadcast(x)", Broadcast, broadcast_twice),
    Rule("broadcast(x) -> reshape(x) along axes of size 1", Broadcast, broadcast_to_units),
    Rule("reshape(x) -> x if it has the shape", Reshape, reshape_nothing),
    Rule("reshape(reshape(x)) -> reshape(x)", Reshape, reshape_twice),
    Rule("transpose(x) -> x, or reshape(x) of axes of size 1", Transpose, transpose_nothing),
    Rule("transpose(transpose(x)) -> transpose(x)", Transpose, transpose_twice),
    Rule("transpose(broadcast(x)) -> broadcast(transpose(x))", Transpose, transpose_repeated),
    Rule("slice(x) -> x if it is all", Slice, slice_everything),
    Rule("slice(slice(x)) -> slice(x)", Slice, slice_twice),
    Rule("slice(pad(x)) -> x if it is that part", Slice, slice_what_was_padded),
    Rule("pad(x) -> x by nothing", Pad, pad_nothing),
    Rule("pad(full(c), c) -> full(c)", Pad, pad_with_more_of_it),
    Rule("reverse(x) -> x along axes of size 1", Reverse, reverse_nothing),
    Rule("reverse(reverse(x)) -> reverse(x)", Reverse, reverse_twice),
    Rule("concat(x) -> x; empty parts go", Concat, concat_one),
    Rule("sum(x) -> x over no axes", Sum, sum_over_nothing),
    Rule(
        "matmul(transpose(a), b) -> matmul(a, b, transpose_a), rows kept; a flag that says nothing goes",
        MatMul,
        multiply_transposed,
    ),
)
