"""Operations whose result is larger than an operand: an element lies in one of them or in none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import (
    Cotangents,
    Index,
    Kernel,
    Sample,
    normal_axes,
    require_at_least,
    require_equal_dims,
    spread,
)
from tapec.ir.ops.movement import Movement, example, span
from tapec.ir.pairs import Pair
from tapec.ir.types import BOOL, F64, I32, Shape, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Pad(Movement):
    """``x`` amid ``value``: ``low`` of them before, ``high`` after, ``interior`` between."""

    name = "pad"
    costly = False

    def infer(
        self,
        *types: Any,
        value: float | bool,
        low: Shape,
        high: Shape,
        interior: tuple[int, ...],
    ) -> TensorType:
        """Each size grows by low, high, and interior for every neighbour but the last."""
        (x,) = types
        if not len(low) == len(high) == len(interior) == x.rank:
            raise ShapeError(
                f"pad: expected {x.rank} entries of low, high and interior for {x}, got "
                f"{len(low)}, {len(high)} and {len(interior)}"
            )
        message = (
            f"pad: low {list(low)}, high {list(high)}, interior {list(interior)} must not be "
            "negative: slice first to cut"
        )
        for size in (*low, *high, *interior):
            require_at_least(size, 0, message.__str__)
        if isinstance(value, float) and not (x.dtype.is_differentiable or value.is_integer()):
            raise DTypeError(f"pad: {value} is not a value of {x.dtype.code}")
        result: TensorType = x.with_shape(
            tuple(
                lo + span(n, between + 1) + hi
                for n, lo, hi, between in zip(x.shape, low, high, interior, strict=True)
            )
        )
        return result

    def evaluate(
        self, *arrays: Any, value: Any, low: Any, high: Any, interior: tuple[int, ...]
    ) -> Any:
        """The operand written into an array full of ``value``."""
        spans = [span(n, m + 1) for n, m in zip(arrays[0].shape, interior, strict=True)]
        shape = [lo + n + hi for lo, n, hi in zip(low, spans, high, strict=True)]
        result = np.full(shape, value, arrays[0].dtype)
        inner = zip(low, spans, interior, strict=True)
        result[tuple(slice(lo, lo + n, m + 1) for lo, n, m in inner)] = arrays[0]
        return result

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The part that holds the operand."""
        return (
            b.slice(
                cts[0],
                starts=op.attrs["low"],
                sizes=op.operands[0].tensor.shape,
                strides=tuple(m + 1 for m in op.attrs["interior"]),
            ),
        )

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """No padding along the batch axis."""
        padding = {name: (0, *attrs[name]) for name in ("low", "high", "interior")}
        return b.pad(operands[0], value=attrs["value"], **padding)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Each part amid that part of ``value``."""
        (x,), value = operands, complex(attrs["value"])
        re = b.pad(x.re, **(attrs | {"value": value.real}))
        return Pair(re, b.pad(x.im, **(attrs | {"value": value.imag})))

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The operand's element if the index is on one, ``value`` otherwise."""
        x = operands[0]
        value = k.constant(attrs["value"], x.type.dtype)
        if x.type.size == 0:
            return value
        inside: list[Value] = []
        index: list[DimLike] = []
        padding = zip(attrs["low"], attrs["high"], attrs["interior"], strict=True)
        for j, n, (low, high, between) in zip(i, x.type.shape, padding, strict=True):
            if low == 0 and high == 0 and between == 0:
                index.append(j)
                continue
            place, rest = (j - low) // (between + 1), (j - low) % (between + 1)
            if isinstance(rest, int) and rest != 0:
                return value
            if rest != 0:
                inside.append(k.inside(rest, 0, 1))
            inside.append(k.inside(place, 0, n))
            # Loads must stay within the operand also where their value is not used.
            index.append(k.clamp(place, 0, n - 1))
        element: Value = x[tuple(index)]
        for condition in inside:
            element = k.where(condition, element, value)
        return element

    def samples(self) -> Iterator[Sample]:
        """Each side, between, all of them with another value, an integer, a bool, zero-size."""
        yield example((2, 3), value=0.0, low=(1, 0), high=(0, 2), interior=(0, 0))
        yield example((3,), value=0.0, low=(0,), high=(0,), interior=(2,))
        yield example((2, 3), value=1.5, low=(1, 2), high=(1, 0), interior=(1, 0))
        yield example((), value=1.0, low=(), high=(), interior=())
        yield example((0, 2), value=2.0, low=(1, 0), high=(2, 0), interior=(1, 0))
        attrs = {"value": 1, "low": (1,), "high": (1,), "interior": (0,)}
        yield Sample((TensorType(I32, (2,)),), attrs)
        yield Sample((TensorType(BOOL, (2,)),), attrs | {"value": True})


