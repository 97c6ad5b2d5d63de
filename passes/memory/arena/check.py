"""Whether a planned program finds in memory what it reads: it is gone through with names in the place of numbers.

For every byte of the arena, of arguments and of results, `check_plan` keeps which value was written there last. Each
operation must find all bytes of what it reads as the one that made it left them, and at the end the results must be
where they are looked for. So it knows nothing of lifetimes, units and orders, and shares no code with the planner. A
loop is gone through twice, since a turn may spoil what the next one reads. Sizes that are known only at run time are
tried out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tapec.ir.core import Body, Function, Module, Operation, Value
from tapec.ir.dims import DimLike, Symbol, substitute
from tapec.ir.errors import PassError, underline
from tapec.ir.extents import ALIGNMENT
from tapec.ir.op import AxesRead
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import parse_place, symbols_of
from tapec.ir.text.type_text import parse_dim

#: Sizes that symbols get, in turn, within their bounds: around a cache line, and odd ones.
_SIZES = (1, 2, 3, 15, 16, 17, 64, 100, 1000)


class Range(NamedTuple):
    """Bytes from ``start`` to ``end``, without that, of a space: the arena, an argument, a result, a row of one."""

    space: Hashable
    start: int
    end: int

    def meets(self, other: Range) -> bool:
        """Whether the two have a byte in common."""
        return (
            self.space == other.space
            and self.start < min(self.end, other.end)
            and other.start < min(self.end, other.end)
        )


class Memory:
    """Which value was written last to each byte."""

    def __init__(self) -> None:
        """Nothing was written yet."""
        #: For each space, where stretches of one owner begin, and the owners.
        self._spaces: dict[Hashable, tuple[list[int], list[Value | None]]] = {}

    def write(self, to: Range, value: Value) -> None:
        """Give bytes to a value."""
        if to.start >= to.end:
            return
        starts, owners = self._spaces.setdefault(to.space, ([0], [None]))
        first, last = bisect_right(starts, to.start) - 1, bisect_right(starts, to.end) - 1
        new = [(to.start, value), (to.end, owners[last])]
        if starts[first] < to.start:
            new.insert(0, (starts[first], owners[first]))
        starts[first : last + 1] = [start for start, _ in new]
        owners[first : last + 1] = [owner for _, owner in new]

    def stranger(self, at: Range, value: Value) -> tuple[bool, Value | None]:
        """Whether some of the bytes are not a value's, and whose they are."""
        if at.start >= at.end:
            return False, None
        starts, owners = self._spaces.get(at.space, ([0], [None]))
        first, end = bisect_right(starts, at.start) - 1, bisect_right(starts, at.end - 1)
        for owner in owners[first:end]:
            if owner is not value:
                return True, owner
        return False, None


def check_plan(module: Module) -> None:
    """Go through the planned functions of a module, whose kernels tell their places.

    Raises:
        PassError: an operation would read what was written over, or write where it must not.
    """
    for function in module.functions.values():
        if any("place" in op.attrs for op in function.walk()):
            for sizes in _samples(function):
                _Walk(function, sizes).run()


def _samples(function: Function) -> Iterator[dict[str, int]]:
    """Sizes for the symbols of a function that it admits."""
    known = symbols_of(function)
    if not known:
        yield {}
        return
    guards = [(parse_dim(a, known), parse_dim(b, known)) for a, b in function.guards]
    seen = set()
    for size in _SIZES:
        sizes = {name: _within(symbol, size) for name, symbol in known.items()}
        admitted = all(_number(a, sizes) == _number(b, sizes) for a, b in guards)
        if admitted and tuple(sizes.values()) not in seen:
            seen.add(tuple(sizes.values()))
            yield sizes


def _within(symbol: Symbol, size: int) -> int:
    size = max(size, symbol.low)
    return size if symbol.high is None else min(size, symbol.high)


def _number(size: DimLike, sizes: Mapping[str, int]) -> int:
    found = substitute(size, dict(sizes))
    assert isinstance(found, int)
    return found


