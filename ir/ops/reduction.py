"""Reductions: combine elements along axes, which disappear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import (
    RUNS,
    AlongAxis,
    AxesRead,
    Cotangents,
    Index,
    Kernel,
    Op,
    Sample,
    normal_axes,
)
from tapec.ir.ops.arith import conj
from tapec.ir.quiet import audible, quiet
from tapec.ir.types import BOOL, F64, I64, DType, Shape, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


def _in_own_dtype(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of NumPy's whose result has the dtype of its operand; halves accumulate in single precision."""

    def reduced(x: Any, axes: tuple[int, ...]) -> Any:
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
        result = np.asarray(reduce(wide, axes))
        return result if result.dtype is x.dtype else result.astype(x.dtype, copy=False)

    return reduced


class Reduction(Op):
    """The family: ``axes`` are combined by one scalar operation, in an order that is fixed but not promised."""

    loops = True
    #: The scalar operation (`Kernel.reduce`), and NumPy's reduction.
    combine: ClassVar[str]
    numpy: ClassVar[Callable[..., Any]]
    #: `evaluate`'s meaning, without warnings.
    silent: ClassVar[Callable[..., Any]]
    kinds: ClassVar[tuple[str, ...]] = ("float", "int", "uint")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "numpy" in vars(cls):
            cls.silent = staticmethod(quiet(_in_own_dtype(cls.numpy)))
        super().__init_subclass__(**kwargs)

    def infer(self, *types: Any, axes: tuple[int, ...]) -> TensorType:
        """The axes that are left."""
        (x,) = types
        normal_axes(self.name, axes, x.rank)
        if x.dtype.kind not in self.kinds:
            raise DTypeError(f"{self.name} does not take {x.dtype.code}")
        return TensorType(x.dtype, tuple(n for a, n in enumerate(x.shape) if a not in axes))

    def evaluate(self, *arrays: Any, axes: tuple[int, ...]) -> Any:
        """NumPy's reduction in the operand's own dtype; halves accumulate in single precision."""
        (x,) = arrays
        return self.silent(x, axes)

    def kernel(self, **attrs: Any) -> Callable[..., Any]:
        """The reduction over these axes, where nothing else is said of the meaning."""
        if type(self).evaluate is not Reduction.evaluate:
            return super().kernel(**attrs)
        reduce, axes = audible(type(self).silent), attrs["axes"]
        return quiet(lambda x: reduce(x, axes))

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The batch axis leads; the others move by one."""
        return b.emit(self, operands[0], axes=tuple(a + 1 for a in attrs["axes"]))

    def lower(self, k: Kernel, i: Index, *operands: Any, axes: tuple[int, ...]) -> Value:
        """Combine over the axes' indices."""
        (x,) = operands
        shape = x.type.shape
        kept = [a for a in range(len(shape)) if a not in axes]

        def element(r: Index) -> Value:
            position: list[DimLike] = [0] * len(shape)
            for axis, index in (*zip(kept, i, strict=True), *zip(sorted(axes), r, strict=True)):
                position[axis] = index
            value: Value = x[tuple(position)]
            return value

        return k.reduce(self.combine, tuple(shape[a] for a in sorted(axes)), x.type.dtype, element)

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """The reduced axes run; the others keep their order."""
        axes, left = op.attrs["axes"], iter(range(op.result.tensor.rank))
        return (
            tuple(RUNS if a in axes else next(left) for a in range(op.operands[0].tensor.rank)),
        )

    def flops(self, op: Operation) -> DimLike:
        """One for each element."""
        return op.operands[0].tensor.size

    def samples(self) -> Iterator[Sample]:
        """Leading, trailing, inner, all and no axes; no elements."""
        for shape, axes in (
            ((3, 4), (0,)),
            ((3, 4), (1,)),
            ((2, 3, 2), (1,)),
            ((2, 3), (0, 1)),
            ((2, 3), ()),
            ((0, 3), (0,)),
            ((0, 3), (1,)),
        ):
            yield Sample((TensorType(F64, shape),), {"axes": axes})


class Sum(Reduction):
    """Sum over ``axes``."""

    name = "sum"
    combine = "add"
    numpy = np.add.reduce
    kinds = ("float", "int", "uint", "complex")
    sums_batch = True

    def batch_sum(self, b: Builder, operands: Sequence[Value], **attrs: Any) -> Value:
        """A sum over the leading axis too."""
        axes = (0, *(a + 1 for a in attrs["axes"]))
        result: Value = b.sum(*operands, axes=axes)
        return result

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Both parts alike."""
        return self.apart(b, *operands, **attrs)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The cotangent, repeated along the axes."""
        return (_restore(b, cts[0], op),)


