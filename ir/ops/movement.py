"""Operations that move elements: each element of the result is one of the operand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import ShapeError
from tapec.ir.op import (
    FIXED,
    AxesRead,
    Cotangents,
    Index,
    Kernel,
    Op,
    Sample,
    normal_axes,
    require_at_least,
    require_equal_dims,
    require_sizes,
)
from tapec.ir.types import F64, Shape, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Movement(Op):
    """The family: linear in the operands, of any dtype, no arithmetic."""

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Both parts alike."""
        return self.apart(b, *operands, **attrs)

    def flops(self, op: Operation) -> DimLike:
        """None."""
        return 0


class Broadcast(Movement):
    """``y[i] = x[i[axes[0]], …]``: repeat along the axes of ``shape`` that ``axes`` leaves out."""

    name = "broadcast"
    cheap = True

    def infer(self, *types: Any, shape: Shape, axes: tuple[int, ...]) -> TensorType:
        """``shape``; ``axes`` ascend, and the sizes there are the operand's."""
        (x,) = types
        require_sizes(self.name, shape)
        normal_axes(self.name, axes, len(shape))
        if len(axes) != x.rank or list(axes) != sorted(axes):
            raise ShapeError(
                f"broadcast: axes must be {x.rank} ascending axes for {x}, got {list(axes)}",
                hint="transpose first to change the order of axes",
            )
        for n, axis in zip(x.shape, axes, strict=True):
            require_equal_dims(
                n,
                shape[axis],
                lambda: f"broadcast: {x} does not fit axes {list(axes)} of {x.with_shape(shape)}",
            )
        result: TensorType = x.with_shape(tuple(shape))
        return result

    def evaluate(self, *arrays: Any, shape: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's broadcasting, after inserting axes of size 1."""
        inner = [1] * len(shape)
        for n, axis in zip(arrays[0].shape, axes, strict=True):
            inner[axis] = n
        result = np.empty(shape, arrays[0].dtype)
        result[...] = arrays[0].reshape(inner)
        return result

    def kernel(self, **attrs: Any) -> Any:
        """Found once: where axes are inserted."""
        shape, axes = attrs["shape"], attrs["axes"]
        inner = [n if axis in axes else 1 for axis, n in enumerate(shape)]

        def repeated(x: Any) -> Any:
            result = np.empty(shape, x.dtype)
            result[...] = x.reshape(inner)
            return result

        return repeated

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Sum over the new axes."""
        kept = op.attrs["axes"]
        new = tuple(a for a in range(cts[0].tensor.rank) if a not in kept)
        return (b.sum(cts[0], axes=new) if new else cts[0],)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The batch axis leads on both sides."""
        size = operands[0].tensor.shape[0]
        axes = (0, *(a + 1 for a in attrs["axes"]))
        return b.broadcast(operands[0], shape=(size, *attrs["shape"]), axes=axes)

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """The kept axes."""
        return (tuple(op.attrs["axes"]),)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The element at the kept indices."""
        element: Value = operands[0][tuple(i[a] for a in attrs["axes"])]
        return element

    def samples(self) -> Iterator[Sample]:
        """Leading, trailing and inner new axes; none; a scalar; zero-size."""
        yield example((3,), shape=(2, 3), axes=(1,))
        yield example((2,), shape=(2, 3), axes=(0,))
        yield example((2, 3), shape=(2, 4, 3), axes=(0, 2))
        yield example((2, 3), shape=(2, 3), axes=(0, 1))
        yield example((), shape=(2, 2), axes=())
        yield example((3,), shape=(0, 3), axes=(1,))


class Reshape(Movement):
    """The same elements in row-major order under another shape of the same size."""

    name = "reshape"
    cheap = True

    def infer(self, *types: Any, shape: Shape) -> TensorType:
        """``shape``, which holds as many elements as the operand."""
        (x,) = types
        for n in shape:
            if isinstance(n, int) and n < 0:
                raise ShapeError(f"reshape: a size is negative in {list(shape)}")
        new: TensorType = x.with_shape(tuple(shape))
        require_equal_dims(
            x.size,
            new.size,
            lambda: f"reshape: {x} has {x.size} elements, {new} has {new.size}",
        )
        return new

    def evaluate(self, *arrays: Any, shape: Any) -> Any:
        """`numpy.reshape`."""
        return np.reshape(arrays[0], shape)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Reshape back."""
        return (b.reshape(cts[0], shape=op.operands[0].tensor.shape),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The batch axis stays in front."""
        return b.reshape(operands[0], shape=(operands[0].tensor.shape[0], *attrs["shape"]))

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """Where only axes of size 1 come or go, the others keep their order."""
        old, new = op.operands[0].tensor.shape, op.result.tensor.shape
        if [n for n in old if n != 1] != [n for n in new if n != 1]:
            return (None,)
        left = iter(a for a, n in enumerate(new) if n != 1)
        return (tuple(FIXED if n == 1 else next(left) for n in old),)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The element with the same row-major number."""
        element: Value = operands[0][renumber(attrs["shape"], operands[0].type.shape, i)]
        return element

    def samples(self) -> Iterator[Sample]:
        """Split, merge, both at once, to and from a scalar, axes of size 1, zero-size."""
        yield example((6,), shape=(2, 3))
        yield example((2, 3, 2), shape=(2, 6))
        yield example((4, 3), shape=(2, 6))
        yield example((1, 1), shape=())
        yield example((), shape=(1,))
        yield example((2, 3), shape=(1, 2, 1, 3))
        yield example((0, 3), shape=(2, 0))


class Transpose(Movement):
    """``y.shape[r] = x.shape[permutation[r]]``: the axes in another order."""

    name = "transpose"
    cheap = True

    def infer(self, *types: Any, permutation: tuple[int, ...]) -> TensorType:
        """The sizes in the order of the permutation."""
        (x,) = types
        if sorted(permutation) != list(range(x.rank)):
            raise ShapeError(
                f"transpose: expected a permutation of {list(range(x.rank))} for {x}, "
                f"got {list(permutation)}"
            )
        result: TensorType = x.with_shape(tuple(x.shape[p] for p in permutation))
        return result

    def evaluate(self, *arrays: Any, permutation: tuple[int, ...]) -> Any:
        """`numpy.transpose`, dense."""
        return np.ascontiguousarray(np.transpose(arrays[0], permutation)).reshape(
            [arrays[0].shape[p] for p in permutation]
        )

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The inverse permutation."""
        return (b.transpose(cts[0], permutation=inverse(op.attrs["permutation"])),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The batch axis stays in front."""
        permutation = (0, *(p + 1 for p in attrs["permutation"]))
        return b.transpose(operands[0], permutation=permutation)

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """The axes in their order before."""
        return (inverse(op.attrs["permutation"]),)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The element at the permuted index."""
        element: Value = operands[0][tuple(i[r] for r in inverse(attrs["permutation"]))]
        return element

    def samples(self) -> Iterator[Sample]:
        """A matrix, a rotation of three axes, the identity, a scalar, zero-size."""
        yield example((2, 3), permutation=(1, 0))
        yield example((2, 3, 4), permutation=(2, 0, 1))
        yield example((2, 3), permutation=(0, 1))
        yield example((), permutation=())
        yield example((0, 3), permutation=(1, 0))


def _parts(starts: Any, sizes: Any, strides: Any) -> tuple[slice, ...]:
    """A slice of every axis, as Python writes it."""
    extents = zip(starts, sizes, strides, strict=True)
    return tuple([slice(at, at + span(size, stride), stride) for at, size, stride in extents])


class Slice(Movement):
    """``y[i] = x[starts + i * strides]`` for ``i < sizes``; strides are positive."""

    name = "slice"
    cheap = True

    def infer(
        self, *types: Any, starts: Shape, sizes: Shape, strides: tuple[int, ...]
    ) -> TensorType:
        """``sizes``, which must lie within the operand."""
        (x,) = types
        if not len(starts) == len(sizes) == len(strides) == x.rank:
            raise ShapeError(
                f"slice: expected {x.rank} starts, sizes and strides for {x}, got "
                f"{len(starts)}, {len(sizes)} and {len(strides)}"
            )
        for axis, (n, start, size, stride) in enumerate(
            zip(x.shape, starts, sizes, strides, strict=True)
        ):
            if stride < 1:
                raise ShapeError(f"slice: stride {stride} on axis {axis}", hint="reverse first")
            message = f"slice: {size} elements from {start} by {stride} do not lie within axis {axis} of {x}"
            for m, least in ((start, 0), (size, 0), (n, span(size, stride) + start)):
                require_at_least(m, least, message.__str__)
        result: TensorType = x.with_shape(tuple(sizes))
        return result

    def evaluate(self, *arrays: Any, starts: Any, sizes: Any, strides: tuple[int, ...]) -> Any:
        """A basic NumPy slice, dense."""
        return arrays[0][_parts(starts, sizes, strides)].copy()

    def kernel(self, **attrs: Any) -> Any:
        """The same slice of any array."""
        parts = _parts(**attrs)
        return lambda x: x[parts].copy()

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Put the cotangent back between zeros."""
        x = op.operands[0].tensor
        starts, sizes, strides = (op.attrs[name] for name in ("starts", "sizes", "strides"))
        high = tuple(
            n - start - span(size, stride)
            for n, start, size, stride in zip(x.shape, starts, sizes, strides, strict=True)
        )
        interior = tuple(stride - 1 for stride in strides)
        return (b.pad(cts[0], value=0.0, low=starts, high=high, interior=interior),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """All of the batch axis."""
        return b.slice(
            operands[0],
            starts=(0, *attrs["starts"]),
            sizes=(operands[0].tensor.shape[0], *attrs["sizes"]),
            strides=(1, *attrs["strides"]),
        )

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The element at the strided index."""
        steps = zip(i, attrs["starts"], attrs["strides"], strict=True)
        element: Value = operands[0][tuple(start + j * stride for j, start, stride in steps)]
        return element

    def samples(self) -> Iterator[Sample]:
        """A window, strides with and without a rest, everything, nothing."""
        yield example((4, 5), starts=(1, 2), sizes=(2, 3), strides=(1, 1))
        yield example((7,), starts=(0,), sizes=(4,), strides=(2,))
        yield example((8, 2), starts=(1, 0), sizes=(2, 2), strides=(3, 1))
        yield example((), starts=(), sizes=(), strides=())
        yield example((3, 2), starts=(2, 0), sizes=(0, 2), strides=(2, 1))
        yield example((0, 3), starts=(0, 1), sizes=(0, 2), strides=(1, 1))


class Reverse(Movement):
    """``y[i] = x[n - 1 - i]`` along ``axes``."""

    name = "reverse"
    cheap = True

    def infer(self, *types: Any, axes: tuple[int, ...]) -> TensorType:
        """The operand's type."""
        x: TensorType = types[0]
        normal_axes(self.name, axes, x.rank)
        return x

    def evaluate(self, *arrays: Any, axes: tuple[int, ...]) -> Any:
        """`numpy.flip`."""
        return np.flip(arrays[0], axes).copy()

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Reverse back."""
        return (b.reverse(cts[0], axes=op.attrs["axes"]),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One axis further."""
        return b.reverse(operands[0], axes=tuple(a + 1 for a in attrs["axes"]))

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The element at the mirrored index."""
        axes, shape = attrs["axes"], operands[0].type.shape
        index = tuple(shape[a] - 1 - j if a in axes else j for a, j in enumerate(i))
        element: Value = operands[0][index]
        return element

    def samples(self) -> Iterator[Sample]:
        """One axis, two, none, zero-size."""
        yield example((4,), axes=(0,))
        yield example((2, 3, 2), axes=(0, 2))
        yield example((2, 3), axes=())
        yield example((0, 3), axes=(0, 1))


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(permutation.index(axis) for axis in range(len(permutation)))


def renumber(source: Shape, target: Shape, index: Index) -> Index:
    """The index into ``target`` with the row-major number that ``index`` has in ``source``.

    Works in runs of axes of equal size on both sides, so that an axis that both have keeps its
    index as it is.
    """
    if 0 in source:
        return (0,) * len(target)
    result: list[DimLike] = [0] * len(target)
    for old, new in _runs(source, target):
        number: DimLike = 0
        for axis in old:
            number = number * source[axis] + index[axis]
        for position in range(len(new) - 1, 0, -1):
            axis = new[position]
            result[axis] = number % target[axis]
            number = number // target[axis]
        if new:
            result[new[0]] = number
    return tuple(result)


def _runs(source: Shape, target: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """The axes of two shapes in the shortest runs of equal size; those of size 1 are in none."""
    old = [a for a, n in enumerate(source) if n != 1]
    new = [a for a, n in enumerate(target) if n != 1]
    # Without axes of size 1 (and 0) no two prefixes of a shape hold equally many elements.
    ends = {prod([target[a] for a in new[:q]], start=1): q for q in range(1, len(new))}
    p0 = q0 = 0
    for p in range(1, len(old)):
        q = ends.get(prod([source[a] for a in old[:p]], start=1))
        if q is not None:
            yield old[p0:p], new[q0:q]
            p0, q0 = p, q
    yield old[p0:], new[q0:]


def span(count: Any, step: int) -> Any:
    """How far ``count`` elements reach, the first and the last included, ``step`` apart."""
    return 0 if count == 0 else (count - 1) * step + 1


def example(operand: Shape, **attrs: Any) -> Sample:
    """A sample of one float64 operand of this shape."""
    return Sample((TensorType(F64, operand),), attrs)
