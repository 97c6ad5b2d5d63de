"""Initializers: shapes, moments, seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tapec
from tapec import initializers

SHAPE = [60, 40]  # of mean 50

#: Initializers of a seed, and the mean, the standard deviation and the bounds of what they give.
RANDOM: dict[str, tuple[Callable[[], initializers.Initializer], float, float, float]] = {
    "normal": (lambda: initializers.RandomNormal(1.0, 2.0, seed=1), 1.0, 2.0, np.inf),
    "truncated": (lambda: initializers.TruncatedNormal(1.0, 2.0, seed=1), 1.0, 2 * 0.8796, 4.0),
    "uniform": (lambda: initializers.RandomUniform(-1.0, 3.0, seed=1), 1.0, 4 / 12**0.5, 2.0),
    "glorot uniform": (lambda: initializers.GlorotUniform(seed=1), 0, 50**-0.5, (3 / 50) ** 0.5),
    "glorot normal": (lambda: initializers.glorot_normal(seed=1), 0, 50**-0.5, 2.3 * 50**-0.5),
    "he normal": (lambda: initializers.HeNormal(seed=1), 0, 30**-0.5, 2.3 * 30**-0.5),
    "he uniform": (lambda: initializers.HeUniform(seed=1), 0, 30**-0.5, (3 / 30) ** 0.5),
    "lecun normal": (lambda: initializers.LecunNormal(seed=1), 0, 60**-0.5, 2.3 * 60**-0.5),
    "lecun uniform": (lambda: initializers.LecunUniform(seed=1), 0, 60**-0.5, (3 / 60) ** 0.5),
    "fan_out": (
        lambda: initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal", 1),
        0,
        20**-0.5,
        np.inf,
    ),
    "axes": (
        lambda: initializers.VarianceScaling(seed=1, input_axes=[1], output_axes=[0]),
        0,
        40**-0.5,
        2.3 * 40**-0.5,
    ),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random(name: str) -> None:
    make, mean, deviation, bound = RANDOM[name]
    first, second = make()(SHAPE), make().clone()(SHAPE)
    x = first.numpy()
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, second.numpy())  # the seed is the same
    spread = deviation / 2400**0.5
    assert abs(x.mean() - mean) < 5 * spread
    assert abs(x.std() - deviation) < 5 * spread
    assert np.abs(x - mean).max() <= bound


def test_without_a_seed_numbers_are_new() -> None:
    make = tapec.random_normal_initializer()
    assert (make([4]).numpy() != make([4]).numpy()).any()


def test_filters() -> None:
    x = initializers.GlorotUniform(seed=2)([3, 3, 8, 16], dtype="float64")
    assert x.dtype == tapec.float64
    assert abs(x.numpy()).max() <= (6 / (9 * 24)) ** 0.5


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 4)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    x = initializers.Orthogonal(gain=2.0, seed=3)(shape).numpy().reshape(-1, shape[-1])
    product = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_constants() -> None:
    assert initializers.Zeros()([2]).numpy().tolist() == [0, 0]
    assert tapec.ones_initializer()([2], tapec.int32).numpy().tolist() == [1, 1]
    assert tapec.constant_initializer([1, 2])([2, 1]).numpy().tolist() == [[1], [2]]
    assert initializers.Identity(2.0)([2, 3]).numpy().tolist() == [[2, 0, 0], [0, 2, 0]]


def test_by_name() -> None:
    he = initializers.get({"class_name": "HeNormal", "config": {"seed": 3}})
    assert repr(he) == "HeNormal(seed=3, input_axes=None, output_axes=None)"
    assert initializers.deserialize(initializers.serialize(he)).get_config() == he.get_config()
    assert isinstance(initializers.get("zeros"), initializers.Zeros)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="Could not interpret"):
        initializers.get("glorot")
    with pytest.raises(ValueError, match="must be positive"):
        initializers.VarianceScaling(0.0)
    with pytest.raises(ValueError, match="Invalid `mode`"):
        initializers.VarianceScaling(mode="fan")
    with pytest.raises(ValueError, match="2D matrices"):
        initializers.Identity()([2])
    with pytest.raises(ValueError, match="at least two-dimensional"):
        initializers.Orthogonal()([2])
    with pytest.raises(ValueError, match="Expected float"):
        initializers.RandomNormal()([2], tapec.int32)


def test_in_a_compiled_function() -> None:
    @tapec.compile
    def f() -> tapec.Tensor:
        return initializers.HeNormal(seed=1)([3, 2])

    np.testing.assert_allclose(
        f().numpy(), initializers.HeNormal(seed=1)([3, 2]).numpy(), rtol=1e-6
    )
