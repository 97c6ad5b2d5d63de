"""Blocks of pixels in the channels of an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import nn
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError, UnimplementedError

X = np.arange(24.0).reshape(1, 4, 2, 3)


def test_blocks_are_read_row_by_row() -> None:
    expected = np.concatenate([X[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1)
    for f in (nn.space_to_depth, tapec.compile(nn.space_to_depth)):
        np.testing.assert_array_equal(f(tapec.constant(X), 2), expected)
        np.testing.assert_array_equal(nn.depth_to_space(f(tapec.constant(X), 2), 2), X)


def test_gradients() -> None:
    x = X / 10
    check_gradients(lambda x: tapec.square(nn.space_to_depth(x, 2)), [x], rtol=1e-6)
    check_gradients(lambda x: tapec.square(nn.depth_to_space(x, 2)), [x.reshape(1, 1, 2, 12)])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.space_to_depth(X, 4), InvalidArgumentError, "do not fill"),
        (lambda: nn.depth_to_space(X, 2), InvalidArgumentError, "do not make up"),
        (lambda: nn.space_to_depth(X[0], 2), InvalidArgumentError, "a positive size"),
        (lambda: nn.space_to_depth(X, 2, "NCHW"), UnimplementedError, "only 'NHWC'"),
    ],
)
def test_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
