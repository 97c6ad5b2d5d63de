"""Numbers halfway between two of 16 bits, and a trace beside: every engine rounds them once, to the nearest."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tapec

ENGINES: dict[str, dict[str, Any]] = {
    "native": {},
    "numba": {"engine": "numba"},
    "cuda": {"target": "cuda", "engine": "simulator"},
}
DTYPES = ("float64", "int32", "uint32", "int64", "uint64")


def halfway(dtype: str, digits: int) -> Any:
    """Numbers just below, at and just above the middle of two of so many binary digits."""
    found: list[Any] = []
    if dtype == "float64":
        for exponent in (-30, -14, -2, 0, 9, 15):
            for k in range(4):
                middle = 1 + (2 * k + 1) * 2.0**-digits
                found += [np.ldexp(middle + d * 2.0**-45, exponent) for d in (-1, 0, 1)]
        return np.array([*found, *(-x for x in found)])
    limits = np.iinfo(dtype)
    for bits in range(digits + 1, limits.bits):
        half = 1 << (bits - digits)
        whole = [(1 << bits) + k * half + d for k in (1, 3, 2**digits - 1) for d in (-1, 0, 1)]
        found += [s * x for x in whole for s in (1, -1) if limits.min <= s * x <= limits.max]
    return np.array(found, dtype)


def nearest(values: Any, dtype: Any) -> Any:
    """Of the numbers of a dtype around each value the nearest, that with an even last bit of two; by exact numbers."""
    bits = values.astype(np.float32).astype(dtype).view(np.uint16)
    found = []
    for value, near in zip(values.tolist(), bits.tolist(), strict=True):
        around = np.array([n & 0xFFFF for n in (near - 1, near, near + 1)], np.uint16)
        numbers = around.view(dtype).astype(np.float64)
        sizes = [
            (abs(Fraction(value) - Fraction(n)), b % 2, b) if np.isfinite(n) else (np.inf, 0, b)
            for n, b in zip(numbers.tolist(), around.tolist(), strict=True)
        ]
        found.append(min(sizes)[2])
    return np.array(found, np.uint16)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize(("target", "digits"), [("bfloat16", 8), ("float16", 11)])
def test_halves_are_rounded_once(engine: str, source: str, target: str, digits: int) -> None:
    values = halfway(source, digits)
    values = values[np.abs(values.astype(np.float64)) < (3e38 if target == "bfloat16" else 6e4)]
    expected = nearest(values, tapec.as_dtype(target).numpy)
    x = tapec.constant(values)
    found = tapec.compile(lambda x: tapec.cast(x, target), **ENGINES[engine])(x).numpy()
    np.testing.assert_array_equal(found.view(np.uint16), expected)
    np.testing.assert_array_equal(tapec.cast(x, target).numpy().view(np.uint16), expected)
