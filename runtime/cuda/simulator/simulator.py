"""Kernels run in Python, thread by thread, with an eye on every access.

The text that a device runs is run here: each thread of a block is a generator that stops where threads wait for each
other, and they take turns. It finds what a device keeps silent about:

* a barrier that some threads of a block do not come to, or at different places of the text;
* memory that is read before anything was written to it, of threads, of blocks, and in the arena; and results that are
  not written in whole;
* an index outside of its buffer, four neighbours of which the first is not at a multiple of their bytes, and a write to
  what a program only reads;
* data races: two accesses of different threads to one element, one of them a write, with no barrier between; of
  different blocks, anywhere in a launch;
* copies that go on in the background: what they bring is not there before their thread has waited for them, and for
  others not before a barrier after that;
* products by a warp of which some thread is elsewhere.

Only what these inputs do is seen. Sums of one launch are made in the same order as on a device.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from tapec.ir.types import DType
from tapec.runtime.cuda.launches import Launch, Memory
from tapec.runtime.cuda.simulator.memory import Cells, Copy, Local, Pointer, SimulationError, Who
from tapec.runtime.cuda.text.kernel_text import MOST_THREADS
from tapec.runtime.cuda.text.kernel_writer import WARP
from tapec.runtime.cuda.text.module_text import Text
from tapec.runtime.cuda.text.primitives import (
    COLLECTIVE,
    COPIES,
    TWINS,
    exchanged,
    matrix_words,
    warp_product,
)
from tapec.runtime.python_text.primitives import DTYPES

#: Blocks of a launch that are run, at most: kernels take any number.
MOST_BLOCKS = 5
_FILE = "<tapec.cuda>"


class _Yields(ast.NodeTransformer):
    """Makes a thread stop where it waits for others."""

    def __init__(self, parts: Set[str]) -> None:
        """``parts`` are the functions in which threads wait."""
        self.parts = parts

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self.parts:
            return ast.copy_location(ast.YieldFrom(node), node)
        if name not in COLLECTIVE:
            return node
        items: list[ast.expr] = [ast.Constant(name), ast.Constant(node.lineno), *node.args]
        stop = ast.Yield(ast.Tuple(items, ast.Load()))
        return ast.fix_missing_locations(ast.copy_location(stop, node))


@functools.lru_cache(maxsize=8)
def _made_of(source: str) -> tuple[CodeType, Set[str]]:
    """The code of a text, for each run of it, and the functions in which threads wait."""
    code = compile(source, _FILE, "exec")
    waiting: set[str] = set()
    for part in code.co_consts:  # functions, in the order of the text
        if isinstance(part, CodeType) and not (COLLECTIVE | waiting).isdisjoint(part.co_names):
            waiting.add(part.co_name)
    if (
        waiting
    ):  # the others stay as they are written: to walk through all takes longer than to run them
        tree, stops = ast.parse(source), _Yields(waiting)
        tree.body = [
            stops.visit(f) if isinstance(f, ast.FunctionDef) and f.name in waiting else f
            for f in tree.body
        ]
        code = compile(tree, _FILE, "exec")
    return code, waiting


class Simulator:
    """A device of NumPy arrays; see `tapec.runtime.cuda.launches.Device`."""

    def __init__(
        self, text: Text, memory: Mapping[tuple[str, int], Cells], *, blocks: int = MOST_BLOCKS
    ) -> None:
        """``memory`` holds arguments, results and the arena; tables are the text's."""
        self.memory = dict(memory)
        for n, array in enumerate(text.tables):
            data = array.reshape(-1).view(np.uint8)
            self.memory["table", n] = Cells(data, written=True, constant=True)
        self.blocks = blocks
        #: The block, the thread and how many barriers the block has come by.
        self.me: Who = (0, 0, 0)
        self._kernel = ""
        #: The line of what a warp does together, while it does that.
        self._line: int | None = None
        #: The copies of each thread of the block, in groups; the last group is not complete yet.
        self._copies: dict[int, list[list[Copy]]] = {}
        self._shared = Cells(np.empty(0, np.uint8), written=False)
        self._source = text.source()
        self._lines = self._source.splitlines()
        code, self._waiting = _made_of(self._source)
        self._functions: dict[str, Any] = {**TWINS, **self._twins()}
        exec(code, self._functions)

    def _twins(self) -> dict[str, Callable[..., Any]]:
        """What depends on the thread, or reaches memory."""
        numbers = [np.uint32(n) for n in range(MOST_THREADS)]
        found: dict[str, Callable[..., Any]] = {
            "thread": lambda: numbers[self.me[1]],
            "block_index": lambda: np.uint32(self.me[0]),
            "block_count": lambda: np.uint32(self._block_count),
        }
        for code in DTYPES:
            found[f"local_{code}"] = lambda n: Local(self, n)
            found[f"shared_{code}"] = self._shared_maker(code)
            found[f"part_{code}"] = lambda p, n, code=code: p.part(code, n)
            found[f"load4_{code}"] = self._load4
            found[f"store4_{code}"] = self._store4
        found |= {name: partial(self._copy, count) for name, count in COPIES.items()}
        return found | {"commit_copies": self._commit_copies, "wait_copies": self._wait_copies}

    def _shared_maker(self, code: str) -> Callable[[int], Pointer]:
        def shared(offset: int) -> Pointer:
            return Pointer(self, self._shared, code, offset, self._shared.data.size - offset)

        return shared

    @staticmethod
    def _load4(pointer: Any, index: Any) -> tuple[Any, ...]:
        return tuple(pointer[i] for i in pointer.neighbours("reads", int(index)))

    @staticmethod
    def _store4(pointer: Any, index: Any, *values: Any) -> None:
        for i, value in zip(pointer.neighbours("writes", int(index)), values, strict=True):
            pointer[i] = value

    # ---- copies

    def _copy(self, count: int, target: Any, index: Any, source: Any, at: Any) -> None:
        places = target.neighbours("writes", int(index), count)
        pairs = zip(places, source.neighbours("reads", int(at), count), strict=True)
        groups = self._copies.setdefault(self.me[1], [[]])
        groups[-1] += [Copy(target, i, source, j) for i, j in pairs]

    def _commit_copies(self) -> None:
        self._copies.setdefault(self.me[1], [[]]).append([])

    def _wait_copies(self, groups: int) -> None:
        own = self._copies.setdefault(self.me[1], [[]])
        done = max(len(own) - 1 - groups, 0)
        for group in own[:done]:
            for copy in group:
                copy.arrive()
        del own[:done]

    def _hold_to_wait(self) -> None:
        """Refuse a block that ends while copies go on."""
        for thread, groups in self._copies.items():
            if any(groups):
                self.me = (self.me[0], thread, self.me[2])
                raise SimulationError(
                    f"@{self._kernel}: block {self.me[0]}, thread {thread} ends with copies that it has not waited for"
                )
        self._copies.clear()

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
                self._copies.clear()
                if one.kernel.name in self._waiting:
                    self._together(block, one.threads, function, arguments)
                else:
                    for thread in range(one.threads):
                        self.me = (block, thread, 0)
                        function(*arguments)
                self._hold_to_wait()

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
            sent = self._exchange(warp, kind, [found[t][2:] for t in warp])

    def _exchange(self, warp: range, what: tuple[str, int], given: Sequence[Any]) -> dict[int, Any]:
        """What the threads of a warp get of something that they do together, in a line of the text."""
        name, line = what
        self._line = line
        try:
            if name.startswith("mma_"):
                found: Sequence[Any] = warp_product(name.removeprefix("mma_"), given)
            elif name.startswith("matrices4"):
                found = self._matrices(warp, given, turned=name.endswith("_turned"))
            else:
                found = exchanged(given)
        except ValueError as error:
            raise self._error(f"has {name} of what it cannot take: {error}", line) from None
        self._line = None
        return dict(zip(warp, found, strict=True))

    def _matrices(
        self, warp: range, given: Sequence[Any], *, turned: bool
    ) -> list[tuple[np.uint32, ...]]:
        """What each thread gets of rows that others give; it is the one that reads."""
        if len(given) != WARP:
            raise ValueError(f"{len(given)} threads of a warp's {WARP}")
        block, _, epoch = self.me

        def read(row: int, column: int) -> Any:
            pointer, index = given[row]
            return pointer[pointer.neighbours("reads", int(index), 8)[column]]

        found = []
        for lane, thread in enumerate(warp):
            self.me = (block, thread, epoch)
            found.append(matrix_words(lane, read, turned=turned))
        return found

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
        if self._line is not None:
            raise self._error(what, self._line)
        frame = sys._getframe(depth)
        while frame.f_code.co_filename != _FILE and frame.f_back is not None:
            frame = frame.f_back
        raise self._error(what, frame.f_lineno)

    def _error(self, what: str, line: int) -> SimulationError:
        block, thread, _ = self.me
        return SimulationError(
            f"@{self._kernel}: block {block}, thread {thread} {what}\n"
            f"  line {line}: {self._lines[line - 1].strip()}"
        )
