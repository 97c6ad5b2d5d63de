"""Programs written for TensorFlow, held against the values that TensorFlow gave.

``conformance/articles`` has programs and golden values, ``conformance/semantics`` statements; both
come with a script that makes the values with TensorFlow and compares another module. Here the
programs run in this process, as they stand and, where they take the decorator as an argument,
compiled. Neither a program nor a golden value is ever edited to make a test pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from benchmark_steps import load

import tapec

ARTICLES = Path(__file__).parent / "conformance" / "articles"


compare: Any = load(ARTICLES / "compare.py")


def programs() -> dict[str, Path]:
    """Return the programs, by name, that need nothing that tapec has not."""
    found = {path.stem: path for path in sorted((ARTICLES / "programs").glob("*.py"))}
    if find_spec("keras") is not None:
        return found
    return {n: p for n, p in found.items() if "tf.keras" not in p.read_text(encoding="utf-8")}


def golden(name: str) -> dict[str, Any]:
    """Return the values and tolerances of a program."""
    text = (ARTICLES / "golden" / f"{name}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def ways() -> Iterator[tuple[str, str]]:
    """Yield (program, how to run it); those that take the decorator are run with it too."""
    for name in programs():
        yield name, "eager"
        if golden(name)["jit"]:
            yield name, "compiled"


@pytest.mark.filterwarnings("default")  # some programs do on purpose what tapec warns of
@pytest.mark.parametrize(("name", "way"), list(ways()))
def test_as_tensorflow(name: str, way: str) -> None:
    got: dict[str, Any] = {}
    values = compare.call(load(programs()[name]), tapec, way == "compiled")
    for key, value in values.items():
        compare.encode(value, tapec, got, key)
    wanted = golden(name)
    assert compare.compare_values(wanted["values"], got, wanted) == []
