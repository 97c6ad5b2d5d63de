"""Place every kernel's result: in an argument that it updates, in a result's buffer, or in one arena.

Values live from the kernel that makes them to the last that reads them; where those of the arena lie,
`tapec.passes.memory.arena` decides. A kernel writes over an operand that dies there, if it reads each element of it
only where it writes one. The function's attributes ``arena`` and ``lower_bound`` tell the bytes taken and the most
bytes alive at one time.

A size with a bound takes what it may be at most. Sizes without one are multiples of a few units, such as ``64*N``;
those of one unit are placed among each other, as numbers, and the units' parts follow one another, so an offset is an
expression that the entry computes. The arena grows with the largest call.

A result that updates an argument is written into the argument's buffer if nobody reads the old value afterwards: no
later kernel, and the kernel itself only the element that it replaces. Otherwise it waits in the arena, and a copy at
the end moves it. So it does if a loop comes after the write that somebody may want to stop (`tapec.passes.poll`).
What a loop carries is all the time in the place of its result, which is that of the operand too; its regions take
turns in a part of the arena. A kernel cannot fail, so a step that has begun to write in place runs to its end. Places
as text: `tapec.ir.placement`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Body, Function, Module, Operation, Region, Value
from tapec.ir.dims import DimLike
from tapec.ir.extents import most, reserved, unit
from tapec.ir.op import OPS
from tapec.ir.ops.control import KernelOp, Return
from tapec.ir.ops.interleaved import Reinterpretation
from tapec.ir.ops.loop import Yield
from tapec.ir.ops.regions import RegionOp, may_take_long
from tapec.ir.placement import Place
from tapec.passes.fusion.access import block_accesses, is_own, loops_of
from tapec.passes.memory.arena.buffers import Buffer, most_alive
from tapec.passes.memory.arena.first_fit import first_fit
from tapec.passes.memory.ownership import writers


@dataclass(frozen=True)
class Options:
    """``reuse=false``: no two values share bytes and nothing is written over, for comparisons.

    ``share=false``: no two values share bytes but those that are written over, so that kernels have to wait for fewer
    others.
    """

    reuse: bool = True
    share: bool = True


#: Orders that are tried beside the usual ones where these waste any bytes; a plan of 60 values takes 2 ms.
_TRIES = 10
#: Thousandths of the bound that a plan may waste without that they are tried.
_SLACK = 1


@dataclass(eq=False)
class Interval:
    """Bytes that are needed from operation number ``first`` to number ``last``, by one value after the other.

    ``bytes`` counts the unit in which offsets are looked for.
    """

    values: list[Value]
    bytes: int
    first: int
    last: int
    unit: DimLike = 1

    @classmethod
    def of(cls, values: list[Value], bytes: DimLike, first: int, last: int) -> Interval:
        """Room for so many bytes."""
        of, times = unit(reserved(bytes))
        return cls(values, times, first, last, of)


#: What regions make in the arena: operations with the places of their results, from the start of the region's part.
_Inner = list[tuple[Operation, tuple[Place, ...]]]


def run(module: Module, options: Options) -> bool:
    """Plan every function of kernels."""
    changed = False
    for function in module.functions.values():
        if any(isinstance(op.defn, KernelOp) for op in function.walk()):
            found: _Inner = []
            state = {Place("arg", i) for i in range(len(function.args))}
            places = _results(function, options.reuse, state)
            total, least = _plan(function, places, found, options, state)
            for op, made in found:
                op.attrs["place"] = tuple(map(str, made))
            function.attrs["arena"] = total
            function.attrs["lower_bound"] = least
            changed = True
    return changed


def _plan(
    body: Function | Body,
    places: dict[Value, Place],
    found: _Inner,
    options: Options,
    state: Collection[Place],
) -> tuple[DimLike, DimLike]:
    """Place what a function or region makes; return the bytes of arena that it takes, and how many are alive at once.

    ``places`` are known already. Those in the arena count from the start of what the body gets of it. What the
    operations make is added to ``found``. ``state`` are places that are there when the function is left.
    """
    inner: dict[Operation, _Inner] = {}
    scratch = {}
    _propagate(places)
    for op in body.block.ops:
        if isinstance(op.defn, RegionOp):
            inner[op] = []
            own = [i for i, r in enumerate(op.results) if places.get(r) in state]
            scratch[op] = _regions(op, inner[op], options, own)
    intervals = _intervals(body, places, options.reuse)
    regions = {}
    for i, op in enumerate(body.block.ops):
        if op in scratch:
            regions[op] = Interval.of([], scratch[op], i, i)
            intervals.append(regions[op])
    if not (options.reuse and options.share):
        for interval in intervals:
            interval.first, interval.last = 0, len(body.block.ops)
    offsets, total = _place_by_unit(intervals)
    for interval, offset in offsets.items():
        for value in interval.values:
            places[value] = Place("arena", offset)
    for op in body.block.ops:
        if isinstance(op.defn, KernelOp | RegionOp):
            found.append((op, tuple(places[r] for r in op.results)))
        if op in regions:
            start = offsets[regions[op]]
            found += [(o, tuple(_shifted(p, start) for p in made)) for o, made in inner[op]]
    return total, _sum(lower_bound(group) * u for u, group in _by_unit(intervals).items())


def _regions(op: Operation, found: _Inner, options: Options, own: Collection[int]) -> DimLike:
    """Plan the regions of an operation, of which one runs at a time; return the bytes of arena that they take.

    ``own`` are the results, by number, that are in places which are there when the function is left.
    """
    assert isinstance(op.defn, RegionOp)
    sizes = []
    for k, body in enumerate(op.defn.bodies(op)):
        state = {Place("arg" if i in body.updates else "result", i) for i in own}
        places = _results(body, options.reuse, state) if op.defn.yields_results(k) else {}
        sizes.append(_plan(body, places, found, options, state)[0])
    return most(sizes)


def _shifted(place: Place, offset: DimLike) -> Place:
    """A place that counts from the start of the whole arena."""
    return place._replace(number=place.number + offset) if place.kind == "arena" else place


def _propagate(places: dict[Value, Place]) -> None:
    """Give what loops overwrite the places of what they make."""
    for value, place in list(places.items()):
        op = value.op
        while op is not None and isinstance(op.defn, RegionOp):
            operand = op.defn.overwritten(op).get(value.index)
            if operand is None:
                break
            value = home(op.operands[operand])
            places[value] = place
            op = value.op


def home(value: Value) -> Value:
    """The value in whose memory this one is: through operations that only give another shape."""
    while (
        value.op is not None
        and not isinstance(value.op.defn, KernelOp | RegionOp)
        and value.op.operands
    ):
        value = value.op.operands[0]
    return value


def _results(
    function: Function | Body, reuse: bool, state: Collection[Place]
) -> dict[Value, Place]:
    """Places of values that leave the function; copies are appended where one cannot be made in its place.

    What is in ``state`` has to be whole whenever a loop may be stopped.
    """
    terminator = function.block.terminator
    position = {op: i for i, op in enumerate(function.block.ops)}
    long = [op for op in function.block.ops if may_take_long(op)]
    places: dict[Value, Place] = {}
    for i, returned in enumerate(terminator.operands):
        value = home(returned)
        if value.op is None:
            continue  # an argument that replaces itself: fuse copies any other
        if i not in function.updates:
            places[value] = Place("result", i)
            continue
        place = Place("arg", function.updates[i])
        argument = function.args[function.updates[i]]
        stops = long if place in state else ()
        if not (reuse and _may_update(argument, returned, position, stops)):
            returned = _copy(function, returned)
            terminator.set_operand(i, returned)
        places[home(returned)] = place
    return places


def _may_update(
    argument: Value, returned: Value, position: dict[Operation, int], long: Sequence[Operation]
) -> bool:
    """Whether a value may be written over an argument when it is made; ``long`` are loops that may be stopped."""
    value = home(returned)
    view = returned.op is not None and isinstance(returned.op.defn, Reinterpretation)
    if (returned if view else value).type != argument.type:
        return False
    chain = list(writers(value))
    writer = chain[-1]
    if not _is_whole(argument, chain, position, long):
        return False
    for reader in _kernel_readers(argument):
        if position[reader] > position[writer]:
            return False
        if reader is writer and not (
            isinstance(writer.defn, KernelOp) and _reads_in_place(writer, argument)
        ):
            return False
    return True


def _is_whole(
    argument: Value,
    chain: Sequence[Operation],
    position: dict[Operation, int],
    long: Sequence[Operation],
) -> bool:
    """Whether an argument is as after a whole step, or a whole turn, wherever one of these loops may be stopped.

    ``chain`` are the operations that would write to it, the first one last.
    """
    if any(op not in chain and position[op] > position[chain[-1]] for op in long):
        return False
    # A loop that writes to it begins with what is there.
    begins = chain[-1]
    same = isinstance(begins.defn, KernelOp) and argument in begins.operands and _copies(begins)
    return same or not any(op in chain for op in long)


def _copies(kernel: Operation) -> bool:
    """Whether a kernel gives its only operand as it is."""
    block = kernel.regions[0].block
    return len(block.ops) == 1 and list(block.terminator.operands) == block.args


def _kernel_readers(value: Value) -> list[Operation]:
    """Kernels, branches and loops that read a value, in any shape."""
    found = []
    for user in value.users:
        if isinstance(user.defn, KernelOp | RegionOp | Return | Yield):
            found.append(user)
        else:
            found += [reader for result in user.results for reader in _kernel_readers(result)]
    return found


def _reads_in_place(kernel: Operation, argument: Value) -> bool:
    """Whether the kernel reads, of the argument, only the element at its own index."""
    block = kernel.regions[0].block
    accesses = block_accesses(block)
    space = loops_of(kernel)
    for operand, inside in zip(kernel.operands, block.args, strict=True):
        if home(operand) is argument:
            if operand is not argument:
                return False
            shape = inside.tensor.shape
            if not all(is_own(a, shape, space) for a in accesses.get(inside, ())):
                return False
    return True


def _copy(function: Function | Body, returned: Value) -> Value:
    """A kernel at the end that copies a value, scheduled as the one that made it."""
    view = returned.op
    if view is not None and isinstance(view.defn, Reinterpretation):
        (value,) = view.operands
    else:
        value, view = returned, None
    body = Block([value.type])
    Builder(body).emit("yield", body.args[0])
    producer = home(value).op
    assert producer is not None
    if isinstance(producer.defn, RegionOp):
        producer = next((op for op in producer.walk() if isinstance(op.defn, KernelOp)), None)
    made = {} if producer is None else producer.attrs
    attrs = {"lanes": made.get("lanes", 1), "parallel": bool(made.get("parallel"))}
    op = Operation(OPS["kernel"], [value], [value.type], attrs, [Region([body])])
    end = function.block.terminator
    function.block.insert_before(end, op)
    copy = op.result if view is None else Builder(function.block, end).emit(view.defn, op.result)
    copy.name = returned.name
    return copy


def _intervals(
    function: Function | Body, places: dict[Value, Place], reuse: bool
) -> list[Interval]:
    """What has to go into the arena."""
    last: dict[Value, int] = {}
    made: dict[Value, int] = {}
    for i, op in enumerate(function.block.ops):
        for operand in op.operands:
            last[home(operand)] = i
        if isinstance(op.defn, KernelOp | RegionOp):
            made.update((r, i) for r in op.results)
    intervals: dict[Value, Interval] = {}
    for value, first in made.items():
        if value in places:
            continue
        end = last.get(value, first)
        dying = _replaced(value, first, intervals, reuse)
        if dying is None:
            intervals[value] = Interval.of([value], value.tensor.bytes, first, end)
        else:
            intervals[value] = dying
            dying.values.append(value)
            dying.last = end
    return list(dict.fromkeys(intervals.values()))


def _replaced(
    value: Value, at: int, intervals: dict[Value, Interval], reuse: bool
) -> Interval | None:
    """The interval of an operand that dies in the kernel that makes a value, and that the value may replace."""
    kernel = value.op
    assert kernel is not None
    if isinstance(kernel.defn, RegionOp):
        number = kernel.defn.overwritten(kernel).get(value.index)
        return None if number is None else intervals[home(kernel.operands[number])]
    if not reuse or any(op.defn.form != "index" for op in kernel.regions[0].block.ops[:-1]):
        return None
    for operand in kernel.operands:
        interval = intervals.get(operand)
        # A result that is there already ends the interval with this kernel too, but is none of its operands.
        if interval is None or interval.last != at or interval.values[-1] is not operand:
            continue
        if operand.type == value.type and _reads_in_place(kernel, operand):
            return interval
    return None


def _by_unit(intervals: list[Interval]) -> dict[DimLike, list[Interval]]:
    """Intervals whose sizes are compared as numbers; those of known size come first."""
    groups: dict[DimLike, list[Interval]] = {1: []}
    for interval in intervals:
        groups.setdefault(interval.unit, []).append(interval)
    return groups


def _place_by_unit(intervals: list[Interval]) -> tuple[dict[Interval, DimLike], DimLike]:
    """Offsets in bytes, and the bytes taken: each unit has a part of the arena."""
    found: dict[Interval, DimLike] = {}
    start: DimLike = 0
    for of, group in _by_unit(intervals).items():
        offsets, total = place(group)
        found.update((interval, start + offset * of) for interval, offset in offsets.items())
        start = start + total * of
    return found, start


def _sum(sizes: Iterable[DimLike]) -> DimLike:
    total: DimLike = 0
    for size in sizes:
        total = total + size
    return total


def place(intervals: Sequence[Interval]) -> tuple[dict[Interval, int], int]:
    """Offsets for intervals, and the bytes that they take in all."""
    plan = first_fit(_buffers(intervals), _TRIES, _SLACK)
    return dict(zip(intervals, plan.offsets, strict=True)), plan.total


def lower_bound(intervals: Sequence[Interval]) -> int:
    """The most bytes alive at one time: no plan takes less."""
    return most_alive(_buffers(intervals))


def _buffers(intervals: Sequence[Interval]) -> list[Buffer]:
    return [Buffer(i.first, i.last + 1, i.bytes) for i in intervals]
