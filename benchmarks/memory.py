"""Print how much memory each workload's step takes, and what of that is saved by what.

The baseline is the step as a program of tensor operations, pruned, simplified and with equal operations merged, run in
the order in which it is written: each result is materialised, and freed after its last use; what is returned, or
replaces a Variable, does not count. Then come the bytes that are alive at one time when operations are fused to kernels
that run in the same order, the same when kernels are reordered, and the arena that is planned for these.

    python benchmarks/memory.py [WORKLOAD ...]

With `--time`, what reordering costs of a training step instead: the median times of a step on one thread, with kernels
in the program's order and with kernels reordered, and the median of the ratios of two that run one after the other.
Either has Variables of its own; both are in one process and take turns. More than 1.02 would be too much.

    python benchmarks/memory.py --time [WORKLOAD ...]
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tapec.ir.core import Body, Function, Module, Value, clone_module
from tapec.ir.ops.regions import RegionOp
from tapec.ir.parser import read_module
from tapec.passes import PIPELINES
from tapec.passes.pipeline import parse_pipeline, run_pipeline

HERE = Path(__file__).parent
WORKLOADS = (
    "batchnorm_dropout_mlp cnn_train elementwise gmm lstm_train mlp_small mlp_train pinn "
    "transformer_train vdp_scan wgan_gp"
).split()
#: Whose steps train something: the mean is over these.
TRAINING = [name for name in WORKLOADS if name not in ("elementwise", "vdp_scan")]
SIMPLE = "inline,canonicalize,cse,dce,adjoint,prune,commit,pairs{}canonicalize,cse,dce"

#: Turns of a timing at least, and the seconds after which no more begin.
TURNS, SECONDS = 15, 3.0
#: Of steps that are shorter, several make a turn.
TURN = 0.02
#: Calls after which a step has compiled all it needs.
WARM = 6


class Figures(NamedTuple):
    """Bytes, and the seconds that planning takes."""

    baseline: int
    fused: int
    ordered: int
    arena: int
    planning: float

    @property
    def ratio(self) -> float:
        """The arena over its lower bound."""
        return self.arena / self.ordered if self.ordered else 1.0


def traced(name: str) -> Module:
    """The largest program that a workload compiles, as traced."""
    data = importlib.import_module(f"workloads.{name}").make_data(None)
    workload = importlib.import_module(f"tapec_workloads.{name}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TAPEC_DUMP"] = folder
        workload.build_tapec(data, 1).step()
        modules = [read_module(path) for path in sorted(Path(folder).rglob("00-input.tir"))]
    return max(modules, key=lambda module: sum(1 for _ in module.walk()))


def figures(module: Module) -> Figures:
    """What a program takes, step by step of what is done about it."""
    simple = after(module, SIMPLE.format(","))
    ready = SIMPLE.format(",hoist,")
    fused = after(module, f"{ready},fuse{{reorder=false}},schedule,plan").entry
    scheduled = after(module, f"{ready},fuse,schedule")
    start = time.perf_counter()
    run_pipeline(scheduled, parse_pipeline("plan"))
    seconds = time.perf_counter() - start
    plan = scheduled.entry.attrs
    return Figures(
        most_alive(simple.entry),
        fused.attrs["lower_bound"],
        plan["lower_bound"],
        plan["arena"],
        seconds,
    )


def after(module: Module, passes: str) -> Module:
    """A copy of a module after some passes."""
    copy = clone_module(module)
    run_pipeline(copy, parse_pipeline(passes))
    return copy


def most_alive(body: Function | Body) -> int:
    """The most bytes of results that are alive at one time, each from its operation to the last that reads it."""
    ops = body.block.ops
    elsewhere = set(body.block.terminator.operands)
    last: dict[Value, int] = {v: i for i, op in enumerate(ops) for v in op.operands}
    alive = most = 0
    ends: dict[int, int] = {}
    for i, op in enumerate(ops[:-1]):
        inside = 0
        if isinstance(op.defn, RegionOp):
            inside = max(most_alive(inner) for inner in op.defn.bodies(op))
        for result in op.results:
            if result not in elsewhere:
                size = result.tensor.bytes
                assert isinstance(size, int)
                alive += size
                ends[last.get(result, i)] = ends.get(last.get(result, i), 0) + size
        most = max(most, alive + inside)
        alive -= ends.pop(i, 0)
    return most


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def step_of(name: str, *, reorder: bool) -> Callable[[], Any]:
    """A workload's step, compiled, whose kernels are reordered or run in the program's order."""
    data = importlib.import_module(f"workloads.{name}").make_data(None)
    workload = importlib.import_module(f"tapec_workloads.{name}")
    usual = PIPELINES["default"]
    if not reorder:
        PIPELINES["default"] = usual.replace("fuse", "fuse{reorder=false}")
    try:
        step: Callable[[], Any] = workload.build_tapec(data, 1).step
        for _ in range(WARM):
            step()
    finally:
        PIPELINES["default"] = usual
    return step


def times(name: str) -> tuple[float, float, float]:
    """Median seconds of a step in the program's order, those of one that is reordered, and their median ratio."""
    steps = step_of(name, reorder=False), step_of(name, reorder=True)
    count = max(1, round(TURN / seconds_of(steps[0], 1)))
    taken: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + SECONDS
    while len(taken[0]) < TURNS or time.perf_counter() < end:
        turn = list(zip(steps, taken, strict=True))
        for step, seconds in turn if len(taken[0]) % 2 else reversed(turn):
            seconds.append(seconds_of(step, count))
    ratios = [after / before for before, after in zip(*taken, strict=True)]
    return statistics.median(taken[0]), statistics.median(taken[1]), statistics.median(ratios)


