"""What the benchmarks time computes what other frameworks compute, natively."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
from benchmark_steps import BENCHMARKS, load
from dumps import dumps_held

from tapec.compiled.program import Program
from tapec.ir import evaluator

#: Eager workloads are timed step by step, and held to their references by `run.py` alone.
WORKLOADS = sorted(
    path.stem
    for path in (BENCHMARKS / "tapec_workloads").glob("[a-z]*.py")
    if (BENCHMARKS / "reference" / path.name).with_suffix(".json").exists()
    and not path.stem.startswith("eager")
)


def differences(name: str) -> Any:
    """What the check steps of a workload compute otherwise than its reference says; the path has the harness."""
    harness = load(BENCHMARKS / "run.py")
    workload = load(BENCHMARKS / "workloads" / f"{name}.py")
    reference = json.loads((BENCHMARKS / "reference" / f"{name}.json").read_text("utf-8"))
    program = load(BENCHMARKS / "tapec_workloads" / f"{name}.py").build_tapec(
        workload.make_data(), threads=1
    )
    losses = [program.step() for _ in range(getattr(workload, "CHECK_STEPS", 5))]
    found = {
        "losses": [float(loss) for loss in losses if loss is not None],
        "outputs": {k: np.asarray(a, np.float64).tolist() for k, a in program.outputs().items()},
    }
    tolerance = {**harness.DEFAULT_TOLERANCE, **getattr(workload, "TOLERANCE", {})}
    return harness.mismatches(found, reference, tolerance)


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_give_the_references(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check steps of the harness, in a native program, with no operation evaluated."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setenv("TAPEC_CACHE", "off")
    kernels: list[int] = []
    traced = Program.__init__

    def counted(program: Program, *args: Any, **options: Any) -> None:
        traced(program, *args, **options)
        kernels.append(program.executable.kernels)

    monkeypatch.setattr(Program, "__init__", counted)
    monkeypatch.setattr(evaluator._Run, "operation", lambda *args: pytest.fail("evaluated"))
    assert differences(name) == []
    assert kernels
    assert min(kernels) > 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_dumps_of_workloads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    workload = load(BENCHMARKS / "workloads" / f"{name}.py")
    module = load(BENCHMARKS / "tapec_workloads" / f"{name}.py")
    with dumps_held():
        module.build_tapec(workload.make_data(), threads=1).step()
