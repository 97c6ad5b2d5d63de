"""Every number that a public function takes may be an input of a compiled function, or is settled by being looked at.

The expressions of ``conformance/api/cases.py``, with all numbers in them as arguments that vary from the first call on.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_values import EXPRESSIONS, check, operands, tensors

import tapec
from tapec.compiled import function as compiling


class _Parameters(ast.NodeTransformer):
    """Makes parameters of the numbers in an expression."""

    def __init__(self) -> None:
        self.numbers: list[float] = []

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A name for a number."""
        if not isinstance(node.value, int | float) or isinstance(node.value, bool):
            return node
        self.numbers.append(node.value)
        name = ast.Name(f"number{len(self.numbers) - 1}", ast.Load())
        return ast.copy_location(name, node)


def parametrised(expression: str) -> tuple[Callable[..., Any], list[float]]:
    """The expression as a function of its operands and numbers, and the numbers."""
    parameters = _Parameters()
    tree = ast.fix_missing_locations(parameters.visit(ast.parse(expression, mode="eval")))
    code, names = compile(tree, "<case>", "eval"), operands(expression)
    names += [f"number{n}" for n in range(len(parameters.numbers))]

    def function(*values: Any) -> Any:
        return eval(code, {"tf": tapec, "np": np, **dict(zip(names, values, strict=True))})

    return function, parameters.numbers


CASES = [e for kind in ("smooth", "exact") for e in EXPRESSIONS[kind] if parametrised(e)[1]]


@pytest.mark.parametrize("expression", CASES)
def test_numbers_are_arguments(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        compiling, "numbers_that_vary", lambda call, made: [True for _ in call.numbers]
    )
    function, numbers = parametrised(expression)
    compiled = tapec.compile(function, jit=False)
    for _ in range(2):
        check(
            expression,
            tapec.nest.map_structure(
                _pythons,
                compiled(*tensors(expression), *numbers),
                function(*tensors(expression), *numbers),
            ),
        )
    assert len(compiled.programs) == 1


def _pythons(found: Any, wanted: Any) -> Any:
    """Python's own numbers come back as tensors."""
    return type(wanted)(found) if isinstance(wanted, int) else found
