"""Formulas for functions that no primitive computes, written with operators, and the operations that they make up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.composed import Composed
from tapec.ir.op import Cotangents, Index, Kernel
from tapec.ir.types import F32, F64, DType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Number:
    """A value of a kernel, float32 or float64, with the operators of Python; numbers may stand beside it."""

    __slots__ = ("dtype", "k", "value")

    def __init__(self, k: Kernel, value: Any, dtype: DType) -> None:
        """Wrap a value."""
        self.k, self.value, self.dtype = k, value, dtype

    def of(self, other: Number | float) -> Number:
        """A number of Python's as one of this kernel's."""
        if isinstance(other, Number):
            return other
        return Number(self.k, self.k.constant(other, self.dtype), self.dtype)

    def _made(self, value: Any) -> Number:
        return Number(self.k, value, self.dtype)

    def __add__(self, other: Number | float) -> Number:
        return self._made(self.k.add(self.value, self.of(other).value))

    def __sub__(self, other: Number | float) -> Number:
        return self._made(self.k.sub(self.value, self.of(other).value))

    def __mul__(self, other: Number | float) -> Number:
        return self._made(self.k.mul(self.value, self.of(other).value))

    def __truediv__(self, other: Number | float) -> Number:
        return self._made(self.k.div(self.value, self.of(other).value))

    def __radd__(self, other: float) -> Number:
        return self.of(other) + self

    def __rsub__(self, other: float) -> Number:
        return self.of(other) - self

    def __rmul__(self, other: float) -> Number:
        return self.of(other) * self

    def __rtruediv__(self, other: float) -> Number:
        return self.of(other) / self

    def __neg__(self) -> Number:
        return self._made(self.k.neg(self.value))

    def __lt__(self, other: Number | float) -> Any:
        return self.k.lt(self.value, self.of(other).value)

    def __gt__(self, other: Number | float) -> Any:
        return self.k.gt(self.value, self.of(other).value)

    def equals(self, other: Number | float) -> Any:
        """Whether both are the same, for `choose`."""
        return self.k.eq(self.value, self.of(other).value)

    def choose(self, condition: Any, one: Number | float, other: Number | float) -> Number:
        """One where a comparison holds, the other elsewhere."""
        chosen = self.k.where(condition, self.of(one).value, self.of(other).value)
        return self._made(chosen)

    def __getattr__(self, name: str) -> Callable[..., Number]:
        """``x.exp()``: the elementwise operation of that name."""
        operation = getattr(self.k, name)
        return lambda *others: self._made(
            operation(self.value, *(self.of(other).value for other in others))
        )


def chebyshev(t: Number, coefficients: Sequence[float]) -> Number:
    """The sum of ``coefficients[n]`` times the polynomial of Chebyshev of degree n, for ``-1 <= t <= 1``.

    Coefficients that float32 would not show are left out there.

    Source: Clenshaw, "A note on the summation of Chebyshev series", 1955.
    """
    count = len(coefficients)
    if t.dtype != F64:
        least = max(map(abs, coefficients)) * 2.0**-28
        while count > 1 and abs(coefficients[count - 1]) < least:
            count -= 1
    twice = t * 2.0
    last, before = t.of(0.0), t.of(0.0)
    for coefficient in reversed(coefficients[1:count]):
        last, before = twice * last - before + coefficient, last
    return t * last - before + coefficients[0]


class Special(Composed):
    """A function given by its `formula` in float32 or float64; half precision is computed in single."""

    costly = True

    def formula(self, *operands: Number, **attrs: Any) -> Number:
        """The value at operands that are `Number`."""
        raise NotImplementedError(f"{self.name} has no formula")

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The formula of one element."""
        dtype = operands[0].type.dtype
        working = F32 if dtype.bits == 16 else dtype
        values = [x[i] for x in operands]
        if dtype != working:
            values = [k.cast(x, dtype=working) for x in values]
        result: Value = self.formula(*(Number(k, x, working) for x in values), **attrs).value
        return result if dtype == working else k.cast(result, dtype=dtype)


class SmoothSpecial(Special):
    """A special function of one variable, given by its `derivative` as well."""

    def derivative(self, b: Builder, x: Value, y: Value) -> Any:
        """The derivative at ``x``, where the value is ``y``."""
        raise NotImplementedError(f"{self.name} has no derivative")

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct * derivative``."""
        return (b.mul(cts[0], self.derivative(b, op.operands[0], op.result)),)
