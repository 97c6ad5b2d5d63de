"""Where the values of a planned function live, and that no two that are needed together share bytes.

The pass plan writes on each kernel an attribute ``place``, one text for each result: ``arena+64``
(bytes from the start of the arena), ``result 0`` (the buffer of that result), ``arg 1`` (the buffer
of that argument, which the result updates in place). Between kernels stand only operations that
give a value another shape; what they make lives where their operand does. Where sizes are known only at run
time, so are offsets: ``arena+256*((N+63)//64)``. A branch or loop has such an
attribute too. In its regions ``arg`` and ``result`` are those of the region; the arena is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from tapec.ir.core import Body, Function, Operation, Value
from tapec.ir.dims import DimLike, Symbol, bounds, typical
from tapec.ir.errors import VerifyError, underline
from tapec.ir.extents import reserved
from tapec.ir.location import Location
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.ir.printer import name_values, print_operation
from tapec.ir.text.type_text import TypeTextError, parse_dim
from tapec.ir.types import TensorType

_PLACE = re.compile(r"(?P<kind>result |arg )(?P<number>\d+)|arena\+(?P<offset>.+)")

#: Symbols by name, with their bounds, which texts of offsets do not tell.
Known = dict[str, Symbol]


class Place(NamedTuple):
    """A part of memory: ``kind`` is ``arena``, ``result`` or ``arg``.

    ``number`` is the offset in bytes, or which result or argument.
    """

    kind: str
    number: DimLike

    def __str__(self) -> str:
        """The text in a kernel's attribute."""
        return f"arena+{self.number}" if self.kind == "arena" else f"{self.kind} {self.number}"


def parse_place(text: str, known: Known | None = None) -> Place | None:
    """The place that a text names, or None; ``known`` as in `lifetimes`."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return None
    if match["offset"] is None:
        return Place(match["kind"].rstrip(), int(match["number"]))
    try:
        return Place("arena", parse_dim(match["offset"], known))
    except TypeTextError:
        return None


@dataclass(eq=False)
class Lifetime:
    """A value in memory: made by operation number ``first``, last read by number ``last``."""

    value: Value
    place: Place
    op: Operation | None
    first: int
    last: int

    @property
    def bytes(self) -> DimLike:
        """How much it occupies."""
        return self.value.tensor.bytes

    def shares_bytes(self, other: Lifetime) -> bool:
        """Whether the two may occupy a byte in common."""
        if 0 in (self.bytes, other.bytes):
            return False
        if self.place == other.place:
            return True
        if not self.place.kind == other.place.kind == "arena":
            return False
        return not (self._ends_before(other) or other._ends_before(self))

    def _ends_before(self, other: Lifetime) -> bool:
        """Whether its bytes are known to be in front of another's."""
        taken = self.bytes if isinstance(self.bytes, int) else reserved(self.bytes)
        distance = bounds(other.place.number - self.place.number - taken)[0]
        return distance is not None and distance >= 0


def lifetimes(function: Function | Body, known: Known | None = None) -> list[Lifetime]:
    """The values of a planned function or region that live in memory, in program order, arguments first.

    ``known`` are symbols by name; without it they have no bounds.
    """
    found: list[Lifetime] = []
    homes: dict[Value, Lifetime] = {}
    for arg in function.args:
        homes[arg] = Lifetime(arg, Place("arg", arg.index), None, -1, -1)
        found.append(homes[arg])
    for i, op in enumerate(function.block.ops):
        for operand in op.operands:
            if operand in homes:
                homes[operand].last = i
        if "place" in op.attrs:
            for result, text in zip(op.results, op.attrs["place"], strict=False):
                place = parse_place(text, known)
                if place is not None:
                    homes[result] = Lifetime(result, place, op, i, i)
                    found.append(homes[result])
        elif op.operands and op.operands[0] in homes:
            for result in op.results:
                homes[result] = homes[op.operands[0]]
    return found


class Peak(NamedTuple):
    """When most bytes of the arena are in use: while operation number ``at`` runs, ``bytes`` in ``alive``.

    What the operation's regions have in the arena then counts, too. Bytes of open sizes are typical ones.
    """

    at: int
    bytes: int
    alive: tuple[Lifetime, ...]


def peak(body: Function | Body) -> Peak:
    """The peak of a planned function or region; a value that was written over another counts, not both."""
    found = [life for life in lifetimes(body) if life.place.kind == "arena"]
    ends: dict[Lifetime, int] = {}
    latest: dict[Place, Lifetime] = {}
    for life in found:
        before = latest.get(life.place)
        if before is not None and before.last == life.first:
            ends[before] -= 1
        ends[life] = life.last
        latest[life.place] = life
    changes = [0] * (len(body.block.ops) + 1)
    for life, last in ends.items():
        changes[life.first] += typical(life.bytes)
        changes[last + 1] -= typical(life.bytes)
    inside = {}
    for i, op in enumerate(body.block.ops):
        if isinstance(op.defn, RegionOp):
            inside[i] = max((peak(region) for region in op.defn.bodies(op)), key=lambda p: p.bytes)
            changes[i] += inside[i].bytes
            changes[i + 1] -= inside[i].bytes
    used = list(accumulate(changes[:-1]))
    at = max(range(len(used)), key=used.__getitem__)
    alive = tuple(life for life, last in ends.items() if life.first <= at <= last)
    return Peak(at, used[at], alive + (inside[at].alive if at in inside else ()))