class _Walk:
    """The way through one function, for given sizes."""

    def __init__(self, function: Function, sizes: Mapping[str, int]) -> None:
        self.function = function
        self.sizes = sizes
        self.symbols = symbols_of(function)
        self.arena = Range("arena", 0, self._size(function.attrs.get("arena", 0)))
        self.memory = Memory()
        #: Where values are, and for views and arguments of regions, whose bytes theirs are.
        self.at: dict[Value, Range] = {}
        self.home: dict[Value, Value] = {}

    def run(self) -> None:
        """Go through the function, and look for its results."""
        function = self.function
        args = [Range(("arg", a), 0, self._bytes(a)) for a in function.args]
        results = [
            None if i in function.updates else Range(("result", i), 0, self._bytes(v))
            for i, v in enumerate(function.returns)
        ]
        for arg, place in zip(function.args, args, strict=True):
            self._own(arg, place)
        self._body(function, args, results)

    def _size(self, size: DimLike) -> int:
        return _number(size, self.sizes)

    def _bytes(self, value: Value) -> int:
        return self._size(value.tensor.bytes)

    def _own(self, value: Value, at: Range) -> None:
        """A value is made at a place."""
        self.at[value] = at
        self.memory.write(at, value)

    def _root(self, value: Value) -> Value:
        while value in self.home:
            value = self.home[value]
        return value

    # ---- a function or a region

    def _body(
        self, body: Function | Body, args: Sequence[Range], results: Sequence[Range | None]
    ) -> None:
        """Go through a block; its results must be in their places at the end, updates in those of arguments."""
        for op in body.block.ops[:-1]:
            for operand in op.operands:
                self._read(op, operand)
            if isinstance(op.defn, KernelOp | RegionOp):
                places = [
                    self._place(op, text, result, body, args, results)
                    for text, result in zip(op.attrs["place"], op.results, strict=True)
                ]
                if isinstance(op.defn, KernelOp):
                    self._kernel(op, places)
                else:
                    self._regions(op, op.defn, places)
            else:
                self.home.update((result, op.operands[0]) for result in op.results)
        end = body.block.terminator
        for i, value in enumerate(end.operands):
            self._read(end, value)
            wanted = args[body.updates[i]] if i in body.updates else results[i]
            if wanted is not None and self.at[self._root(value)] != wanted:
                raise _fault(end, f"result {i} is looked for elsewhere than it is made")

    def _read(self, op: Operation, value: Value) -> None:
        """Hold an operand to be whole."""
        root = self._root(value)
        if root not in self.at:
            raise _fault(op, "what it reads has no place")
        spoilt, owner = self.memory.stranger(self.at[root], root)
        if spoilt:
            by = "was never written" if owner is None else f"was written over by {_describe(owner)}"
            raise _fault(op, f"{_describe(root)}, which it reads, {by}")

    def _place(
        self,
        op: Operation,
        text: str,
        result: Value,
        body: Function | Body,
        args: Sequence[Range],
        results: Sequence[Range | None],
    ) -> Range:
        """The bytes that a place stands for."""
        place = parse_place(text, self.symbols)
        if place is None:
            raise _fault(op, f"{text!r} is no place")
        number, size = self._size(place.number), self._bytes(result)
        if place.kind == "arena":
            found = Range("arena", number, number + size)
            if number < 0 or found.end > self.arena.end or number % ALIGNMENT:
                raise _fault(op, f"{text} is not aligned, or not in {self.arena.end} bytes")
            return found
        known = args if place.kind == "arg" else results
        there = known[number] if number < len(known) else None
        if place.kind == "arg" and number not in body.updates.values():
            there = None
        if there is None or there.end - there.start != size:
            raise _fault(op, f"{text} cannot be written, or not with {size} bytes")
        return there

    # ---- operations

    def _kernel(self, op: Operation, places: Sequence[Range]) -> None:
        """A kernel may write over an operand of which it reads each element only where it writes it."""
        for i, operand in enumerate(op.operands):
            at = self.at[self._root(operand)]
            for result, place in zip(op.results, places, strict=True):
                if not place.meets(at):
                    continue
                alike = operand.tensor.shape == result.tensor.shape
                alike &= operand.type.dtype.bytes == result.type.dtype.bytes
                if place != at or not alike or not _is_elementwise(op, i):
                    raise _fault(op, f"it writes over {_describe(operand)} while it reads that")
        self._apart(op, places)
        for result, place in zip(op.results, places, strict=True):
            self._own(result, place)

    def _apart(self, op: Operation, places: Sequence[Range]) -> None:
        if any(a.meets(b) for i, a in enumerate(places) for b in places[:i]):
            raise _fault(op, "two of its results share bytes")

    def _regions(self, op: Operation, defn: RegionOp, places: Sequence[Range]) -> None:
        """Results are there all the time while the regions run; what goes round is in the place of its operand."""
        overwritten = defn.overwritten(op)
        self._apart(op, places)
        for i, (result, place) in enumerate(zip(op.results, places, strict=True)):
            state = overwritten.get(i)
            for k, operand in enumerate(op.operands):
                at = self.at[self._root(operand)]
                if k == state and place != at:
                    raise _fault(op, f"result {i} does not replace its operand")
                if k != state and place.meets(at):
                    raise _fault(op, f"result {i} is written over {_describe(operand)}")
            if state is None:
                self._own(result, place)
        owners = {k: self._root(op.operands[k]) for k in overwritten.values()}
        for _ in range(1 if defn.turns(op) == 1 else 2):
            # A condition comes before the body, and is the later region.
            for k in reversed(range(len(op.regions))):
                self._region(op, defn, k, places, owners)
        for i, (result, place) in enumerate(zip(op.results, places, strict=True)):
            if i in overwritten:
                self._own(result, place)
            self._read(op, result)

    def _region(
        self,
        op: Operation,
        defn: RegionOp,
        number: int,
        places: Sequence[Range],
        owners: dict[int, Value],
    ) -> None:
        """One turn of a region; ``owners`` are the values that go round, by operand."""
        body = defn.bodies(op)[number]
        args = []
        for arg, k in zip(body.args, defn.operands_of(op, number), strict=True):
            owner = owners.get(k, op.operands[k])
            args.append(self.at[self._root(owner)])
            if arg.index in body.updates.values():
                self._read(op, owner)
                self.home.pop(arg, None)
                self._own(arg, args[-1])
            else:
                self.home[arg] = owner
        yields = body.returns if defn.yields_results(number) else ()
        results = [
            None if i in body.updates else Range((op, i), 0, self._bytes(value))
            for i, value in enumerate(yields)
        ]
        self._body(body, args, results or [None] * len(body.returns))
        for i, arg_number in body.updates.items():
            owners[defn.operands_of(op, number)[arg_number]] = self._root(body.returns[i])


