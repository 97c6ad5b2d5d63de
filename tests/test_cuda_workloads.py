"""Train steps of the benchmarks, small, in the simulator: what the processor computes."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

import numpy as np
import pytest
from test_workloads import BENCHMARKS, load

import tapec

#: Sizes in place of the benchmarks' own: the simulator runs each thread in Python.
SMALL: dict[str, dict[str, Any]] = {
    "mlp_small": {"SIZES": (4, 8, 8, 2), "BATCH": 5},
    "mlp_train": {"SIZES": (12, 8, 8, 10), "BATCH": 6},
    "pinn": {"SIZES": (1, 6, 6, 6, 1), "POINTS": 7},
    "transformer_train": {"BLOCKS": 1, "WIDTH": 8, "HEADS": 2, "TIME": 6, "BATCH": 2, "VOCAB": 9},
    "lstm_train": {"TIME": 4, "BATCH": 3, "INPUTS": 5, "HIDDEN": 6},
    "elementwise": {"SIZE": 700},
    "vdp_scan": {"STEPS": 20},
}
STEPS = 2


def steps(name: str, data: Any) -> tuple[list[float], dict[str, Any]]:
    """Losses, and what is compared after them."""
    program = load(BENCHMARKS / "tapec_workloads" / f"{name}.py").build_tapec(data, threads=1)
    losses = [float(program.step()) for _ in range(STEPS)]
    return losses, program.outputs()


@pytest.mark.parametrize("name", SMALL)
def test_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    workload = importlib.import_module(f"workloads.{name}")
    for size, value in SMALL[name].items():
        monkeypatch.setattr(workload, size, value)
    expected = steps(name, workload.make_data())
    simulated = functools.partial(tapec.compile, target="cuda", engine="simulator")
    monkeypatch.setattr(tapec, "compile", simulated)
    found = steps(name, workload.make_data())
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert found[1].keys() == expected[1].keys()
    for key, value in expected[1].items():
        scale = float(np.max(np.abs(value)))
        np.testing.assert_allclose(found[1][key], value, rtol=1e-4, atol=1e-4 * scale)
