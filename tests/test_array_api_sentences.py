"""Every sentence of the array API standard on special cases of elementwise functions, eagerly and compiled."""

from __future__ import annotations

import math
from itertools import product, takewhile
from typing import Any

import numpy as np
import pytest
from array_api_sentences import CASES, UNREAD, Case, same

import tapec
import tapec.numpy as xp

FLOATS = [0.0, 1.0, 0.5, 2.0, 2.5, 3.0, 1e-5, 7e3, math.inf]
NUMBERS = [*FLOATS, *(-x for x in FLOATS), math.nan, -math.nan]
#: What the reader leaves: sentences on four operands, on signs of finite results, or on ties of rounding.
LEFT = 17


def test_what_is_read() -> None:
    assert len(UNREAD) == LEFT
    assert len(CASES) > 440


#: Sentences that don't hold here, nor for NumPy and C, by their function and beginning, each with its reason.
DEVIATIONS = {
    (
        "sqrt",
        "- If ``a`` is ``+infinity`` and ``b`` is a positive",
    ): "a misprint: C's csqrt gives infinity + 0j there",
    (
        "sqrt",
        "- If ``a`` is ``NaN`` and ``b`` is any value",
    ): "an infinite imaginary part of either sign gives infinity",
    (
        "tanh",
        "- If ``a`` is ``+infinity`` and ``b`` is a positive",
    ): "the zero has the sign of sin(2b), as C has it",
}


def grid(names: tuple[str, ...]) -> list[dict[str, float]]:
    return [dict(zip(names, values, strict=True)) for values in product(NUMBERS, repeat=len(names))]


def arguments(points: list[dict[str, float]], dtype: str) -> list[tapec.Tensor]:
    columns = [np.array([p[name] for p in points], dtype) for name in points[0]]
    if "a" not in points[0]:
        return [tapec.constant(column) for column in columns]
    z = np.empty(len(points), {"float32": "complex64", "float64": "complex128"}[dtype])
    z.real, z.imag = columns
    return [tapec.constant(z)]


def agrees(found: float, wanted: float, signed: bool) -> bool:
    if wanted == 0 or not math.isfinite(wanted):
        return same(found, wanted) or (not signed and same(abs(found), abs(wanted)))
    return math.isclose(found, wanted, rel_tol=1e-6)


def holds(case: Case, others: list[Case], at: dict[str, float], y: np.number[Any]) -> bool:
    """Whether ``y`` is what ``case`` says, or an earlier one of the ``others``: sentences of one function overlap."""
    parts = (y.real, y.imag)[: len(case.signed)]
    before = [c for c in takewhile(lambda c: c is not case, others) if c.holds(at)]
    options = [option for c in (case, *before) for option in c.wanted(at)]
    return any(
        len(option) == len(parts) and all(map(agrees, parts, option, case.signed))
        for option in options
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("function", "names"), sorted({(c.function, c.names) for c in CASES}))
def test_sentences(function: str, names: tuple[str, ...], dtype: str) -> None:
    cases = [c for c in CASES if (c.function, c.names) == (function, names)]
    deviations = {
        c.text
        for c in cases
        for name, text in DEVIATIONS
        if c.function == name and c.text.startswith(text)
    }
    points = grid(names)
    for call in (getattr(xp, function), tapec.compile(getattr(xp, function))):
        found = call(*arguments(points, dtype)).numpy()
        wrong: dict[str, list[tuple[dict[str, float], np.number[Any]]]] = {}
        for case in cases:
            there = [(at, y) for at, y in zip(points, found, strict=True) if case.holds(at)]
            assert there, case.text
            if failures := [(at, y) for at, y in there if not holds(case, cases, at, y)]:
                wrong[case.text] = failures
        assert wrong.keys() == deviations, wrong
