"""That the places of a planned function are there, and no two values that are needed together share bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tapec.ir.core import Body, Function, Operation, Value
from tapec.ir.dims import bounds
from tapec.ir.errors import VerifyError, underline
from tapec.ir.extents import reserved
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import Known, Lifetime, lifetimes, parse_place, symbols_of
from tapec.ir.printer import name_values, print_operation


def check_places(function: Function) -> None:
    """Check invariants 14 and 15 of `tapec.ir.verifier`.

    Raises:
        VerifyError: one of them is broken.
    """
    _check_body(function, function.attrs.get("arena", 0), symbols_of(function))


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
