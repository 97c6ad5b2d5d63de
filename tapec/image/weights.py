"""How much of each old pixel is in each new one, when an axis of an image is resized.

Old pixel ``j`` covers the interval from ``j`` to ``j + 1``. A method is a matrix ``[new, old]``, whose rows sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapec.tensor import Array


def linear(new: int, old: int) -> Array:
    """Between the centres of the two nearest pixels."""
    centre = (np.arange(new) + 0.5) * (old / new) - 0.5
    lower = np.floor(centre)
    matrix = np.zeros((new, old))
    for place, weight in ((lower, lower + 1 - centre), (lower + 1, centre - lower)):
        np.add.at(matrix, (np.arange(new), np.clip(place, 0, old - 1).astype(int)), weight)
    return matrix


def cubic(new: int, old: int) -> Array:
    """Keys's cubic through four pixels; TensorFlow takes its argument to the nearest 1/1024."""
    centre = (np.arange(new) + 0.5) * (old / new) - 0.5
    lower = np.floor(centre)
    offset = np.round((centre - lower) * 1024) / 1024
    matrix = np.zeros((new, old))
    for step in range(-1, 3):
        place = lower + step
        inside = (place >= 0) & (place < old)
        weight = np.where(inside, _keys(np.abs(step - offset)), 0)
        np.add.at(matrix, (np.arange(new), np.clip(place, 0, old - 1).astype(int)), weight)
    return _shares(matrix)


def area(new: int, old: int) -> Array:
    """What the new pixel covers of each old one."""
    edges = np.arange(new + 1) * (old / new)
    covered = np.minimum(edges[1:, None], np.arange(1, old + 1)) - np.maximum(
        edges[:-1, None], np.arange(old)
    )
    matrix: Array = np.maximum(covered, 0)
    return _shares(matrix)


def nearest(new: int, old: int) -> Array:
    """The old pixel in which the centre of each new one lies."""
    place: Array = np.minimum(np.floor((np.arange(new) + 0.5) * (old / new)), old - 1)
    return place.astype(np.int32)


def sampled(kernel: str, antialias: bool, new: int, old: int) -> Array:
    """By a kernel about the centre of the new pixel; ``antialias`` widens it where the image shrinks."""
    shape, radius = KERNELS[kernel]
    width = max(old / new, 1.0) if antialias else 1.0
    centre = (np.arange(new) + 0.5) * (old / new)
    distance = np.abs(np.arange(old) + 0.5 - centre[:, None]) / width
    matrix = np.where(distance <= radius, shape(distance), 0)
    return _shares(matrix)


def _shares(matrix: Array) -> Array:
    """Rows that sum to 1."""
    whole: Array = matrix.sum(1, keepdims=True)
    return np.divide(matrix, whole)


def _keys(x: Array) -> Array:
    """Source: Keys, "Cubic convolution interpolation for digital image processing", 1981."""
    near, far = ((1.5 * x - 2.5) * x) * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _mitchell(x: Array) -> Array:
    """Source: Mitchell, Netravali, "Reconstruction filters in computer graphics", 1988; B = C = 1/3."""
    near = ((7 / 6 * x - 2) * x) * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(radius: float) -> Callable[[Array], Array]:
    """The sinc function, faded out by a wider one."""
    return lambda x: np.where(x <= radius, np.sinc(x) * np.sinc(x / radius), 0)


#: Kernels of the distance from the centre, in old pixels or new ones if those are wider, and how far they reach.
KERNELS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "triangle": (lambda x: np.maximum(1 - x, 0), 1.0),
    "keyscubic": (_keys, 2.0),
    "mitchellcubic": (_mitchell, 2.0),
    "lanczos3": (_lanczos(3.0), 3.0),
    "lanczos5": (_lanczos(5.0), 5.0),
    "gaussian": (lambda x: np.where(x < 1.5, np.exp(-2 * x * x), 0), 1.5),
}
