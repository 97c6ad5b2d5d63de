"""Which loops of a kernel may run their turns in any order, or at once.

The turns of a loop are independent if no element that one of them writes is read or written by another. That is proved
from index expressions: there is an axis along which every access to a buffer that the loop writes moves by a multiple
of the loop's index, the rest being less than a step apart. A loop that was written as ``parallel`` promises it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from tapec.ir.core import Block, Operation, Value
from tapec.ir.dims import Dim, DimLike, Symbol, bounds, coefficient, symbol, symbols
from tapec.ir.op import Elementwise
from tapec.ir.ops import arith, compare, loop, source
from tapec.ir.types import INDEX, BufferType
from tapec.passes.kernels.accesses import Access, accesses, touches_otherwise

#: Operations that combine values in any order, as `tapec.ir.ops.device.ReduceThreads` does.
_COMBINING = (arith.Add, arith.Mul, arith.Max, arith.Min, compare.And, compare.Or)


def is_inside(value: Value, op: Operation) -> bool:
    """Whether a value is made in the regions of an operation."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.block
    while block is not None and block.region is not None:
        outer = block.region.owner
        if outer is op:
            return True
        block = outer.block if isinstance(outer, Operation) else None
    return False


class Indices:
    """Index values as expressions over the indices of loops, and over values of which nothing is known."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._dims: dict[Value, DimLike] = {}
        self._numbers = count()
        #: What the symbols stand for, by name.
        self.values: dict[str, Value] = {}

    def of(self, value: Value) -> DimLike:
        """The expression of a value."""
        found = self._dims.get(value)
        if found is None:
            found = self._dims[value] = self._expression(value)
        return found

    def _expression(self, value: Value) -> DimLike:
        op = value.op
        if op is None:
            return self.argument(value)
        if isinstance(op.defn, source.Constant) and isinstance(op.attrs["value"], int | Dim):
            number: DimLike = op.attrs["value"]
            return number
        if value.type.dtype == INDEX and isinstance(op.defn, Elementwise):
            operands = [self.of(v) for v in op.operands]
            if isinstance(op.defn, arith.Add):
                return operands[0] + operands[1]
            if isinstance(op.defn, arith.Sub):
                return operands[0] - operands[1]
            if isinstance(op.defn, arith.Mul):
                return operands[0] * operands[1]
            if isinstance(op.defn, arith.FloorDiv | arith.Mod) and bounds(operands[1])[0]:
                quotient = isinstance(op.defn, arith.FloorDiv)
                return operands[0] // operands[1] if quotient else operands[0] % operands[1]
        return self._unknown(value)

    def argument(self, value: Value) -> DimLike:
        """The index of a loop with its bounds; any other argument."""
        block = value.owner
        assert isinstance(block, Block)
        outer = block.region.owner if block.region is not None else None
        if isinstance(outer, Operation) and isinstance(outer.defn, loop.For | loop.While):
            if value.index == 0:
                low, high = (self.of(v) for v in outer.operands[:2])
                return self._unknown(value, bounds(low)[0], bounds(high - 1)[1])
        return self._unknown(value)

    def _unknown(self, value: Value, low: int | None = None, high: int | None = None) -> DimLike:
        name = f"${next(self._numbers)}"
        self.values[name] = value
        if low is None and high is None:
            low = -(1 << 62)
        return symbol(name, -(1 << 62) if low is None else low, high)

    def symbol_of(self, value: Value) -> Symbol | None:
        """The symbol that a value is, if it is just one."""
        found = list(symbols(self.of(value)))
        return found[0] if len(found) == 1 else None

    def is_inside(self, of: Symbol, op: Operation) -> bool:
        """Whether a symbol's value is made in the regions of an operation; sizes never are."""
        value = self.values.get(of.name)
        return value is not None and is_inside(value, op)


