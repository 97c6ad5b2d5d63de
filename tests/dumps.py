"""What is asked of every dump of a program: that it can be read back, and computes what the program computed before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tapec import config
from tapec.compiled.cost import arithmetic
from tapec.compiler import lowered
from tapec.inspection.results import distance, native_results
from tapec.ir.core import Module, Operation, clone_module
from tapec.ir.ops.regions import RegionOp
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.passes.observers import Check
from tapec.passes.pipeline import Stage
from tapec.recording import program_listeners
from tapec.runtime import Executable, compile_module

#: How many programs of one run are looked at, and up to how many operations on numbers, and turns of a loop, they are
#: evaluated after each pass.
_MOST, _WORK, _TURNS = 6, 10**8, 20


class _Check(Check):
    """Evaluates a program as far as `plan`.

    Loops are read back, and run as native code; evaluating them, scalar by scalar, is for small programs
    (test_lowering.py).
    """

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        if not any(stage.name == "plan" for stage in stages[index:]):
            self.level = 1
        super().after(module, index, stages, changed, seconds)


@contextlib.contextmanager
def dumps_held() -> Iterator[None]:
    """Hold the dumps of the first programs that compiled functions make in the block, one for each name."""
    found: dict[str, tuple[Module, Executable, list[Any]]] = {}

    def hear(function: Any, call: Any, program: Any) -> None:
        if len(found) < _MOST and function.name not in found:
            arrays = [np.array(a) for a in program.arrays(call.tensors)]
            found[function.name] = clone_module(program.module), program.executable, arrays

    program_listeners.append(hear)
    try:
        yield
    finally:
        program_listeners.remove(hear)
    for module, executable, arrays in found.values():
        check = _Check(2 if all(map(_is_light, module.walk())) else 1)
        loops = lowered(module, observers=[check])
        if executable.native:
            read = parse_module(print_module(loops, full_constants=True))
            again = compile_module(read, threads=config.threads(), apart=True)
            expected = native_results(executable, arrays)
            for i, (a, b) in enumerate(zip(expected, native_results(again, arrays), strict=True)):
                assert distance(i, np.asarray(a), np.asarray(b)) == 0


def _is_light(op: Operation) -> bool:
    """Whether NumPy evaluates an operation in no time."""
    if isinstance(op.defn, RegionOp):
        turns = op.defn.turns(op)
        return isinstance(turns, int) and turns <= _TURNS
    one, many = arithmetic(op) if op.results else (0, 0)
    return isinstance(one, int) and isinstance(many, int) and one + many <= _WORK