class _Extremum(Reduction):
    """Maximum and minimum."""

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Elements equal to the result share the cotangent equally, as in TensorFlow."""
        (x,) = op.operands
        is_best = b.cast(b.eq(x, _restore(b, op.result, op)), dtype=x.tensor.dtype)
        count = b.sum(is_best, axes=op.attrs["axes"])
        return (b.mul(is_best, _restore(b, b.div(cts[0], count), op)),)


class ReduceMax(_Extremum):
    """Maximum over ``axes``; NaN if any element is. Of nothing it is the smallest value."""

    name = "reduce_max"
    combine = "max"

    @staticmethod
    def numpy(x: Any, axis: Any) -> Any:
        """`numpy.max`, defined for nothing."""
        return np.maximum.reduce(x, axis=axis, initial=_lowest(x.dtype))


class ReduceMin(_Extremum):
    """Minimum over ``axes``; NaN if any element is. Of nothing it is the largest value."""

    name = "reduce_min"
    combine = "min"

    @staticmethod
    def numpy(x: Any, axis: Any) -> Any:
        """`numpy.min`, defined for nothing."""
        return np.minimum.reduce(x, axis=axis, initial=_highest(x.dtype))


class ReduceProd(Reduction):
    """Product over ``axes``."""

    name = "reduce_prod"
    combine = "mul"
    numpy = np.multiply.reduce
    kinds = ("float", "int", "uint", "complex")

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``ct`` times the conjugate of the product of all others, exact where elements are zero.

        The product without element i is that of those before it times that of those after it.
        """
        (x,) = op.operands
        axes = op.attrs["axes"]
        if not axes:
            return (cts[0],)
        shape = x.tensor.shape
        order = (*(a for a in range(x.tensor.rank) if a not in axes), *sorted(axes))
        kept = tuple(shape[a] for a in order[: len(order) - len(axes)])
        count = prod(shape[a] for a in axes)
        rows = b.reshape(b.transpose(x, permutation=order), shape=(*kept, count))
        axis = len(kept)
        before = b.cumprod(rows, axis=axis, exclusive=True, reverse=False)
        after = b.cumprod(rows, axis=axis, exclusive=True, reverse=True)
        product = conj(b, b.mul(before, after))
        others = b.reshape(product, shape=tuple(shape[a] for a in order))
        back = tuple(order.index(a) for a in range(len(order)))
        return (b.mul(_restore(b, cts[0], op), b.transpose(others, permutation=back)),)


class ReduceAny(Reduction):
    """Whether any element along ``axes`` is true."""

    name = "reduce_any"
    combine = "or"
    numpy = np.logical_or.reduce
    kinds = ("bool",)
    differentiable = False

    def samples(self) -> Iterator[Sample]:
        """Of bools."""
        for sample in super().samples():
            yield Sample((sample.types[0].with_dtype(BOOL),), sample.attrs)


class ReduceAll(ReduceAny):
    """Whether all elements along ``axes`` are true."""

    name = "reduce_all"
    combine = "and"
    numpy = np.logical_and.reduce


class ArgMax(AlongAxis):
    """The index of the first largest element along ``axis``, as ``dtype``; a NaN counts as largest."""

    name = "argmax"
    loops = True
    differentiable = False
    better: ClassVar[str] = "gt"
    #: What gives the element itself.
    best: ClassVar[str] = "reduce_max"
    numpy: ClassVar[Callable[..., Any]] = np.argmax

    def infer(self, *types: Any, axis: int, dtype: DType = I64) -> TensorType:
        """The axes that are left."""
        (x,) = types
        normal_axes(self.name, (axis,), x.rank)
        if x.dtype.kind not in ("float", "int", "uint"):
            raise DTypeError(f"{self.name} does not take {x.dtype.code}")
        if x.shape[axis] == 0:
            raise ShapeError(f"{self.name}: axis {axis} of {x} is empty")
        return TensorType(dtype, tuple(n for a, n in enumerate(x.shape) if a != axis))

    def evaluate(self, *arrays: Any, axis: int, dtype: DType = I64) -> Any:
        """NumPy's function of the same name."""
        return type(self).numpy(arrays[0], axis=axis).astype(dtype.numpy)

    def lower(self, k: Kernel, i: Index, *operands: Any, axis: int, dtype: DType = I64) -> Value:
        """Go through the elements in order, keeping the best and where it was."""
        (x,) = operands

        def element(r: DimLike) -> Value:
            value: Value = x[(*i[:axis], r, *i[axis:])]
            return value

        def step(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
            best, where = carried
            value = element(r[0])
            wins = getattr(k, self.better)(value, best)
            if x.type.dtype.is_floating:
                # NaN beats numbers, and the first NaN stays.
                is_new = k.ne(value, value)
                wins = k.and_(k.or_(wins, is_new), k.eq(best, best))
            return k.where(wins, value, best), k.where(wins, k.number(r[0], dtype), where)

        start = (element(0), k.constant(0, dtype))
        return k.fold((x.type.shape[axis],), start, step)[1]

    def samples(self) -> Iterator[Sample]:
        """Each axis, no elements."""
        yield Sample((TensorType(F64, (3, 4)),), {"axis": 0, "dtype": I64})
        yield Sample((TensorType(F64, (3, 4)),), {"axis": 1, "dtype": I64})
        yield Sample((TensorType(F64, (5,)),), {"axis": 0, "dtype": I64})
        yield Sample((TensorType(F64, (0, 4)),), {"axis": 1, "dtype": I64})


class ArgMin(ArgMax):
    """The index of the first smallest element along ``axis``, as ``dtype``; a NaN counts as smallest."""

    name = "argmin"
    better = "lt"
    best = "reduce_min"
    numpy = np.argmin


def _restore(b: Builder, x: Value, op: Operation) -> Value:
    """Repeat a reduced value along the axes again."""
    shape: Shape = op.operands[0].tensor.shape
    axes = op.attrs["axes"]
    kept = tuple(a for a in range(len(shape)) if a not in axes)
    result: Value = b.broadcast(x, shape=shape, axes=kept) if axes else x
    return result


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max
