"""Images whose pixels are looked up at other places: affine and perspective maps, waves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from keras.src import backend
from keras.src.random.seed_generator import draw_seed

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating
from tapec.keras.engine.pictures import as_batch, channels_last, gaussian_blur, of_rank
from tapec.tensor import Tensor
from tapec.tracing import TracedTensor

_INTERPOLATIONS = ("nearest", "bilinear")
_AFFINE_FILLS = ("constant", "nearest", "wrap", "mirror", "reflect")
_FILLS = {"constant", "nearest", "wrap", "mirror", "reflect"}


def _require(name: str, value: Any, known: Any) -> None:
    if value not in known:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected of one {known}. Received: {name}={value}"
        )


# -- looking up


def _mirrored(index: Tensor, size: int) -> Tensor:
    """Places back and forth between the ends."""
    last = size - 1
    if last == 0:
        return tapec.zeros_like(index)
    return tapec.abs(tapec.floormod(index + last, tapec.constant(2 * last)) - last)


def _reflected(index: Tensor, size: int) -> Tensor:
    """The same, with the pixels at the ends counted twice."""
    return tapec.floordiv(_mirrored(2 * index + 1, 2 * size + 1) - 1, tapec.constant(2))


def _placed(index: Tensor, size: int, mode: str) -> Tensor:
    if mode == "wrap":
        return tapec.floormod(index, tapec.constant(size))
    if mode == "mirror":
        return _mirrored(index, size)
    if mode == "reflect":
        return _reflected(index, size)
    return tapec.clip_by_value(index, 0, size - 1)


def _neighbours(place: Tensor, order: int) -> list[tuple[Tensor, Any]]:
    """Whole places around each, and how much these count."""
    if order == 0:
        nearest = tapec.round(place) if place.dtype.is_floating else place
        return [(tapec.cast(nearest, "int32"), 1.0)]
    low = tapec.floor(place)
    share = place - low
    index = tapec.cast(low, "int32")
    return [(index, 1.0 - share), (index + 1, share)]


def map_coordinates(
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: float = 0.0
) -> Tensor:
    """The elements at places that need not be whole: ``coordinates`` are ``[axes, …]``.

    Raises:
        ValueError: shapes that do not fit, or an unknown mode.
        NotImplementedError: an order above 1.
    """
    x = convert_to_tensor(inputs)
    places = convert_to_tensor(coordinates)
    if places.shape[0] != x.type.rank:
        raise ValueError(
            "First dim of `coordinates` must be the same as the rank of `inputs`. Received inputs with shape: "
            f"{x.shape} and coordinate leading dim of {places.shape[0]}"
        )
    if places.type.rank < 2:
        raise ValueError(
            "Invalid coordinates rank: expected at least rank 2. "
            f"Received input with shape: {places.shape}"
        )
    if fill_mode not in _FILLS:
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Expected one of {_FILLS}. Received: fill_mode={fill_mode}"
        )
    if order not in (0, 1):
        raise NotImplementedError("map_coordinates currently requires order<=1")
    places = places if order == 0 else floating(places)
    axes = [
        [(index, weight, size) for index, weight in _neighbours(place, order)]
        for place, size in zip(tapec.unstack(places), x.shape, strict=True)
    ]
    found = _sampled(x, axes, fill_mode, fill_value)
    return tapec.cast(tapec.round(found) if x.dtype.is_integer else found, x.dtype)


def _sampled(x: Tensor, axes: Sequence[Any], mode: str, value: float) -> Tensor:
    """The weighted sum over all corners of what is there, in floats."""
    wide = floating(x)
    total: Any = None
    for corner in itertools.product(*axes):
        at = tapec.stack([_placed(index, size, mode) for index, _, size in corner], -1)
        part = tapec.gather_nd(wide, at)
        if mode == "constant":
            tests = [tapec.logical_and(index >= 0, index < size) for index, _, size in corner]
            inside = tapec.reduce_all(tapec.stack(tests), 0)
            part = tapec.where(inside, part, tapec.constant(value, wide.dtype))
        for _, weight, _ in corner:
            part = part * (tapec.cast(weight, wide.dtype) if isinstance(weight, Tensor) else weight)
        total = part if total is None else total + part
    return total


def _looked_up(
    images: Tensor, rows: Tensor, columns: Tensor, interpolation: str, mode: str, value: float
) -> Tensor:
    """Images ``[batch, height, width, channels]`` at places ``[batch, height, width]``."""
    order = _INTERPOLATIONS.index(interpolation)
    batch, _, _, channels = images.shape
    shape = [batch, *rows.shape[1:], channels]
    first = tapec.reshape(tapec.range(batch), [batch, 1, 1, 1])
    last = tapec.reshape(tapec.range(channels), [1, 1, 1, channels])
    axes = [[(tapec.broadcast_to(first, shape), 1.0, batch)]]
    for place, size in ((rows, images.shape[1]), (columns, images.shape[2])):
        axes.append(
            [
                (tapec.broadcast_to(i[..., None], shape), _spread(w), size)
                for i, w in _neighbours(place, order)
            ]
        )
    axes.append([(tapec.broadcast_to(last, shape), 1.0, channels)])
    return _sampled(images, axes, mode, value)


def _spread(weight: Any) -> Any:
    return weight[..., None] if isinstance(weight, Tensor) else weight


# -- maps


def affine_transform(
    images: Any,
    transform: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: float = 0,
    data_format: Any = None,
) -> Tensor:
    """Images whose pixel at ``(x, y)`` is the one at ``(a0 x + a1 y + a2, b0 x + b1 y + b2) / (c0 x + c1 y + 1)``.

    Raises:
        ValueError: shapes that do not fit, or unknown names.
    """
    _require("interpolation", interpolation, _INTERPOLATIONS)
    _require("fill_mode", fill_mode, _AFFINE_FILLS)
    x = of_rank(images)
    numbers = convert_to_tensor(transform)
    if numbers.type.rank not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 (batch of transforms). "
            f"Received input with shape: transform.shape={numbers.shape}"
        )
    numbers = tapec.cast(numbers if numbers.type.rank == 2 else numbers[None], "float32")

    def warped(batch: Tensor) -> Tensor:
        rows, columns = _moved_grid(batch, numbers)
        return _looked_up(batch, rows, columns, interpolation, fill_mode, fill_value)

    return _warped(warped, x, data_format)


def _warped(function: Callable[[Tensor], Tensor], x: Tensor, data_format: Any) -> Tensor:
    found = as_batch(lambda batch: channels_last(function, batch, data_format), x)
    return tapec.cast(tapec.round(found) if x.dtype.is_integer else found, x.dtype)


def _moved_grid(batch: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    count, height, width, _ = batch.shape
    y = tapec.cast(tapec.range(height), "float32")[None, :, None]
    x = tapec.cast(tapec.range(width), "float32")[None, None, :]
    a0, a1, a2, b0, b1, b2, c0, c1 = (n[:, None, None] for n in tapec.unstack(numbers, axis=-1))
    below = c0 * x + c1 * y + 1.0
    shape = [count, height, width]
    rows = tapec.broadcast_to((b0 * x + b1 * y + b2) / below, shape)
    return rows, tapec.broadcast_to((a0 * x + a1 * y + a2) / below, shape)


def perspective_transform(
    images: Any,
    start_points: Any,
    end_points: Any,
    interpolation: str = "bilinear",
    fill_value: float = 0,
    data_format: Any = None,
) -> Tensor:
    """Images, drawn so that four points come to lie at four others.

    Raises:
        ValueError: shapes that do not fit, or an unknown interpolation.
    """
    _require("interpolation", interpolation, _INTERPOLATIONS)
    x = of_rank(images)
    start, end = (convert_to_tensor(p, "float32") for p in (start_points, end_points))
    for name, points in (("start_points", start), ("end_points", end)):
        if points.type.rank not in (2, 3) or tuple(points.shape)[-2:] != (4, 2):
            raise ValueError(
                f"Invalid {name} shape: expected (4,2) for a single image or (N,4,2) for a batch. "
                f"Received shape: {points.shape}"
            )
    if start.shape != end.shape:
        raise ValueError(
            "start_points and end_points must have the same shape. Received "
            f"start_points.shape={start.shape}, end_points.shape={end.shape}"
        )
    if start.type.rank == 2:
        start, end = start[None], end[None]
    numbers = compute_homography_matrix(start, end)
    return affine_transform(x, numbers, interpolation, "constant", fill_value, data_format)


def compute_homography_matrix(start_points: Any, end_points: Any) -> Tensor:
    """The eight numbers of `affine_transform` that take points to others, for each of a batch."""
    start, end = floating(start_points), floating(end_points)
    rows, targets = [], []
    for i in range(4):
        x, y = end[:, i, 0], end[:, i, 1]
        one, zero = tapec.ones_like(x), tapec.zeros_like(x)
        for axis in range(2):
            to = start[:, i, axis]
            place = [x, y, one]
            empty = [zero, zero, zero]
            whole = [*place, *empty] if axis == 0 else [*empty, *place]
            rows.append(tapec.stack([*whole, -to * x, -to * y], -1))
            targets.append(to)
    matrix, target = tapec.stack(rows, 1), tapec.stack(targets, -1)
    return tapec.squeeze(tapec.linalg.solve(matrix, target[..., None]), -1)


def elastic_transform(
    images: Any,
    alpha: Any = 20.0,
    sigma: Any = 5.0,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: float = 0.0,
    seed: Any = None,
    data_format: Any = None,
) -> Tensor:
    """Images on rubber, drawn about at random: by ``alpha`` times smooth noise.

    Raises:
        ValueError: unknown names.
        NotImplementedError: ``sigma`` is a value of a function that is being compiled.
    """
    _require("interpolation", interpolation, _INTERPOLATIONS)
    _require("fill_mode", fill_mode, _AFFINE_FILLS)
    x = of_rank(images)
    if isinstance(sigma, TracedTensor):
        raise NotImplementedError(
            "elastic_transform cannot be compiled: how far its noise is smoothed depends on sigma; transform images "
            "before they come to the model, or compile it with run_eagerly=True"
        )
    keys = tapec.random.split(draw_seed(seed), 2)
    size = 6 * int(sigma) | 1
    # Places are in float32, whatever the images are in.
    strength, smooth = (convert_to_tensor(n, "float32") for n in (alpha, sigma))

    def warped(batch: Tensor) -> Tensor:
        count, height, width, _ = batch.shape

        def noise(key: Tensor) -> Tensor:
            bumps = tapec.random.stateless_normal([count, height, width, 1], key) * smooth
            return gaussian_blur(bumps, (size, size), (smooth, smooth), "channels_last")[..., 0]

        rows = tapec.cast(tapec.range(height), "float32")[None, :, None] + strength * noise(keys[0])
        columns = tapec.cast(tapec.range(width), "float32")[None, None, :] + strength * noise(
            keys[1]
        )
        return _looked_up(batch, rows, columns, interpolation, fill_mode, fill_value)

    return _warped(warped, x, backend.standardize_data_format(data_format))
