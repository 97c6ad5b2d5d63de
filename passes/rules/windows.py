"""Rewriting rules for parts of what is computed around its edges: only the part is computed."""

from __future__ import annotations

from tapec.ir.builder import Builder
from tapec.ir.core import Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.ops.convolution import Conv
from tapec.ir.ops.movement import Slice, span
from tapec.ir.ops.padding import Pad
from tapec.passes.rules.rewrite import Replacement, Rule, producer


def slice_of_convolution(b: Builder, op: Operation) -> Replacement:
    """The places of the windows that are asked for, and the channels; nobody else reads the rest."""
    conv = producer(op.operands[0], Conv)
    if conv is None or _has_others(conv.result, op) or 0 in op.result.tensor.shape:
        return None
    attrs = dict(conv.attrs)
    moving = {pair[0]: n for n, pair in enumerate(attrs["windows"])}
    taps = dict(zip(attrs["right"], conv.operands[1].tensor.shape, strict=True))
    strides = list(attrs["strides"])
    parts: dict[str, tuple[DimLike, DimLike, int]] = {}
    cuts = zip(op.attrs["starts"], op.attrs["sizes"], op.attrs["strides"], strict=True)
    for letter, (start, size, step) in zip(attrs["result"], cuts, strict=True):
        n = moving.get(letter)
        if n is None:
            parts[letter] = (start, size, step)
            continue
        stride = strides[n]
        strides[n] = stride * step
        reach = span(taps[attrs["windows"][n][1]], attrs["dilations"][n])
        parts[letter] = (start * stride, (size - 1) * strides[n] + reach, 1)
    x, y = (
        _cut(b, v, attrs[side], parts)
        for v, side in zip(conv.operands, ("left", "right"), strict=True)
    )
    result: Value = b.conv(x, y, **(attrs | {"strides": tuple(strides)}))
    return result


def _has_others(value: Value, op: Operation) -> bool:
    """Whether others read a value, other than those whose results nobody reads any more."""
    return any(
        user is not op and (not user.results or any(r.users for r in user.results))
        for user in value.users
    )


def _cut(
    b: Builder, x: Value, letters: str, parts: dict[str, tuple[DimLike, DimLike, int]]
) -> Value:
    """The part of an operand whose axes have these letters."""
    whole = zip(letters, x.tensor.shape, strict=True)
    starts, sizes, strides = zip(*(parts.get(c, (0, n, 1)) for c, n in whole), strict=True)
    if sizes == x.tensor.shape:
        return x
    result: Value = b.slice(x, starts=starts, sizes=sizes, strides=strides)
    return result


def slice_of_padding(b: Builder, op: Operation) -> Replacement:
    """Less padding, and less of what it surrounds, along axes whose elements are neighbours."""
    padded = producer(op.operands[0], Pad)
    if padded is None or _has_others(padded.result, op) or 0 in op.result.tensor.shape:
        return None
    (x,) = padded.operands
    cuts = zip(op.attrs["starts"], op.attrs["sizes"], op.attrs["strides"], strict=True)
    padding = zip(*(padded.attrs[name] for name in ("low", "high", "interior")), strict=True)
    found = []
    for (start, size, step), (low, high, between), n in zip(
        cuts, padding, x.tensor.shape, strict=True
    ):
        if (low, high, between) == (0, 0, 0):
            found.append((start, size, step, 0, 0))
            continue
        if step != 1 or between or not all(isinstance(m, int) for m in (start, size, low, n)):
            return None
        first, last = max(start - low, 0), min(start + size - low, n)
        if first >= last:
            return None
        found.append((first, last - first, 1, max(low - start, 0), max(start + size - low - n, 0)))
    starts, sizes, strides, low, high = zip(*found, strict=True)
    inner = b.slice(x, starts=starts, sizes=sizes, strides=strides)
    zero = (0,) * len(found)
    result: Value = b.pad(inner, value=padded.attrs["value"], low=low, high=high, interior=zero)
    return result


RULES = (
    Rule("slice(conv(x, y)) -> conv(slice(x), slice(y))", Slice, slice_of_convolution),
    Rule("slice(pad(x)) -> pad(slice(x)) with less around it", Slice, slice_of_padding),
)
