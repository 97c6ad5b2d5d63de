"""Decide how each kernel runs: vectors, tiles, threads. The decisions are attributes of the kernel operations.

Contractions are tiled by `tapec.passes.contractions.tiling`. Other kernels get ``lanes``, the elements of a vector, and
``parallel``: whether threads share the outermost loop. `tapec.passes.loops.alike` makes that fit in the bodies of
loops.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tapec.ir.compare import exact
from tapec.ir.core import Module, Operation
from tapec.ir.dims import DimLike
from tapec.ir.op import Elementwise
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.repetition import Loop
from tapec.ir.types import DType, TensorType
from tapec.passes.contractions import sliding, tiling
from tapec.passes.contractions.problem import Machine, Workload, size
from tapec.passes.device.rows import keeps_rows
from tapec.passes.device.team import SCRATCH_BYTES
from tapec.passes.device.tile import choose_tile
from tapec.passes.loops import alike


@dataclass(frozen=True)
class Options:
    """The target: bytes of a vector register (0: none), and whether its loads and stores can be masked.

    ``compact``: little code counts more than speed, so no loop does several things in turns. ``device``: blocks of
    threads make products, by tiles; with ``tf32`` those of float32 by tensor cores. ``direct``: convolutions are sums
    of products as they stand.
    """

    vector_bytes: int = 64
    masked: bool = True
    compact: bool = False
    device: bool = False
    direct: bool = False
    tf32: bool = False


#: The tiles of contractions that are alike: networks have many layers of one shape.
_Known = dict[Hashable, tiling.Tiling]

#: Scalar operations in a kernel from which on waking another thread pays.
PARALLEL_WORK = 1 << 18


def run(module: Module, options: Options) -> bool:
    """Write attributes on every kernel."""
    changed, known = False, _Known()
    for op in module.walk():
        if isinstance(op.defn, KernelOp):
            _schedule(op, options, known)
            changed = True
    if not (options.device or options.compact):
        for op in module.walk():
            if isinstance(op.defn, Loop):
                alike.share(op, lambda kernel: _by_rows(kernel, options))
    return changed


def _schedule(kernel: Operation, options: Options, known: _Known) -> None:
    block = kernel.regions[0].block
    core = core_of(kernel)
    if not options.masked:
        kernel.attrs["masked"] = False
    if options.compact:
        kernel.attrs["compact"] = True
    if options.device:
        kernel.attrs["scratch"] = SCRATCH_BYTES
    if core is not None and core.defn.form == "contraction":
        kernel.attrs.update(_tiling(kernel, core, options, known).attrs)
        return
    values = [r for op in block.ops for r in op.results] + list(block.args)
    ranked = [v.tensor for v in values if v.tensor.rank]
    lanes = _lanes([t.dtype for t in _long(ranked, options) or ranked], options)
    kernel.attrs["lanes"] = max(lanes * _registers(kernel, lanes), _filled(kernel, options))
    work: DimLike = sum((op.defn.flops(op) for op in block.ops[:-1]), kernel.results[0].tensor.size)
    kernel.attrs["parallel"] = core is None and size(work) >= PARALLEL_WORK


def _tiling(kernel: Operation, core: Operation, options: Options, known: _Known) -> tiling.Tiling:
    """How a contraction is cut into tiles."""
    work = workload(kernel, core, options)
    if 0 in work.contraction.space:
        return tiling.Tiling()  # loops that do not turn, in the simplest form
    if options.device:
        problem = work.problem()
        if keeps_rows(kernel, problem):
            return tiling.Tiling()
        return choose_tile(problem, tf32=options.tf32)
    if options.compact:
        return tiling.Tiling(lanes=work.lanes)
    key = core.name, exact(core.parameters), work.left, work.right, work.weight, work.traffic
    if key not in known:
        chosen = tiling.choose(work)
        known[key] = chosen if options.direct else sliding.choose(work, chosen)
    return known[key]


def _by_rows(kernel: Operation, options: Options) -> tiling.Tiling | None:
    """How a contraction is cut into tiles whose rows threads share."""
    core = core_of(kernel)
    assert core is not None
    return tiling.choose_rows(workload(kernel, core, options))


def workload(kernel: Operation, core: Operation, options: Options) -> Workload:
    """What the choice of tiles for a kernel with the contraction ``core`` rests on."""
    left, right = (v.tensor for v in core.operands)
    return Workload(
        core.defn.contraction(left, right, **core.parameters),
        left,
        right,
        lanes=_lanes([left.dtype], options),
        machine=Machine.of(options.vector_bytes, masked=options.masked),
        weight=_weight(kernel),
        traffic=_traffic(kernel, core),
    )


def _weight(kernel: Operation) -> int:
    """Operations on each element of a contraction's result, stores included."""
    shape = kernel.results[0].tensor.shape
    ops = kernel.regions[0].block.ops
    return len(kernel.results) + sum(
        isinstance(op.defn, Elementwise) and op.result.tensor.shape == shape for op in ops
    )


