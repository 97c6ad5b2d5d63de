"""How far the indices of kernels go: 32 bits are enough for most, and take a device less than 64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import Dim, DimLike, bounds, substitute
from tapec.ir.ops import arith, compare, device, loop, source
from tapec.ir.types import INDEX
from tapec.runtime.cuda.text.kernel_text import MOST_THREADS
from tapec.runtime.symbols import bind_symbols, symbols_of

#: What 32 bits do not count, one of which is a sign.
END = 1 << 31


class _Span(NamedTuple):
    """The lowest and the highest number that an index may be; None where nothing tells."""

    low: int | None = None
    high: int | None = None


def goes_beyond(function: Function, sizes: Mapping[str, DimLike]) -> bool:
    """Whether an index, an offset in bytes or a number of elements in a kernel may come to `END`.

    ``sizes`` are what its symbols stand for; what depends on others counts as small.
    """
    spans = _Spans(sizes)
    buffers = [arg.buffer.tensor.size for arg in function.args]
    indices: list[_Span] = []
    for op in function.walk():
        if isinstance(op.defn, loop.View):
            buffers.append(op.operands[0].buffer.tensor.bytes)
        indices += [spans.of(v) for v in op.results if v.type.dtype == INDEX]
    highest = [span.high for span in (*map(spans.of_dim, buffers), *indices)]
    lowest = [span.low for span in indices]
    return any(n is not None and abs(n) >= END for n in (*highest, *lowest))


def has_large_sizes(module: Module, sizes: Mapping[str, int]) -> bool:
    """Whether a kernel of a module goes beyond 32 bits where these are the sizes that were left open."""
    for op in module.entry.walk():
        if isinstance(op.defn, loop.Launch):
            function = module.functions[op.attrs["kernel"]]
            dims = bind_symbols(function, [v.type for v in op.operands], sizes)
            own = [substitute(dim, sizes) for dim in dims]
            if goes_beyond(function, dict(zip(symbols_of(function), own, strict=True))):
                return True
    return False


class _Spans:
    """Spans of the index values of a function."""

    def __init__(self, sizes: Mapping[str, DimLike]) -> None:
        self._sizes = sizes
        self._known: dict[Value, _Span] = {}

    def of_dim(self, dim: DimLike) -> _Span:
        """That of a size."""
        return _Span(*bounds(substitute(dim, self._sizes) if isinstance(dim, Dim) else dim))

    def of(self, value: Value) -> _Span:
        """That of an index."""
        if value not in self._known:
            self._known[value] = self._span(value)
        return self._known[value]

    def _span(self, value: Value) -> _Span:
        op = value.op
        if op is None:
            return self._argument(value)
        if isinstance(op.defn, source.Constant) and value.type.dtype == INDEX:
            number = op.attrs["value"]
            return self.of_dim(number if isinstance(number, Dim) else int(number))
        if isinstance(op.defn, device.Thread):
            return _Span(0, MOST_THREADS - 1)
        if value.type.dtype != INDEX or op.regions:
            return _Span()
        given = [self.of(v) for v in op.operands if v.type.dtype == INDEX]
        if isinstance(op.defn, compare.Where):
            return _hull(*given)
        return _combined(op, given) if len(given) == 2 else _Span()

    def _argument(self, value: Value) -> _Span:
        """That of a loop's turns; nothing tells what is carried from turn to turn."""
        block = value.owner
        assert isinstance(block, Block)
        outer = block.region.owner if block.region is not None else None
        loops = isinstance(outer, Operation) and isinstance(outer.defn, loop.For | loop.While)
        if not loops or value.index:
            return _Span()
        assert isinstance(outer, Operation)
        low, high = (self.of(v) for v in outer.operands[:2])
        return _Span(low.low, None if high.high is None else high.high - 1)


def _combined(op: Operation, given: list[_Span]) -> _Span:
    """What arithmetic makes of two indices, of which the second one divides, if it does, and is positive."""
    (a, b), (c, d) = given
    if isinstance(op.defn, arith.Add):
        return _Span(_sum(a, c), _sum(b, d))
    if isinstance(op.defn, arith.Sub):
        return _Span(_sum(a, _minus(d)), _sum(b, _minus(c)))
    if isinstance(op.defn, arith.Min | arith.Max):
        return _hull(*given)
    if isinstance(op.defn, arith.Mod):
        return _Span(0, _sum(d, -1))
    if a is None or b is None or c is None or d is None:
        return _Span()
    if isinstance(op.defn, arith.Mul):
        products = [x * y for x in (a, b) for y in (c, d)]
        return _Span(min(products), max(products))
    return _hull(given[0], _Span(0, 0)) if isinstance(op.defn, arith.FloorDiv) else _Span()


def _hull(*spans: _Span) -> _Span:
    lows, highs = zip(*spans, strict=True)
    return _Span(
        None if None in lows else min(lows),
        None if None in highs else max(highs),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _minus(number: int | None) -> int | None:
    return None if number is None else -number
