"""Numbers as bits: conversions between all dtypes, and the next number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.errors import InvalidArgumentError

DTYPES = "f2 f4 f8 i1 u1 i2 u2 i4 u4 i8 u8 c8 c16".split()
BYTES = np.random.default_rng(0).integers(0, 256, (3, 16), dtype=np.uint8)


@pytest.mark.parametrize("source", DTYPES)
def test_bitcast_is_numpys_view(source: str) -> None:
    """To every dtype, eager and compiled in one function; what is wider takes the last axis."""
    given = BYTES.view(source)
    sizes = {t: np.dtype(t).itemsize // given.itemsize for t in DTYPES}

    def views(x: Any) -> Any:
        wide = {t: tapec.reshape(x, [3, -1, n]) if n > 1 else x for t, n in sizes.items()}
        return [tapec.bitcast(wide[t], np.dtype(t)) for t in DTYPES]

    for found in (views(tapec.constant(given)), tapec.compile(views)(given)):
        for target, y in zip(DTYPES, found, strict=True):
            assert y.dtype == np.dtype(target)
            assert y.numpy().tobytes() == BYTES.tobytes()


def test_shapes() -> None:
    x = tapec.ones([2, 3, 2])
    assert tapec.bitcast(x, tapec.float64).shape == [2, 3]
    assert tapec.bitcast(x, tapec.int8).shape == [2, 3, 2, 4]
    assert tapec.bitcast(x, tapec.int32).shape == [2, 3, 2]
    assert tapec.bitcast(tapec.ones([0, 2]), tapec.complex64).shape == [0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: tapec.bitcast([1.0, 2.0, 3.0], tapec.float64),
        lambda: tapec.bitcast(1.5, tapec.complex64),
        lambda: tapec.bitcast([True], tapec.uint8),
        lambda: tapec.bitcast(tapec.constant([1], tapec.uint8), tapec.bool),
        lambda: tapec.math.nextafter(tapec.constant(1.0, tapec.float16), 2),
    ],
)
def test_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


def test_bits_carry_no_gradient() -> None:
    x = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        y = tapec.bitcast(tapec.bitcast(x, tapec.int32), tapec.float32)
    np.testing.assert_array_equal(y, x)
    assert tape.gradient(y, x) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nextafter_is_numpys(dtype: str) -> None:
    """Subnormal numbers, zeros of both signs, the ends, and NaN."""
    limits = np.finfo(dtype)
    ends: list[Any] = [0.0, 1.0, limits.tiny, limits.smallest_subnormal, limits.max, np.inf]
    numbers = np.array([s * v for v in ends for s in (1, -1)] + [np.nan], dtype)
    x, y = (v.ravel() for v in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        expected = np.nextafter(x, y)
    for f in (tapec.math.nextafter, tapec.compile(lambda x, y: tapec.math.nextafter(x, y))):
        found = f(x, y).numpy()
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_gradient_of_nextafter() -> None:
    x, y = tapec.Variable([1.0, 2.0]), tapec.Variable(3.0)
    with tapec.GradientTape() as tape:
        z = tapec.math.nextafter(x, y)
    slopes = tape.gradient(z, [x, y])
    np.testing.assert_array_equal(slopes[0], [1, 1])
    np.testing.assert_array_equal(slopes[1], 0)


@pytest.mark.parametrize("source", ["f2", "f4", "f8", "i2", "u4", "i8"])
def test_numba_sees_the_same_bits(source: str) -> None:
    given = BYTES.view(source)
    others = [np.dtype(f"{kind}{given.itemsize}") for kind in "fiu"]
    views = tapec.compile(lambda x: [tapec.bitcast(x, t) for t in others], engine="numba")
    for target, y in zip(others, views(given), strict=True):
        assert y.numpy().tobytes() == given.view(target).tobytes()


def test_c_sees_the_same_bits() -> None:
    """What is built as C names each conversion, which copies bits."""

    def f(x: Any) -> Any:
        return tapec.bitcast(x, tapec.int32), tapec.math.nextafter(x, 2.0 * x)

    types = {"f": [tapec.TensorSpec([8], tapec.float32)]}
    files = tapec.aot.build({"f": tapec.compile(f)}, types, name="net", emit="c,header").files
    text = next(v for n, v in files.items() if n.endswith(".c")).decode()
    for name in ("float_as_i32", "i32_as_float"):
        assert f"tapec_{name}(" in text
