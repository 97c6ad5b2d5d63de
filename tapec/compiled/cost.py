"""What a program costs: arithmetic and memory traffic of each kernel, with the user's line.

Counted is what the program says, not what a machine does: an element that a kernel computes twice counts once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tapec.compiled.recurrence import depth, depths_of_turns, waits
from tapec.ir.core import Block, Module, Operation, Value
from tapec.ir.dims import DimLike, substitute
from tapec.ir.location import Location
from tapec.ir.op import Elementwise, Op
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.regions import RegionOp
from tapec.passes.plan import home
from tapec.tables import Table, counted

#: How the numbers come about; the last line of the table.
FORMULAS = (
    "flops: 1 for each element of an arithmetic operation, 1 for each element that a reduction takes, 2 for each "
    "product of a contraction; transcendentals: 1 for each element of a function of many instructions (exp, tanh, "
    "a kernel of yours); bytes: operands read once, results written once"
)


@dataclass(frozen=True)
class KernelCost:
    """One kernel.

    Attributes:
        number: which of the program, in order.
        ops: the operations in it that compute something.
        location: the user's line of what it makes last.
        runs: how often it runs in a call: the turns of the loops around it; None where nothing says so.
        flops: floating-point operations of one run.
        transcendentals: values of functions of many instructions, of one run.
        bytes_read: of its operands, each once.
        bytes_written: of its results.
        products: the flops of contractions among ``flops``, which are done two at a time.
        is_double: whether most of what it writes is float64.
        is_parallel: whether several threads may run it.
        depth: how many elementwise operations wait for each other, one by one; in a loop, of those that wait for the
            turn before.
        instructions: how many operations are done for an element: elementwise ones, without what becomes part of one.
        memory: the buffers that it reads and writes, each with its bytes; equal names are the same memory.
    """

    number: int
    ops: tuple[str, ...]
    location: Location | None
    runs: DimLike | None
    flops: DimLike
    transcendentals: DimLike
    bytes_read: DimLike
    bytes_written: DimLike
    products: DimLike = 0
    is_double: bool = False
    is_parallel: bool = False
    depth: float = 0
    instructions: int = 0
    memory: tuple[tuple[Hashable, DimLike], ...] = ()

    def at(self, sizes: Mapping[str, DimLike]) -> KernelCost:
        """The cost for given values of sizes that are open."""
        return replace(
            self,
            runs=None if self.runs is None else substitute(self.runs, sizes),
            flops=substitute(self.flops, sizes),
            transcendentals=substitute(self.transcendentals, sizes),
            bytes_read=substitute(self.bytes_read, sizes),
            bytes_written=substitute(self.bytes_written, sizes),
            products=substitute(self.products, sizes),
            memory=tuple((name, substitute(size, sizes)) for name, size in self.memory),
        )

    @property
    def place(self) -> str:
        """File and line."""
        return "" if self.location is None else f"{self.location.file}:{self.location.line}"

    @property
    def source(self) -> str:
        """The line itself."""
        return "" if self.location is None else self.location.text

    @property
    def work(self) -> str:
        """The names of the operations, shortened."""
        return _listed(self.ops)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        runs = "?" if self.runs is None else counted(self.runs)
        numbers = (self.flops, self.transcendentals, self.bytes_read, self.bytes_written)
        return str(self.number), runs, *map(counted, numbers), self.work, self.place, self.source


@dataclass(frozen=True, repr=False)
class Cost:
    """What all kernels of a program cost, in the order in which they run.

    Attributes:
        kernels: one entry each.
    """

    kernels: tuple[KernelCost, ...]

    @property
    def flops(self) -> Any:
        """Floating-point operations of a call; kernels of which nothing says how often they run count once."""
        return sum(k.flops * _times(k) for k in self.kernels)

    @property
    def transcendentals(self) -> Any:
        """Values of functions of many instructions, of a call."""
        return sum(k.transcendentals * _times(k) for k in self.kernels)

    @property
    def bytes(self) -> Any:
        """Read and written by all kernels of a call."""
        return sum((k.bytes_read + k.bytes_written) * _times(k) for k in self.kernels)

    def _table(self) -> Table:
        columns = (
            "kernel", "runs", "flops", "transcendentals", "bytes read", "bytes written", "operations", "line", "source",
        )  # fmt: skip
        total = (
            f"{counted(self.flops)} flops, {counted(self.transcendentals)} transcendentals, "
            f"{counted(self.bytes)} bytes in {len(self.kernels)} kernels"
        )
        if any(k.runs is None for k in self.kernels):
            total += ", where each that runs ? times counts once"
        rows = [k.cells for k in self.kernels]
        return Table(columns, rows, "what the program costs", f"{total}\n{FORMULAS}")

    def __str__(self) -> str:
        """A table."""
        return self._table().text()

    def __repr__(self) -> str:
        caption, _, _ = self._table().caption.partition("\n")
        return f"<Cost: {caption}>"

    def __rich__(self) -> Any:
        """A table of the rich library."""
        return self._table().rich()

    def _repr_html_(self) -> str:
        return self._table().html()


def cost_of(module: Module) -> Cost:
    """What a program of kernels costs."""
    kernels = _kernels(module.entry.block, 1, {})
    return Cost(tuple(_cost(i, *kernel) for i, kernel in enumerate(kernels)))


def _kernels(
    block: Block, runs: DimLike | None, depths: Mapping[Operation, float]
) -> Iterator[tuple[Operation, DimLike | None, float]]:
    """The kernels of a block and of the regions in it, with how often they run, and their `KernelCost.depth`."""
    for op in block.ops:
        if isinstance(op.defn, KernelOp):
            yield op, runs, depths[op] if op in depths else depth(op.regions[0].block)
        elif isinstance(op.defn, RegionOp):
            turns = op.defn.turns(op)
            inside = None if turns is None or runs is None else runs * turns
            for body in op.defn.bodies(op):
                yield from _kernels(
                    body.block, inside, depths_of_turns(body) if body.updates else {}
                )


def _cost(number: int, kernel: Operation, runs: DimLike | None, depth: float) -> KernelCost:
    flops: DimLike = 0
    transcendentals: DimLike = 0
    products: DimLike = 0
    names: dict[str, None] = {}
    location = kernel.location
    for op in kernel.regions[0].block.ops[:-1]:
        one, many = arithmetic(op)
        if (one, many) != (0, 0):
            names[op.name] = None
            location = op.location or location
        flops, transcendentals = flops + one, transcendentals + many
        if op.defn.form == "contraction":
            products = products + one
    read = sum((v.tensor.bytes for v in kernel.operands), 0)
    written = sum((r.tensor.bytes for r in kernel.results), 0)
    return KernelCost(
        number,
        tuple(names),
        location,
        runs,
        flops,
        transcendentals,
        read,
        written,
        products,
        any(r.tensor.dtype.code == "f64" for r in kernel.results),
        bool(kernel.attrs.get("parallel")),
        depth,
        sum(map(waits, kernel.regions[0].block.ops[:-1])),
        tuple((_memory(v), v.tensor.bytes) for v in (*kernel.operands, *kernel.results)),
    )


def _memory(value: Value) -> Hashable:
    """What tells the memory of one value from that of others; arguments of loops count as memory of their own."""
    value = home(value)
    if value.op is None:
        return id(value.owner), f"arg {value.index}"
    place = value.op.attrs["place"][value.index] if "place" in value.op.attrs else id(value.op)
    return (0 if str(place).startswith("arena") else id(value.op.block)), place


def arithmetic(op: Operation) -> tuple[DimLike, DimLike]:
    """Floating-point operations of one operation, and values of functions of many instructions."""
    if not op.results[0].tensor.dtype.is_floating:
        return 0, 0
    if isinstance(op.defn, Elementwise):
        if op.defn.cheap and getattr(op.defn, "scalar", None) is None:
            return 0, 0  # a choice or a conversion
        size = op.defn.flops(op)
        return (0, size) if op.defn.costly else (size, 0)
    counts = type(op.defn).flops is not Op.flops  # elsewhere it is a guess for the scheduler
    return (op.defn.flops(op) if counts else 0), 0


def _times(kernel: KernelCost) -> Any:
    return 1 if kernel.runs is None else kernel.runs


def _listed(names: tuple[str, ...]) -> str:
    shown = names if len(names) <= 5 else (*names[:2], "...", *names[-2:])
    return " ".join(shown) or "copy"