def _traffic(kernel: Operation, core: Operation) -> int:
    """Bytes that are read and written, element by element, with a contraction's result."""
    shape = kernel.results[0].tensor.shape
    read = [v for v in kernel.regions[0].block.args if v not in core.operands]
    return sum(size(v.tensor.bytes) for v in (*read, *kernel.results) if v.tensor.shape == shape)


def core_of(kernel: Operation) -> Operation | None:
    """The operation of a kernel that has no index form, if there is one."""
    ops = kernel.regions[0].block.ops[:-1]
    return next((op for op in ops if op.defn.form != "index"), None)


def _registers(kernel: Operation, lanes: int) -> int:
    """Registers that make up a vector: several where sums over rows would else jump from row to row for each.

    Not where a function is computed of each element that is summed, as registers would not do for that.
    """
    ops = kernel.regions[0].block.ops[:-1]
    columns = [op for op in ops if op.defn.loops and _is_by_columns(op)]
    if lanes == 1 or not columns:
        return 1
    most = max(size(op.result.tensor.size) for op in columns)
    functions = (op for op in ops if op.defn.costly and not (op.defn.loops or op.defn.cheap))
    if any(size(op.result.tensor.size) > most for op in functions):
        return 1
    width = min(size(op.result.tensor.shape[-1]) for op in columns)
    return next((n for n in (4, 2) if width >= n * lanes), 1)


def _filled(kernel: Operation, options: Options) -> int:
    """Lanes for which blocks of random bits, made of 64-bit words, fill two vectors; 1 where there are none.

    Two, since each step of such a computation waits for the one before.
    """
    ops = kernel.regions[0].block.ops[:-1]
    most = max((op.defn.together(op) for op in ops), default=1)
    if most == 1 or any(op.defn.loops for op in ops):
        return 1
    lanes = max(most * options.vector_bytes // 4, 1)
    shapes = (v.tensor.shape for v in kernel.results)
    return lanes if all(shape and size(shape[-1]) >= lanes for shape in shapes) else 1


def _is_by_columns(op: Operation) -> bool:
    """Whether a reduction keeps the last axis, along which neighbours are in memory."""
    (access,) = op.defn.axes_read(op)
    return access is not None and access != () and access[-1] == op.result.tensor.rank - 1 >= 0


def _long(types: list[TensorType], options: Options) -> list[TensorType]:
    """Those with elements for all lanes of 32 bits: what has fewer, such as a key of random numbers, is not alone."""
    return [t for t in types if size(t.size) >= options.vector_bytes // 4]


def _lanes(dtypes: list[DType], options: Options) -> int:
    """Elements in a vector of the widest dtype; bools do not count, since they follow what is compared."""
    widest = max((d.bytes for d in dtypes if not d.is_bool), default=4)
    return max(options.vector_bytes // widest, 1)
