"""What can be watched while a pipeline runs: dumps, times, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapec.ir.compare import difference
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.dims import substitute
from tapec.ir.errors import PassError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.control import Gradient
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module, write_module
from tapec.ir.text.type_text import parse_dim
from tapec.ir.types import BufferType, TensorType
from tapec.ir.verifier import verify
from tapec.passes import adjoint
from tapec.passes.memory.arena.check import check_plan
from tapec.passes.pipeline import Observer, Stage, comes_from_outside

Array = Any


def count(module: Module) -> int:
    """The number of operations, those in regions included."""
    return sum(1 for _ in module.walk())


class Narrate(Observer):
    """Writes one line about every pass, and the program after each pass that changed it."""

    def __init__(
        self, write: Callable[[str], Any], *, programs: bool = True, locs: bool = False
    ) -> None:
        """Write through ``write``; without ``programs``, only the lines."""
        self.write = write
        self.programs = programs
        self.locs = locs
        self._count = 0

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Show the input."""
        self._count = count(module)
        self.write(f"// ----- input: {self._count} ops\n")
        if self.programs:
            self.write(print_module(module, locs=self.locs))

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Show what the pass did."""
        before, self._count = self._count, count(module)
        what = f"{before} → {self._count} ops" if changed else "unchanged"
        self.write(f"// ----- after {stages[index]}: {what}, {seconds * 1e3:.1f} ms\n")
        if changed and self.programs:
            self.write(print_module(module, locs=self.locs))


class Dump(Observer):
    """Writes ``00-input.tir``, ``01-adjoint.tir``, …: each says how to go on from there."""

    def __init__(self, folder: Path, *, locs: bool = True) -> None:
        """Write into ``folder``, which is made if need be."""
        self.folder = folder
        self.locs = locs

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Write the input."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(module, "00-input.tir", stages)

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Write the program after the pass."""
        name = f"{index + 1:02}-{stages[index].name}.tir"
        self._write(module, name, stages[index + 1 :])

    def _write(self, module: Module, name: str, left: Sequence[Stage]) -> None:
        passes = ",".join(map(str, left))
        head = f"// RUN: tapec opt --passes={passes} {name}\n" if left else ""
        write_module(module, self.folder / name, locs=self.locs, head=head)


class Times(Observer):
    """Remembers how long each pass took."""

    def __init__(self) -> None:
        """Know nothing yet."""
        #: Pass, seconds, how much there is after it, and of what.
        self.rows: list[tuple[str, float, int, str]] = []

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Add a row."""
        self.rows.append((str(stages[index]), seconds, count(module), "ops"))

    def __str__(self) -> str:
        """A table, the total at the end."""
        lines = [f"{s * 1e3:9.2f} ms {n:7} {unit:5}  {name}" for name, s, n, unit in self.rows]
        total = sum(seconds for _, seconds, _, _ in self.rows)
        return "\n".join([*lines, f"{total * 1e3:9.2f} ms {'':13}  total"])


class Check(Observer):
    """Holds every pass to its promise.

    Level 1: the program verifies, its text parses back to it, and its plan, if it has one, writes over nothing that is
    needed. Level 2: also, it computes what it computed before the pass, by the evaluator.
    """

    def __init__(
        self, level: int, inputs: Callable[[Function], Sequence[Array]] | None = None
    ) -> None:
        """``inputs`` makes arrays for the entry's arguments; by default they are random."""
        self.level = level
        self.inputs = inputs or random_inputs
        self._arrays: Sequence[Array] = ()
        self._expected: list[Array] = []
        self._held = ""

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Hold the input itself to it, and see what it computes."""
        if self.level >= 1:
            self._whole(module, "of the input")
        if self.level >= 2:
            self._arrays = self.inputs(module.entry)
            self._expected = meaning(module, self._arrays)

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Compare with what was before the pass, also if it says that it changed nothing."""
        place = f"after pass {stages[index].name!r} of '@{module.entry.name}'"
        # Reading and evaluating take longest, and most passes leave the program as it was.
        if self.level >= 1 and not self._whole(module, place):
            return
        if self.level >= 2:
            found = meaning(module, self._arrays)
            # `commit` adds results; the status says that the checks hold, or nothing would have been computed.
            self._expected += found[len(self._expected) :]
            for i, (expected, got) in enumerate(zip(self._expected, found, strict=True)):
                _compare(place, i, expected, got)
            self._expected = found

    def _whole(self, module: Module, place: str) -> bool:
        """Hold a program to the rules and to its text; return whether it is another than the last one."""
        try:
            verify(module)
            check_plan(module)
            text = print_module(module, full_constants=True)
            if text == self._held:
                return False
            differs = difference(module, parse_module(text))
        except Exception as error:
            if comes_from_outside(error):
                raise
            raise PassError(f"{place}: {error}") from error
        if differs is not None:
            raise PassError(f"{place}: the text is another program: {differs}")
        self._held = text
        return True