class Concat(Movement):
    """The operands one behind the other along ``axis``; they agree in every other size."""

    name = "concat"

    def infer(self, *types: Any, axis: int) -> TensorType:
        """The sizes along the axis add up."""
        if not types:
            raise ShapeError("concat takes at least 1 operand")
        first = types[0]
        normal_axes(self.name, (axis,), first.rank)
        shape = list(first.shape)
        for other in types[1:]:
            if other.dtype != first.dtype:
                raise DTypeError(
                    f"concat: dtypes differ: {first} and {other}",
                    hint="convert one of them with tapec.cast",
                )
            message = f"concat: {first} and {other} must agree in every size but on axis {axis}"
            if other.rank != first.rank:
                raise ShapeError(message)
            for a, n in enumerate(other.shape):
                if a == axis:
                    shape[a] = shape[a] + n
                else:
                    shape[a] = require_equal_dims(shape[a], n, lambda m=message: m)  # type: ignore[misc]
        result: TensorType = first.with_shape(tuple(shape))
        return result

    def evaluate(self, *arrays: Any, axis: int) -> Any:
        """`numpy.concatenate`."""
        return np.concatenate(arrays, axis=axis)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Each operand's part."""
        axis, start = op.attrs["axis"], 0
        parts = []
        for operand in op.operands:
            shape = operand.tensor.shape
            starts: list[DimLike] = [0] * len(shape)
            starts[axis] = start
            parts.append(
                b.slice(cts[0], starts=tuple(starts), sizes=shape, strides=(1,) * len(shape))
            )
            start = start + shape[axis]
        return tuple(parts)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One axis further; unbatched operands are repeated."""
        return b.concat(*spread(b, operands, batched), axis=attrs["axis"] + 1)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The element of the operand whose part holds the index."""
        axis = attrs["axis"]
        parts = []
        start: DimLike = 0
        for x in operands:
            n = x.type.shape[axis]
            if n != 0:
                parts.append((x, start, n))
            start = start + n
        if not parts:
            return k.constant(0, operands[0].type.dtype)
        if len(parts) == 1:
            only: Value = parts[0][0][i]
            return only
        # Loads must stay within each operand also where its value is not used.
        elements = [
            x[(*i[:axis], k.clamp(i[axis] - start, 0, n - 1), *i[axis + 1 :])]
            for x, start, n in parts
        ]
        result: Value = elements.pop()
        for element, (_, start, n) in zip(reversed(elements), reversed(parts[:-1]), strict=True):
            result = k.where(k.inside(i[axis], 0, start + n), element, result)
        return result

    def samples(self) -> Iterator[Sample]:
        """Two and three operands, first and last axis, one operand, an empty one among them."""
        for shapes, axis in (
            (((2, 3), (1, 3)), 0),
            (((2, 1), (2, 3), (2, 2)), 1),
            (((2, 3),), 0),
            (((2, 3), (0, 3), (1, 3)), 0),
            (((0, 3), (0, 1)), 1),
        ):
            yield Sample(tuple(TensorType(F64, s) for s in shapes), {"axis": axis})
