"""A DataLoader of PyTorch as the data of a model of Keras on tapec.

    pip install -e '.[dev]' torch && pytest tests/keras_torch.py

It needs torch, which no extra brings and no other test wants: so it is a command of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from keras_installed import keras
from torch.utils.data import DataLoader, TensorDataset

COUNT, BATCH = 22, 8


def model() -> Any:
    keras.utils.set_random_seed(3)
    made = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(keras.optimizers.Adam(0.01), loss, weighted_metrics=["accuracy"])
    return made


def arrays(*, weighted: bool) -> list[Any]:
    """Inputs, labels and, where wanted, weights; their number is no multiple of the batch's size."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(COUNT, 6)).astype(np.float32), rng.integers(0, 3, COUNT)
    return [x, y, rng.uniform(0.1, 2, COUNT).astype(np.float32)][: 2 + weighted]


def loader(parts: list[Any]) -> Any:
    return DataLoader(TensorDataset(*map(torch.from_numpy, parts)), batch_size=BATCH)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_same_batches_from_a_loader_and_from_arrays(weighted: bool, steps: int) -> None:
    parts = arrays(weighted=weighted)
    found, wanted = model(), model()
    found.steps_per_execution = wanted.steps_per_execution = steps
    ours = found.fit(
        loader(parts), shuffle=False, epochs=2, validation_data=loader(parts), verbose=0
    )
    theirs = wanted.fit(
        *parts[:2],
        sample_weight=parts[2] if weighted else None,
        batch_size=BATCH,
        shuffle=False,
        epochs=2,
        validation_data=tuple(parts),
        validation_batch_size=BATCH,
        verbose=0,
    )
    assert ours.history.keys() == theirs.history.keys()
    for name, values in theirs.history.items():
        np.testing.assert_allclose(ours.history[name], values, rtol=1e-6)
    for one, other in zip(found.get_weights(), wanted.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_evaluating_and_predicting_take_a_loader() -> None:
    parts, trained = arrays(weighted=False), model()
    losses = trained.evaluate(loader(parts), verbose=0)
    np.testing.assert_allclose(
        losses, trained.evaluate(*parts, batch_size=BATCH, verbose=0), rtol=1e-6
    )
    np.testing.assert_array_equal(
        trained.predict(loader(parts), verbose=0),
        trained.predict(parts[0], batch_size=BATCH, verbose=0),
    )
