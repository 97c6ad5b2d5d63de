"""Deal the loops of kernels out to the blocks and threads of a device.

A kernel that is one nest of independent loops runs each of their turns in a thread, or, where a turn holds loops that
threads can share, such as the sums over a row, in a block of threads (`tapec.passes.device.team`). One of several such
nests becomes several kernels, launched one after the other, if none of their values are in the way and there is
enough to do. Anything else runs in one block, which a barrier keeps in step. Kernels that `tapec.passes.schedule` has
dealt out already, such as tiled products, stay as they are.

Each kernel's attributes tell how it is launched: ``threads`` of a block, and ``turns`` that its threads (``spread``
over the ``grid``) or ``blocks`` take. Of more turns than the device runs at once, threads take several, so that any
number of blocks is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tapec.ir.core import Function, Module, Operation, Value, clone_operation
from tapec.ir.dims import DimLike, symbols, typical
from tapec.ir.ops import loop
from tapec.passes.device.conditional import Conditional
from tapec.passes.device.independence import Indices, goes_along, independent
from tapec.passes.device.neighbours import turn_of, width
from tapec.passes.device.nests import (
    Emitter,
    Nest,
    drop_unread,
    is_movable,
    nest_of,
    statements,
)
from tapec.passes.device.owners import owned
from tapec.passes.device.team import Team, TooLarge, dealable, dealt, width_of
from tapec.passes.kernels.accesses import read_and_written


@dataclass(frozen=True)
class Options:
    """The device: threads of a block at most, a power of two; blocks that it runs at once."""

    threads: int = 256
    blocks: int = 1056


#: Turns from which on threads alone keep a device busy.
_MANY = 1 << 14
#: Elements in a row from which on several threads share it.
_ROW = 32
#: Turns of which a thread takes four neighbours at once from here on: fewer keep more threads busy by themselves.
_WIDE = 1 << 16
#: Turns in all from which on a kernel of several nests is better launched several times than run by one block.
_SPLIT = 2048


def run(module: Module, options: Options) -> bool:
    """Deal out every kernel."""
    parts: dict[str, list[Function]] = {}
    for function in list(module.functions.values()):
        if function.kind == "kernel":
            del module.functions[function.name]
            parts[function.name] = _spread(function, options)
            for part in parts[function.name]:
                module.add(part)
    for op in list(module.entry.walk()):
        if isinstance(op.defn, loop.Launch):
            _launch_all(op, parts[op.attrs["kernel"]])
    return bool(parts)


def _launch_all(op: Operation, kernels: Sequence[Function]) -> None:
    """Launch the parts of a kernel, in order, instead of it."""
    assert op.block is not None
    for kernel in kernels[:-1]:
        copy = clone_operation(op, {})
        copy.attrs["kernel"] = kernel.name
        op.block.insert_before(op, copy)
    op.attrs["kernel"] = kernels[-1].name


def _spread(function: Function, options: Options) -> list[Function]:
    """The kernels that a kernel becomes."""
    if any(op.attrs.get("over") for op in function.walk()):
        return [function]
    conditional = Conditional.of(function)
    if conditional is not None:
        return [conditional.again(part) for part in _spread(conditional.plain, options)]
    _deal_places(function)
    groups = _groups(function)
    if len(groups) == 1:
        return [_Spread(function, options).write()]
    made = []
    for n, group in enumerate(groups):
        part = _Spread(function, options, group).write()
        part.name = f"{function.name}_{n}"
        made.append(part)
    return made


def _deal_places(function: Function) -> None:
    """Let loops over updates be loops over those who have the places that are updated."""
    for op in list(function.block.ops):
        if isinstance(op.defn, loop.For) and not independent(op, Indices()):
            made = owned(op)
            if made is not None:
                op.erase()


def _groups(function: Function) -> list[list[Operation]]:
    """The statements of a kernel that are launched together: all, or one after the other."""
    indices = Indices()
    block = function.block
    written = {v for op in block.ops for v in read_and_written(op)[1]}
    found = statements(block, written)
    turns = []
    for op in found:
        alone = isinstance(op.defn, loop.For) and not op.results and dealt(op, indices)
        turns.append(typical(nest_of(op, indices).turns(indices)) if alone else 0)
    if len(found) < 2 or 0 in turns or sum(turns) < _SPLIT:
        return [found]
    return [[op] for op in found]


class _Spread:
    """The new form of one kernel, or of some of its statements."""

    def __init__(
        self, function: Function, options: Options, group: Sequence[Operation] | None = None
    ) -> None:
        self.source = function
        self.options = options
        self.group = group
        self.indices = Indices()
        self._start()

    def _start(self) -> None:
        source = self.source
        self.function = Function(
            source.name,
            [a.type for a in source.args],
            [a.name for a in source.args],
            kind="kernel",
        )
        self.function.guards = list(source.guards)
        self.function.attrs = dict(source.attrs)
        mapping = dict(zip(source.args, self.function.args, strict=True))
        self.out = Emitter(self.function.block, mapping)
        self.written = {v for op in source.block.ops for v in read_and_written(op)[1]}

    def write(self) -> Function:
        """All of it."""
        try:
            self._write()
        except TooLarge:
            self._start()
            self._by_one_thread()
        self.out.b.emit("return")
        drop_unread(self.function)
        return self.function

    def _write(self) -> None:
        found = statements(self.source.block, self.written)
        if self.group is not None:
            found = [op for op in found if op in self.group]
        if len(found) == 1 and dealt(found[0], self.indices) and not found[0].results:
            self._compute_before(found[0])
            self._nest(nest_of(found[0], self.indices))
        else:
            self._together()

    def _compute_before(self, op: Operation) -> None:
        ops = self.source.block.ops
        self.out.copy_all([o for o in ops[: ops.index(op)] if is_movable(o, self.written)])

    def _launch(self, turns: DimLike, threads: int, over: str) -> None:
        known = all(s.name[0] != "$" for s in symbols(turns))
        self.function.attrs |= {"threads": threads, "spread": over}
        self.function.attrs["turns"] = turns if known else self.options.blocks * threads

    # ---- one nest

    def _nest(self, nest: Nest) -> None:
        """All turns of a nest, each by a thread or by a block."""
        turns = nest.turns(self.indices)
        inner = [n for op in nest.body.ops for n in dealable(op, self.indices)]
        longest = max((typical(n.turns(self.indices)) for n in inner), default=0)
        if longest >= _ROW and self._is_shared(nest, inner, typical(turns)):
            self._by_blocks(nest, turns, min(self.options.threads, _power(self._longest(inner))))
        else:
            self._by_threads(nest, turns)

    def _longest(self, nests: Sequence[Nest]) -> int:
        """The turns that most threads can take at once, neighbours as one."""
        turns = [n.turns(self.indices, width_of(n, self.indices)) for n in nests]
        return max(map(typical, turns), default=1)

    def _is_shared(self, nest: Nest, inner: Sequence[Nest], turns: int) -> bool:
        """Whether several threads are to share a turn: there are few turns, or what a turn goes along is memory."""
        along = any(goes_along(n.loops[-1], self.indices) for n in inner)
        return turns < _MANY and (along or turns < self.options.threads)

    def _by_threads(self, nest: Nest, turns: DimLike) -> None:
        many = width(nest, self.indices) if typical(turns) >= _WIDE else 1
        turns = nest.turns(self.indices, many)
        values = self.out.turns(nest, self.indices, many)

        def body(inner: Emitter, turn: Value, carried: Sequence[Value]) -> Sequence[Value]:
            return turn_of(inner, nest, turn, self.indices, many)

        self.out.loop(values, "grid", body)
        threads = self.options.threads
        while threads > _ROW and typical(turns) <= threads * 128:
            threads //= 2
        self._launch(turns, threads, "grid")

    def _by_blocks(self, nest: Nest, turns: DimLike, threads: int) -> None:
        values = self.out.turns(nest, self.indices)

        def body(inner: Emitter, turn: Value, carried: Sequence[Value]) -> Sequence[Value]:
            inner.place(nest, turn, self.indices)
            team = Team(inner, self.indices)
            team.block(nest.body.ops[:-1])
            team.settle()
            return ()

        self.out.loop(values, "blocks", body)
        self._launch(turns, threads, "blocks")

    # ---- anything

    def _together(self) -> None:
        """Everything in one block of threads."""
        found = [n for op in self.source.block.ops for n in dealable(op, self.indices)]
        longest = self._longest(found)
        Team(self.out, self.indices).block(self.source.block.ops[:-1])
        most = self.options.threads * 4 if longest >= _MANY else self.options.threads
        self._launch(1, min(most, _power(longest), 1024), "blocks")

    def _by_one_thread(self) -> None:
        """Everything in one thread, or each turn of the outermost loop where that is one nest."""
        found = statements(self.source.block, self.written)
        if len(found) == 1 and dealt(found[0], self.indices) and not found[0].results:
            self._compute_before(found[0])
            nest = nest_of(found[0], self.indices)
            self._by_threads(replace(nest), nest.turns(self.indices))
            return

        def body(inner: Emitter, turn: Value, carried: Sequence[Value]) -> Sequence[Value]:
            inner.copy_all(self.source.block.ops[:-1])
            return ()

        self.out.loop(1, "grid", body)
        self._launch(1, 32, "grid")


def _power(number: int) -> int:
    """The next power of two, 32 at least: a warp."""
    return max(32, 1 << max(number - 1, 0).bit_length())