def seconds_of(step: Callable[[], Any], count: int) -> float:
    """How long one of ``count`` calls in a row takes."""
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def print_times(names: list[str]) -> None:
    """Print a row for each workload, and the mean."""
    os.environ["TAPEC_NUM_THREADS"] = "1"
    os.environ["TAPEC_CACHE"] = "0"
    print(f"{'workload':22}{'in order':>14}{'reordered':>14}{'ratio':>8}")
    ratios = []
    for name in names or TRAINING:
        before, after, ratio = times(name)
        ratios.append(ratio)
        print(f"{name:22}{before * 1e6:11,.1f} us{after * 1e6:11,.1f} us{ratio:8.3f}", flush=True)
    print(f"\nreordered over in order: geometric mean {mean(ratios):.3f}, worst {max(ratios):.3f}")


def print_memory(names: list[str]) -> None:
    """Print a row for each workload, and the means."""
    columns = ("baseline", "fused", "reordered", "arena", "arena/bound", "saved", "planning")
    print(f"{'workload':22}" + "".join(f"{c:>12}" for c in columns))
    found = {}
    for name in names or WORKLOADS:
        f = found[name] = figures(traced(name))
        ratio, saved = f.ratio, 1 - f.arena / f.baseline
        cells = "".join(f"{n:12,}" for n in f[:4])
        print(f"{name:22}{cells}{ratio:12.4f}{saved:11.1%}{f.planning * 1e3:10.1f} ms", flush=True)
    trained = [f for name, f in found.items() if name in TRAINING]
    if trained:
        share = [
            1 - mean([b / a for a, b in pairs])
            for pairs in (
                [(f.baseline, f.arena) for f in trained],
                [(f.baseline, f.fused) for f in trained],
                [(f.fused, f.ordered) for f in trained],
            )
        ]
        print(
            f"\ntrain steps, geometric means: {share[0]:.1%} less than the baseline; fusion alone saves "
            f"{share[1]:.1%}, reordering {share[2]:.1%} of the rest"
        )
    bounds = [f.ratio for f in found.values()]
    print(f"arena over lower bound: geometric mean {mean(bounds):.4f}, worst {max(bounds):.4f}")


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--time", action="store_true", help="what reordering costs in time")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))
    (print_times if args.time else print_memory)(args.workload)


if __name__ == "__main__":
    main()
