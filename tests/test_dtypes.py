"""Dtypes of results and which dtypes functions take, as in TensorFlow 2.21."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import nn
from tapec.errors import InvalidArgumentError
from tapec.ir.types import DTYPES, DType, TensorType


def constant(values: Any, dtype: Any) -> Any:
    return tapec.constant(np.array(values), dtype)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: tapec.constant(2**31), np.int64(2**31)),
        (lambda: tapec.constant([1, -(2**31) - 1]), np.array([1, -(2**31) - 1])),
        (lambda: tapec.constant(-(2**31)), np.int32(-(2**31))),
        (lambda: tapec.constant([2**31, 1.5]), np.array([2**31, 1.5], np.float32)),
        (lambda: tapec.constant(float("inf")), np.float32(np.inf)),
        (lambda: tapec.reduce_mean(tapec.constant([-1, -2])), np.int32(-1)),
        (lambda: tapec.reduce_mean(constant([1, 2], tapec.uint8)), np.uint8(1)),
        (lambda: tapec.norm(constant([3, 4j], tapec.complex64)), np.complex64(5)),
        (lambda: tapec.math.reduce_euclidean_norm(tapec.constant([3, 4])), np.int32(5)),
        (lambda: tapec.argmax(tapec.constant([False, True])), np.int64(1)),
        (lambda: tapec.math.angle(tapec.constant([-1.0, 1.0])), np.array([np.pi, 0], np.float32)),
        (lambda: tapec.math.imag(tapec.constant([True])), np.array([False])),
        (lambda: tapec.cast(constant([1 + 2j, 2j], tapec.complex64), tapec.bool), [True, False]),
        (lambda: tapec.saturate_cast(constant([300 + 2j], tapec.complex64), tapec.uint8), [255]),
        (lambda: nn.leaky_relu(tapec.constant([-5, 2])), np.array([-1, 2], np.float32)),
        (
            lambda: nn.l2_normalize(constant([3, 4j], tapec.complex128)),
            np.array([0.6, 0.8j]),
        ),
        (
            lambda: nn.moments(constant([0, 2 + 2j], tapec.complex128), 0)[1],
            np.complex128(2),
        ),
        (lambda: nn.moments(tapec.constant([1, 2, 2]), 0)[0], np.int32(1)),
        (
            lambda: tapec.math.segment_mean(tapec.constant([1, 2, 5]), [0, 0, 1]),
            np.array([1, 5], np.int32),
        ),
        (
            lambda: tapec.math.segment_mean(constant([1, 2j], tapec.complex128), [0, 0]),
            np.array([0.5 + 1j]),
        ),
        (lambda: divmod(tapec.constant([7, -7]), 3)[1], np.array([1, 2], np.int32)),
    ],
)
def test_values(call: Callable[[], Any], expected: Any) -> None:
    found = call().numpy()
    wanted = np.asarray(expected)
    if not isinstance(expected, list):
        assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tapec.constant(2**63), ValueError),
        (lambda: tapec.constant([1.0, 1e39]), ValueError),
        (lambda: tapec.logical_and(tapec.constant(1), True), InvalidArgumentError),
        (lambda: tapec.logical_not(tapec.constant([1.0])), InvalidArgumentError),
        (lambda: tapec.reduce_any(tapec.constant([1])), InvalidArgumentError),
    ],
)
def test_is_refused(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


WHOLE = [tapec.int8, tapec.int16, tapec.int32, tapec.int64]


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_integers_wrap_alike_eagerly_and_compiled(dtype: Any) -> None:
    """Sums, products, powers and shifts wrap around; the least number has no opposite; division rounds down."""
    x = constant([dtype.min, dtype.min, dtype.max, -7, 7, 100], dtype)
    y = constant([-1, 1, 2, 2, -2, 3], dtype)

    def all_of(x: Any, y: Any) -> Any:
        sums = x + y, x - y, x * y, -x, abs(x), tapec.reduce_sum(x), tapec.reduce_prod(x)
        return *sums, x // y, x % y, tapec.truncatediv(x, y), tapec.pow(x, abs(y)), tapec.cumsum(x)

    eager = all_of(x, y)
    for found, expected in zip(tapec.compile(all_of)(x, y), eager, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    quotient, remainder = eager[7].numpy(), eager[8].numpy()
    np.testing.assert_array_equal(quotient[:1], [dtype.min])
    np.testing.assert_array_equal(quotient[3:5], [-4, -4])
    np.testing.assert_array_equal(remainder[3:5], [1, -1])
    np.testing.assert_array_equal(eager[9].numpy()[3:5], [-3, -3])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_prints_as_in_tensorflow(dtype: DType) -> None:
    """Libraries look for the name in the text; program text, whose codes are its own, reads back."""
    assert f"{dtype}" == f"<dtype: '{dtype.name}'>"
    assert repr(dtype) == f"tapec.{dtype.name}"
    assert str(TensorType(dtype, (2,))) == f"{dtype.code}[2]"
