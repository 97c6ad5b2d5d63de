"""What the benchmarks time, as modules of the harness and as traced programs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tapec.compiled import program
from tapec.ir.core import Module

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load(path: Path) -> Any:
    """A Python file that is on no path, as a module."""
    spec = importlib.util.spec_from_file_location(f"bench_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Traced(Exception):
    """A program was traced, and nothing more is wanted of it."""


def traced(name: str, monkeypatch: pytest.MonkeyPatch) -> Module:
    """The program of a step that the benchmarks time."""
    found: list[Module] = []

    def keep(module: Module, **options: object) -> None:
        found.append(module)
        raise Traced

    monkeypatch.setattr(program, "compile_module", keep)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    data = load(BENCHMARKS / "workloads" / f"{name}.py").make_data()
    built = load(BENCHMARKS / "tapec_workloads" / f"{name}.py")
    with pytest.raises(Traced):
        built.build_tapec(data, 1).step()
    return found[0]
