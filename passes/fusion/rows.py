"""Values of a kernel that are computed row by row, in scratch memory, before loops inside read them."""

from __future__ import annotations

from math import inf, prod

from tapec.ir.core import Operation, Value
from tapec.ir.dims import bounds
from tapec.ir.op import RUNS
from tapec.ir.types import Shape
from tapec.passes.contractions.problem import size
from tapec.passes.fusion.access import block_accesses, is_by_rows
from tapec.passes.kernels.loop_choice import vector_axis

#: Bytes of a row that waits in scratch: it should stay in the first cache.
_LONGEST_ROW = 1 << 14
#: Bytes at multiples of which what waits there begins.
_ALIGNMENT = 16


def values_by_rows(kernel: Operation, space: Shape) -> dict[Value, int]:
    """Costly values that loops inside read as well, with how many loops are around a row.

    Each is computed once for a row, if that is not too long, and, where the kernel says how many bytes of ``scratch``
    there are, as long as these do. ``space`` is the shape that the kernel's loops run over.
    """
    found = {}
    block, attrs = kernel.regions[0].block, kernel.attrs
    room = attrs.get("scratch", inf)
    accesses = block_accesses(block)
    for op in block.ops[:-1]:
        if not op.defn.costly or op.defn.cheap or op.defn.loops:
            continue
        (value,) = op.results
        shape, read = value.tensor.shape, accesses.get(value, [])
        if len(read) < 2 or not all(is_by_rows(a, shape, space) for a in read):
            continue
        loops = min(sum(axis != RUNS for axis in a or ()) for a in read)
        row = prod(size(n) for n in shape[loops:])
        known = all(bounds(n)[1] is not None for n in shape[loops:])
        memory = -(-row * value.tensor.dtype.bytes // _ALIGNMENT) * _ALIGNMENT
        short = known and memory <= min(_LONGEST_ROW, room)
        # A row that one vector holds stays in a register.
        in_register = row <= attrs["lanes"] and attrs.get("masked", True)
        # The loop that is vectorised, and the one that threads share, have to be inside and outside of a row.
        apart = loops <= vector_axis(space) and (loops or not attrs["parallel"])
        if short and not in_register and apart:
            found[value] = loops
            room -= memory
    return found
