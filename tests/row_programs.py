"""The statements of ``conformance/semantics/rows.py`` as programs whose lines can be asked for."""

from __future__ import annotations

import ast
import json
import linecache
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tapec

FOLDER = Path(__file__).parent / "conformance" / "semantics"

sys.path.insert(0, str(FOLDER))
import probe  # type: ignore[import-not-found]  # noqa: E402  found by the line above
from rows import SECTIONS  # type: ignore[import-not-found]  # noqa: E402

#: The code of each row and what tapec is to make of it, by the row's number.
CODES: dict[str, str] = {}
VERDICTS: dict[str, str] = {}
for _key, _, _, _items in SECTIONS:
    for _number, (_, _code, _verdict) in enumerate(_items, 1):
        CODES[f"{_key}-{_number:02d}"] = textwrap.dedent(_code).strip("\n")
        VERDICTS[f"{_key}-{_number:02d}"] = _verdict


def as_tensorflow(row: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a row gives, and what TensorFlow gave: value, error class, message, as text."""
    wanted = json.loads((FOLDER / "expected.json").read_text("utf-8"))["rows"]
    return probe.run_row(tapec, CODES[row]), next(r for r in wanted if r["id"] == row)


class _Explained(ast.NodeTransformer):
    """Asks ``explain`` in the place of ``gradient``."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Rename the method."""
        self.generic_visit(node)
        if node.attr == "gradient":
            node.attr = "explain"
        return node


def run(row: str, *changes: tuple[str, str], explain: bool = False) -> Any:
    """The value of a row's last expression.

    Args:
        row: its number.
        changes: what to replace in its text, and by what: the near misses.
        explain: whether the last expression asks why its gradients are None.
    """
    return space(row, *changes, explain=explain).get("answer")


def space(row: str, *changes: tuple[str, str], explain: bool = False) -> dict[str, Any]:
    """The variables that a row leaves; ``answer`` is the value of its last expression, if it ends with one."""
    text = CODES[row]
    for old, new in changes:
        assert old in text, f"{row} has no {old!r}"
        text = text.replace(old, new)
    file = f"<{row}>"
    linecache.cache[file] = (len(text), None, [f"{line}\n" for line in text.splitlines()], file)
    tree = ast.parse(text)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        value = _Explained().visit(last.value) if explain else last.value
        answer = ast.Assign([ast.Name("answer", ast.Store())], value)
        tree.body[-1] = ast.copy_location(answer, last)
    module = ModuleType("row")
    module.__dict__.update(tf=tapec, np=np)
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), module.__dict__)
    return module.__dict__
