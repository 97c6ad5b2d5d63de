"""Writes ``NAME.json`` beside each ``NAME.txt``: what TensorFlow gives for every snippet in it, or raises.

    PYTHON_WITH_TENSORFLOW tests/conformance/corners/record.py

Snippets are programs of a few lines, between lines of three dashes. The value is that of the last expression, as
``conformance/semantics/probe.py`` prints it.
"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "semantics"))

import probe


def snippets(path):
    return path.read_text("utf-8").rstrip("\n").split("\n---\n")


def outcome(module, code):
    """The class of the error, or the value."""
    found = probe.run_row(module, code)
    return {kind: found[kind] for kind in ("error", "value") if kind in found}


if __name__ == "__main__":
    import tensorflow as tf

    for path in sorted(FOLDER.glob("*.txt")):
        lines = ",\n".join(json.dumps(outcome(tf, code)) for code in snippets(path))
        path.with_suffix(".json").write_text(f"[\n{lines}\n]\n", "utf-8")
