"""Integers of a program that is being traced, as numbers and multiples of other values: ``2 * i + n - 1``.

So it is known of two of them how far they are apart, and of one how large it gets in a loop.
"""

from __future__ import annotations

from tapec.functions.known import known_elements
from tapec.ir.compare import exact
from tapec.ir.core import Value
from tapec.ir.dims import DimLike, bounds
from tapec.ir.ops import arith
from tapec.ir.ops.compare import Cast
from tapec.ir.ops.movement import Reshape
from tapec.tensor import Tensor
from tapec.tracing import Trace, TracedTensor

#: How many operations behind one another are looked through.
_DEPTH = 16


class Linear:
    """A sum: a number, and multiples of values.

    Attributes:
        number: the number, or a size that a call gives.
        terms: how often it has each value. Those that are computed alike of the same are one.
    """

    def __init__(self, trace: Trace) -> None:
        """Nothing as yet, in the program of a trace."""
        self.number: DimLike = 0
        self.terms: dict[object, DimLike] = {}
        self._trace = trace

    def add(self, tensor: Tensor, times: DimLike = 1) -> None:
        """Add a multiple of an integer scalar."""
        self._add(self._trace.value_of(tensor), times, _DEPTH)

    def range(self) -> tuple[DimLike, DimLike] | None:
        """The least and the greatest that it is in any turn of the loops around; None if that is not known."""
        low = high = self.number
        for key, times in self.terms.items():
            ends = self._range(key)
            least, most = bounds(times)
            if ends is None or least is None or (least < 0 and (most is None or most > 0)):
                return None
            first, last = ends if least >= 0 else ends[::-1]
            low, high = low + times * first, high + times * last
        return low, high

    def _range(self, key: object) -> tuple[DimLike, DimLike] | None:
        trace: Trace | None = self._trace
        while isinstance(key, Value) and trace is not None:
            if key in trace.ranges:
                return trace.ranges[key]
            trace = trace.parent
        return None

    def _add(self, value: Value, times: DimLike, depth: int) -> None:
        known = self._known(value)
        if known is not None:
            self.number = self.number + times * known
            return
        op = value.op
        defn = None if op is None or not depth else op.defn
        operands = () if op is None else op.operands
        around = self._trace.tensor_behind(value) if op is None else None
        if self._range(value) is not None:
            self._count(value, times)
        elif around is not None:
            self._add(around.value, times, depth)
        elif isinstance(defn, arith.Add | arith.Sub):
            self._add(operands[0], times, depth - 1)
            self._add(operands[1], times if isinstance(defn, arith.Add) else -times, depth - 1)
        elif isinstance(defn, arith.Neg):
            self._add(operands[0], -times, depth - 1)
        elif isinstance(defn, Reshape) or (isinstance(defn, Cast) and _is_whole(operands[0])):
            self._add(operands[0], times, depth - 1)
        elif isinstance(defn, arith.Mul) and (factor := self._factor(operands)) is not None:
            number, other = factor
            self._add(other, times * number, depth - 1)
        else:
            self._count(self._key(value, depth), times)

    def _count(self, key: object, times: DimLike) -> None:
        total = self.terms.pop(key, 0) + times
        if total != 0:
            self.terms[key] = total

    def _known(self, value: Value) -> DimLike | None:
        found = known_elements(TracedTensor(value, self._trace))
        if found is None or found.size != 1 or not _is_whole(value):
            return None
        number: DimLike = found.reshape(()).item()
        return number

    def _factor(self, operands: tuple[Value, ...]) -> tuple[DimLike, Value] | None:
        for value, other in (operands, operands[::-1]):
            number = self._known(value)
            if number is not None:
                return number, other
        return None

    def _key(self, value: Value, depth: int) -> object:
        """Equal for values that are computed alike of the same."""
        op = value.op
        if op is None:
            around = self._trace.tensor_behind(value)
            return value if around is None else self._key(around.value, depth)
        if not depth or not op.defn.pure or op.regions or len(op.results) != 1:
            return value
        operands = tuple(self._key(v, depth - 1) for v in op.operands)
        return op.defn, exact(op.attrs), operands, value.type


def _is_whole(value: Value) -> bool:
    return value.tensor.dtype.is_integer
