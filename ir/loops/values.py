"""Where loop-level code goes, and what an index is: the half of the `LoopBuilder` that knows no memory.

Nothing is computed twice:

* A pure operation is appended to the outermost loop body that knows its operands, and equal ones are made once.
  Loops still being written are not yet in their parent's block, so what goes there comes before them: loop-invariant
  code moves out by construction.
* An index is an `int` or an expression over symbols. Each loop makes a fresh symbol whose bounds let ``//`` and ``%``
  simplify. `index` turns an expression into a value.
* One loop of a nest may be *vectorised*: its symbol stands for the index of the first of several lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import gcd, lcm, prod
from typing import Any

import numpy as np

from tapec.ir.core import Block, Function, Operation, Value
from tapec.ir.dims import (
    Atom,
    Dim,
    DimLike,
    Quotient,
    Symbol,
    bounds,
    coefficient,
    substitute,
    symbol,
    symbols,
)
from tapec.ir.location import Location
from tapec.ir.op import OPS, Index, Op
from tapec.ir.ops.compare import Where
from tapec.ir.ops.loop import Splat
from tapec.ir.ops.source import Constant
from tapec.ir.types import BOOL, INDEX, DType, TensorType, VectorType


@dataclass(frozen=True)
class Lanes:
    """How a loop is vectorised: its symbol, lanes, and how many are active (None: all).

    ``aligned``: the index of the first lane is a multiple of their number.
    """

    symbol: Symbol
    count: int
    active: Value | None = None
    aligned: bool = False


@dataclass(eq=False)
class Frame:
    """A loop body being written; ``memo`` holds what was computed there, ``lanes`` the vectorised loop around it."""

    block: Block
    depth: int
    lanes: Lanes | None = None
    memo: dict[Hashable, Any] = field(default_factory=dict)


class Element:
    """A value that is there already, as an `Operand` whose element at any index is itself."""

    def __init__(self, value: Value) -> None:
        """Wrap a scalar or a vector."""
        self.value = value
        self.type = TensorType(value.type.dtype)

    def __getitem__(self, index: Index) -> Value:
        return self.value


class LoopValues:
    """Writes values into the bodies of loops; see the module docstring."""

    def __init__(self, function: Function, lanes: int) -> None:
        """Write into ``function``; vectors have ``lanes`` lanes."""
        self.function = function
        self.lanes = lanes
        self.location: Location | None = None
        #: Where along a vectorised loop an index enters or leaves a range that it is held to: a loop that is split
        #: there knows which it is.
        self.breaks: set[int] = set()
        #: Loops, by their symbols, in which every so many turns something happens that does not in the others.
        self.periods: dict[Symbol, int] = {}
        self.frames = [Frame(function.block, 0)]
        self._fresh = count()
        self._depths: dict[Value, int] = {}
        self._symbols: dict[str, tuple[Value, int]] = {}
        #: The largest value of a symbol, where that is an expression over sizes known at run time.
        self._tops: dict[Symbol, DimLike] = {}
        #: What divides the index of a loop; 0 if that is 0.
        self._factors: dict[Symbol, int] = {}
        self._first_lanes: dict[Dim, Value] = {}
        #: Symbols other than a loop's that have a value for each lane.
        self._varying: set[str] = set()

    # ---- operations

    @property
    def active_lanes(self) -> Lanes | None:
        """The vectorised loop around the insertion point."""
        return self.frames[-1].lanes

    def depth_of(self, value: Value) -> int:
        """How many loops are around a value."""
        return self._depths.get(value, 0)

    def pure(self, defn: Op, *operands: Value, **attrs: Any) -> Value:
        """The result of an operation without effect, written where its operands are known, and only once there."""
        depth = max((self._depths.get(v, 0) for v in operands), default=0)
        memo = self.frames[depth].memo
        key = (defn, operands, *attrs.items())
        found: Value | None = memo.get(key)
        if found is None:
            found = self._append(depth, defn, operands, attrs)[0]
            memo[key] = found
        return found

    def effect(self, defn: Op, *operands: Value, **attrs: Any) -> tuple[Value, ...]:
        """The results of an operation that must stay where it is."""
        return self._append(len(self.frames) - 1, defn, operands, attrs)

    def _append(
        self, depth: int, defn: Op, operands: Sequence[Value], attrs: dict[str, Any]
    ) -> tuple[Value, ...]:
        inferred = defn.infer(*(v.type for v in operands), **attrs)
        types = inferred if isinstance(inferred, tuple) else (inferred,)
        op = Operation(defn, operands, types, attrs, (), self.location)
        self.frames[depth].block.append(op)
        self._place(op, depth)
        return op.results

    def _place(self, op: Operation, depth: int) -> None:
        if depth:
            for result in op.results:
                self._depths[result] = depth

    def constant(self, value: Any, dtype: DType) -> Value:
        """A literal."""
        if isinstance(value, np.generic):
            value = value.item()
        # 0.0 == -0.0 == False, so the text tells them apart.
        key = ("constant", dtype, repr(value))
        memo = self.frames[0].memo
        if key not in memo:
            attrs = {"value": value, "type": TensorType(dtype)}
            (memo[key],) = self._append(0, OPS["constant"], (), attrs)
        found: Value = memo[key]
        return found

    def splat(self, value: Value, lanes: int = 0) -> Value:
        """A scalar in every lane, of which there are ``lanes`` if not as many as in the loop; a vector as it is."""
        if isinstance(value.type, VectorType):
            return value
        active = self.active_lanes
        lanes = lanes or (active.count if active else self.lanes)
        return self.pure(OPS["splat"], value, lanes=lanes)

    def apply(self, op: Op, *values: Value, **attrs: Any) -> Value:
        """An elementwise operation; scalars widen where another operand is a vector."""
        lanes = next((v.type.lanes for v in values if isinstance(v.type, VectorType)), 0)
        if lanes:
            values = tuple(self.splat(v, lanes) for v in values)
        if isinstance(op, Where) and (known := _known(values[0])) is not None:
            return values[1] if known else values[2]
        if "loop" not in op.levels:
            kernel: Any = self  # a formula of one element needs no memory
            return op.lower(kernel, (), *map(Element, values), **attrs)
        return self.pure(op, *values, **attrs)

    def __getattr__(self, name: str) -> Callable[..., Value]:
        """``k.mul``: the elementwise operation of that name (``k.and_`` for names that Python reserves)."""
        defn = OPS.get(name.removesuffix("_"))
        if defn is None:
            raise AttributeError(f"no operation is called {name!r}")
        return lambda *values, **attrs: self.apply(defn, *values, **attrs)

    # ---- where code goes

    def depth_of_index(self, index: Index) -> int:
        """How many loops must be around a place where an index is known."""
        return max((self._symbol(s)[1] for d in index for s in symbols(d)), default=0)

    def once(
        self, key: Hashable, index: Index, compute: Callable[[], Value], *, least: int = 0
    ) -> Value:
        """``compute()`` for an index, in the outermost body (from ``least`` on) that knows it, and once there."""
        depth = max(least, self.depth_of_index(index))
        memo = self.frames[depth].memo
        found: Value | None = memo.get((key, index))
        if found is None:
            with self.outside(depth):
                found = compute()
            memo[key, index] = found
        return found

    @contextmanager
    def outside(self, depth: int) -> Iterator[None]:
        """Write into the body that has ``depth`` loops around it, in front of the loops being written inside it."""
        frames = self.frames
        self.frames = frames[: depth + 1]
        try:
            yield
        finally:
            self.frames = frames

    # ---- indices

    def _symbol(self, of: Symbol) -> tuple[Value, int]:
        """The value of a symbol and how many loops are around it; one that no loop made is a size of the function."""
        found = self._symbols.get(of.name)
        if found is None:
            attrs = {"value": Dim((((of,), 1),)), "type": TensorType(INDEX)}
            (value,) = self._append(0, OPS["constant"], (), attrs)
            found = self._symbols[of.name] = (value, 0)
        return found

    def _bind(self, prefix: str, value: Value, depth: int, low: int, top: DimLike | None) -> Dim:
        """A fresh symbol for a value that is ``low`` to ``top``; its name is none that a size can have."""
        high = None if top is None else bounds(top)[1]
        made = symbol(f"${prefix}{next(self._fresh)}", low, high)
        (of,) = symbols(made)
        if top is not None and not isinstance(top, int):
            self._tops[of] = top
        self._symbols[of.name] = (value, depth)
        return made

    def varies(self, index: DimLike) -> bool:
        """Whether lanes have different values of an index."""
        lanes = self.active_lanes
        if lanes is None or isinstance(index, int):
            return False
        return any(s == lanes.symbol or s.name in self._varying for s in symbols(index))

    def index(self, index: DimLike) -> Value:
        """An index expression as a value: a vector if lanes differ in it, else a scalar."""
        return self._vector_index(index) if self.varies(index) else self.first_lane(index)

    def first_lane(self, index: DimLike) -> Value:
        """An index expression as a scalar: what the first lane has."""
        if isinstance(index, int):
            return self.constant(index, INDEX)
        # A symbol belongs to one loop, so what is made of it is known wherever it is asked for.
        found = self._first_lanes.get(index)
        if found is None:
            found = self._first_lanes[index] = self._polynomial(index, lambda s: self._symbol(s)[0])
        return found

    def _vector_index(self, index: DimLike) -> Value:
        lanes = self.active_lanes
        assert lanes is not None
        step = coefficient(index, lanes.symbol)
        numbers = self.pure(OPS["lanes"], type=VectorType(INDEX, lanes.count))
        if step is not None and not any(s.name in self._varying for s in symbols(index)):
            return self.add(self.first_lane(index), self._times(numbers, step))
        assert isinstance(index, Dim)

        def lane_values(of: Symbol) -> Value:
            value = self._symbol(of)[0]
            return self.add(value, numbers) if of == lanes.symbol else value

        return self.splat(self._polynomial(index, lane_values))

    def _polynomial(self, index: Dim, value_of: Callable[[Symbol], Value]) -> Value:
        """Sum of products; what is known further out is added up first, so that it is added up there."""

        def atom_value(atom: Atom) -> Value:
            if isinstance(atom, Symbol):
                return value_of(atom)
            parts = (
                self._polynomial(d, value_of) if isinstance(d, Dim) else self.constant(d, INDEX)
                for d in (atom.numerator, atom.denominator)
            )
            return self.mod(*parts) if atom.remainder else self.floordiv(*parts)

        terms = []
        for monomial, factor in index.terms:
            term = self.constant(factor, INDEX) if not monomial else atom_value(monomial[0])
            for atom in monomial[1:]:
                term = self.mul(term, atom_value(atom))
            terms.append(self._times(term, factor) if monomial else term)
        terms.sort(key=self.depth_of)
        total = terms[0]
        for term in terms[1:]:
            total = self.add(total, term)
        return total

    def _times(self, value: Value, factor: int) -> Value:
        return value if factor == 1 else self.mul(value, self.constant(factor, INDEX))

    def number(self, index: DimLike, dtype: DType) -> Value:
        """An index as a number of a dtype."""
        value = self.index(index)
        return value if dtype == INDEX else self.cast(value, dtype=dtype)

    def groups(self, index: DimLike, size: int) -> Value | None:
        """``index // size`` for each group of ``size`` neighbours, where these are lanes; None where they are not."""
        lanes = self.active_lanes
        if size == 1 or lanes is None or not self.varies(index):
            return None
        start = index - Dim((((lanes.symbol,), 1),))
        whole = lanes.aligned and lanes.count % size == 0 and self.factor(start) % size == 0
        if not whole or self.varies(start):
            return None
        numbers = self.pure(OPS["lanes"], type=VectorType(INDEX, lanes.count // size))
        return self.add(self.first_lane(index // size), numbers)

    def factor(self, index: DimLike) -> int:
        """A number that divides an index for certain; 0 if that is 0."""
        if isinstance(index, int):
            return abs(index)
        parts = (
            abs(factor) * prod(self._factors.get(a, 1) for a in atoms if isinstance(a, Symbol))
            for atoms, factor in index.terms
        )
        return gcd(*parts)

    def interleaved(self, *vectors: Value) -> Value:
        """The first lane of each, then the second of each, and so on, of 1, 2 or 4."""
        count, type = len(vectors), vectors[0].type
        assert isinstance(type, VectorType)
        lanes = type.lanes
        if count == 1:
            return vectors[0]
        if count == 4:
            joined = tuple(range(2 * lanes))
            vectors = tuple(
                self.pure(OPS["shuffle"], *vectors[n : n + 2], mask=joined) for n in (0, 2)
            )
        mask = tuple(of * lanes + lane for lane in range(lanes) for of in range(count))
        return self.pure(OPS["shuffle"], *vectors, mask=mask)

    def position(self, value: Value, extent: DimLike) -> DimLike:
        """A loaded integer as an index in ``[0, extent)``: the nearest one, so that no address leaves a buffer."""
        if value.type.dtype != INDEX:
            value = self.cast(value, dtype=INDEX)
        return self._clamped(value, 0, extent - 1)

    def clamp(self, index: DimLike, low: DimLike, high: DimLike) -> DimLike:
        """The index moved into ``[low, high]``; the index itself where its bounds say that it is there."""
        if self.at_least(low, index):
            return low
        if self.at_least(index, high):
            return high
        if self.at_least(index, low) and self.at_least(high, index):
            return index
        self._break(index, low, high + 1)
        return self._clamped(self.index(index), low, high)

    def _clamped(self, value: Value, low: DimLike, high: DimLike) -> DimLike:
        value = self.min(self.max(value, self.index(low)), self.index(high))
        vector = isinstance(value.type, VectorType)
        depth = len(self.frames) - 1 if vector else self.depth_of(value)
        memo = self.frames[depth].memo
        if ("symbol", value) not in memo:
            made = self._bind("p", value, depth, bounds(low)[0] or 0, high)
            if vector:
                self._varying.update(s.name for s in symbols(made))
            memo["symbol", value] = made
        found: Dim = memo["symbol", value]
        return found

    def at_least(self, a: DimLike, b: DimLike) -> bool:
        """Whether bounds prove ``a >= b``: those of numbers, or that an index is below an extent known at run time."""
        difference = a - b
        low = bounds(difference)[0]
        while low is None:
            for of in symbols(difference):
                factor = coefficient(difference, of)
                if of in self._tops and factor is not None and factor < 0:
                    difference = substitute(difference, {of.name: self._tops[of]})
                    break
            else:
                return False
            low = bounds(difference)[0]
        return low >= 0

    def inside(self, index: DimLike, low: DimLike, high: DimLike) -> Value:
        """Whether ``low <= index < high``."""
        if self.at_least(low, index + 1) or self.at_least(index, high):
            return self.constant(False, BOOL)
        tests = []
        if not self.at_least(index, low):
            tests.append(self.ge(self.index(index), self.index(low)))
        if not self.at_least(high, index + 1):
            tests.append(self.lt(self.index(index), self.index(high)))
        if not tests:
            return self.constant(True, BOOL)
        self._break(index, low, high)
        self._note_period(index)
        return tests[0] if len(tests) == 1 else self.and_(*tests)

    def _note_period(self, index: DimLike) -> None:
        """Note how often a loop brings a remainder to the same value."""
        atom = index.terms[0][0][0] if isinstance(index, Dim) and index.terms[0][0] else None
        if isinstance(atom, Quotient) and atom.remainder and isinstance(atom.denominator, int):
            for of in symbols(atom.numerator):
                self.periods[of] = lcm(self.periods.get(of, 1), atom.denominator)

    def _break(self, index: DimLike, *places: DimLike) -> None:
        """Note where the vectorised loop brings an index to these places."""
        lanes = self.active_lanes
        if lanes is not None:
            start = index - Dim((((lanes.symbol,), 1),))
            ends = [place - start for place in places]
            self.breaks.update(end for end in ends if isinstance(end, int))


def _known(value: Value) -> bool | None:
    """What a condition is, if it is a constant."""
    op = value.op
    if op is not None and isinstance(op.defn, Splat):
        op = op.operands[0].op
    return bool(op.attrs["value"]) if op is not None and isinstance(op.defn, Constant) else None
