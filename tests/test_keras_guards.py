"""What a compiled step of the user's own notices of Keras' objects and settings that change between two calls."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from keras_installed import keras

import tapec

layers = keras.layers

#: By what changes: layers of a model, the change, and what the reason names.
CHANGES: dict[str, tuple[str, str, str]] = {
    "rate of a dropout": ("layers.Dropout(0.1, seed=1)", "model.layers[0].rate = 0.9", "rate"),
    "activation": ("layers.Dense(2)", "model.layers[0].activation = keras.activations.relu", "activation"),
    "activation of a layer for it": (
        "layers.Activation('relu')", "model.layers[0].activation = keras.activations.tanh", "activation"
    ),
    "use of a bias": ("layers.Dense(2, bias_initializer='ones')", "model.layers[0].bias = None", "bias"),
    "epsilon": ("layers.LayerNormalization()", "model.layers[0].epsilon = 10.0", "epsilon"),
    "layer that is frozen": ("layers.BatchNormalization()", "model.layers[0].trainable = False", "trainable"),
    "steps of a convolution": (
        "layers.Reshape((2, 1)), layers.UpSampling1D(2), layers.Flatten()", "model.layers[1].size = 3", "size"
    ),
    "scale": ("layers.Rescaling(2.0)", "model.layers[0].scale = 3.0", "scale"),
    "slope": ("layers.LeakyReLU(0.1)", "model.layers[0].negative_slope = 0.5", "negative_slope"),
    "method of one layer": ("layers.Dense(2)", "model.layers[0].call = lambda x, **_: x * 2", "call"),
    "axis": ("layers.Softmax()", "model.layers[0].axis = 0", "axis"),
    "layers of a model": ("layers.Rescaling(2.0), layers.Rescaling(3.0)", "model.pop()", ""),
    "function of a package": (
        "layers.ReLU()",
        "monkeypatch.setattr(defined_in(layers.ReLU).activations, 'relu', lambda x, **_: x * 2)",
        "relu",
    ),
    "method of a class": (
        "layers.Rescaling(2.0)", "monkeypatch.setattr(layers.Rescaling, 'call', lambda self, x: x * 5)", "call"
    ),
}  # fmt: skip


def defined_in(kind: type) -> ModuleType:
    """A class's module, wherever a generation of Keras has it."""
    return sys.modules[kind.__module__]


def made(text: str) -> tuple[Any, Any]:
    """A model, and the compiled function of it."""
    keras.utils.set_random_seed(0)
    model = eval(
        f"keras.Sequential([keras.Input((2,)), {text}])", {"keras": keras, "layers": layers}
    )

    @tapec.compile
    def step(x: Any) -> Any:
        return model(x, training=True)

    return model, step


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_layers_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, change, names = CHANGES[name]
    model, step = made(text)
    x = np.array([[1.0, -2.0], [3.0, 0.5]], np.float32)
    before = [np.asarray(step(x)) for _ in range(3)][-1]
    model(x)  # what Keras notes of a call is no change
    layers.Dense(3)
    step(x)
    assert len(step.programs) == 1
    known = {"model": model, "keras": keras, "layers": layers, "defined_in": defined_in}
    exec(change, {**known, "monkeypatch": monkeypatch})
    after = np.asarray(step(x))
    (retrace,) = step.retraces()
    assert names in retrace.path
    assert after.shape != before.shape or not np.allclose(after, before)
    if "dropout" not in name:
        np.testing.assert_allclose(after, np.asarray(step.python_function(x)), rtol=1e-5)
    step(x)
    assert len(step.programs) == 2


def test_settings_of_keras_are_noticed() -> None:
    """A layer that is made inside has the dtype that is set then."""
    step = tapec.compile(lambda x: keras.ops.zeros(3) + keras.ops.cast(x, keras.config.floatx()))
    try:
        assert step(np.ones(3, np.float32)).dtype == tapec.float32
        keras.config.set_floatx("float16")
        assert step(np.ones(3, np.float32)).dtype == tapec.float16
    finally:
        keras.config.set_floatx("float32")


def test_a_variable_that_is_frozen_is_noticed() -> None:
    model, _ = made("layers.Dense(2)")

    @tapec.compile
    def count(x: Any) -> Any:
        return x * len(model.trainable_variables)

    assert float(count(tapec.constant(1.0))) == 2
    model.layers[0].kernel.trainable = False
    assert float(count(tapec.constant(1.0))) == 1
    model.layers[0].trainable = False
    assert float(count(tapec.constant(1.0))) == 0


def test_a_step_of_the_users_own_is_traced_once() -> None:
    """Counters, names, caches and states of metrics that change between calls are no state that it rests on."""
    model, _ = made(
        "layers.Dense(2, activation='relu'), layers.BatchNormalization(), layers.Dropout(0.5)"
    )
    optimizer, metric = keras.optimizers.Adam(0.01), keras.metrics.MeanSquaredError()
    optimizer.build(model.trainable_variables)

    @tapec.compile
    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            y = model(x, training=True)
            loss = tapec.reduce_mean(y**2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        metric.update_state(x, y)
        return loss

    x = np.ones((4, 2), np.float32)
    for _ in range(4):
        step(x)
        model(x)
        made("layers.Dense(2)")[0].predict(x, verbose=0)
        metric.result()
        metric.reset_state()
    assert len(step.programs) == 1
