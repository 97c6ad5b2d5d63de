"""`benchmarks/gpu.py`: with a GPU, all that it compares; without one, that it says so; on a stand-in, some of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_steps import BENCHMARKS, load
from device_stand_in import StandIn

import tapec
from tapec.runtime.cuda.device import driver


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command as a module."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return load(BENCHMARKS / "gpu.py")


def test_without_a_device_it_says_so() -> None:
    code = (
        "import sys; sys.modules['cuda'] = None\n"  # as where numba-cuda is not installed
        f"sys.path.insert(0, {str(BENCHMARKS)!r}); import gpu; sys.exit(gpu.main(['operations']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("There is no GPU to use here, so nothing was run.\n")
    assert "pip install 'tapec[cuda]'" in done.stdout


def test_the_command_has_the_name_of_its_target(tmp_path: Path) -> None:
    """And hides no package of that name, which NVIDIA's parts are in."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "cuda.py"), "--help"], capture_output=True, text=True
    )
    assert "racecheck" in done.stdout
    (tmp_path / "cuda" / "bindings").mkdir(parents=True)
    (tmp_path / "cuda" / "bindings" / "__init__.py").write_text("here = True\n", encoding="utf-8")
    code = (
        f"import sys; sys.path[:0] = [{str(BENCHMARKS)!r}, {str(tmp_path)!r}]\n"
        "import cuda.bindings; assert cuda.bindings.here and 'benchmarks' in cuda.__file__"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_on_a_stand_in(gpu: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """It compares what it is told to compare, and says what is wrong."""
    device = StandIn()
    monkeypatch.setitem(driver.OPENED, 0, device)
    assert list(gpu.operations(device, {}, ["tanh", "sum"])) == [
        ("operations that are right", "2", True)
    ]
    small = {"mlp_small": {"SIZES": (4, 8, 8, 2), "BATCH": 3}, "vdp_scan": {"STEPS": 3}}
    assert all(right for _, _, right in gpu.workloads(device, {}, small))
    monkeypatch.setattr(StandIn, "launch", lambda *_: None)
    assert not any(right for _, _, right in gpu.workloads(device, {}, small))
    assert not next(gpu.operations(device, {}, ["tanh"]))[2]


def test_what_is_timed_runs_on_a_stand_in(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call instead of many; a section that fails says so, and others go on."""
    device = StandIn()
    monkeypatch.setitem(driver.OPENED, 0, device)
    monkeypatch.setattr(gpu, "seconds_of", lambda call, wait: (call(), wait(), 1e-3)[-1])
    found = [*gpu.products(device, {}, (9,)), *gpu.elementwise(device, {}, 100)]
    found += gpu.launches(device, {})
    assert [what for what, _, right in found if not right] == []
    assert len(found) == 8
    monkeypatch.setattr(StandIn, "launch", lambda *_: None)
    assert [right for _, _, right in gpu.products(device, {}, (9,))] == [False]
    device.room = 0
    (row,) = gpu.rows_of("elementwise", device, {})
    assert row[1].startswith("ends: ")
    assert not row[2]


def test_counts_are_those_of_the_page(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (BENCHMARKS.parent / "docs" / "cuda.md").read_text()
    monkeypatch.setattr(gpu, "WORKLOADS", ("mlp_small", "lstm_train", "vdp_scan"))
    for name, said, _ in gpu.counts(None, {}):
        launches = re.findall(r"\d+", said)[0]
        assert f"| `{name}` | {launches} | " in page


@pytest.mark.gpu
@pytest.mark.parametrize("section", ["operations", "workloads", "racecheck"])
def test_what_a_device_computes(gpu: Any, section: str) -> None:
    found = list(gpu.SECTIONS[section](driver.device(), {}))
    assert [row for row in found if not row[2]] == []


@pytest.mark.gpu
def test_a_step_is_launched_and_read_later() -> None:
    w = tapec.Variable(np.ones(1000, np.float32))

    @tapec.compile(target="cuda")
    def step(x: Any) -> Any:
        w.assign_sub(0.1 * x)
        return tapec.reduce_sum(w)

    losses = [step(tapec.ones([1000])) for _ in range(20)]
    np.testing.assert_allclose([float(x) for x in losses], 1000 - 100 * np.arange(1, 21), rtol=1e-4)
