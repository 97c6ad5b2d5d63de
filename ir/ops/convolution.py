"""Convolution: a contraction in which windows of one operand move over the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Contraction, Cotangents, Index, Sample, require_at_least, require_equal_dims
from tapec.ir.ops.arith import conj
from tapec.ir.ops.contraction import SumOfProducts
from tapec.ir.ops.movement import span
from tapec.ir.types import F32, F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

Sizes = dict[str, DimLike]

#: Convolutions that one is written as, at most, where it would else multiply with zeros.
_MOST_CLASSES = 16


class Conv(SumOfProducts):
    """A product summed over shared axes, as in an einsum, where axes of the first operand may be windows.

    ``left``, ``right`` and ``result`` name each axis with a letter. A letter that is not in ``result`` is summed over.
    ``windows`` are pairs of letters such as ``"hi"``: the first operand's axis ``h`` is read at
    ``stride * h + dilation * i``, where ``h`` is an axis of the result and ``i`` one of the second operand alone.

    The convolution of images ``[N, H, W, C]`` with filters ``[I, J, C, O]`` is ``left = "nhwc", right = "ijco",
    result = "nhwo", windows = ("hi", "wj")``. Nothing is padded (`pad` does that), and filters are not mirrored. Groups
    of channels are an axis that all three share. Both derivatives are convolutions again.

    Sums of 16-bit floats are made in float32 and rounded; a ``wide`` convolution leaves them as they are.
    """

    name = "conv"

    def infer(
        self,
        *types: Any,
        left: str,
        right: str,
        result: str,
        windows: tuple[str, ...],
        strides: tuple[int, ...],
        dilations: tuple[int, ...],
        wide: bool = False,
    ) -> TensorType:
        """The axes of ``result``; a window of reach r moves over n elements to (n - r) // stride + 1 places."""
        x, y = types
        if x.dtype != y.dtype:
            raise DTypeError(
                f"conv: dtypes differ: {x.dtype.code} and {y.dtype.code}",
                hint="convert one of them with tapec.cast",
            )
        if x.dtype.is_bool:
            raise DTypeError("conv does not take bool")
        _check_letters(x, y, left, right, result, windows)
        if (
            not len(windows) == len(strides) == len(dilations)
            or min((*strides, *dilations), default=1) < 1
        ):
            raise ShapeError(
                f"conv: expected {len(windows)} positive strides and dilations, got {list(strides)} and "
                f"{list(dilations)}"
            )
        sizes = _sizes(x, y, left, right, windows, strides, dilations)
        narrow = x.dtype.is_floating and x.dtype.bits < 32
        dtype = F32 if wide and narrow else x.dtype
        return TensorType(dtype, tuple(sizes[letter] for letter in result))

    @np.errstate(all="ignore")
    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """`numpy.einsum` over a view that has an axis for each window. Half precision is summed in single."""
        x, y = arrays
        dtype = x.dtype
        if dtype.itemsize == 2 and dtype.kind not in "iu":
            x, y = x.astype(np.float32), y.astype(np.float32)
            dtype = x.dtype if attrs.get("wide") else dtype
        left, right, result = attrs["left"], attrs["right"], attrs["result"]
        for pair, stride, dilation in zip(
            attrs["windows"], attrs["strides"], attrs["dilations"], strict=True
        ):
            axis, count = left.index(pair[0]), y.shape[right.index(pair[1])]
            reach = span(count, dilation)
            if x.shape[axis] < reach:
                shape = [0 if n == axis else size for n, size in enumerate(x.shape)]
                x = np.zeros((*shape, count), x.dtype)
            else:
                view = np.lib.stride_tricks.sliding_window_view(x, reach, axis)
                before = (slice(None),) * axis
                x = view[(*before, slice(None, None, stride), ..., slice(None, None, dilation))]
            left += pair[1]
        # A sum of products; where no letter is shared by all three, of matrices.
        found = np.einsum(f"{left},{right}->{result}", x, y, optimize=x.size > 0 and y.size > 0)
        return np.ascontiguousarray(found).astype(dtype, copy=False)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Move mirrored filters over the cotangent; move the cotangent over the first operand.

        The cotangent stands as far apart as the stride was, so stride and dilation change places.

        Source: Dumoulin, Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4.
        """
        ct = cts[0]
        if ct.type.dtype != op.operands[0].type.dtype:  # it is wide
            ct = b.cast(ct, dtype=op.operands[0].type.dtype)
        if 0 in op.result.tensor.shape:
            return tuple(b.full_like(0, v) for v in op.operands)
        return _left_cotangent(b, op, ct), _right_cotangent(b, op, ct)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more letter, of the batched operands and the result."""
        used = "".join((attrs["left"], attrs["right"], *attrs["windows"]))
        letter = next(c for c in "zyxvutsrqbaABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in used)
        names = [letter if has else "" for has in batched]
        more = {
            "left": names[0] + attrs["left"],
            "right": names[1] + attrs["right"],
            "result": letter + attrs["result"],
        }
        return b.conv(*operands, **(attrs | more))

    def contraction(self, *types: Any, **attrs: Any) -> Contraction:
        """The result's axes, then those of the second operand that are summed over."""
        result, right = attrs["result"], attrs["right"]
        sizes = _sizes(
            *types, *(attrs[name] for name in ("left", "right", "windows", "strides", "dilations"))
        )
        summed = [letter for letter in right if letter not in result]
        letters = (*result, *summed)
        place = {letter: n for n, letter in enumerate(letters)}
        steps = _steps(attrs)

        def first(i: Index) -> Index:
            return tuple(_position(letter, steps, i, place) for letter in attrs["left"])

        def second(i: Index) -> Index:
            return tuple(i[place[letter]] for letter in right)

        space, wide = tuple(sizes[c] for c in letters), attrs.get("wide", False)
        return Contraction(space, len(summed), (first, second), wide)

    def letters(self, op: Operation) -> Mapping[str, Any]:
        """Its own."""
        return op.attrs

    def samples(self) -> Iterator[Sample]:
        """One, two and three moving axes; strides, dilations, rests; groups, single channels; no elements."""
        line: dict[str, Any] = {"left": "nwc", "right": "ico", "result": "nwo", "windows": ("wi",)}
        image = {"left": "nhwc", "right": "ijco", "result": "nhwo", "windows": ("hi", "wj")}
        yield _sample((2, 5, 2), (3, 2, 2), line, (1,), (1,))
        yield _sample((2, 4, 2), (2, 2, 3), line | {"wide": True}, (1,), (1,))
        yield _sample((1, 8, 1), (2, 1, 2), line, (3,), (2,))
        yield _sample((0, 3, 1), (2, 1, 2), line, (1,), (1,))
        yield _sample((1, 1, 1), (2, 1, 2), line, (1,), (1,))
        yield _sample((2, 4, 3, 2), (2, 2, 2, 3), image, (2, 1), (1, 1))
        grouped = image | {"left": "nhwgc", "right": "ijcgo", "result": "nhwgo"}
        yield _sample((1, 3, 3, 2, 2), (2, 1, 2, 2, 1), grouped, (1, 2), (1, 1))
        alone = image | {"left": "nhwc", "right": "ijcm", "result": "nhwcm"}
        yield _sample((1, 3, 4, 2), (2, 2, 2, 1), alone, (1, 1), (1, 2))
        volume = {
            "left": "ndhwc",
            "right": "ijkco",
            "result": "ndhwo",
            "windows": ("di", "hj", "wk"),
        }
        yield _sample((1, 2, 3, 2, 1), (2, 2, 1, 1, 2), volume, (1, 1, 1), (1, 1, 1))


def _check_letters(
    x: TensorType, y: TensorType, left: str, right: str, result: str, windows: tuple[str, ...]
) -> None:
    """Hold every axis to have one letter, and every letter to be where the operation's definition wants it."""
    text = f"{left},{right}->{result} with windows {list(windows)}"
    if len(left) != x.rank or len(right) != y.rank:
        raise ShapeError(f"conv: {text} does not name the axes of {x} and {y}")
    places = [set(left), set(right), set(result)]
    partners = {pair[1:] for pair in windows}
    fits = (
        all(len(set(names)) == len(names) for names in (left, right, result))
        and all(len(pair) == 2 and pair.isalpha() for pair in windows)
        and len(partners) == len(windows) == len({pair[0] for pair in windows})
        and all(pair[0] in left and pair[0] in result and pair[0] not in right for pair in windows)
        and all(c in right and c not in left and c not in result for c in partners)
        and all(sum(c in place for place in places) > 1 for c in set().union(*places) - partners)
    )
    if not fits:
        raise ShapeError(f"conv: {text} is no convolution")


def _sizes(
    x: TensorType,
    y: TensorType,
    left: str,
    right: str,
    windows: tuple[str, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Sizes:
    """The extent of each letter."""
    message = f"conv: shapes do not fit: {x} as {left} and {y} as {right}"
    sizes: Sizes = dict(zip(right, y.shape, strict=True))
    moving = {
        pair[0]: (pair[1], s, d) for pair, s, d in zip(windows, strides, dilations, strict=True)
    }
    for letter, n in zip(left, x.shape, strict=True):
        if letter in moving:
            taps, stride, dilation = moving[letter]
            if sizes[taps] == 0:
                raise ShapeError(f"conv: a window of no elements along {taps} of {y}")
            places = (n - span(sizes[taps], dilation)) // stride + 1
            unfit = (
                f"conv: a window of {sizes[taps]} elements, {dilation} apart, does not fit into the {n} "
                f"elements along {letter} of {x}"
            )
            require_at_least(places, 0, unfit.__str__)
            sizes[letter] = places
        elif letter in sizes:
            sizes[letter] = require_equal_dims(n, sizes[letter], lambda: message)
        else:
            sizes[letter] = n
    return sizes


def _steps(attrs: Mapping[str, Any]) -> dict[str, tuple[str, int, int]]:
    """For the letter of each moving axis: the letter of the window, stride and dilation."""
    triples = zip(attrs["windows"], attrs["strides"], attrs["dilations"], strict=True)
    return {pair[0]: (pair[1], stride, dilation) for pair, stride, dilation in triples}


def _position(
    letter: str, steps: Mapping[str, tuple[str, int, int]], i: Index, place: Mapping[str, int]
) -> DimLike:
    """The index into an axis of the first operand."""
    if letter not in steps:
        return i[place[letter]]
    taps, stride, dilation = steps[letter]
    return i[place[letter]] * stride + i[place[taps]] * dilation


def _used(op: Operation) -> dict[str, DimLike]:
    """For each moving axis how many elements of the first operand windows reach: the rest is not read."""
    attrs = op.attrs
    taps = dict(zip(attrs["right"], op.operands[1].tensor.shape, strict=True))
    places = dict(zip(attrs["result"], op.result.tensor.shape, strict=True))
    return {
        own: (places[own] - 1) * stride + (taps[partner] - 1) * dilation + 1
        for own, (partner, stride, dilation) in _steps(attrs).items()
    }


def _left_cotangent(b: Builder, op: Operation, ct: Value) -> Value:
    """The mirrored second operand over the cotangent.

    Behind a stride of s, the elements of the first operand fall into s classes that different elements of the filters
    reach: each class is a convolution of its own, and they lie in turn.
    """
    attrs, (x, y) = op.attrs, op.operands
    steps, used = _steps(attrs), _used(op)
    taps = dict(zip(attrs["right"], y.tensor.shape, strict=True))
    apart = {c: s for c, (_, s, dilation) in steps.items() if s > 1 and dilation == 1}
    reaches = [taps[steps[c][0]] for c in apart]
    if not all(isinstance(n, int) for n in reaches) or prod(apart.values()) > _MOST_CLASSES:
        apart = {}
    firsts = product(*(range(min(s, taps[steps[c][0]])) for c, s in apart.items()))
    pulled = None
    for first in firsts:
        part = _one_class(b, op, ct, dict(zip(apart, first, strict=True)))
        pulled = part if pulled is None else b.add(pulled, part)
    assert pulled is not None
    rest = tuple(
        n - used[c] if c in used else 0 for c, n in zip(attrs["left"], x.tensor.shape, strict=True)
    )
    if any(n != 0 for n in rest):
        zero = (0,) * len(rest)
        pulled = b.pad(pulled, value=0.0, low=zero, high=rest, interior=zero)
    return pulled


def _one_class(b: Builder, op: Operation, ct: Value, first: Mapping[str, int]) -> Value:
    """The cotangent of the elements whose places, along axes in ``first``, are that and strides further; 0 elsewhere.

    Along other axes the cotangent stands strides apart amid zeros.
    """
    attrs, y = op.attrs, op.operands[1]
    steps, used = _steps(attrs), _used(op)
    # Mirrored, it is a copy anyway: with the axes of the result last its vectors are contiguous.
    letters = "".join(sorted(attrs["right"], key=lambda letter: letter in attrs["left"]))
    order = tuple(attrs["right"].index(letter) for letter in letters)
    windows = attrs["windows"]
    some = {steps[c][0]: (start, steps[c][1]) for c, start in first.items()}
    cuts = [(*some.get(c, (0, 1)), n) for c, n in zip(attrs["right"], y.tensor.shape, strict=True)]
    starts, strides, sizes = zip(*((m, s, -(-(n - m) // s)) for m, s, n in cuts), strict=True)
    part = b.slice(y, starts=starts, sizes=sizes, strides=strides) if first else y
    taps = dict(zip(attrs["right"], sizes, strict=True))
    filters = b.transpose(conj(b, part), permutation=order)
    filters = b.reverse(filters, axes=tuple(letters.index(pair[1]) for pair in windows))
    edges: list[DimLike] = []
    between: list[int] = []
    for letter in attrs["result"]:
        partner, stride, dilation = steps.get(letter, ("", 1, 1))
        edges.append((taps[partner] - 1) * dilation if partner else 0)
        between.append(0 if letter in first else stride - 1)
    padding = {"low": tuple(edges), "high": tuple(edges), "interior": tuple(between)}
    wide = b.pad(ct, value=0.0, **padding) if any(edges) or any(between) else ct
    turned = {
        "left": attrs["result"],
        "right": letters,
        "result": attrs["left"],
        "windows": windows,
        "strides": (1,) * len(windows),
        "dilations": attrs["dilations"],
    }
    pulled: Value = b.conv(wide, filters, **turned)
    if not first:
        return pulled
    low = tuple(first.get(c, 0) for c in attrs["left"])
    gaps = tuple(steps[c][1] - 1 if c in first else 0 for c in attrs["left"])
    high = tuple(
        used[c] - m - span(n, gap + 1) if c in first else 0
        for c, m, n, gap in zip(attrs["left"], low, pulled.tensor.shape, gaps, strict=True)
    )
    result: Value = b.pad(pulled, value=0.0, low=low, high=high, interior=gaps)
    return result


def _right_cotangent(b: Builder, op: Operation, ct: Value) -> Value:
    """The cotangent over the first operand, with stride and dilation exchanged."""
    attrs, x = op.attrs, op.operands[0]
    used = _used(op)
    sizes = tuple(used.get(c, n) for c, n in zip(attrs["left"], x.tensor.shape, strict=True))
    if sizes != x.tensor.shape:
        rank = len(sizes)
        x = b.slice(x, starts=(0,) * rank, sizes=sizes, strides=(1,) * rank)
    renamed = attrs["left"].translate(
        str.maketrans({pair[0]: pair[1] for pair in attrs["windows"]})
    )
    turned = {
        "left": renamed,
        "right": attrs["result"],
        "result": attrs["right"],
        "windows": tuple(pair[::-1] for pair in attrs["windows"]),
        "strides": attrs["dilations"],
        "dilations": attrs["strides"],
    }
    result: Value = b.conv(conj(b, x), ct, **turned)
    return result


def _sample(
    x: tuple[int, ...],
    y: tuple[int, ...],
    letters: Mapping[str, Any],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Sample:
    attrs = {**letters, "strides": strides, "dilations": dilations}
    return Sample((TensorType(F64, x), TensorType(F64, y)), attrs)
