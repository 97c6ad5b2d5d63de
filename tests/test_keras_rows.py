"""Statements about ``tf.keras``, each run in ``tapec.keras`` and held against what TensorFlow gave.

``conformance/semantics/rows.py`` has them; see `test_semantics` for those that need no Keras.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from keras_installed import keras

import tapec

FOLDER = Path(__file__).parent / "conformance" / "semantics"
sys.path.insert(0, str(FOLDER))
import probe  # type: ignore[import-not-found]  # noqa: E402  found by the line above
from rows import SECTIONS  # type: ignore[import-not-found]  # noqa: E402

EXPECTED: dict[str, Any] = {
    row["id"]: row for row in json.loads((FOLDER / "expected.json").read_text("utf-8"))["rows"]
}
ROWS = {
    f"{key}-{number:02d}": code
    for key, _, _, items in SECTIONS
    for number, (_, code, _) in enumerate(items, 1)
    if key == "KL" or "tf.keras" in code
}

#: Where another answer is meant, and why. Each says what comes out.
OTHERWISE = {
    "OP-27": ("value", "int32", "Keras counts in int32 on every backend but TensorFlow's"),
    "OP-39": (
        "error",
        "ValueError",
        "Keras changes Variables by assignments, whose error says both shapes",
    ),
    "OP-40": ("error", "ValueError", "the same"),
    "OP-43": (
        "value",
        "[0.9, 1.9]",
        "computed in float64 throughout; TensorFlow rounds 0.999 to float32 on its way there",
    ),
    "OP-54": ("value", "False", "tapec has optimizers of its own beside those of Keras"),
    "KL-03": ("value", "[None, None]", "what a layer is not to train, tapes do not watch"),
    "KL-12": ("error", "TypeError", "a loss that was not called is named"),
    "XT-01": ("value", "[[1.], [1.]]", "tapes watch Variables of Keras"),
    "XT-02": (
        "value",
        "[None, None]",
        "the value of a Variable is a Tensor, and was read before the tape",
    ),
    "XT-06": ("value", "1.", "metrics take Variables"),
}
if keras.version() >= "3.16":
    why = "since then Keras centers before it scales, and the rows are of the Keras before"
    OTHERWISE["KL-24"] = ("value", "[[-0.9995, 0.9995]]", why)


def uncounted(value: str | None) -> str:
    """A value without the numbers that Keras gives optimizers, which go by how many there were before."""
    return re.sub(r"adam_\d+/", "adam/", str(value))


@pytest.mark.filterwarnings("default", "ignore::ResourceWarning")
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    assert keras.backend.backend() == "tapec"
    found, wanted = probe.run_row(tapec, ROWS[row]), EXPECTED[row]
    if row in OTHERWISE:
        part, text, _ = OTHERWISE[row]
        assert text in str(found.get(part))
        assert found.get(part) != wanted.get(part)
        return
    assert found.get("error") == wanted.get("error"), found.get("message")
    assert uncounted(found.get("value")) == uncounted(wanted.get("value"))
