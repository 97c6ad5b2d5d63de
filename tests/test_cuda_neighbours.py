"""Threads of CUDA kernels that take four neighbours at once: where they may, and with which results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tapec


def numbers(*shape: int) -> Any:
    """Small integers, of which sums are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def scaled(x: Any, b: Any) -> Any:
    return x * b + x


def halves(x: Any) -> Any:
    x = tapec.cast(x, tapec.float16)
    return tapec.cast(x * x, tapec.float32)


def centred(x: Any) -> Any:
    return x - tapec.reduce_max(x, axis=1, keepdims=True)


def sums(x: Any) -> Any:
    return tapec.reduce_sum(x * x, axis=1)


def shifted(x: Any) -> Any:
    return x[:, 1:] + x[:, :-1]


def looked_up(table: Any) -> Any:
    return 2.0 * tapec.gather(table, [5, 0, 2] * 100)


#: Programs, operands, and how many times a thread reads and writes four at once.
PROGRAMS: Mapping[str, tuple[Any, tuple[Any, ...], tuple[int, int]]] = {
    "elementwise": (scaled, (numbers(64, 1024), numbers(1024)), (2, 1)),
    "16 bits": (halves, (numbers(128, 512),), (1, 1)),
    "rows": (centred, (numbers(3, 128),), (2, 1)),
    "sums of rows": (sums, (numbers(3, 256),), (1, 0)),
    # And the indices, which another kernel checks.
    "rows of a table": (looked_up, (numbers(6, 256),), (2, 1)),
    "few elements": (scaled, (numbers(4, 64), numbers(64)), (0, 0)),
    "short rows": (sums, (numbers(3, 64),), (0, 0)),
    "rows that begin anywhere": (centred, (numbers(3, 130),), (0, 0)),
    "elements apart": (tapec.transpose, (numbers(256, 256),), (0, 0)),
    "neighbours that begin anywhere": (shifted, (numbers(64, 1025),), (0, 0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_four_neighbours(name: str) -> None:
    function, operands, (loads, stores) = PROGRAMS[name]
    found = tapec.compile(function, target="cuda", engine="simulator")
    text = found.lower(*operands).text("cuda")
    assert (text.count("load4_"), text.count("store4_")) == (loads, stores)
    np.testing.assert_array_equal(found(*operands).numpy(), np.asarray(function(*operands)))


def test_outer_sizes_may_be_open() -> None:
    """Neighbours are along the last axis, whose size is known."""
    function = tapec.compile(scaled, target="cuda", engine="simulator", dims={"x": ("N", 128)})
    b = numbers(128)
    for rows in (3, 2):
        x = numbers(rows, 128)
        np.testing.assert_array_equal(function(x, b).numpy(), x * b + x)
