"""Random numbers as a pure function of Keras' seeds, two integers that layers keep in Variables."""

from __future__ import annotations

from typing import Any

from keras.src.backend.config import floatx
from keras.src.random.seed_generator import SeedGenerator as SeedGenerator
from keras.src.random.seed_generator import draw_seed
from keras.src.random.seed_generator import make_default_seed as make_default_seed

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, floating
from tapec.keras.engine.ops.core import shape as sizes_of
from tapec.tensor import Tensor

_random = tapec.random


def _key(seed: Any) -> Tensor:
    return seed if isinstance(seed, Tensor) else draw_seed(seed)


def _wide(dtype: Any) -> str:
    """The dtype in which numbers are drawn."""
    name = tapec.as_dtype(dtype or floatx()).name
    return name if name in ("float32", "float64") else "float32"


def normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
) -> Tensor:
    """Numbers from the normal distribution."""
    found = _random.stateless_normal(list(shape), _key(seed), mean, stddev, _wide(dtype))
    return tapec.cast(found, dtype or floatx())


def uniform(
    shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None
) -> Tensor:
    """Numbers between ``minval`` and ``maxval``, which is left out."""
    found = _random.stateless_uniform(list(shape), _key(seed), minval, maxval, _wide(dtype))
    return tapec.cast(found, dtype or floatx())


def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Tensor:
    """Integers from ``minval`` up to, but not, ``maxval``."""
    low, high = convert_to_tensor(minval, "int32"), convert_to_tensor(maxval, "int32")
    found = _random.stateless_uniform(list(shape), _key(seed), low, high, "int32")
    return tapec.cast(found, dtype)


def truncated_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
) -> Tensor:
    """`normal` numbers within two standard deviations of the mean."""
    found = _random.stateless_truncated_normal(list(shape), _key(seed), mean, stddev, _wide(dtype))
    return tapec.cast(found, dtype or floatx())


def categorical(logits: Any, num_samples: int, dtype: Any = "int32", seed: Any = None) -> Tensor:
    """Classes drawn from logarithms of shares, for each row."""
    found = _random.stateless_categorical(floating(logits), num_samples, _key(seed))
    return tapec.cast(found, dtype)


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Tensor:
    """The inputs with a share of them 0, and the others greater so that the mean stays."""
    x = convert_to_tensor(inputs)
    if rate == 0.0:
        return x
    if rate == 1.0:
        return tapec.zeros_like(x)
    sizes: list[Any] = list(sizes_of(x))
    if noise_shape is not None:
        sizes = [own if n is None else n for own, n in zip(sizes, noise_shape, strict=True)]
    kept = _random.stateless_uniform(sizes, _key(seed), dtype="float32") >= rate
    return tapec.where(kept, x / (1.0 - rate), tapec.zeros_like(x))


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Tensor:
    """The entries of an axis in another order, each row of them in its own."""
    x = convert_to_tensor(x)
    ranks = _random.stateless_uniform(list(sizes_of(x)), _key(seed), dtype="float32")
    order = tapec.argsort(ranks, axis)
    place = axis % x.type.rank
    axes = [n for n in range(x.type.rank) if n != place] + [place]
    rows, found = tapec.transpose(x, axes), tapec.transpose(order, axes)
    mixed = tapec.gather(rows, found, axis=len(axes) - 1, batch_dims=len(axes) - 1)
    return tapec.transpose(mixed, [axes.index(n) for n in range(x.type.rank)])


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """Numbers from the gamma distribution."""
    wide = _wide(dtype)
    alpha = convert_to_tensor(alpha, wide)
    found = _random.stateless_gamma(list(shape), _key(seed), alpha, dtype=wide)
    return tapec.cast(found, dtype or floatx())


def binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Tensor:
    """How many of a number of trials succeed."""
    wide = _wide(dtype)
    counts, shares = convert_to_tensor(counts, wide), convert_to_tensor(probabilities, wide)
    found = _random.stateless_binomial(list(shape), _key(seed), counts, shares, wide)
    return tapec.cast(found, dtype or floatx())


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """Numbers from the beta distribution: the share that one gamma has of two."""
    wide = _wide(dtype)
    keys = _random.split(_key(seed), 2)
    a = gamma(shape, alpha, wide, keys[0])
    b = gamma(shape, beta, wide, keys[1])
    return tapec.cast(a / (a + b), dtype or floatx())
