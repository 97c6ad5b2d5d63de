"""Kernels run in Python, thread by thread, with an eye on every access.

The text that a device runs is run here: each thread of a block is a generator that stops where threads wait for each
other, and they take turns. It finds what a device keeps silent about:

* a barrier that some threads of a block do not come to, or at different places of the text;
* memory that is read before anything was written to it, of threads, of blocks, and in the arena;
* an index outside of its buffer;
* data races: two accesses of different threads to one element, one of them a write, with no barrier between; of
  different blocks, anywhere in a launch.

Only what these inputs do is seen. Sums of one launch are made in the same order as on a device.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapec.ir.errors import TapecError
from tapec.ir.types import DType
from tapec.runtime.cuda.launches import Launch, Memory
from tapec.runtime.cuda.text.kernel_writer import WARP
from tapec.runtime.cuda.text.module_text import Text
from tapec.runtime.cuda.text.primitives import COLLECTIVE, TWINS
from tapec.runtime.python_text.primitives import DTYPES

#: Blocks of a launch that are run, at most: kernels take any number.
MOST_BLOCKS = 5
_MANY = -1
_Who = tuple[int, int, int]


class SimulationError(TapecError):
    """A kernel did what has no defined meaning on a device."""


class Cells:
    """Memory of the device, with who read and wrote each element since the launch began."""

    def __init__(self, data: Any, *, written: bool) -> None:
        """``data`` is an array of bytes; ``written`` whether it may be read already."""
        self.data = data
        self.known = None if written else np.zeros(data.size, np.bool_)
        self.readers: dict[int, _Who] = {}
        self.writers: dict[int, _Who] = {}

    def forget(self) -> None:
        """A new launch, which everything before it happened before."""
        self.readers.clear()
        self.writers.clear()


class Pointer:
    """A place in memory as elements of a dtype."""

    __slots__ = ("_cells", "_count", "_items", "_offset", "_simulator", "_size")

    def __init__(
        self, simulator: Simulator, cells: Cells, code: str, offset: int, extent: int
    ) -> None:
        """``extent`` bytes from ``offset`` on may be used."""
        self._simulator = simulator
        self._cells = cells
        self._size = np.dtype(DTYPES[code]).itemsize
        self._count = extent // self._size
        self._offset = offset
        end = offset + self._count * self._size
        self._items = cells.data[offset:end].view(DTYPES[code])

    def __getitem__(self, index: Any) -> Any:
        i = int(index)
        if not 0 <= i < self._count:
            self._simulator.fail(f"reads element {i} of {self._count}")
        at = self._offset + i * self._size
        cells, me = self._cells, self._simulator.me
        if cells.known is not None and not cells.known[at]:
            self._simulator.fail(f"reads element {i}, which nothing was written to")
        last = cells.writers.get(at)
        if last is not None and last[:2] != me[:2] and (last[0] != me[0] or last[2] == me[2]):
            self._simulator.race(f"reads element {i}, which {_name(last)} writes", self._cells)
        seen = cells.readers.get(at)
        if seen is None or (seen[0] == me[0] and seen[2] < me[2]):
            cells.readers[at] = me
        elif seen[:2] != me[:2]:
            block = me[0] if seen[0] == me[0] else _MANY
            cells.readers[at] = (block, _MANY, me[2])
        return self._items[i]

    def __setitem__(self, index: Any, value: Any) -> None:
        i = int(index)
        if not 0 <= i < self._count:
            self._simulator.fail(f"writes element {i} of {self._count}")
        at = self._offset + i * self._size
        cells, me = self._cells, self._simulator.me
        for kind, last in (("writes", cells.writers.get(at)), ("reads", cells.readers.get(at))):
            if last is not None and last[:2] != me[:2] and (last[0] != me[0] or last[2] == me[2]):
                self._simulator.race(f"writes element {i}, which {_name(last)} {kind}", cells)
        if type(value) is not self._items.dtype.type:
            kind = type(value).__name__
            self._simulator.fail(f"stores a {kind} where {self._items.dtype} is")
        cells.writers[at] = me
        if cells.known is not None:
            cells.known[at : at + self._size] = True
        self._items[i] = value

    def part(self, code: str, offset: Any) -> Pointer:
        """A pointer some bytes further on."""
        extent = self._count * self._size - int(offset)
        return Pointer(self._simulator, self._cells, code, self._offset + int(offset), extent)


class Local:
    """Memory of one thread."""

    __slots__ = ("_items", "_simulator")

    def __init__(self, simulator: Simulator, count: int) -> None:
        """So many elements, none of them written to."""
        self._simulator = simulator
        self._items: list[Any] = [None] * count

    def __getitem__(self, index: Any) -> Any:
        i = int(index)
        if not 0 <= i < len(self._items):
            self._simulator.fail(f"reads element {i} of {len(self._items)} of its own")
        value = self._items[i]
        if value is None:
            self._simulator.fail(f"reads element {i} of its own before it is written")
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        i = int(index)
        if not 0 <= i < len(self._items):
            self._simulator.fail(f"writes element {i} of {len(self._items)} of its own")
        self._items[i] = value


def _name(who: _Who) -> str:
    block, thread, _ = who
    return f"{'another block' if block == _MANY else f'block {block}'}, thread " + (
        "any of several" if thread == _MANY else str(thread)
    )


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


class _Yields(ast.NodeTransformer):
    """Makes a thread stop where it waits for others."""

    def __init__(self, parts: frozenset[str]) -> None:
        self.parts = parts

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self.parts:
            return ast.copy_location(ast.YieldFrom(node), node)
        if name not in COLLECTIVE:
            return node
        items: list[ast.expr] = [ast.Constant(name), ast.Constant(node.lineno), *node.args]
        return ast.copy_location(ast.Yield(ast.Tuple(items, ast.Load())), node)


class Simulator:
    """A device of NumPy arrays; see `tapec.runtime.cuda.launches.Device`."""

    def __init__(
        self, text: Text, memory: Mapping[tuple[str, int], Cells], *, blocks: int = MOST_BLOCKS
    ) -> None:
        """``memory`` holds arguments, results and the arena; tables are the text's."""
        self.memory = dict(memory)
        for n, array in enumerate(text.tables):
            data = array.reshape(-1).view(np.uint8)
            self.memory["table", n] = Cells(data, written=True)
        self.blocks = blocks
        #: The block, the thread and how many barriers the block has come by.
        self.me: _Who = (0, 0, 0)
        self._kernel = ""
        self._shared = Cells(np.empty(0, np.uint8), written=False)
        self._source = text.source()
        self._lines = self._source.splitlines()
        self._functions, self._waiting = self._run_text()

    def _run_text(self) -> tuple[dict[str, Any], set[str]]:
        """The functions of the text, and the names of those in which threads wait."""
        tree = ast.parse(self._source)
        waiting: set[str] = set()
        for f in tree.body:
            called = {n.func.id for n in ast.walk(f) if _is_call(n)}  # type: ignore[attr-defined]
            if isinstance(f, ast.FunctionDef) and not called.isdisjoint(COLLECTIVE | waiting):
                waiting.add(f.name)
        tree = ast.fix_missing_locations(_Yields(frozenset(waiting)).visit(tree))
        names = {**TWINS, **self._twins()}
        exec(compile(tree, "<tapec.cuda>", "exec"), names)
        return names, waiting

    def _twins(self) -> dict[str, Callable[..., Any]]:
        """What depends on the thread, or reaches memory."""
        numbers = [np.uint32(n) for n in range(1024)]
        found: dict[str, Callable[..., Any]] = {
            "thread": lambda: numbers[self.me[1]],
            "block_index": lambda: np.uint32(self.me[0]),
            "block_count": lambda: np.uint32(self._block_count),
        }
        for code in DTYPES:
            found[f"local_{code}"] = lambda n: Local(self, n)
            found[f"shared_{code}"] = self._shared_maker(code)
            found[f"part_{code}"] = lambda p, n, code=code: p.part(code, n)
            found[f"load4_{code}"] = lambda p, i: tuple(p[int(i) + k] for k in range(4))
            found[f"store4_{code}"] = self._store4
        return found

    def _shared_maker(self, code: str) -> Callable[[int], Pointer]:
        def shared(offset: int) -> Pointer:
            return Pointer(self, self._shared, code, offset, self._shared.data.size - offset)

        return shared

    @staticmethod
    def _store4(pointer: Any, index: Any, *values: Any) -> None:
        for k, value in enumerate(values):
            pointer[int(index) + k] = value

    # ---- the device

    def launch(self, one: Launch) -> None:
        """Run a kernel.

        Raises:
            SimulationError: it did what has no meaning on a device.
        """
        for cells in self.memory.values():
            cells.forget()
        self._kernel = one.kernel.name
        function = self._functions[one.kernel.name]
        whole = one.kernel.is_whole
        self._block_count = one.blocks if whole else min(one.blocks, self.blocks)
        pointers = [
            Pointer(self, self._cells(place), code, place.offset, extent)
            for place, (_, code), extent in zip(
                one.memory, one.kernel.pointers, one.extents, strict=True
            )
        ]
        sizes = [DTYPES[code](n) for n, (_, code) in zip(one.sizes, one.kernel.sizes, strict=True)]
        arguments = (*pointers, *sizes)
        with np.errstate(all="ignore"):
            for block in range(self._block_count):
                self._shared = Cells(np.empty(one.kernel.shared, np.uint8), written=False)
                if one.kernel.name in self._waiting:
                    self._together(block, one.threads, function, arguments)
                    continue
                for thread in range(one.threads):
                    self.me = (block, thread, 0)
                    function(*arguments)

    def _cells(self, place: Memory) -> Cells:
        return self.memory[place.kind, place.number]

    def read(self, place: Memory, dtype: DType) -> Any:
        """A number."""
        items = self._cells(place).data[place.offset : place.offset + dtype.bytes]
        return items.view(dtype.numpy)[0]

    def write(self, place: Memory, dtype: DType, value: Any) -> None:
        """Put a number."""
        cells = self._cells(place)
        end = place.offset + dtype.bytes
        cells.data[place.offset : end].view(dtype.numpy)[0] = value
        if cells.known is not None:
            cells.known[place.offset : end] = True

    # ---- threads in turns

    def _together(
        self, block: int, threads: int, function: Callable[..., Any], arguments: Sequence[Any]
    ) -> None:
        """Run the threads of a block from barrier to barrier."""
        running: list[Iterator[Any]] = [function(*arguments) for _ in range(threads)]
        warps = [range(n, min(n + WARP, threads)) for n in range(0, threads, WARP)]
        epoch = 0
        while True:
            places = set()
            for warp in warps:
                places.add(self._to_barrier(block, epoch, warp, running))
            if places == {None}:
                return
            if len(places) > 1:
                self._diverged(block, places)
            epoch += 1

    def _to_barrier(
        self, block: int, epoch: int, warp: range, running: Sequence[Any]
    ) -> int | None:
        """Run a warp to its next barrier; return its line, or None at the end."""
        sent: dict[int, Any] = dict.fromkeys(warp)
        while True:
            found: dict[int, Any] = {}
            for thread in warp:
                self.me = (block, thread, epoch)
                try:
                    found[thread] = running[thread].send(sent[thread])
                except StopIteration:
                    found[thread] = None
            kinds = {None if f is None else (f[0], f[1]) for f in found.values()}
            if len(kinds) > 1:
                self._diverged(block, {None if k is None else k[1] for k in kinds})
            (kind,) = kinds
            if kind is None or kind[0] == "barrier":
                return None if kind is None else kind[1]
            first = warp[0]
            sent = {t: found[first + ((t - first) ^ int(found[t][3]))][2] for t in warp}

    # ---- complaints

    def _diverged(self, block: int, places: set[int | None]) -> None:
        named = sorted("the end" if p is None else f"line {p}" for p in places)
        raise SimulationError(
            f"@{self._kernel}: threads of block {block} wait at different places: {', '.join(named)}"
        )

    def race(self, what: str, cells: Cells) -> None:
        """Report a data race."""
        where = " of the block's memory" if cells is self._shared else ""
        self._complain(f"data race: {what}{where}, with no barrier between", 3)

    def fail(self, what: str) -> None:
        """Report anything else."""
        self._complain(what, 3)

    def _complain(self, what: str, depth: int) -> None:
        frame = sys._getframe(depth)
        while frame.f_code.co_filename != "<tapec.cuda>" and frame.f_back is not None:
            frame = frame.f_back
        line = frame.f_lineno
        block, thread, _ = self.me
        raise SimulationError(
            f"@{self._kernel}: block {block}, thread {thread} {what}\n"
            f"  line {line}: {self._lines[line - 1].strip()}"
        )


def cells_of(array: Any, *, written: bool = True) -> Cells:
    """An array as memory; it is written to."""
    return Cells(array.reshape(-1).view(np.uint8), written=written)
