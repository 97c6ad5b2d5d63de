"""Which batches of a generator `fit` takes."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pytest
from keras_installed import keras


def model(steps: int) -> Any:
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile("adam", loss, metrics=["accuracy"], steps_per_execution=steps)
    return made


def batches(x: Any, y: Any) -> Any:
    yield from cycle((x[start : start + 8], y[start : start + 8]) for start in range(0, len(x), 8))


@pytest.mark.parametrize("count", [1, 3])
def test_no_batch_of_a_generator_is_lost(count: int) -> None:
    """Not by building the model, nor by several steps in one call; each validation begins with what Keras looked at."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 6)).astype(np.float32), rng.integers(0, 3, 32)
    trained = model(count)
    given: Any = {"steps_per_epoch": 3, "validation_steps": 3, "shuffle": False}
    found = trained.fit(
        batches(x, y), validation_data=batches(x, y), epochs=2, verbose=0, **given
    ).history
    wanted = model(1)
    for epoch, (train, seen) in enumerate([((0, 1, 2), (0, 1, 2)), ((3, 0, 1), (0, 1, 3))]):
        parts = [np.r_[tuple(slice(8 * i, 8 * i + 8) for i in order)] for order in (train, seen)]
        one = wanted.fit(
            x[parts[0]],
            y[parts[0]],
            batch_size=8,
            shuffle=False,
            verbose=0,
            validation_data=(x[parts[1]], y[parts[1]]),
        ).history
        for name, value in one.items():
            np.testing.assert_allclose(found[name][epoch], value[0], rtol=1e-5)


def test_data_without_a_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="no batch to build the model by"):
        model(1).fit(np.zeros([0, 6], np.float32), np.zeros([0]), verbose=0)
