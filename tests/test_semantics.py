"""Statements about TensorFlow's behaviour, each run in tapec and held against what TensorFlow gave.

``conformance/semantics/rows.py`` has the statements, ``expected.json`` TensorFlow's answers, ``held.txt`` the rows that
tapec answers alike. The list only grows: a row in it that fails is a bug, a row that holds and is not in it is to be
added (``python tests/test_semantics.py`` writes the list).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tapec

FOLDER = Path(__file__).parent / "conformance" / "semantics"
HELD = FOLDER / "held.txt"

sys.path.insert(0, str(FOLDER))
import probe  # type: ignore[import-not-found]  # noqa: E402  found by the line above
from rows import SECTIONS  # type: ignore[import-not-found]  # noqa: E402

#: Of other features: layers, functions with control flow.
LATER = {"FN", "AG", "KL"}
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


def holds(row: str) -> bool:
    """Whether tapec gives TensorFlow's value or error class."""
    found, wanted = probe.run_row(tapec, ROWS[row]), EXPECTED[row]
    return all(found.get(part) == wanted.get(part) for part in ("value", "error"))


def held() -> list[str]:
    """The rows that are known to hold."""
    return HELD.read_text("utf-8").split()


@pytest.mark.filterwarnings("default", "ignore::ResourceWarning")  # of the script's own files
@pytest.mark.parametrize("row", held())
def test_row(row: str) -> None:
    found = probe.run_row(tapec, ROWS[row])
    wanted = EXPECTED[row]
    assert found.get("error") == wanted.get("error"), found.get("message")
    assert found.get("value") == wanted.get("value")


@pytest.mark.filterwarnings("default", "ignore::ResourceWarning")
def test_the_list_is_complete() -> None:
    missing = [row for row in ROWS if row not in set(held()) and holds(row)]
    assert not missing, f"these rows hold by now: add them to {HELD.name}"


if __name__ == "__main__":
    HELD.write_text("\n".join(row for row in ROWS if holds(row)) + "\n", "utf-8")
