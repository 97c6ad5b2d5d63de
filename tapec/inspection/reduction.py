"""Shrinking a program while something about it still holds: delta debugging over operations, results, sizes, dtypes.

The way of Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002): parts are tried in
large pieces first, then in smaller ones. What an operation gave becomes an argument, so whatever is cut off, the
rest is a program.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator

from tapec.errors import TapecError
from tapec.ir.core import Function, Module, Value, clone_module
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.ir.types import TensorType
from tapec.ir.verifier import verify
from tapec.passes import dce

#: Whether a program still does what the search is about.
Holds = Callable[[Module], bool]

_SIZE = re.compile(r"(?<=[\[, ])\d+(?=[\],])")
#: What each dtype is replaced by, if the program stays valid.
_SIMPLER = {"f64": "f32", "f16": "f32", "bf16": "f32", "i64": "i32", "c128": "c64"}


def reduced(module: Module, holds: Holds, *, seconds: float = 60.0) -> Module:
    """A smaller program for which ``holds`` is still true; the module is left alone.

    Args:
        module: a valid program for which it is true.
        holds: asked about valid programs only; it may change what it is given.
        seconds: when to stop looking.
    """
    search = _Search(module, holds, time.monotonic() + seconds)
    while search.goes_on():
        before = len(search.text)
        for narrow in (search.results, search.operations, search.bypasses, search.words):
            narrow()
        if len(search.text) >= before:
            break
    return search.best


class _Search:
    """The smallest program so far."""

    def __init__(self, module: Module, holds: Holds, end: float) -> None:
        self.best = clone_module(module)
        self.text = print_module(module, full_constants=True)
        self._holds = holds
        self._end = end
        self._tried: set[str] = set()

    def goes_on(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self._end

    def takes(self, candidate: Module | None) -> bool:
        """Keep a candidate if it is valid, was not tried before, and ``holds`` is true of it."""
        if candidate is None or not self.goes_on():
            return False
        try:
            _tidy(candidate)
            verify(candidate)
            text = print_module(candidate, full_constants=True)
        except (TapecError, ValueError, AssertionError):
            return False
        if text in self._tried or text == self.text:
            return False
        self._tried.add(text)
        if not self._holds(clone_module(candidate)):
            return False
        self.best, self.text = candidate, text
        return True

    def results(self) -> None:
        """Return less."""
        count = len(self.best.entry.returns)
        for i in range(count if count > 1 else 0):
            if self.takes(_returning(clone_module(self.best), {i})):
                return
        self._pieces(
            lambda: len(self.best.entry.returns),
            lambda cut: _returning(
                clone_module(self.best), set(range(len(self.best.entry.returns))) - cut
            ),
        )

    def operations(self) -> None:
        """Let what operations give come in as arguments."""
        self._pieces(
            lambda: len(self.best.entry.block.ops) - 1,
            lambda cut: _without(clone_module(self.best), cut),
        )

    def bypasses(self) -> None:
        """Let an operand of the same type stand for a result."""
        i = len(self.best.entry.block.ops) - 2
        while i >= 0 and self.goes_on():
            self.takes(_bypassed(clone_module(self.best), i))
            i = min(i, len(self.best.entry.block.ops) - 1) - 1

    def words(self) -> None:
        """Smaller sizes and simpler dtypes, wherever they stand."""
        for size in sorted({int(n) for n in _SIZE.findall(self.text)}, reverse=True):
            for smaller in (1, 2, size // 2) if size > 1 else ():
                if smaller < size and self.takes(self._sized(size, smaller)):
                    break
        for dtype, simpler in _SIMPLER.items():
            self.takes(_parsed(re.sub(rf"\b{dtype}\b", simpler, self.text)))

    def _sized(self, size: int, smaller: int) -> Module | None:
        def replace(match: re.Match[str]) -> str:
            return str(smaller) if int(match[0]) == size else match[0]

        return _parsed(_SIZE.sub(replace, self.text))

    def _pieces(
        self, count: Callable[[], int], without: Callable[[set[int]], Module | None]
    ) -> None:
        """Try to leave out runs of parts: half of all, then smaller and smaller ones."""
        piece = max(count() // 2, 1)
        while piece and self.goes_on():
            start = count()
            while start > 0:
                first = max(start - piece, 0)
                self.takes(without(set(range(first, min(start, count())))))
                start = min(first, count())
            piece = piece // 2 if piece > 1 else 0


def _parsed(text: str) -> Module | None:
    try:
        return parse_module(text)
    except (TapecError, ValueError):
        return None


def _tidy(module: Module) -> None:
    """Remove what nobody reads: operations, then arguments."""
    dce.run(module)
    entry = module.entry
    written = set(entry.updates.values())
    for i in reversed(range(len(entry.args))):
        if not entry.args[i].users and i not in written:
            entry.block.remove_arg(i)
            entry.updates = {r: a - (a > i) for r, a in entry.updates.items()}


def _returning(module: Module, kept: set[int]) -> Module | None:
    """The program with some of its results; None if none would be left."""
    if not kept:
        return None
    entry = module.entry
    order = sorted(kept)
    entry.block.terminator.set_operands([entry.returns[i] for i in order])
    entry.updates = {
        new: entry.updates[old] for new, old in enumerate(order) if old in entry.updates
    }
    return module


def _without(module: Module, cut: set[int]) -> Module | None:
    """The program without some operations; None if what they give cannot be an argument."""
    entry = module.entry
    ops = [entry.block.ops[i] for i in sorted(cut) if i < len(entry.block.ops) - 1]
    gone = set(ops)
    for op in ops:
        for result in op.results:
            if any(user not in gone for user in _readers(entry, result)):
                if not isinstance(result.type, TensorType):
                    return None
                result.replace_all_uses(_argument(entry, result))
    for op in reversed(ops):
        op.erase()
    return module if ops else None


def _readers(entry: Function, value: Value) -> Iterator[object]:
    """Those of the function's own operations that read a value, those in their regions counted as theirs."""
    for user in value.users:
        top = user
        while top.block is not None and top.block is not entry.block:
            owner = top.block.region.owner if top.block.region is not None else None
            if owner is None or isinstance(owner, Function):
                break
            top = owner
        yield top


def _argument(entry: Function, like: Value) -> Value:
    """A new argument in the place of a value; before a program is lowered these may stand anywhere."""
    return entry.block.add_arg(like.type, like.name)


def _bypassed(module: Module, index: int) -> Module | None:
    """The program with an operand in the place of an operation; None if none has its type."""
    op = module.entry.block.ops[index]
    if len(op.results) != 1:
        return None
    same: Iterable[Value] = (v for v in op.operands if v.type == op.result.type)
    operand = next(iter(same), None)
    if operand is None:
        return None
    op.replace([operand])
    return module
