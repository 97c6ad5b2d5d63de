"""Statements about TensorFlow's behaviour, each run in tapec and held against what TensorFlow gave.

``conformance/semantics/rows.py`` has the statements, ``expected.json`` TensorFlow's answers, ``differs.txt`` the rows
in which tapec differs on purpose, each with its reason. A row that is not listed must hold; a listed one that holds is
to be taken off the list.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tapec

FOLDER = Path(__file__).parent / "conformance" / "semantics"
DIFFERS = FOLDER / "differs.txt"

sys.path.insert(0, str(FOLDER))
import probe  # type: ignore[import-not-found]  # noqa: E402  found by the line above
from rows import SECTIONS  # type: ignore[import-not-found]  # noqa: E402

#: Of other features: layers, control flow written in Python.
LATER = {"KL"}
EXPECTED: dict[str, Any] = {
    row["id"]: row for row in json.loads((FOLDER / "expected.json").read_text("utf-8"))["rows"]
}


def rows() -> dict[str, str]:
    """The code of each row that is to be equal and needs no Keras, by its number."""
    return {
        f"{key}-{number:02d}": code
        for key, _, _, items in SECTIONS
        for number, (_, code, verdict) in enumerate(items, 1)
        if key not in LATER and verdict.startswith("EQUAL") and "tf.keras" not in code
    }


ROWS = rows()


def differing() -> dict[str, str]:
    """The rows that differ on purpose, and why."""
    lines = DIFFERS.read_text("utf-8").splitlines()
    return {row: reason.strip() for row, _, reason in (line.partition(" ") for line in lines)}


#: TensorFlow warns of a gradient that it makes dense; where a program is compiled whole, nothing is lost by that.
#: It warns of a function that is traced again for each number; tapec traces it once.
SILENT = {"FN-17", "IS-10"}


@pytest.mark.filterwarnings("default", "ignore::ResourceWarning")  # of the script's own files
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    found, wanted = probe.run_row(tapec, ROWS[row]), EXPECTED[row]
    if row in differing():
        assert any(found.get(part) != wanted.get(part) for part in ("value", "error"))
        return
    assert found.get("error") == wanted.get("error"), found.get("message")
    assert found.get("value") == wanted.get("value")
    if "warnings" in wanted and row not in SILENT:
        assert found.get("warnings")


def test_every_difference_has_a_row_and_a_reason() -> None:
    assert differing().keys() <= ROWS.keys()
    assert all(differing().values())
