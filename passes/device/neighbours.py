"""Four turns of a loop along memory as one: a thread reads four neighbours, and writes four.

Each operation of a turn is done for all four before the next, so accesses to neighbours come one behind the other, and
`tapec.passes.device.widen` makes instructions of 16 bytes of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.core import Operation, Value, clone_operation
from tapec.ir.dims import Dim, DimLike, Symbol, coefficient
from tapec.ir.ops import device, loop
from tapec.passes.device.independence import Indices
from tapec.passes.device.nests import Emitter, Nest
from tapec.passes.kernels.accesses import accesses

#: Turns that are one.
WIDTH = device.NEIGHBOURS
#: Operations of a turn that are written four times, at most: they take registers.
_MOST = 64


def width(nest: Nest, indices: Indices) -> int:
    """How many neighbours a turn of a nest may be: `WIDTH`, or 1.

    The last loop's turns are a known multiple of that, and what it accesses are elements of 2 or 4 bytes, one behind
    the other from a multiple of that on, or do not move with it.
    """
    last = nest.loops[-1]
    extent, index = nest.extents(indices)[-1], indices.symbol_of(last.regions[0].block.args[0])
    ops = nest.body.ops[:-1]
    if not isinstance(extent, int) or extent % WIDTH or index is None or len(ops) > _MOST:
        return 1
    simple = last.attrs.get("step", 1) == 1 and indices.of(last.operands[0]) == 0
    if not simple or any(op.regions or not _is_plain(op) for op in ops):
        return 1
    steps = [_step(op, index, indices) for op in ops if isinstance(op.defn, loop.Load | loop.Store)]
    return WIDTH if None not in steps and 1 in steps else 1


def _is_plain(op: Operation) -> bool:
    if isinstance(op.defn, loop.Load | loop.Store):
        return not (op.attrs.get("lanes") or op.attrs.get("masked"))
    return op.defn.pure or isinstance(op.defn, loop.Prefetch)


def _step(op: Operation, index: Symbol, indices: Indices) -> int | None:
    """How many elements an access moves with the index; None if neighbours cannot be accessed together."""
    (access,) = accesses(op)
    kind = access.buffer.buffer
    buffer_index = access.index[len(access.index) - len(kind.shape) :]
    address = kind.address(tuple(indices.of(v) for v in buffer_index))
    step = coefficient(address, index)
    if step != 1:
        return 0 if step == 0 else None
    fits = kind.dtype.bytes in (2, 4) and _is_multiple(address - Dim((((index,), 1),)))
    return 1 if fits else None


def _is_multiple(address: DimLike) -> bool:
    factors = [address] if isinstance(address, int) else [factor for _, factor in address.terms]
    return all(factor % WIDTH == 0 for factor in factors)


def turn_of(
    out: Emitter,
    nest: Nest,
    turn: Value,
    indices: Indices,
    many: int,
    carried: Sequence[Value] = (),
) -> list[Value]:
    """Write a turn of a nest, which is ``many`` of its last loop, with what it carries; return what it carries then."""
    out.place(nest, turn, indices, many)
    block = nest.body
    out.mapping.update(zip(block.args[1:], carried, strict=True))
    if many == 1:
        out.copy_all(block.ops[:-1])
        return [out.new(v) for v in block.terminator.operands]
    lanes = [dict(out.mapping) for _ in range(many)]
    first = out.mapping[block.args[0]]
    for n, lane in enumerate(lanes[1:], 1):
        lane[block.args[0]] = out.b.add(first, out.index(n))
    yielded = dict(zip(block.terminator.operands, block.args[1:], strict=True))
    varying = set(block.args)
    for op in block.ops[:-1]:
        if isinstance(op.defn, loop.Prefetch):
            continue
        if varying.isdisjoint(op.operands):
            out.copy(op)
            for lane in lanes:
                lane.update({r: out.new(r) for r in op.results})
            continue
        varying.update(op.results)
        for n, lane in enumerate(lanes):
            out.block.append(clone_operation(op, lane))
            # The next of the neighbours adds to what this one has.
            for result in op.results:
                if result in yielded and n + 1 < many:
                    lanes[n + 1][yielded[result]] = lane[result]
    return [lanes[-1].get(v, v) for v in block.terminator.operands]