def line_of(value: Value) -> Location | None:
    """The user's line that makes what is in memory: inside of the kernel, branch or loop whose result it is."""
    op = value.op
    if op is None:
        return None
    for k, region in enumerate(op.regions):
        yields = region.block.terminator.operands
        makes = isinstance(op.defn, KernelOp) or (
            isinstance(op.defn, RegionOp) and op.defn.yields_results(k)
        )
        # A loop that ends when it likes tells the number of its turns, too, which no region yields.
        found = line_of(yields[value.index]) if makes and value.index < len(yields) else None
        if found is not None:
            return found
    return op.location


def check_places(function: Function) -> None:
    """Check invariants 14 and 15 of `tapec.ir.verifier`.

    Raises:
        VerifyError: one of them is broken.
    """
    _check_body(function, function.attrs.get("arena", 0), symbols_of(function))


def symbols_of(function: Function) -> Known:
    """The symbols in the types of a function's arguments, by name, with their bounds."""
    tensors = [arg.type for arg in function.args if isinstance(arg.type, TensorType)]
    return {s.name: s for tensor in tensors for s in tensor.symbols()}


def _check_body(body: Function | Body, arena: Any, known: Known) -> None:
    """Check a function or a region; ``arena`` bytes are all there are."""
    planned = [op for op in body.block.ops if "place" in op.attrs]
    for op in planned:
        _check_place(body, op, arena, known)
    if not planned:
        return
    alive: list[Lifetime] = []
    found = lifetimes(body, known)
    for new in found:
        alive = [old for old in alive if old.last >= new.first]
        for old in alive:
            if new.op is not None and new.shares_bytes(old) and not _in_place(old, new):
                raise _error(15, new.op, _overlap(body, old, new))
        alive.append(new)
    for i, op in enumerate(body.block.ops):
        if isinstance(op.defn, RegionOp) and op in planned:
            for new in _made_inside(op, i, known):
                for old in found:
                    if old.first <= i <= old.last and new.shares_bytes(old):
                        assert new.op is not None
                        message = f"{new.place} is written over what {op.name} or the rest needs"
                        raise _error(15, new.op, message)
            for inner in op.defn.bodies(op):
                _check_body(inner, arena, known)


def _made_inside(outer: Operation, number: int, known: Known) -> Iterator[Lifetime]:
    """What the regions of an operation make in the arena, as long as the operation runs."""
    for op in outer.walk():
        texts = () if op is outer else op.attrs.get("place", ())
        for result, text in zip(op.results, texts, strict=False):
            place = parse_place(text, known)
            if place is not None and place.kind == "arena":
                yield Lifetime(result, place, op, number, number)


def _in_place(old: Lifetime, new: Lifetime) -> bool:
    """A kernel may write over what it is the last to read: the same bytes, element by element."""
    one, other = old.value.tensor, new.value.tensor
    return (
        old.last == new.first
        and old.first != new.first
        and old.place == new.place
        and (one.dtype, one.size) == (other.dtype, other.size)
    )


def _check_place(function: Function | Body, op: Operation, arena: Any, known: Known) -> None:
    texts = op.attrs["place"]
    if len(texts) != len(op.results):
        raise _error(14, op, f"{len(texts)} places for {len(op.results)} results")
    for text, result in zip(texts, op.results, strict=True):
        place = parse_place(text, known)
        size = result.tensor.bytes
        if place is None:
            raise _error(14, op, f"{text!r} is no place: arena+BYTES, result N or arg N")
        if place.kind == "arena":
            taken = size if isinstance(size, int) else reserved(size)
            left = bounds(arena - place.number - taken)[0]
            if left is None or left < 0:
                raise _error(14, op, f"{text} and {size} bytes are outside of {arena} bytes")
        elif place.kind == "result":
            assert isinstance(place.number, int)
            if place.number >= len(function.returns) or place.number in function.updates:
                raise _error(14, op, f"result {place.number} has no buffer of its own")
            _check_size(op, text, result, function.returns[place.number])
        else:
            assert isinstance(place.number, int)
            if place.number not in function.updates.values():
                raise _error(14, op, f"argument {place.number} is not updated")
            _check_size(op, text, result, function.args[place.number])


def _check_size(op: Operation, text: str, result: Value, home: Value) -> None:
    # Complex numbers are pairs of reals in memory.
    same = result.type.dtype.real_dtype == home.type.dtype.real_dtype
    if not same or result.tensor.bytes != home.tensor.bytes:
        raise _error(14, op, f"a {result.type} does not fit into {text}, which is a {home.type}")


def _overlap(function: Function | Body, old: Lifetime, new: Lifetime) -> str:
    """Say what is written over, and who still reads it."""
    names = name_values(function.args, function.block.ops)
    message = f"{new.place} is written over %{names[old.value]} in {old.place}"
    if old.last == new.first:
        return f"{message}, which this kernel reads or writes itself"
    reader = print_operation(function.block.ops[old.last]).partition("\n")[0]
    return f"{message}, which is still read by: {reader.partition(' { ^(')[0]}"


def _error(number: int, op: Operation, message: str) -> VerifyError:
    text = underline(op, f"invariant {number}: {message}")
    return VerifyError(text, location=op.location)
