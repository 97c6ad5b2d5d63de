"""Programs of the operations that have no samples: regions, checks, what kernels are made of, threads together.

With those that have samples (`sampling.tensor_ops`) and those that say why they have no form on devices
(`tapec.ir.op.Op.no_device`), they are all that there are: `coverage` tells for each which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sampling import tensor_ops

import tapec
from tapec.compiler import compile_module, lowered_for
from tapec.ir.core import Module
from tapec.ir.op import OPS
from tapec.ir.parser import parse_module
from tapec.passes.pipeline import Observer, Stage


@tapec.custom_gradient
def tripled(x: Any) -> Any:
    return x * x, lambda dy: dy * 3.0


@tapec.compile
def shifted(x: Any) -> Any:
    return x + 1.0


def checks(x: Any) -> Any:
    tapec.debugging.assert_less(x, 2.0)
    return tapec.debugging.check_numerics(x, "x") * tapec.gather(x, tapec.cast(x * 5.0, "int32"))


def derivatives(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        tapec.print("x is", x)
        y = tripled(shifted(x))
    return tape.gradient(y, x)


def turns(x: Any) -> Any:
    while tapec.reduce_sum(x) < 100.0:
        x = x * 2.0
    return tapec.cond(x[1] > 1.0, lambda: x, lambda: -x)


def rows(x: Any) -> Any:
    """Each waits in memory of its block for what is summed over it."""
    return tapec.nn.softmax(tapec.exp(tapec.nn.softmax(x)))


def product(a: Any, b: Any) -> Any:
    return tapec.matmul(a, b)


def _numbers(*shapes: tuple[int, ...]) -> list[Any]:
    """Small whole numbers, of which sums are exact in any order."""
    rng = np.random.default_rng(3)
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


_LINE = np.linspace(0, 1, 6, dtype=np.float32)
#: What a tape makes of a call, as long as nothing is known of it.
_CALL = """// tapec-ir 1
func @called(%x: f32[6]) -> f32[6] {
  %0 = call %x {callee = "half"} : f32[6]
  return %0
}
func @half(%x: f32[6]) -> f32[6] {
  %0 = add %x, %x : f32[6]
  return %0
}
"""


@dataclass(frozen=True)
class Structural:
    """A program, what it is called with, and whether tensor cores may multiply float32."""

    function: Callable[..., Any] | str
    arguments: Sequence[Any]
    tf32: bool = False

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """With the choice that it wants."""
        choose = tapec.config.experimental.enable_tensor_float_32_execution
        choose(self.tf32)
        try:
            yield
        finally:
            choose(False)

    def module(self) -> Module:
        """As it is traced, or read."""
        if isinstance(self.function, str):
            return parse_module(self.function)
        return tapec.compile(self.function).trace(*self.arguments)

    def run(self, *, simulated: bool) -> list[Any]:
        """What it gives, in the simulator or on the processor."""
        if isinstance(self.function, str):
            target = "cuda-simulator" if simulated else "cpu"
            return list(compile_module(self.module(), target=target)(*self.arguments))
        engine: dict[str, Any] = {"target": "cuda", "engine": "simulator"} if simulated else {}
        with self.chosen():
            found = tapec.compile(self.function, **engine)(*self.arguments)
        return [np.asarray(one) for one in tapec.nest.flatten(found)]


_WIDE = _numbers((32, 32), (32, 32))
PROGRAMS: Mapping[str, Structural] = {
    "checks": Structural(checks, [_LINE]),
    "derivatives": Structural(derivatives, [_LINE]),
    "turns": Structural(turns, [_LINE]),
    "a call": Structural(_CALL, [_LINE]),
    "rows": Structural(rows, _numbers((2, 160))),
    "product": Structural(product, _WIDE),
    "product of tf32": Structural(product, _WIDE, tf32=True),
    "product of f16": Structural(product, [x.astype(np.float16) for x in _WIDE]),
}


@dataclass
class _Names(Observer):
    """The names of all operations that a program is made of on its way to a device."""

    found: set[str] = field(default_factory=set)

    def before(self, module: Module, index: int, stages: Sequence[Stage]) -> None:
        """Before each pass."""
        self.found |= {op.name for op in module.walk()}


def operations(program: Structural) -> set[str]:
    """What a program is made of, from the tape to the kernels."""
    names = _Names()
    with program.chosen():
        module = lowered_for(program.module(), "cuda", [names])
    return names.found | {op.name for op in module.walk()}


def coverage() -> dict[str, str]:
    """By operation: ``samples``, the programs that it stands in, or why there is none on devices."""
    sampled = {defn.name for defn in tensor_ops()}
    found = {name: defn.no_device for name, defn in OPS.items() if defn.no_device}
    inside = {name: operations(program) for name, program in PROGRAMS.items()}
    for name in set(OPS) - set(found):
        here = [program for program, names in inside.items() if name in names]
        found[name] = "samples" if name in sampled else ", ".join(here)
    return found
