"""What the user's own text says around a line: which expressions stand where, which functions of NumPy are called.

The text may be missing (code that was executed from a string) or may have changed since; then nothing is found.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tapec.ir.location import Location

#: What a call of NumPy looks like.
_NUMPY_CALL = re.compile(r"\b(?:np|numpy)\.((?:linalg\.)?\w+)\(")

#: Where the counterparts of NumPy's functions are.
_SPACES = ("", "math.", "linalg.", "nn.")

#: NumPy's names for what tapec calls otherwise.
_RENAMED = {
    "sum": "reduce_sum",
    "mean": "reduce_mean",
    "max": "reduce_max",
    "amax": "reduce_max",
    "min": "reduce_min",
    "amin": "reduce_min",
    "prod": "reduce_prod",
    "std": "math.reduce_std",
    "var": "math.reduce_variance",
    "any": "reduce_any",
    "all": "reduce_all",
    "dot": "tensordot",
    "power": "pow",
    "absolute": "abs",
    "fabs": "abs",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "concatenate": "concat",
    "rint": "round",
    "clip": "clip_by_value",
    "linalg.norm": "norm",
}


def numpy_calls(location: Location) -> list[tuple[str, str]]:
    """The functions of NumPy called on a line that tapec has too, as pairs of NumPy's name and ours."""
    found = []
    for name in _NUMPY_CALL.findall(location.text):
        known = _public(_RENAMED.get(name, name))
        if known is not None:
            found.append((f"np.{name}", known))
    return list(dict.fromkeys(found))


def _public(name: str) -> str | None:
    """Where tapec has a public function of that name."""
    for path in [name] if "." in name else [f"{space}{name}" for space in _SPACES]:
        found: Any = sys.modules["tapec"]
        for part in path.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return f"tapec.{path}"
    return None


def in_branches(block: Location, name: str) -> list[Location]:
    """The lines of a ``with`` block that use an expression in a branch, or in a function defined there."""
    tree = _parsed(tuple(linecache.getlines(block.file)))
    if tree is None:
        return []
    lines: dict[int, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.AsyncWith) and node.lineno == block.line:
            for branch in _branches(node):
                lines.update(dict.fromkeys(_uses(branch, name)))
    return [Location(block.file, line) for line in sorted(lines)]


@lru_cache(maxsize=16)
def _parsed(lines: tuple[str, ...]) -> ast.Module | None:
    try:
        return ast.parse("".join(lines)) if lines else None
    except SyntaxError:
        return None


def _branches(block: ast.AST) -> Iterator[ast.AST]:
    """What is run only under a condition: arms of ``if``, of ``a if c else b``, bodies of loops, of functions."""
    for node in ast.walk(block):
        if isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try):
            yield from node.body
            yield from node.orelse
        elif isinstance(node, ast.IfExp):
            yield from (node.body, node.orelse)
        elif isinstance(node, ast.BoolOp):
            yield from node.values[1:]
        elif isinstance(node, ast.Lambda):
            yield node.body
        elif isinstance(node, ast.FunctionDef | ast.match_case):
            yield from node.body


def _uses(branch: ast.AST, name: str) -> Iterator[int]:
    """The lines that take an expression as a value; ``v.shape`` and ``print(v)`` are no uses of ``v``."""
    parents = {child: node for node in ast.walk(branch) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(branch):
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            continue
        if not isinstance(node.ctx, ast.Load) or ast.unparse(node) != name:
            continue
        parent = parents.get(node)
        prints = isinstance(parent, ast.Call) and ast.unparse(parent.func) in ("print", "len")
        if not isinstance(parent, ast.Attribute) and not prints:
            yield node.lineno
