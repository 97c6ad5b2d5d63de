"""Operations that no one primitive computes: one formula in others serves loops and arrays alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from tapec.ir.op import OPS, Elementwise, Index, Op
from tapec.ir.scalar import Scalar
from tapec.ir.types import DType, Shape, TensorType, as_dtype


class WholeArray:
    """An array as an `Operand` whose element at any index is all of it."""

    def __init__(self, array: Any) -> None:
        """Wrap an array."""
        self.array = np.asarray(array)

    @property
    def type(self) -> TensorType:
        """The array's type."""
        return TensorType(as_dtype(self.array.dtype), self.array.shape)

    def __getitem__(self, index: Index) -> Any:
        return self.array


class ArrayArithmetic:
    """The elementwise part of `Kernel`, on arrays: one formula serves `lower` and `evaluate`."""

    def constant(self, value: Any, dtype: DType) -> Any:
        """A NumPy scalar."""
        return dtype.numpy.type(value)

    def apply(self, op: Op, *values: Any, **attrs: Any) -> Any:
        """What the operation evaluates to."""
        return op.evaluate(*values, **attrs)

    def number(self, index: Any, dtype: DType) -> Any:
        """An index as a NumPy scalar."""
        return dtype.numpy.type(index)

    def fold(
        self,
        extents: Shape,
        init: Sequence[Any],
        body: Callable[[Index, Sequence[Any]], Sequence[Any]],
    ) -> tuple[Any, ...]:
        """The loops of `Kernel.fold`, until nothing changes any more."""
        sizes = [n for n in extents if isinstance(n, int)]
        carried = tuple(init)
        for index in product(*map(range, sizes)):
            last, carried = carried, tuple(body(index, carried))
            if all(
                np.array_equal(a, b, equal_nan=True) for a, b in zip(last, carried, strict=True)
            ):
                break
        return carried

    def __getattr__(self, name: str) -> Callable[..., Any]:
        defn = OPS.get(name.removesuffix("_"))
        if defn is None:
            raise AttributeError(f"no operation is called {name!r}")
        meaning = self.meaning(defn)
        setattr(self, name, meaning)  # formulas ask for the same operations again and again
        return meaning

    def meaning(self, defn: Op) -> Callable[..., Any]:
        """What stands for an operation."""
        return defn.evaluate


class QuietArithmetic(ArrayArithmetic):
    """The same for callers that have silenced NumPy themselves: nothing stands before its functions."""

    def meaning(self, defn: Op) -> Callable[..., Any]:
        """NumPy's function, where the operation is just that."""
        scalar: Scalar | None = getattr(defn, "scalar", None)
        return super().meaning(defn) if scalar is None else scalar.numpy


#: The instances; `Any`, since they are no whole `Kernel`.
ARRAYS: Any = ArrayArithmetic()
QUIET_ARRAYS: Any = QuietArithmetic()


class Composed(Elementwise):
    """An elementwise operation that no one primitive computes: its `lower` writes it in others."""

    levels = frozenset({"tensor"})
    arity = 1
    kinds = frozenset({"float"})
    costly = False

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """The formula of `lower`, on arrays."""
        with np.errstate(all="ignore"):
            return np.asarray(self.lower(QUIET_ARRAYS, (), *map(WholeArray, arrays), **attrs))
