"""Kernels that reduce a tensor to one number while they do what else there is to do with its elements.

The elements are divided into parts whose number depends on the shape alone. Each part, a turn of a loop that threads
share, has its own sums; they are combined at the end. So the number is the same however many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from tapec.ir.core import Operation, Value
from tapec.ir.dims import DimLike
from tapec.ir.loops import reduction as loop_reduction
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import Index
from tapec.ir.ops.reduction import Reduction
from tapec.ir.types import F32, BufferType, DType, Shape
from tapec.passes.contractions.problem import size

#: Parts, at most.
_PARTS = 64
#: Elements of a part, at least.
_SMALLEST = 4096
#: Operations on an element from which on one sum at a time keeps a processor busy.
_HEAVY = 12


def total_of(ops: Iterable[Operation], outputs: Sequence[Value]) -> Operation | None:
    """The one reduction of all elements among a kernel's operations, if it has no other loops.

    What is made of its result are single numbers. None also where the elements are few.
    """
    loops = [op for op in ops if op.defn.form != "index" or op.defn.loops]
    if len(loops) != 1 or not isinstance(loops[0].defn, Reduction):
        return None
    (op,) = loops
    (x,) = op.operands
    whole = op.result.tensor.rank == 0 and x.tensor.rank > 0
    if not whole or size(x.tensor.size) < 2 * _SMALLEST or x.tensor.dtype.is_complex:
        return None
    if any(v.tensor.shape not in ((), x.tensor.shape) for v in outputs):
        return None
    return None if _spreads(op, ops) else op


def _spreads(total: Operation, ops: Iterable[Operation]) -> bool:
    """Whether something that is not one number is made of the total."""
    inside = set(ops)
    stack, seen = [total], {total}
    while stack:
        for user in stack.pop().result.users:
            if user in inside and user not in seen:
                if user.result.tensor.rank:
                    return True
                seen.add(user)
                stack.append(user)
    return False


def reduce_in_parts(
    k: LoopBuilder,
    op: Operation,
    space: Shape,
    body: Callable[[Index], Value],
    *,
    parallel: bool,
    work: int,
) -> Value:
    """Run the body for all indices of a space and combine the values that it returns.

    ``work`` is how many operations the body takes.
    """
    assert isinstance(op.defn, Reduction)
    combine, dtype = op.defn.combine, op.result.tensor.dtype
    chains = 1 if work >= _HEAVY else loop_reduction.CHAINS
    half = dtype.is_floating and dtype.bits < 32
    wide: DType = F32 if half else dtype

    def some(extents: Shape, place: Callable[[Index], Index]) -> Value:
        def value(r: Index) -> Value:
            found = body(place(r))
            return k.cast(found, dtype=wide) if half else found

        return loop_reduction.reduce(k, combine, extents, wide, value, chains=chains)

    first, *inner = space
    parts = 1 if k.compact else _parts(first, inner, k.lanes)
    if parts == 1:
        total = some(space, lambda r: r)
        return k.cast(total, dtype=dtype) if half else total
    each = first // parts
    if not inner:
        each = each // k.lanes * k.lanes  # so that all parts begin where a vector would
    kept = k.alloc(BufferType(wide, (parts,)))

    def part(n: DimLike, carried: Sequence[Value]) -> Sequence[Value]:
        k.store(some((each, *inner), lambda r: (n * each + r[0], *r[1:])), kept, (n,))
        return ()

    k.repeat(0, parts, part, parallel=parallel)
    total = loop_reduction.reduce(k, combine, (parts,), wide, lambda r: k.load(kept, r))
    rest = first - parts * each
    if rest != 0:
        last = some((rest, *inner), lambda r: (parts * each + r[0], *r[1:]))
        total = getattr(k, combine)(total, last)
    return k.cast(total, dtype=dtype) if half else total


def _parts(first: DimLike, inner: Sequence[DimLike], lanes: int) -> int:
    """Into how many parts the first axis is divided."""
    extent, row = size(first), prod(map(size, inner))
    least = max(-(-_SMALLEST // max(row, 1)), 1 if inner else lanes)
    return max(1, min(_PARTS, extent // least))
