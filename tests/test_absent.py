"""Names that are not there: what namespaces list, and what errors say to use."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import errors
from tapec.absences.attributes import INSTEAD

SIGNATURES = Path(__file__).parent / "conformance" / "api" / "signatures.txt"

#: Names of tapec beside those of TensorFlow.
OWN = {
    "config": """Setting breakpoints_off cache_bytes cache_folder check_level debug_folder direct dump_folder
        environment is_environment native_turn own_debugger perf poison settings threads colours with_keras_backend""",
    "debugging": "Cause Explanation Explanations Report check_gradients compute_gradient",
    "experimental": "cuda dlpack load_compiler",
    "initializers": "constant_initializer",
    "math": "logaddexp",
    "nest": "map_structure_up_to",
    "nn": "normalize",
}


@pytest.mark.parametrize(
    "namespace",
    """autodiff bitwise config config.experimental config.threading debugging dtypes image initializers linalg math nest
    nn nn.experimental random signal train""".split(),
)
def test_namespaces_list_what_they_are_there_for(namespace: str) -> None:
    home: Any = tapec
    for part in namespace.split("."):
        home = getattr(home, part)
    names = [line.split()[0] for line in SIGNATURES.read_text("utf-8").splitlines()]
    known = {n.rpartition(".")[2] for n in names if n.rpartition(".")[0] == namespace}
    listed = dir(home)
    assert all(hasattr(home, name) for name in listed)
    assert set(listed) - known <= set(OWN.get(namespace, "").split())
    assert {name for name in known if hasattr(home, name)} <= set(listed)


@pytest.mark.parametrize("make", [tapec.constant, tapec.Variable], ids=["Tensor", "Variable"])
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("permute", "tapec.transpose(x)"),
        ("reshape", "tapec.reshape(x, shape)"),
        ("sum", "tapec.reduce_sum(x, axis)"),
        ("detach", "tapec.stop_gradient(x)"),
        ("backward", "tape.gradient(x, variables)"),
        ("argmax", "tapec.argmax(x)"),
        ("det", "tapec.linalg.det(x)"),
    ],
)
def test_attributes_of_other_libraries(make: Any, name: str, instead: str) -> None:
    with pytest.raises(errors.AttributeError) as caught:
        getattr(make([1.0]), name)
    assert f"has no attribute {name!r}" in str(caught.value)
    assert f"hint: use {instead}" in str(caught.value)
    assert "test_absent.py" in str(caught.value)


def test_attributes_that_nobody_knows() -> None:
    x = tapec.constant([1.0])
    assert not hasattr(x, "no_such_name")
    assert not hasattr(x, "__array_interface__")
    with pytest.raises(AttributeError) as caught:
        x.no_such_name  # type: ignore[attr-defined]  # noqa: B018
    assert "hint" not in str(caught.value)


def test_attributes_inside_of_compiled_functions() -> None:
    @tapec.compile
    def total(x: Any) -> Any:
        return x.sum()

    with pytest.raises(errors.AttributeError, match=r"return x\.sum\(\)(.|\n)*reduce_sum"):
        total(np.ones(2))


def test_what_is_used_instead_is_there() -> None:
    for text in INSTEAD.values():
        for name in re.findall(r"\btapec(?:\.\w+)+", text):
            found: Any = tapec
            for part in name.split(".")[1:]:
                found = getattr(found, part)
            assert callable(found)


def test_names_that_are_loaded_later_are_there() -> None:
    for name in dir(tapec.nn):
        assert getattr(tapec.nn, name) is not None
    for module, names in tapec.nn._LATER.items():
        for entry in names.split():
            name, equals, own = entry.partition("=")
            home = importlib.import_module(f"tapec.{module}")
            assert getattr(tapec.nn, name) is (
                getattr(home, own or name) if own or not equals else home
            )
            assert name in dir(tapec.nn)
