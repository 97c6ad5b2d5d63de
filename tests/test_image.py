"""Images: derivatives of what is computed in float32, randomness, and arguments that do not fit.

Values are held against TensorFlow's in `test_values`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import Wrap

import tapec
from tapec import image
from tapec.debugging import check_gradients

IM = np.random.default_rng(2).uniform(0.1, 0.9, (2, 5, 4, 3))
BOX = np.array([[0.15, 0.1, 0.8, 0.93]])

METHODS = [
    "bilinear",
    "bicubic",
    "nearest",
    "area",
    "lanczos3",
    "lanczos5",
    "gaussian",
    "mitchellcubic",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [(3, 2), (7, 9)])
def test_gradients_of_resize(method: str, size: tuple[int, int]) -> None:
    """It is linear, so that large differences are exact but for float32."""
    check_gradients(
        lambda x: image.resize(x, size, method, antialias=True),
        [IM],
        delta=0.5,
        rtol=1e-3,
        atol=1e-4,
    )


def test_gradients_of_boxes() -> None:
    def cropped(x: tapec.Tensor, boxes: tapec.Tensor) -> tapec.Tensor:
        return image.crop_and_resize(x, tapec.cast(boxes, tapec.float32), [1], [3, 2])

    check_gradients(
        lambda x: cropped(x, tapec.constant(BOX)), [IM], delta=0.5, rtol=1e-3, atol=1e-4
    )
    check_gradients(
        lambda b: cropped(tapec.constant(IM), b), [BOX], delta=1e-3, rtol=1e-2, atol=1e-2
    )


RANDOM: dict[str, Callable[[Any], Any]] = {
    "brightness": lambda seed: image.stateless_random_brightness(IM, 0.3, seed),
    "contrast": lambda seed: image.stateless_random_contrast(IM, 0.5, 1.5, seed),
    "saturation": lambda seed: image.stateless_random_saturation(IM, 0.5, 1.5, seed),
    "hue": lambda seed: image.stateless_random_hue(IM, 0.3, seed),
    "crop": lambda seed: image.stateless_random_crop(IM, [2, 3, 2, 3], seed),
}


@pytest.mark.parametrize("name", RANDOM)
def test_chance_is_a_function_of_the_seed(name: str, wrap: Wrap) -> None:
    change = wrap(lambda seed: RANDOM[name](seed))
    first, again, other = (change(tapec.constant(s)).numpy() for s in ([1, 2], [1, 2], [5, 6]))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_each_image_is_flipped_or_not() -> None:
    many = np.broadcast_to(IM[:1], (64, 5, 4, 3))
    flipped = image.stateless_random_flip_left_right(many, [1, 2]).numpy()
    same = [np.array_equal(x, IM[0]) for x in flipped]
    assert 10 < sum(same) < 54
    assert all(s or np.array_equal(x, IM[0][:, ::-1]) for s, x in zip(same, flipped, strict=True))
    upside = image.random_flip_up_down(IM[0]).numpy()
    assert any(np.array_equal(upside, x) for x in (IM[0], IM[0][::-1]))


def test_a_crop_is_a_part() -> None:
    numbers = np.arange(30).reshape(5, 6)
    part = image.random_crop(numbers, [2, 3]).numpy()
    row, column = divmod(int(part[0, 0]), 6)
    np.testing.assert_array_equal(part, numbers[row : row + 2, column : column + 3])


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "rank": (lambda: image.flip_left_right(np.ones((2, 2))), ValueError, "3 or 4 dimensions"),
    "method": (lambda: image.resize(IM, (2, 2), "cubic"), ValueError, "not implemented: cubic"),
    "size": (lambda: image.resize(IM, (0, 2)), ValueError, "2 positive elements"),
    "box": (lambda: image.crop_to_bounding_box(IM, 3, 0, 3, 1), ValueError, "height must be >="),
    "padding": (lambda: image.pad_to_bounding_box(IM, 0, 0, 4, 9), ValueError, "height must be <="),
    "fraction": (lambda: image.central_crop(IM, 0.0), ValueError, "within"),
    "gamma": (lambda: image.adjust_gamma(IM, -1), ValueError, "non-negative"),
    "contrast": (lambda: image.random_contrast(IM, 2.0, 1.0), ValueError, "upper must be > lower"),
    "hue": (lambda: image.random_hue(IM, 0.7), ValueError, "max_delta"),
    "crop": (
        lambda: image.random_crop(IM, [2, 9, 1, 3]),
        tapec.errors.InvalidArgumentError,
        "Need value.shape >= size",
    ),
    "window": (
        lambda: image.ssim(IM, IM, 1.0),
        tapec.errors.InvalidArgumentError,
        "smaller than the filter of size 11",
    ),
    "colors": (
        lambda: image.rgb_to_hsv(IM[..., :2]),
        tapec.errors.InvalidArgumentError,
        "3 channels",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    mistake, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=message):
        mistake()