def independent(op: Operation, indices: Indices) -> bool:
    """Whether the turns of a ``for`` may run in any order, but for what it carries."""
    if op.attrs.get("parallel"):
        return True
    if any(touches_otherwise(inner) for inner in op.walk()):
        return False
    of_root: dict[Value, list[Access]] = {}
    for access in accesses(op):
        of_root.setdefault(access.root, []).append(access)
    return all(
        is_inside(root, op) or _apart(op, found, indices)
        for root, found in of_root.items()
        if any(access.writes for access in found)
    )


def _apart(op: Operation, found: Sequence[Access], indices: Indices) -> bool:
    """Whether accesses to one buffer never meet in two turns of a loop."""
    if len({access.path for access in found}) > 1:
        return False
    index = indices.symbol_of(op.regions[0].block.args[0])
    if index is None:
        return False
    step = op.attrs.get("step", 1)
    rows = [[indices.of(v) for v in access.index] for access in found]
    if any(_steps(index, step, column, op, indices) for column in zip(*rows, strict=True)):
        return True
    kind = found[0].buffer.type
    if found[0].path or not isinstance(kind, BufferType):
        return False
    flat = [kind.address(tuple(row)) for row in rows]
    return _steps(index, step, flat, op, indices)


def _steps(
    index: Symbol, step: int, column: Sequence[DimLike], op: Operation, indices: Indices
) -> bool:
    """Whether each turn has a part of an axis of its own, given the places on it that accesses take."""
    factors = {coefficient(place, index) for place in column}
    if len(factors) != 1:
        return False
    (factor,) = factors
    if not factor:
        return False
    own = Dim((((index,), factor),))
    spans: list[tuple[int, int]] = []
    outside: DimLike | None = None
    for place in column:
        fixed, moving = _split(place - own, op, indices)
        if outside is not None and outside != fixed:
            return False
        outside = fixed
        low, high = bounds(moving)
        if low is None or high is None:
            return False
        spans.append((low, high))
    return max(high for _, high in spans) - min(low for low, _ in spans) < abs(factor) * step


def _split(place: DimLike, op: Operation, indices: Indices) -> tuple[DimLike, DimLike]:
    """The part of an expression that is the same in all turns, and the rest."""
    if isinstance(place, int):
        return 0, place
    fixed: DimLike = 0
    moving: DimLike = 0
    for monomial, factor in place.terms:
        term = Dim(((monomial, factor),))
        if not monomial or any(indices.is_inside(s, op) for s in symbols(term)):
            moving = moving + (factor if not monomial else term)
        else:
            fixed = fixed + term
    return fixed, moving


def combines(op: Operation) -> tuple[str, ...] | None:
    """For each value that a ``for`` carries, by which operation it adds to it; None if it does anything else."""
    block = op.regions[0].block
    last = block.terminator
    found = []
    for carried, result in zip(block.args[1:], last.operands, strict=True):
        name = _combine(carried, result, last)
        if name is None:
            return None
        found.append(name)
    return tuple(found) or None


def _combine(carried: Value, result: Value, last: Operation) -> str | None:
    op = result.op
    if op is None or op.block is not last.block:
        return None
    if dict(carried.users) != {op: 1} or dict(result.users) != {last: 1}:
        return None
    if isinstance(op.defn, arith.Fma):
        return "add" if op.operands[2] is carried else None
    if isinstance(op.defn, _COMBINING):
        return op.name
    if isinstance(op.defn, loop.For) and carried in op.operands[2:]:
        place = op.operands[2:].index(carried)
        inner = combines(op)
        return inner[place] if inner is not None and op.results[place] is result else None
    return None


def goes_along(op: Operation, indices: Indices) -> bool:
    """Whether a loop goes along neighbours in memory: somewhere the last axis moves by one with its index."""
    index = indices.symbol_of(op.regions[0].block.args[0])
    if index is None:
        return False
    found = [access for access in accesses(op) if access.index]
    return any(coefficient(indices.of(access.index[-1]), index) == 1 for access in found)
