"""Fill bytes of the arena that are free with NaN patterns, so that who reads them by mistake is seen.

All of the arena is filled when the program begins, and each value's bytes after the last operation that reads it. A
float of such bytes is NaN, an integer -1, a bool neither of its values. The fills are kernels whose results nobody
reads; by the verifier's rules they share no byte with what is alive. They say nothing that the plan says: when a value
is read last is seen in the program (`tapec.ir.placement.lifetimes`).
"""

from __future__ import annotations

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Body, Function, Module, Operation, Region, Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import Known, Lifetime, Place, lifetimes, symbols_of
from tapec.ir.types import U8, TensorType

#: All bits are set: a NaN in every float format.
PATTERN = 0xFF
#: Bytes that are written at a time.
_LANES = 64


def run(module: Module, options: object = None) -> bool:
    """Fill what is free in every planned function."""
    changed = False
    for function in module.functions.values():
        size = function.attrs.get("arena", 0)
        if size != 0:
            _body(function, symbols_of(function))
            first = function.block.ops[0]
            function.block.insert_before(first, _fill(Place("arena", 0), size))
            changed = True
    return changed


def _body(body: Function | Body, known: Known) -> None:
    """Fill, in a function or region and in the regions inside, what each value leaves."""
    ops = list(body.block.ops)
    found = [life for life in lifetimes(body, known) if life.op is not None]
    for life in found:
        if life.place.kind != "arena" or life.bytes == 0 or life.last == len(ops) - 1:
            continue
        if not any(_takes_over(other, life) for other in found):
            after = ops[life.last + 1]
            body.block.insert_before(after, _fill(life.place, life.bytes))
    for op in ops:
        if isinstance(op.defn, RegionOp):
            for inner in op.defn.bodies(op):
                _body(inner, known)


def _takes_over(new: Lifetime, old: Lifetime) -> bool:
    """Whether a value is written over another by the last operation that reads that."""
    return new is not old and new.first == old.last and new.place == old.place


def _fill(place: Place, size: DimLike) -> Operation:
    """A kernel that writes so many bytes at a place."""
    kind = TensorType(U8, (size,))
    body = Block()
    inner = Builder(body)
    values: list[Value] = [inner.full(PATTERN, kind)]
    inner.emit("yield", *values)
    attrs = {"lanes": _LANES, "parallel": False, "place": (str(place),)}
    return Operation(OPS["kernel"], (), (kind,), attrs, [Region([body])])