# ---- elements


def _is_elementwise(kernel: Operation, number: int) -> bool:
    """Whether all that a kernel writes at an index depends on no other element of an operand than that there.

    Followed forwards from the operand: a map tells, for each of its axes, by which axis of a value it is indexed.
    """
    block = kernel.regions[0].block
    source = block.args[number]
    shape = source.tensor.shape
    maps: dict[Value, set[AxesRead]] = {source: {tuple(range(len(shape)))}}
    for op in block.ops[:-1]:
        for operand, read in zip(op.operands, op.defn.axes_read(op), strict=True):
            for found in maps.get(operand, ()):
                composed = _followed(found, read)
                for result in op.results:
                    maps.setdefault(result, set()).add(composed)
    return all(
        axes is not None
        and all(axis == i or n == 1 for i, (axis, n) in enumerate(zip(axes, shape, strict=True)))
        for value in block.terminator.operands
        for axes in maps.get(value, ())
    )


def _followed(found: AxesRead, read: AxesRead) -> AxesRead:
    """A map through one operation, which indexes the axes of its operand as ``read`` tells."""
    if found is None or read is None:
        return None
    return tuple(axis if axis < 0 else read[axis] for axis in found)


def _describe(value: Value) -> str:
    return f"%{value.name}" if value.name else f"a {value.type}"


def _fault(op: Operation, message: str) -> PassError:
    return PassError(underline(op, f"the plan is wrong: {message}"), location=op.location)
