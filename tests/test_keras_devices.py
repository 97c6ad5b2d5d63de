"""What `keras.distribution` says of tapec's one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras_installed import keras

import tapec


def model() -> Any:
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    made.compile("adam", "mean_squared_error")
    return made


def test_the_cpu_is_the_one_device() -> None:
    distribution = keras.distribution
    assert distribution.list_devices() == distribution.list_devices("CPU") == ["cpu:0"]
    assert distribution.list_devices("gpu") == []
    assert (distribution.get_device_count(), distribution.get_device_count("tpu")) == (1, 0)
    distribution.initialize()
    with pytest.raises(tapec.errors.UnimplementedError, match=r"one process.*num_processes=2"):
        distribution.initialize("10.0.0.1:1234,10.0.0.2:1234", 2, 0)


def test_a_model_on_one_device_trains_and_on_two_is_refused() -> None:
    x, y = np.eye(8, 6, dtype=np.float32), np.ones([8, 3], np.float32)
    one = keras.distribution.DataParallel()
    with one.scope():
        loss = model().fit(x, y, verbose=0).history["loss"]
    assert loss == model().fit(x, y, verbose=0).history["loss"]
    layout = keras.distribution.TensorLayout(["batch", None], one.device_mesh)
    np.testing.assert_array_equal(keras.distribution.distribute_tensor(x, layout), x)
    two = keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"])
    refusal = pytest.raises(tapec.errors.UnimplementedError, match=r"one device, cpu:0.*cpu:1")
    with two.scope(), refusal:
        model()
