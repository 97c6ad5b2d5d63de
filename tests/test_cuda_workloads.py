"""Train steps of the benchmarks, small, in the simulator: what the processor computes."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

import numpy as np
import pytest
from benchmark_steps import BENCHMARKS, load

import tapec

#: Sizes in place of the benchmarks' own: the simulator runs each thread in Python.
SMALL: dict[str, dict[str, Any]] = {
    "mlp_small": {"SIZES": (4, 8, 8, 2), "BATCH": 5},
    "mlp_train": {"SIZES": (12, 8, 8, 10), "BATCH": 6},
    "pinn": {"SIZES": (1, 6, 6, 6, 1), "POINTS": 7},
    "transformer_train": {"BLOCKS": 1, "WIDTH": 8, "HEADS": 2, "TIME": 6, "BATCH": 2, "VOCAB": 9},
    "lstm_train": {"TIME": 4, "BATCH": 8, "INPUTS": 5, "HIDDEN": 6},
    "elementwise": {"SIZE": 700},
    "vdp_scan": {"STEPS": 20},
    "wgan_gp": {"SIZES": (64, 8, 8, 1), "BATCH": 4},
    "gmm": {"N": 6, "D": 3, "K": 2, "ROWS": np.array([1, 2, 2]), "COLS": np.array([0, 0, 1])},
    "batchnorm_dropout_mlp": {"SIZES": (12, 8, 8, 10), "BATCH": 6},
    "cnn_train": {"BATCH": 1},
    "dispatch": {},
    "matmul_relu": {},
}
STEPS = 2


def data_of(name: str, workload: Any) -> dict[str, Any]:
    """A workload's data; what has sizes of its own is cut down to those that the rest has."""
    if name == "matmul_relu":
        return dict(workload.make_data("20"))
    data: dict[str, Any] = workload.make_data()
    params, batch = data["params"], data["batch"]
    if name == "batchnorm_dropout_mlp":
        for arrays in (params, data["state"]):
            arrays.update((k, a[:8].copy()) for k, a in arrays.items() if a.shape == (1024,))
    if name == "cnn_train":  # two pools make 2 by 2 of 8 by 8
        cuts = {"k1": (3, 3, 1, 2), "c1": (2,), "k2": (3, 3, 2, 3), "c2": (3,)}
        cuts |= {"w1": (12, 8), "b1": (8,), "w2": (8, 10)}
        params.update((k, params[k][tuple(map(slice, n))].copy()) for k, n in cuts.items())
        batch["x"] = batch["x"][:, :8, :8].copy()
    return data


def steps(name: str, data: Any) -> tuple[list[float], dict[str, Any]]:
    """Losses, and what is compared after them."""
    tapec.random.set_seed(5)
    program = load(BENCHMARKS / "tapec_workloads" / f"{name}.py").build_tapec(data, threads=1)
    losses = [program.step() for _ in range(STEPS)]
    return [float(loss) for loss in losses if loss is not None], program.outputs()


@pytest.mark.parametrize("name", SMALL)
def test_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    workload = importlib.import_module(f"workloads.{name}")
    for size, value in SMALL[name].items():
        monkeypatch.setattr(workload, size, value)
    expected = steps(name, data_of(name, workload))
    simulated = functools.partial(tapec.compile, target="cuda", engine="simulator")
    monkeypatch.setattr(tapec, "compile", simulated)
    found = steps(name, data_of(name, workload))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert found[1].keys() == expected[1].keys()
    for key, value in expected[1].items():
        scale = float(np.max(np.abs(value)))
        np.testing.assert_allclose(found[1][key], value, rtol=1e-4, atol=1e-4 * scale)