def meaning(module: Module, arrays: Sequence[Array]) -> list[Array]:
    """The entry's results, as NumPy evaluates it; gradients that are still to be expanded are, in a copy."""
    if any(isinstance(op.defn, Gradient) for op in module.walk()):
        module = clone_module(module)
        adjoint.run(module)
    return evaluate_module(module, arrays)


def _compare(place: str, index: int, expected: Array, got: Array) -> None:
    """Passes may round differently, by reordering sums; nothing more."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        raise PassError(f"{place}: result {index} has another type")
    if expected.size == 0:
        return
    if got.dtype.kind in "biu":
        same = expected == got
    else:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        a, b = expected.astype(wide), got.astype(wide)
        finite = np.abs(a[np.isfinite(a)])
        tolerance = _tolerance(got.dtype) * max(1.0, float(finite.max(initial=0.0)))
        with np.errstate(invalid="ignore"):
            same = (np.abs(a - b) <= tolerance) | (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.all(same):
        at = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
        raise PassError(
            f"{place}: result {index} changed at {list(at)} from {expected[at]} to {got[at]}",
            hint="the pass changed what the program computes",
        )


def _tolerance(dtype: np.dtype[Any]) -> float:
    """A thousand roundings of float32 and float64, some dozens of the short floats."""
    return {2: 0.1, 4: 1e-4, 8: 2e-13 if dtype.kind == "f" else 1e-4, 16: 2e-13}[dtype.itemsize]


def random_inputs(function: Function, seed: int = 0) -> list[Array]:
    """Arrays for a function's arguments: floats in (0.25, 2), integers and bools 0 and 1.

    Symbolic dims get a size within their bounds that meets the function's guards.
    """
    rng = np.random.default_rng(seed)
    sizes = _sizes(function)
    arrays = []
    for arg in function.args[: function.attrs.get("inputs")]:
        kind = arg.type.tensor if isinstance(arg.type, BufferType) else arg.type
        assert isinstance(kind, TensorType)
        shape = kind.substitute(dict(sizes)).static_shape
        draw: Any = rng.uniform if kind.dtype.is_differentiable else rng.integers
        bounds = (0.25, 2.0) if kind.dtype.is_differentiable else (0, 2)
        arrays.append(np.asarray(draw(*bounds, shape)).astype(kind.dtype.numpy))
    return arrays


def _sizes(function: Function) -> dict[str, int]:
    """Sizes for the symbols of a function.

    Raises:
        PassError: none was found that the guards allow.
    """
    guards = [(parse_dim(a), parse_dim(b)) for a, b in function.guards]
    for size in (3, 2, 4, 6, 8, 16, 1, 12, 24):
        sizes = {
            name: min(max(size, symbol.low), symbol.high if symbol.high is not None else size)
            for name, symbol in function.dims.items()
        }
        if all(substitute(a, dict(sizes)) == substitute(b, dict(sizes)) for a, b in guards):
            return sizes
    raise PassError(f"found no sizes for @{function.name} that its guards allow")
