"""Where the time of a first call goes, for programs that are large in one way or another.

    PYTHON benchmarks/compile_time.py [PROGRAM ...]

prints, for each, the number of operations as traced and the seconds of this process (processor time, so that other
processes disturb little) for the trace, all passes, the text of the loops, and LLVM. The cache on disk is not used.
Whole first calls beside other frameworks' are in the table of `run.py`.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tapec
from tapec.compiler import lowered
from tapec.runtime.cpu.machine_code.jit import host_compiler
from tapec.runtime.cpu.program import write_text

Step = Callable[[Any], Any]


def vector(size: int) -> tapec.Variable:
    """A parameter."""
    return tapec.Variable(np.ones(size, np.float32))


def chain() -> Step:
    """2000 operations one behind the other."""

    def step(x: Any) -> Any:
        y = x
        for _ in range(1000):
            y = tapec.sin(y) * x
        return tapec.reduce_sum(y)

    return step


def parameters() -> Step:
    """300 Variables with Adam."""
    variables = [vector(64) for _ in range(300)]
    optimizer = tapec.optimizers.Adam(1e-3)

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.add_n([tapec.reduce_sum(v * v * x) for v in variables])
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def layers(count: int) -> Step:
    """A network of dense layers, its gradient and plain gradient descent."""
    rng = np.random.default_rng(0)
    weights = [
        tapec.Variable(0.1 * rng.standard_normal((64, 64), np.float32)) for _ in range(count)
    ]
    biases = [vector(64) for _ in range(count)]

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            h = tapec.reshape(x, [1, 64])
            for w, b in zip(weights, biases, strict=True):
                h = tapec.tanh(h @ w + b)
            loss = tapec.reduce_mean(h * h)
        for v, g in zip(weights + biases, tape.gradient(loss, weights + biases), strict=True):
            v.assign_sub(0.01 * g)
        return loss

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {
    "chain": chain,
    "parameters": parameters,
    "layers_50": lambda: layers(50),
    "layers_200": lambda: layers(200),
}


def measure(make: Callable[[], Step]) -> tuple[int, list[float]]:
    """Operations, and the seconds of each stage."""
    function = tapec.compile(make())
    marks = [time.process_time()]
    module = function.trace(np.ones(64, np.float32))
    marks.append(time.process_time())
    loops = lowered(module)
    marks.append(time.process_time())
    text, _ = write_text(loops, apart=True)
    marks.append(time.process_time())
    host_compiler(1).compile(text)
    marks.append(time.process_time())
    return sum(1 for _ in module.walk()), [b - a for a, b in itertools.pairwise(marks)]


def main() -> None:
    """Print a line for each program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    names = parser.parse_args().programs or list(PROGRAMS)
    for name in names:
        if name not in PROGRAMS:
            parser.error(f"no program {name!r}; there are {', '.join(PROGRAMS)}")
    measure(lambda: lambda x: x + 1.0)  # imports
    print(
        f"{'program':12} {'ops':>6} {'trace':>7} {'passes':>7} {'text':>7} {'LLVM':>7} {'all':>7}"
    )
    for name in names:
        ops, spent = measure(PROGRAMS[name])
        cells = " ".join(f"{s:7.2f}" for s in [*spent, sum(spent)])
        print(f"{name:12} {ops:6} {cells}")


if __name__ == "__main__":
    main()
