"""Corners of the interface against what TensorFlow does there: bad indices, empty lists, NaN, odd dtypes, misuse.

``conformance/corners`` has the snippets, by subject, and beside them what TensorFlow gave for each, or raised.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import tapec
from tapec.recording import active_tapes

FOLDER = Path(__file__).parent / "conformance" / "corners"
sys.path.insert(0, str(FOLDER))
from record import outcome, snippets  # type: ignore[import-not-found]  # noqa: E402  found by the line above

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)j?")


def same(found: str | None, wanted: str | None) -> bool:
    """Whether two printed values are equal, but for the last digits of their numbers."""
    if found is None or wanted is None or found == wanted:
        return found == wanted
    if _NUMBER.sub("#", found) != _NUMBER.sub("#", wanted):
        return False
    pairs = zip(_NUMBER.findall(found), _NUMBER.findall(wanted), strict=True)
    return all(a == b or close(complex(a), complex(b)) for a, b in pairs)


def close(a: complex, b: complex) -> bool:
    return abs(a - b) <= 2e-5 * max(abs(a), abs(b)) + 1e-6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subject", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_as_tensorflow(subject: str) -> None:
    codes = snippets(FOLDER / f"{subject}.txt")
    recorded = json.loads((FOLDER / f"{subject}.json").read_text("utf-8"))
    assert len(codes) == len(recorded) > 50
    wrong = []
    for code, wanted in zip(codes, recorded, strict=True):
        found = outcome(tapec, code)
        alike = same(found.get("value"), wanted.get("value"))
        if not alike or found.get("error") != wanted.get("error"):
            wrong.append(f"{code}\n  TensorFlow: {wanted}\n  tapec:      {found}")
    assert not wrong, "\n".join(wrong)
    assert not active_tapes()
