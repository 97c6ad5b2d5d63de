"""What is asked of every dump of a program: that it can be read back, and computes what the program computed before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tapec.compiled.cost import arithmetic
from tapec.compiler import lowered
from tapec.ir.core import Module, Operation, clone_module
from tapec.ir.ops.regions import RegionOp
from tapec.passes.observers import Check
from tapec.recording import program_listeners

#: How many programs of one run are looked at, and up to how many operations on numbers, and turns of a loop, they are
#: evaluated after each pass.
_MOST, _WORK, _TURNS = 6, 10**8, 20


@contextlib.contextmanager
def dumps_held() -> Iterator[None]:
    """Hold the dumps of the first programs that compiled functions make in the block, one for each name."""
    found: dict[str, Module] = {}

    def hear(function: Any, call: Any, program: Any) -> None:
        if len(found) < _MOST and function.name not in found:
            found[function.name] = clone_module(program.module)

    program_listeners.append(hear)
    try:
        yield
    finally:
        program_listeners.remove(hear)
    for module in found.values():
        # Loops are read back; evaluating them, scalar by scalar, is for small programs (test_lowering.py).
        lowered(module, observers=[Check(1)])
        if all(map(_is_light, module.walk())):
            lowered(module, "plan", observers=[Check(2)])


def _is_light(op: Operation) -> bool:
    """Whether NumPy evaluates an operation in no time."""
    if isinstance(op.defn, RegionOp):
        turns = op.defn.turns(op)
        return isinstance(turns, int) and turns <= _TURNS
    one, many = arithmetic(op) if op.results else (0, 0)
    return isinstance(one, int) and isinstance(many, int) and one + many <= _WORK
